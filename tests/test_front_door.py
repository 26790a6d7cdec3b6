"""What a start imports, and what runs where only the base installation is there."""

import json
import subprocess
import sys

import pytest

from dynascope import SpringBlock, save

# each of them takes from a tenth of a second to seconds to import
HEAVY = {"dask.array", "diffrax", "equinox", "h5py", "jax", "jaxtyping", "matplotlib", "numpy", "scipy", "torch"}
HEAVY |= {"typer", "xarray"}
COMMAND = """
from dynascope.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def imported(code, *arguments):
    """Those of the heavy packages that a program imports."""
    code += f"\nimport sys; print('imported', *({HEAVY} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return save(SpringBlock().simulate(1.0, trials=2, save_points=3), tmp_path_factory.mktemp("record") / "run.nc")


def test_the_package_imports_nothing_heavy():
    assert imported("import dynascope") == set()
    rooms = "from dynascope import cli, experiments, measure, models, monitor, networks, plots"
    assert imported(f"{rooms}\nfrom dynascope.experiments import registry") == set()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["reproduce", "--list"], ["reproduce", "--help"]])
def test_commands_that_only_say_something_import_nothing_heavy(arguments):
    assert imported(COMMAND, *arguments) == {"typer"}


def test_to_show_a_record_takes_only_what_reads_it(record):
    assert imported(COMMAND, "show", str(record)) == {"h5py", "numpy", "typer", "xarray"}


WATCHED = """
import torch
from dynascope import watch
x, y = torch.randn(20, 2), torch.arange(20) % 2
with watch(torch.nn.Linear(2, 2), probe=(x, y), every=1) as run:
    run.step()
run.record
"""


@pytest.mark.ci
def test_to_watch_a_run_takes_nothing_of_the_theory():
    assert imported(WATCHED).isdisjoint({"diffrax", "equinox", "jax", "matplotlib"})


# what `pip install dynascope` does not bring, and what draws windows
ABSENT = {
    "accelerate",
    "dask",
    "distributed",
    "gi",
    "lightning",
    "mlflow",
    "pytorch_lightning",
    "sklearn",
    "tensorboard",
}
ABSENT |= {"PyQt5", "PyQt6", "PySide6", "tkinter", "torch", "torchsde", "torchvision", "transformers", "wandb", "wx"}
BASE = f"""
import contextlib, io, json, sys
from importlib.machinery import PathFinder

class Base(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {ABSENT} else super().find_spec(name, path, target)

sys.meta_path = [Base if each is PathFinder else each for each in sys.meta_path]
from dynascope.cli import main

def call(line):
    sys.argv, out, err = line, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            return end.code or 0, out.getvalue(), err.getvalue()

print(json.dumps([call(["dynascope", *line.split()]) for line in sys.argv[1:]]))
"""


@pytest.mark.ci
def test_the_base_installation_does_all_but_train_networks(record, tmp_path):
    lines = [
        "--help",
        "reproduce --list",
        f"show {record} --out shown.png",
        "simulate spring-block --duration 1 --trials 2 --save-points 3 --out run.nc",
        "estimate elastic missing.npz",
        "reproduce spring_block/left_friction --scale smoke",
        "verify regimes --scale smoke --json",
        "imitate --trials 2 --steps 40",
        "sweep spring-block --grid noise=0,0.1 --set trials=2 --set duration=1 --out swept",
        "sweep spring-block --grid noise=0,0.1 --set trials=2 --set duration=1 --out swept --scheduler here",
    ]
    done = subprocess.run(
        [sys.executable, "-c", BASE, *lines], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = dict(zip(lines, json.loads(done.stdout), strict=True))
    fail = {line: answer for line, answer in said.items() if answer[0] != 0}
    assert {line.split()[0] for line in fail} == {"estimate", "imitate", "sweep"}, fail
    assert "there is no file 'missing.npz'" in said[lines[4]][2]
    assert {
        (each["verdict"], "pip install 'dynascope[torch]'" in each["note"]) for each in json.loads(said[lines[6]][1])
    } == {("not run", True)}
    assert "pip install 'dynascope[torch]'" in said[lines[7]][2]
    assert "pip install 'dynascope[sweep]'" in said[lines[8]][2]
    assert said[lines[9]][0] == 0
