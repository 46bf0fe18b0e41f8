"""The house as a table of rooms: a room imports only from rooms above it, and no room goes round in circles."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "blogdit"

# From the ground up. A room may import from itself and from the rooms before it.
ROOMS = (
    "core", "problems", "formats", "method", "network", "finishers", "solver", "training", "integrations", "bench",
    "web", "cli",
)  # fmt: skip
# The edge, what a user imports, may import everything.
EDGE = {"api", "__init__", "__main__"}
MAY_USE_THE_API = {"integrations", "bench", "web", "cli"}
OF_THE_PACKAGE = {"__version__", "__file__"}  # facts that every room may ask the package for
LONGEST = 350  # lines of a file


def modules() -> dict[str, Path]:
    """Every module by its name without the package: `core.instance`, `problems` (its __init__), `api`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


MODULES = modules()


def room_of(module: str) -> str:
    return module.split(".")[0]


def imported(path: Path) -> set[str]:
    """The modules of the package that a file imports: at its top, within functions, and for annotations alone.

    What is taken from the package itself, and is not a module, comes from its edge: `__init__`.
    """
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("blogdit.")]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names if (node.module or "").startswith("blogdit")]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "blogdit":
            names = [f"blogdit.{node.attr}"]
        else:
            continue
        for name in (name.removeprefix("blogdit.") for name in names):
            if name in OF_THE_PACKAGE:
                continue
            while name not in MODULES and "." in name:
                name = name.rpartition(".")[0]
            found.add(name if name in MODULES else "__init__")
    return found


def in_room(room: str) -> list[str]:
    return [module for module in MODULES if room_of(module) == room]


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_from_rooms_above_them(room):
    allowed = {*ROOMS[: ROOMS.index(room) + 1]} | ({"api"} if room in MAY_USE_THE_API else set())
    wrong = [
        f"{MODULES[module].relative_to(SOURCE)} imports {other}"
        for module in in_room(room)
        for other in sorted(imported(MODULES[module]))
        if room_of(other) not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_no_circles_within_a_room(room):
    inside = set(in_room(room))
    graph = {module: (imported(MODULES[module]) & inside) - {module} for module in inside}
    circle: list[str] = []
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1]
    assert not circle, " -> ".join(circle)


def test_every_file_is_in_a_room():
    strangers = sorted(module for module in MODULES if room_of(module) not in {*ROOMS, *EDGE})
    assert not strangers, f"a new room needs a place in ROOMS: {', '.join(strangers)}"


def test_imports_are_found_wherever_they_are(tmp_path):
    """The reader of imports misses neither those in functions nor those for annotations, and knows the edge."""
    path = tmp_path / "example.py"
    path.write_text(
        "import blogdit\nfrom blogdit import formats, solve, __version__\n"
        "if TYPE_CHECKING:\n    from blogdit.core.instance import Instance\n"
        "def f():\n    import blogdit.api\n    from blogdit.method import chain\n    return blogdit.__file__\n"
    )
    assert imported(path) == {"formats", "__init__", "core.instance", "api", "method.chain"}


@pytest.mark.parametrize("module", in_room("core"))
def test_the_core_needs_numpy_alone(module):
    allowed = {*sys.stdlib_module_names, "numpy", "blogdit"}
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] in allowed


@pytest.mark.parametrize("module", in_room("method"))
def test_the_method_has_no_gpu_code(module):
    """It reads like the paper: no Triton, nothing that asks for a device by name."""
    text = MODULES[module].read_text()
    assert "import triton" not in text
    assert "cuda" not in text


@pytest.mark.parametrize("room", ROOMS)
def test_files_stay_readable(room):
    long = {
        str(MODULES[module].relative_to(SOURCE)): length
        for module in in_room(room)
        if (length := len(MODULES[module].read_text().splitlines())) > LONGEST
    }
    assert not long


def test_import_loads_nothing():
    """`import blogdit` is quick because it loads neither torch nor numpy (benchmarks/core.py times it)."""
    heavy = {"torch", "numpy", "networkx", "typer", "rich", "ortools", "triton"}
    code = f"import sys, blogdit; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


HEAVY = ("torch", "ortools", "pandas", "scipy", "networkx", "matplotlib", "rich", "ray", "uvicorn")
OWN = ("bench", "training", "web")  # rooms that no light command and no plain solve enters


def loaded_by(command, folder, rooms=OWN):
    """What `blogdit COMMAND` has imported in the end, of packages that take long and of rooms."""
    code = (
        f"import sys\nfrom blogdit.cli.app import run\ncode = run({command})\n"
        f"heavy = {{name.split('.')[0] for name in sys.modules}} & set({HEAVY})\n"
        f"rooms = [room for room in {rooms} if 'blogdit.' + room in sys.modules]\n"
        "print(code, *sorted(heavy), *rooms)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "command", [["info"], ["info", "sudoku"], ["generate", "sudoku", "--out", "-"], ["verify", "PUZZLES", "SOLUTIONS"]]
)
def test_light_commands_load_no_torch(command, tmp_path):
    """Nor OR-Tools, Rich and the other commands: they are there in less than half a second."""
    solved = "1234341221434321"
    (tmp_path / "PUZZLES").write_text(f"{solved[:8]}........\n")
    (tmp_path / "SOLUTIONS").write_text(f"{solved}\n")
    assert loaded_by(command, tmp_path) == "0"


def test_an_easy_solve_loads_nothing_but_torch(tmp_path):
    """No finisher is loaded for a puzzle that the sampler solves, and no picture where nobody watches."""
    (tmp_path / "puzzle.txt").write_text("12343412........\n")
    assert loaded_by(["solve", "puzzle.txt", "--steps", "500"], tmp_path) == "0 torch"


def test_solving_loads_no_training():
    code = "import sys, blogdit.api; print([name for name in sys.modules if name.startswith('blogdit.training')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names():
    import blogdit

    for name in blogdit.__all__:
        assert getattr(blogdit, name) is not None
        assert name in dir(blogdit)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = blogdit.nothing
    assert (SOURCE / "py.typed").exists()


def test_version_is_stated_once_more_only_in_pyproject():
    import tomllib

    import blogdit

    project = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["project"]
    assert project["version"] == blogdit.__version__
