"""Imports point one way, and heavy libraries stay where they belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dynascope

ROOT = Path(dynascope.__file__).parent
# a file may import from its own row and from rows above
ROWS = [
    {"dynascope", "budget", "checks", "deprecation", "files", "lazy", "locks", "optional", "progress", "schema"},
    {"records", "statistics"},
    {"models", "measure", "data"},
    {"networks", "monitor"},
    {"imitation", "forecasting", "steering"},
    {"sweep"},
    {"plots"},
    {"experiments"},
    {"results", "report", "cli", "live", "__main__"},
]
_DASK = ("sweep/cluster.py", "sweep/crews.py", "sweep/ssh_worker.py")
HOMES = {
    "torch": (
        "networks",
        "monitor",
        "steering",
        "measure/elasticity.py",
        "measure/side_effects.py",
        "experiments/health",
    ),
    "matplotlib": ("plots", "experiments", "report.py"),
    "dask": _DASK,
    "dask_jobqueue": _DASK,
    "distributed": _DASK,
    "bokeh": ("live",),
    "tornado": ("live",),
    "pickle": (),
}


def _row(part: str) -> int:
    return next(index for index, row in enumerate(ROWS) if part in row)


def _imports() -> list[tuple[str, str]]:
    """(file, imported module) for every import in the package."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found += [(path.relative_to(ROOT).as_posix(), alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: write imports in full"
                parts = [f".{alias.name}" for alias in node.names] if node.module == "dynascope" else [""]
                found += [(path.relative_to(ROOT).as_posix(), f"{node.module}{part}") for part in parts]
    return found


def test_imports_point_one_way():
    for file, module in _imports():
        if not module.startswith("dynascope.") or file == "__init__.py":
            continue
        own = file.split("/")[0].removesuffix(".py")
        used = module.split(".")[1]
        if used in (*dynascope.__all__, "__version__"):
            continue
        assert _row(used) <= _row(own), f"{file} imports {module}, which stands above it"


def test_heavy_libraries_stay_at_home():
    for file, module in _imports():
        homes = HOMES.get(module.split(".")[0])
        assert homes is None or file.startswith(homes), f"{file} imports {module}, allowed only in {homes}"


def test_no_file_or_function_outgrows_the_house_rules():
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        assert len(text.splitlines()) <= 420, f"{path} has grown too long: split it"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                assert length <= 50, f"{path}: the body of {node.name} has {length} lines: split it"


@pytest.mark.ci
def test_running_experiments_does_not_import_plotting():
    code = (
        "import sys; from dynascope.experiments.registry import find, names; [find(name) for name in names()]; "
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
