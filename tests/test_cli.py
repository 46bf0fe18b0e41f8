"""The command line: results, exit codes, and one line for every error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import blogdit
from blogdit import formats
from blogdit.cli.app import run
from blogdit.problems import families, generate, sudoku

NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


@pytest.fixture
def files(tmp_path):
    def make(**contents: str) -> list[str]:
        for name, content in contents.items():
            (tmp_path / name).write_text(content)
        return [str(tmp_path / name) for name in contents]

    return make


def test_verify_a_valid_solution(files, capsys):
    assert run(["verify", *files(puzzle=NINE, solution=SOLVED)]) == 0
    assert capsys.readouterr().out == "puzzle: valid\n"


def test_verify_names_each_violated_constraint(files, capsys):
    wrong = SOLVED[:79] + "97"
    assert run(["verify", *files(puzzle=NINE, solution=wrong)]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "puzzle: given(r9c8) violated by 1",
        "puzzle: given(r9c9) violated by 1",
        "puzzle: all_different(r1c8, r2c8, r3c8, r4c8, r5c8, r6c8, r7c8, r8c8, r9c8) violated by 1",
        "puzzle: all_different(r1c9, r2c9, r3c9, r4c9, r5c9, r6c9, r7c9, r8c9, r9c9) violated by 1",
        "puzzle: INVALID, 4 violated",
    ]


def test_verify_reports_the_objective_and_counts_what_it_leaves_out(files, capsys):
    graph, solution = files(graph="4 3\n1 2 1.5\n2 3 1\n3 4 1\n", solution="0 1 0 0")
    assert run(["verify", graph, solution]) == 0
    assert capsys.readouterr().out == "graph: valid, objective 2.5\n"
    (clashing,) = files(clashing="1 1 1 1")
    assert run(["verify", graph, clashing, "--problem", "mis", "--max-violations", "1"]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "graph: conflict(1, 2) violated by 1",
        "graph: ... and 2 more",
        "graph: INVALID, 3 violated, objective 4",
    ]


def test_verify_does_not_believe_records(files, capsys):
    said = {"instance": "graph", "values": [0, 1, 0, 0], "objective": 2.5, "violations": 0, "status": "feasible"}
    for change, words in (
        ({}, None),
        ({"objective": 999}, "objective 999, not 2.5"),
        ({"violations": 4}, "violations 4, not 0"),
        ({"status": "infeasible"}, "status infeasible, not feasible"),
        ({"status": "exhausted"}, "status exhausted, not feasible"),
        ({"status": "solved"}, "status solved, not feasible"),
        ({"status": "optimal"}, "optimal, but not who has proved it"),
        ({"status": "optimal", "proved_by": "exact"}, None),
        ({"status": 7}, "status 7, not feasible"),
        ({"violations": False}, "violations False, not 0"),
        ({"violations": None}, "violations None, not 0"),
        ({"objective": None}, "objective None, not 2.5"),
        ({"objective": 10**400}, f"objective 1{'0' * 59}..., not 2.5"),
        ({"problem": "mis"}, "problem mis, not maxcut"),
        ({"labels": [1, 2, 3, 5]}, "labels [1, 2, 3, 5], not [1, 2, 3, 4]"),
        ({"answer": [0, 0, 0, 0]}, "answer [0, 0, 0, 0], not None"),
        ({"objective": ...}, "no objective, not 2.5"),
        ({"objective": ..., "violations": ..., "status": ...}, None),
    ):
        (graph,) = files(graph="4 3\n1 2 1.5\n2 3 1\n3 4 1\n")
        claimed = {name: value for name, value in {**said, **change}.items() if value is not ...}
        (record,) = files(solution=json.dumps(claimed))
        assert run(["verify", graph, record]) == (0 if words is None else 3)
        wrong = [] if words is None else [f"graph: WRONG RECORD, it says {words}"]
        assert capsys.readouterr().out.splitlines() == ["graph: valid, objective 2.5", *wrong]


def test_verify_goes_by_names(files, capsys):
    """A record is about the instance that it names and about no other."""
    graph, other = files(graph="4 3\n1 2 1.5\n2 3 1\n3 4 1\n", other='{"instance": "another", "values": [0, 1, 0, 0]}')
    assert run(["verify", graph, other]) == 3
    assert capsys.readouterr().out == f"graph: no solution in {other}\n"
    named, nameless = '{"instance": "graph", "values": [0, 1, 0, 0]}', '{"values": [0, 1, 0, 0]}'
    for lines, words in (
        ([named, named], "a second record of 'graph'; expected one"),
        ([named, nameless], "expected records with names"),
    ):
        (records,) = files(records="\n".join(lines))
        assert run(["verify", graph, records]) == 2
        assert words in capsys.readouterr().err


def test_verify_several_instances(files, capsys):
    arguments = files(puzzles=f"{NINE}\n{NINE}\n", solutions=f"{SOLVED}\n{SOLVED[::-1]}\n")
    assert run(["verify", *arguments, "--max-violations", "0"]) == 3
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "puzzles:1: valid"
    assert out[-1] == "1 of 2 valid"


def test_verify_a_folder(tmp_path, capsys):
    (tmp_path / "a.txt").write_text(NINE)
    (tmp_path / "b.txt").write_text(f"{NINE}\n{NINE}\n")
    answers = tmp_path / "answers.txt"
    answers.write_text(f"{SOLVED}\n" * 3)
    assert run(["verify", str(tmp_path), str(answers)]) == 0
    assert capsys.readouterr().out.splitlines() == ["a: valid", "b:1: valid", "b:2: valid", "3 of 3 valid"]


def test_verify_says_who_has_no_solution_and_checks_the_others(tmp_path, capsys):
    (tmp_path / "p.txt").write_text(f"{NINE}\n{NINE}\n")
    answers = tmp_path / "answers.jsonl"
    named = [{"instance": name, "values": SOLVED} for name in ("p:2", "another")]
    answers.write_text("".join(json.dumps(one) + "\n" for one in named))
    assert run(["verify", str(tmp_path / "p.txt"), str(answers)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"p:1: no solution in {answers}", "p:2: valid", "1 of 2 valid"]


def test_verify_with_colors(files, capsys):
    arguments = files(graph="p edge 3 2\ne 1 2\ne 2 3\n", solution='{"values": [0, 1, 2]}')
    assert run(["verify", *arguments, "--colors", "3"]) == 0
    assert run(["verify", *arguments, "--colors", "2"]) == 3
    assert "domain(3) violated by 1" in capsys.readouterr().out


def test_generate_repeats_with_the_seed(tmp_path, capsys):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        out = str(tmp_path / f"{name}.txt")
        assert run(["generate", "sudoku", "--count", "4", "--seed", str(seed), "--out", out]) == 0
    first, second, other = ((tmp_path / f"{name}.txt").read_text() for name in "abc")
    assert first == second != other
    assert first.splitlines() == [sudoku.text(instance) for instance in generate("sudoku", 4, seed=5)]
    assert capsys.readouterr() == ("", "")


def test_generate_overwrites_nothing(tmp_path, capsys):
    precious = tmp_path / "sudoku-1.txt"
    precious.write_text("precious")
    for out, count in ((precious, "1"), (tmp_path, "2")):
        assert run(["generate", "sudoku", "--count", count, "--out", str(out)]) == 2
        assert capsys.readouterr().err == f"blogdit: {precious}: exists already; expected another file\n"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"sudoku-1.txt": "precious"}


@pytest.mark.parametrize("problem", ["sudoku", "latin", "coloring", "maxcut", "mis"])
def test_generate_then_read(tmp_path, problem):
    """One file, a folder, and JSON lines hold the same instances, recognised without options."""
    common = ["generate", problem, "--count", "3", "--seed", "1", "--out"]
    assert run([*common, str(tmp_path / "many.jsonl")]) == 0
    assert run([*common, str(tmp_path / "folder")]) == 0
    paths = sorted((tmp_path / "folder").iterdir())
    assert [path.stem for path in paths] == [f"{problem}-{i}" for i in range(3)]
    separate = [instance for path in paths for instance in formats.read(path)]
    for one, other in zip(separate, formats.read(tmp_path / "many.jsonl"), strict=True):
        assert formats.to_json(one) | {"labels": 0} == formats.to_json(other) | {"labels": 0}


def test_generate_settings(tmp_path):
    out = str(tmp_path / "g.col")
    settings = ["--set", "vertices=30", "--set", "colors=4", "--set", "planted=true"]
    assert run(["generate", "coloring", *settings, "--out", out]) == 0
    (instance,) = formats.read(out)
    assert (instance.size, set(instance.domain_sizes.tolist())) == (30, {4})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing command"),
        (["frobnicate"], "frobnicate"),
        (["verify"], "Missing argument"),
        (["verify", "a", "b", "--colors", "many"], "colors"),
        (["verify", "a", "b", "--colours", "3"], "colours"),
        (["verify", "/nonexistent/a", "b"], "/nonexistent/a: no such file"),
        (["generate", "tsp", "--out", "x"], "unknown problem 'tsp'"),
        (["generate", "sudoku"], "--out"),
        (["generate", "sudoku", "--count", "0", "--out", "x"], "count"),
        (["generate", "sudoku", "--seed", "-1", "--out", "x"], "seed"),
        (["generate", "sudoku", "--seed", str(1 << 63), "--out", "x"], "seed"),
        (["generate", "sudoku", "--set", "min_givens=90", "--out", "x"], "puzzle must be a whole number from 22 to 81"),
        (["generate", "sudoku", "--set", "box", "--out", "x"], "expected --set KEY=VALUE, got 'box'"),
        (["generate", "sudoku", "--set", "bax=3", "--out", "x"], "sudoku has no setting 'bax'; it takes box,"),
        (["generate", "coloring", "--set", "colors=0", "--out", "x"], "colors must be a whole number of at least 1"),
        (["generate", "coloring", "--set", "p_min=nan", "--out", "x"], "p_min must be a number from 0 to 1"),
        (["generate", "sudoku", "--out", "/nonexistent/x.txt"], "/nonexistent/x.txt: cannot be written"),
        (["generate", "sudoku", "--count", "2", "--out", "/dev/null/x"], "/dev/null/x: cannot be made a folder"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blogdit: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("blogdit so", {"solve"}),
        ("blogdit solve x --problem m", {"maxcut", "mis"}),
        ("blogdit solve x --model su", {"sudoku"}),
        ("blogdit info mi", {"mis"}),
        ("blogdit solve x --finish a", {"auto", "annealing"}),
        ("blogdit solve x --device c", {"cpu", "cuda"}),
    ],
)
def test_shells_complete(words, expected):
    environment = {"_BLOGDIT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "from blogdit.cli.app import main; main()"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == expected


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"blogdit {blogdit.__version__}\n"


def test_info_lists_versions_and_problems(capsys):
    assert run(["info"]) == 0
    out = capsys.readouterr().out
    for expected in ("blogdit ", "torch ", "numpy ", *families(), "min_givens=auto"):
        assert expected in out


def test_info_shows_where_a_model_comes_from(capsys, tmp_path):
    assert run(["info", "sudoku"]) == 0
    shown = capsys.readouterr().out
    assert "values as literals" in shown
    assert "trained" in shown
    assert "## Known failures" in shown, "the card"
    assert run(["info", str(tmp_path / "none")]) == 2
    assert "unknown model" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["generate"], ["verify"], ["info"]])
def test_help_shows_an_example(command, capsys):
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: blogdit" in out
    assert not command or f"  blogdit {command[0]}" in out


def test_as_a_program(tmp_path):
    """Exit codes and streams of the real process, which never loads torch for these commands."""
    (tmp_path / "p.txt").write_text(NINE)
    (tmp_path / "s.txt").write_text(SOLVED)

    def blogdit(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "blogdit", *arguments], cwd=tmp_path, capture_output=True, text=True
        )

    good, bad = blogdit("verify", "p.txt", "s.txt"), blogdit("verify", "p.txt", "p.txt")
    assert (good.returncode, good.stdout, good.stderr) == (0, "p: valid\n", "")
    assert bad.returncode == 3
    missing = blogdit("verify", "nothing", "s.txt")
    assert (missing.returncode, missing.stdout, missing.stderr) == (2, "", "blogdit: nothing: no such file\n")
    loaded = "import sys; from blogdit.cli.app import run; run(['info']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", loaded], check=True, stdout=subprocess.DEVNULL)


def test_output_into_a_closed_pipe(tmp_path):
    (tmp_path / "p.txt").write_text(f"{NINE}\n" * 3000)
    command = f"{sys.executable} -m blogdit verify p.txt p.txt | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("p:1: domain")
    assert done.stderr == ""


def test_examples_are_valid():
    """The instances that the repository carries can be read, and their solutions verify."""
    folder = Path(__file__).parent.parent / "examples"
    for name, problem in (("sudoku.txt", "sudoku"), ("graph.col", "coloring"), ("cut.gset", "maxcut")):
        instances = formats.read(folder / name)
        assert {instance.problem for instance in instances} == {problem}
        solutions = formats.read_solutions(folder / f"{Path(name).stem}-solutions.jsonl", instances)
        for instance, values in zip(instances, solutions, strict=True):
            assert instance.verify(values).satisfied
