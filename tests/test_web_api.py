"""The API of `blogdit serve`: questions and their events, limits, and who is let in."""

from __future__ import annotations

import hmac
import json
import re
import runpy
from pathlib import Path

import pytest

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance
from blogdit.formats import from_json, to_json
from blogdit.problems import generate, sudoku
from blogdit.web.app import PAGE, Access
from blogdit.web.limits import Limits
from web_cases import CUT, PUZZLE, SMALL, client, events_of, long_job, real_server, wait_until


@pytest.fixture(scope="module")
def api():
    with client() as one:
        yield one


def test_a_job_tells_its_question_its_steps_and_a_result_that_the_exact_check_confirms(api):
    job = api.post("/solve", json=SMALL)
    assert job.status_code == 202
    (first, question), *steps, (last, end) = events_of(api, job.json()["events"])
    assert (first, last) == ("question", "result")
    assert [kind for kind, _ in steps] == ["step"] * len(steps)
    instance = from_json(question["question"])
    assert to_json(instance) == to_json(sudoku.build(PUZZLE, "question"))
    assert end["result"]["violations"] == instance.verify(end["result"]["values"]).violated
    assert end["result"]["steps"] == len(steps)
    assert question["settings"]["options"]["steps"] == 20


def test_the_same_seed_gives_the_same_run(api):
    def steps(seed: int) -> list:
        asked = {**CUT, "options": {"steps": 5, "finish": "none", "seed": seed, "chains": 2}}
        found = events_of(api, api.post("/solve", json=asked).json()["events"])
        return [(data["block"], data["to"]) for kind, data in found if kind == "step"]

    assert steps(3) == steps(3) != steps(4)


def test_events_go_on_after_the_last_one_that_a_client_has_seen(api):
    path = api.post("/solve", json=SMALL).json()["events"]
    everything = events_of(api, path)
    assert events_of(api, path, **{"Last-Event-ID": "0"}) == everything[1:]
    assert events_of(api, path, **{"Last-Event-ID": "nonsense"}) == everything


def test_an_instance_in_json_and_a_share_of_the_variables(api):
    graph = generate("coloring", 1, seed=1, vertices=20, colors=5)[0]
    asked = {
        "instance": to_json(graph),
        "share": [0.2, 0.1],
        "options": {"steps": 10, "finish": "none", "block": "random"},
    }
    found = events_of(api, api.post("/solve", json=asked).json()["events"])
    rates = [data["rate"] for kind, data in found if kind == "step"]
    assert rates[0] == pytest.approx(0.2)
    assert all(rate <= 0.2 + 1e-6 for rate in rates)


def test_models_can_be_named_untrained_ones_too(api):
    listed = {model["name"]: model for model in api.get("/models").json()}
    assert listed["sudoku"]["problem"] == "sudoku"
    assert listed["coloring-dit"]["options"]["block"] == "all"
    for name, full, block in (
        ("sudoku-dit", "sudoku-dit", "all"), ("dit", "sudoku-dit", "all"), ("untrained", "sudoku-untrained", "random"),
    ):  # fmt: skip
        found = events_of(api, api.post("/solve", json={**SMALL, "model": name}).json()["events"])
        settings = found[0][1]["settings"]
        assert (settings["model"], settings["block"]) == (full, block), "what was taken is said with the question"
        assert found[-1][1]["result"]["model"] == full
    answer = api.post("/solve", json={"text": "p cnf 2 1\n1 -2 0\n", "model": "dit"})
    assert answer.status_code == 422
    assert "no DiT was trained for 'sat'; there is one for coloring" in answer.json()["error"]


def test_the_list_of_models_is_that_of_their_files(api):
    """It is made of headers alone; each model, when it is loaded, says the same."""
    for row in api.get("/models").json():
        if row["problem"] is None:
            continue
        model = api.service.models.named(row["name"])
        schedule = model.chain.schedule
        assert row["problem"] == model.problem
        assert row["options"] == model.options_for("cpu")
        assert row["share"] == [schedule.rho_max, schedule.rho_min]


def test_clauses_and_sums_as_text(api):
    texts = {"a.cnf": "p cnf 3 2\n1 -2 0\n2 3 0\n", "a.wcnf": "h 1 -2 0\n5 2 3 0\n", "a.opb": "+3 x1 +1 ~x2 >= 2 ;\n"}
    for name, text in texts.items():
        asked = {"text": text, "name": name, "options": {"steps": 5, "finish": "none"}}
        found = events_of(api, api.post("/solve", json=asked).json()["events"])
        assert found[-1][1]["result"]["model"] == "general"


def test_a_job_can_be_stopped(api):
    path = api.post("/solve", json=long_job()).json()["events"]
    job = api.service.board.channel(path.rpartition("/")[2])
    wait_until(lambda: len(job.events) > 2)
    assert api.delete(path).status_code == 204
    kind, end = events_of(api, path)[-1]
    assert (kind, end["complete"]) == ("result", False), "it has not used its 20 seconds"


def test_unknown_jobs_files_and_methods(api):
    for method, path, status in (
        ("GET", "/events/nothing", 404), ("DELETE", "/events/nothing", 404), ("GET", "/page/nothing.js", 404),
        ("GET", "/page/..%2Fapp.py", 404), ("GET", "/nothing", 404), ("GET", "/solve", 405), ("PUT", "/solve", 405),
    ):  # fmt: skip
        assert api.request(method, path).status_code == status, path


BAD = [
    (b"", 400, "not valid JSON"),
    (b"[1]", 400, "expected a JSON object, got list"),
    (b'{"text": NaN}', 400, "NaN is not a finite number"),
    (b"[" * 100_000, 400, "not valid JSON"),
    (b"\xff\xfe", 400, "not valid JSON"),
    (b"{}", 422, "expected either text or instance"),
    (b'{"text": "", "instance": {}}', 422, "expected either text or instance"),
    (b'{"text": 7}', 422, "text must be a string"),
    (b'{"text": "hello"}', 422, "line 1: not a known format"),
    (b'{"text": "hello", "colour": 3}', 422, "has no 'colour'"),
    (b'{"text": "12\\n34"}', 422, "line 1"),
    (json.dumps({"text": "{" + "[" * 50_000}).encode(), 422, "line 1: not valid JSON"),
    (b'{"text": "p edge 2 1\\ne 1 2\\n"}', 422, "coloring needs the number of colours"),
    (b'{"text": "p edge 2 1\\ne 1 2\\n", "colors": "3"}', 422, "colors must be a whole number"),
    (b'{"text": "p edge 2 1\\ne 1 2\\n", "problem": "tsp"}', 422, "unknown problem 'tsp'"),
    (b'{"text": "p edge 49999999 0\\n", "colors": 2}', 422, "a header with 49999999"),
    (b'{"text": "h 9999999 0", "name": "x.wcnf"}', 422, "line 1: has more than 200,000 vertices or variables"),
    (b'{"text": "1 2", "name": "x.npz"}', 422, "files '.npz' are not read here"),
    (b'{"instance": []}', 422, "instance must be an object"),
    (b'{"instance": {"format": "blogdit-csp", "version": 1, "domain_sizes": [1000000000]}}', 422, "at most 200,000"),
    (b'{"instance": {"format": "blogdit-csp", "version": 1, "domain_sizes": [2.5]}}', 422, "must hold integers"),
    (b'{"text": "1.3..4..2......1", "model": "../../etc/passwd"}', 422, "unknown model"),
    (b'{"text": "1.3..4..2......1", "model": "maxcut-untrained/x"}', 422, "unknown model"),
    (b'{"text": "1.3..4..2......1", "share": [0.1, 0.9]}', 422, "share must be [largest, smallest]"),
    (b'{"text": "1.3..4..2......1", "options": 3}', 422, "options must be an object"),
    (b'{"text": "1.3..4..2......1", "options": {"batch_size": 3}}', 422, "options has no 'batch_size'"),
    (b'{"text": "1.3..4..2......1", "options": {"steps": "many"}}', 422, "steps must be a number"),
    (b'{"text": "1.3..4..2......1", "options": {"steps": -1}}', 422, "steps must be"),
    (b'{"text": "1.3..4..2......1", "options": {"chains": 17}}', 422, "chains must be at most 16, got 17"),
    (b'{"text": "1.3..4..2......1", "options": {"time_limit": 99}}', 422, "time_limit must be at most 20, got 99"),
    (b'{"text": "1.3..4..2......1", "options": {"block": "best"}}', 422, "block must be one of"),
    (b'{"text": "1.3..4..2......1", "options": {"finish": "magic"}}', 422, "unknown finisher"),
    (b'{"text": "1.3..4..2......1", "options": {"seed": 1e300}}', 422, "seed"),
]


@pytest.mark.parametrize(("body", "status", "words"), BAD)
def test_bad_requests_have_one_clear_line(api, body, status, words):
    answer = api.post("/solve", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    message = answer.json()["error"]
    assert words in message
    assert "\n" not in message
    assert "/tmp" not in message, "where files lie here is nobody's business"


def test_damaged_requests_are_refused_and_do_no_harm(api):
    """Cut off, with other bytes, with values of the wrong kind; some changes leave a question that can be answered."""
    malformed = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "web.py"))["malformed"]
    graph = generate("coloring", 1, seed=0, vertices=8, colors=3)[0]
    valid = json.dumps({"instance": to_json(graph), "options": {"steps": 1}, "model": "coloring"}).encode()
    for number in range(200):
        sent = malformed(number, valid)
        answer = api.post("/solve", content=sent, headers={"Content-Type": "application/json"})
        assert answer.status_code in (202, 400, 422), (sent, answer.text)
        if answer.status_code == 202:
            assert events_of(api, answer.json()["events"])[-1][0] == "result"


def test_only_what_is_announced_as_json_is_read(api):
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = api.post("/solve", content=json.dumps(SMALL), headers={"Content-Type": kind})
        assert answer.status_code == 415


def test_limits_of_size():
    with client(Limits(body=2000, variables=20, constraints=30)) as api:
        assert api.post("/solve", json={"text": "x" * 3000}).status_code == 413
        answer = api.post("/solve", json={"text": "." * 81})
        assert (answer.status_code, answer.json()["error"]) == (422, "81 variables; expected at most 20")
        full = "p edge 12 66\n" + "".join(f"e {i} {j}\n" for i in range(1, 13) for j in range(i + 1, 13))
        answer = api.post("/solve", json={"text": full, "colors": 3})
        assert answer.json()["error"] == "a header with 66; expected numbers up to 30"


def test_a_full_queue_says_so_and_has_room_again():
    with client(Limits(jobs=1, queue=1, seconds=20)) as api:
        paths = [api.post("/solve", json=long_job(seed=seed)).json()["events"] for seed in range(2)]
        answer = api.post("/solve", json=SMALL)
        assert answer.status_code == 503
        assert answer.headers["Retry-After"]
        for path in paths:
            api.delete(path)
        wait_until(lambda: api.get("/health").json()["unfinished"] == 0)
        assert api.post("/solve", json=SMALL).status_code == 202


def test_a_waiting_job_that_is_stopped_never_begins():
    with client(Limits(jobs=1, seconds=20)) as api:
        first, second = (api.post("/solve", json=long_job(seed=seed)).json()["events"] for seed in range(2))
        api.delete(second)
        api.delete(first)
        assert events_of(api, second) == [("failed", {"error": "stopped before the first step"})]


def test_a_job_that_nobody_watches_ends():
    with client(Limits(seconds=20, arrival=0.2)) as api:
        events = api.post("/solve", json=long_job()).json()["events"]
        wait_until(lambda: api.get("/health").json()["unfinished"] == 0)
        kind, end = events_of(api, events)[-1]
        assert (kind, end["complete"]) == ("result", False), "what it has found before its 20 seconds is on record"


def test_a_client_that_goes_away_ends_its_job():
    """Over a real connection, and after it was watched."""
    import httpx

    with real_server(Limits(seconds=20, patience=0.3)) as (address, service):
        path = httpx.post(f"{address}/solve", json=long_job(), timeout=60).json()["events"]
        with httpx.stream("GET", address + path, timeout=60) as response:
            seen = response.iter_lines()
            while not next(seen).startswith("event: step"):
                pass
            assert service.board.unfinished == 1
        wait_until(lambda: service.board.unfinished == 0)


def test_old_jobs_are_forgotten():
    with client(Limits(kept=2)) as api:
        paths = []
        for seed in range(5):
            asked = {**SMALL, "options": {"steps": 1, "finish": "none", "seed": seed}}
            paths.append(api.post("/solve", json=asked).json()["events"])
            events_of(api, paths[-1])
        assert [api.get(path).status_code for path in paths] == [404, 404, 200, 200, 200]


def test_a_job_that_tells_too_much_ends_with_what_it_has():
    with client(Limits(events=20_000, seconds=20)) as api:
        found = events_of(api, api.post("/solve", json=long_job()).json()["events"])
        assert found[-1][1]["complete"] is False
        assert sum(len(json.dumps(data)) for _, data in found) < 40_000


# -- who is let in ---------------------------------------------------------------------------------------------------


def test_every_answer_has_a_strict_policy(api):
    for path in ("/", "/health", "/nothing", "/page/main.js"):
        policy = api.get(path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert api.get(path).headers["X-Content-Type-Options"] == "nosniff"


def test_another_name_for_this_address_is_refused(api):
    assert api.get("/health", headers={"Host": "evil.example"}).status_code == 421
    assert api.get("/health", headers={"Host": "localhost:8017"}).status_code == 200
    assert api.get("/health", headers={"Host": "[::1]:8017"}).status_code == 200


def test_pages_of_other_origins_are_refused_unless_asked_for(api):
    assert api.post("/solve", json=SMALL, headers={"Origin": "https://evil.example"}).status_code == 403
    assert api.post("/solve", json=SMALL, headers={"Origin": "null"}).status_code == 403
    assert api.post("/solve", json=SMALL, headers={"Origin": "http://127.0.0.1"}).status_code == 202
    assert "Access-Control-Allow-Origin" not in api.get("/health").headers
    with client(access=Access(origins=("https://friend.example",))) as friendly:
        friend = {"Origin": "https://friend.example"}
        assert friendly.options("/solve", headers=friend).headers["Access-Control-Allow-Headers"]
        answer = friendly.post("/solve", json=SMALL, headers=friend)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (202, "https://friend.example")


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append((one, other)) or real(one, other))
    with client(access=Access((), "sécret")) as api:
        assert api.get("/models", headers={"Authorization": "Bearer other"}).status_code == 401
    assert compared == [(b"other", "sécret".encode())]


def test_a_token_guards_everything_but_the_page():
    with client(access=Access((), "secret")) as api:
        assert api.get("/").status_code == api.get("/page/main.js").status_code == api.get("/health").status_code == 200
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer secret2"},
            {"Authorization": "Bearer"},
        ):
            for method, path in (("POST", "/solve"), ("GET", "/models"), ("GET", "/events/x"), ("DELETE", "/events/x")):
                assert api.request(method, path, headers=headers).status_code == 401
        right = {"Authorization": "Bearer secret"}
        assert api.post("/solve", json=SMALL, headers=right).status_code == 202
        assert api.get("/events/x", headers=right).status_code == 404


def test_names_of_a_file_stay_data(api):
    """Labels travel as JSON, in which a client finds them as they were."""
    evil = "<img src=x onerror=alert(1)>"
    instance = Instance([2, 2], [NotEqual([[0, 1]])], labels=[evil, "</script>"], name=evil, problem="coloring")
    asked = {"instance": to_json(instance), "options": {"steps": 1, "finish": "none"}}
    (_, question), *_ = events_of(api, api.post("/solve", json=asked).json()["events"])
    assert question["question"]["labels"][0] == evil


def test_the_page_writes_no_markup():
    """Everything that comes from a file or a server goes into the page as text."""
    for path in PAGE.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", path.read_text()
        )
