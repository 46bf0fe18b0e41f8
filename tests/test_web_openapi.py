"""The description of the API says what the server does: its routes, what it takes, what it answers."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from blogdit.formats import to_json
from blogdit.problems import generate
from blogdit.web.app import Access
from blogdit.web.limits import Limits
from blogdit.web.questions import OPTIONS
from test_web_api import BAD
from web_cases import CUT, SMALL, client, events_of, long_job, wait_until


@pytest.fixture(scope="module")
def api():
    with client() as one:
        yield one


@pytest.fixture(scope="module")
def described(api):
    return api.get("/openapi.json").json()


@pytest.fixture(scope="module")
def asked(described):
    """The schema of a question."""
    schema = described["paths"]["/solve"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def confirm(described, method: str, path: str, answer) -> None:
    """The status of an answer is described for its route, and its body is as described."""
    route = "/events/{name}" if path.startswith("/events/") else path
    responses = described["paths"][route][method.lower()]["responses"]
    assert str(answer.status_code) in responses, (method, path, answer.status_code)
    content = responses[str(answer.status_code)].get("content", {})
    if "application/json" in content:
        Draft202012Validator(content["application/json"]["schema"]).validate(answer.json())
    elif not content:
        assert answer.content == b""
    else:
        assert answer.headers["content-type"].partition(";")[0] in content


def test_every_route_and_nothing_else_is_described(api, described):
    assert set(described["paths"]) == {route.path for route in api.app.routes} - {"/", "/page/{name}"}
    for route in api.app.routes:
        if route.path in described["paths"]:
            methods = {name.upper() for name in described["paths"][route.path]} - {"PARAMETERS"}
            assert route.methods - {"HEAD"} <= methods


def test_every_option_is_described(asked):
    assert set(asked.schema["properties"]["options"]["properties"]) == OPTIONS


def test_questions_that_are_taken_fit_the_description(api, asked, described):
    graph = generate("coloring", 1, seed=0, vertices=8, colors=3)[0]
    many = {
        "seed": 3, "steps": 2, "time_limit": 5, "target": 9.5, "first_feasible": True, "chains": 2, "block": "random",
        "schedule": "budget", "cycle": 10, "finish": "none", "finish_share": 1.0,
    }  # fmt: skip
    for question in (
        SMALL,
        {**CUT, "options": many},
        {"instance": to_json(graph), "model": "coloring", "share": [0.9, 0.2], "options": {"steps": 1}},
        {"text": "p edge 2 1\ne 1 2\n", "colors": 2, "problem": "coloring", "options": {"steps": 1}},
    ):
        asked.validate(question)
        answer = api.post("/solve", json=question)
        confirm(described, "POST", "/solve", answer)
        assert answer.status_code == 202
        events_of(api, answer.json()["events"])


@pytest.mark.parametrize("wrong", [
    {}, {"text": 3}, {"text": "", "instance": {}}, {**SMALL, "colour": 1}, {**SMALL, "share": [0.5]},
    {**SMALL, "share": [0, 0]}, {**SMALL, "share": [2, 1]}, {**SMALL, "colors": 0}, {**SMALL, "options": []},
    *({**SMALL, "options": {name: value}} for name, value in {
        "seed": -1, "steps": 5001, "time_limit": 21, "target": "low", "first_feasible": 1, "chains": 17, "cycle": 0,
        "block": "best", "schedule": "never", "finish": "magic", "finish_share": 0, "batch_size": 3,
    }.items()),
])  # fmt: skip
def test_what_the_description_forbids_is_refused(api, asked, described, wrong):
    assert not asked.is_valid(wrong)
    answer = api.post("/solve", json=wrong)
    confirm(described, "POST", "/solve", answer)
    assert answer.status_code == 422


@pytest.mark.parametrize("body", [body for body, _, _ in BAD])
def test_bad_requests_have_answers_that_are_described(api, described, body):
    answer = api.post("/solve", content=body, headers={"Content-Type": "application/json"})
    confirm(described, "POST", "/solve", answer)
    assert 400 <= answer.status_code < 500


def test_other_answers_are_as_described(api, described):
    for path in ("/health", "/models", "/openapi.json", "/events/nothing"):
        confirm(described, "GET", path, api.get(path))
        confirm(described, "GET", path, api.get(path, headers={"Host": "evil.example"}))
        confirm(described, "GET", path, api.get(path, headers={"Origin": "https://evil.example"}))
    confirm(described, "POST", "/solve", api.post("/solve", content=json.dumps(SMALL)))
    confirm(described, "DELETE", "/events/nothing", api.delete("/events/nothing"))
    job = api.post("/solve", json=SMALL).json()["events"]
    confirm(described, "GET", job, api.get(job))
    gone = api.delete(job)
    confirm(described, "DELETE", job, gone)
    assert gone.is_success
    assert api.get("/events/nothing").status_code == 404


def test_answers_of_a_server_that_is_full_or_guarded_are_as_described(described):
    with client(Limits(jobs=1, queue=0, body=2000, seconds=20)) as api:
        confirm(described, "POST", "/solve", api.post("/solve", json={"text": "x" * 3000}))
        first = api.post("/solve", json=long_job()).json()["events"]
        full = api.post("/solve", json=SMALL)
        confirm(described, "POST", "/solve", full)
        assert full.status_code == 503
        api.delete(first)
        wait_until(lambda: api.get("/health").json()["unfinished"] == 0)
    with client(access=Access((), "secret")) as api:
        assert api.get("/health").status_code == 200
        for method, path in (("POST", "/solve"), ("GET", "/models"), ("GET", "/openapi.json"), ("GET", "/events/x")):
            answer = api.request(method, path)
            confirm(described, method, path, answer)
            assert answer.status_code == 401
