"""The architecture as a table: which module may import which. Data flows one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "blogdit"

# A module may import what its row names; a package stands for all its modules. `errors` is allowed everywhere.
CORE = {"constraints", "csp"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "constraints": set(),
    "csp": {"constraints"},
    "result": CORE,
    "problems": CORE,
    "formats": {*CORE, "result", "problems"},
    "relations": CORE,
    "batch": {*CORE, "relations"},
    "energy": {"batch"},
    "kernels": set(),
    "dense_kernels": set(),
    "axis_kernels": set(),
    "runtime": set(),
    "attention": {"batch", "kernels", "dense_kernels", "runtime"},
    "network": {"attention"},
    "value_axis": {"attention", "axis_kernels", "network", "relations", "runtime"},
    "denoiser": {"attention", "batch", "network", "noise", "relations", "value_axis"},
    "fused": {"attention", "denoiser", "network", "relations", "value_axis"},
    "noise": {"kernels", "runtime"},
    "blocks": {"batch", "energy", "noise"},
    "chain": {"batch", "blocks", "network", "noise"},
    "checkpoint": {*CORE, "batch", "blocks", "chain", "denoiser", "network"},
    "datasets": {*CORE, "formats", "problems"},
    "baselines": {*CORE, "result", "problems", "batch", "energy", "blocks", "noise"},
}
METHOD = {"network", "batch", "blocks", "chain", "checkpoint", "denoiser", "energy", "noise"}
MAY_IMPORT |= {
    "search": {*CORE, "kernels", "noise", "runtime"},
    "recording": set(),
    "inference": {"chain", "denoiser", "fused", "network", "runtime"},
    "crew": {*CORE, *METHOD, "relations", "search"},
    "solving": {*CORE, "blocks", "result"},
    "stepping": {*METHOD, "crew", "recording", "solving"},
    "ending": {*CORE, "blocks", "crew", "result", "runtime", "search", "solving"},
    "tracing": {"ending", "result", "solving", "stepping"},
    "solver": {*CORE, *METHOD, "crew", "ending", "inference", "result", "solving", "stepping", "tracing"},
    "streams": {*CORE, "formats", "solver", "solving"},
    "recipe": {*METHOD, "problems"},
    "runlog": {"checkpoint"},
    "processes": set(),
    "generation": {*CORE, "problems", "processes"},
    "training_data": {*CORE, "formats", "generation", "problems", "recipe"},
    "loss": {*METHOD, "recipe"},
    "validation": {*CORE, *METHOD, "inference"},
    "training": {*METHOD, "loss", "recipe", "recording", "runlog", "runtime", "training_data", "validation"},
}
MAY_IMPORT["api"] = set(MAY_IMPORT) - {"baselines"}
# Within `search`: terms of pairs, rows of chains, what moves them; kernels are imported by whom they replace.
WITHIN_SEARCH = {
    "__init__": set(),
    "polish": set(),
    "propagation": set(),
    "backtracking": {"polish"},
    "completion": {"polish", "propagation"},
    "mending": {"completion", "polish"},
    "improvement": {"completion", "mending", "polish", "propagation"},
    "filling": {"polish"},
    "terms": {"polish"},
    "rows": {"polish", "terms"},
    "flips": {"rows", "terms"},
    "walk_kernel": {"rows", "terms"},
    "flip_kernel": {"rows", "terms", "walk_kernel"},
    "walk": {"flip_kernel", "flips", "polish", "rows", "terms", "walk_kernel"},
    "repair": {"polish", "terms", "walk", "walk_kernel"},
    "landscape": {"rows", "terms"},
    "cooling_kernel": {"landscape"},
    "cooling": {"cooling_kernel", "landscape", "polish", "rows", "terms"},
    "swap_walker": set(),
    "swap_kernel": {"swap_walker"},
    "swaps": {"swap_kernel", "swap_walker", "walk"},
    "population": {"cooling", "swaps", "terms", "walk"},
}
# The edge of the program may import everything.
EDGE = {"__init__", "__main__", "cli", "commands", "integrations", "bench", "plots", "web"}


def modules() -> dict[str, list[Path]]:
    """Top-level modules and packages of the source, with their files."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        found.setdefault(path.relative_to(SOURCE).parts[0].removesuffix(".py"), []).append(path)
    return found


def imported(path: Path, package: str = "blogdit") -> set[str]:
    """The modules of a package that a file imports anywhere, but not those only its annotations need."""
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        todo += ast.iter_child_nodes(node)
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{name}" for name in names]
        found |= {name.removeprefix(f"{package}.").split(".")[0] for name in names if name.startswith(f"{package}.")}
    return found


@pytest.mark.parametrize("module", sorted(set(modules()) - EDGE))
def test_imports_follow_the_table(module):
    assert module in MAY_IMPORT, "a new module needs a row in the table"
    for path in modules()[module]:
        extra = imported(path) - MAY_IMPORT[module] - {"errors", module, "__version__"}
        assert not extra, f"{path.relative_to(SOURCE)} imports {', '.join(sorted(extra))}"


def test_imports_within_the_search_follow_the_table():
    files = {path.stem: path for path in modules()["search"]}
    assert set(files) == set(WITHIN_SEARCH)
    for name, path in files.items():
        extra = imported(path, "blogdit.finishers") - WITHIN_SEARCH[name]
        assert not extra, f"{path.relative_to(SOURCE)} imports {', '.join(sorted(extra))}"


@pytest.mark.parametrize("module", ["errors", "constraints", "csp", "result"])
def test_the_core_needs_numpy_alone(module):
    allowed = {*sys.stdlib_module_names, "numpy", "blogdit"}
    for node in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] in allowed


def test_files_stay_readable():
    for paths in modules().values():
        for path in paths:
            assert len(path.read_text().splitlines()) <= 420, path


def test_import_loads_nothing():
    """`import blogdit` is quick because it loads neither torch nor numpy (benchmarks/core.py times it)."""
    code = "import sys, blogdit; print(sorted({'torch', 'numpy', 'networkx', 'typer', 'rich'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


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
