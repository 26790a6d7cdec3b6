"""Shared by all tests: settings, the command line, one smoke run of each experiment, and what is left to CI."""

import os
import sys
from functools import cache
from pathlib import Path

import hypothesis
import matplotlib as mpl
import pytest
from filelock import FileLock

from dynascope import cli, load, save
from dynascope.experiments import registry
from dynascope.experiments.experiment import Experiment
from dynascope.results import FILE, load_result, result_of, save_result

mpl.use("Agg")
hypothesis.settings.register_profile("dynascope", deadline=None, derandomize=True, max_examples=25)  # compiling is slow
hypothesis.settings.register_profile(  # of `make fuzz`: other inputs each time
    "long",
    deadline=None,
    max_examples=150,
    database=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("dynascope")
_EVALUATE = Experiment.evaluate  # some tests replace it
os.environ["COLUMNS"] = "200"  # rich tables of the command line are not folded


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """A function that runs the command line in an empty folder and gives exit status, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])  # the command adds the folder by itself

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["dynascope", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
        captured = capsys.readouterr()
        return done.value.code or 0, captured.out, captured.err

    yield call
    for name, module in list(sys.modules.items()):  # of experiments that the test wrote into the folder
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """A function that gives record and findings of an experiment's smoke run, which is done once for all processes."""
    root = tmp_path_factory.getbasetemp()
    root = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "smoke"
    root.mkdir(exist_ok=True)

    @cache
    def run(name):
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            if not (folder / FILE).exists():
                record, findings = _EVALUATE(registry.find(name), "smoke")
                save(record, folder / "record.nc")
                save_result(result_of(name, "smoke", record, findings), folder)
        return load(folder / "record.nc"), load_result(folder / FILE).claims

    def copy(name):
        record, findings = run(name)
        return record.copy(deep=True), findings

    return copy


LONG_EXAMPLES = ("estimate_chain", "imitation.pipeline.train")  # of docstrings: compile a fit, train networks
_LEFT = pytest.StashKey[dict[str, int]]()  # command -> how many tests are left to it


def pytest_collection_modifyitems(config, items):
    """Leave to CI what is marked so, unless marks are chosen on the command line; and all that spoils experiments."""
    spoiling = Path(__file__).parent / "experiments"
    for item in items:
        long = isinstance(item, pytest.DoctestItem) and item.name.endswith(LONG_EXAMPLES)
        if long or item.path.parent.parent == spoiling:
            item.add_marker("ci")
    if config.option.markexpr:
        return
    left = [item for item in items if item.get_closest_marker("ci")]
    items[:] = [item for item in items if not item.get_closest_marker("ci")]
    config.hook.pytest_deselected(items=left)
    runs = sum("experiments" in item.path.parts for item in left)
    counts = {"make test-ci": len(left) - runs, "make verify-smoke": runs}
    config.stash[_LEFT] = counts
    if hasattr(config, "workeroutput"):  # one of several processes: the first one prints
        config.workeroutput["left"] = counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[_LEFT] = getattr(node, "workeroutput", {}).get("left", {})


def pytest_terminal_summary(terminalreporter, config):
    """Say what was left to CI."""
    counts = config.stash.get(_LEFT, {})
    if any(counts.values()):
        commands = " and ".join(f"{count} by `{command}`" for command, count in counts.items() if count)
        terminalreporter.write_line(f"{sum(counts.values())} tests that take long were left to CI: {commands}")
