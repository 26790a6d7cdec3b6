"""Whatever is typed behind a command is done, or refused in one sentence.

`make fuzz` gives many more inputs, other ones each time. Sizes that are valid are small, so that no example takes long.
"""

import os
import shutil
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest import mock

import matplotlib.figure
import promise
import pytest
import typer
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import OLD

from dynascope import load
from dynascope.experiments import registry
from dynascope.experiments.experiment import Experiment
from dynascope.experiments.sources import PAPERS

pytestmark = pytest.mark.usefixtures("own_code")
few = settings(max_examples=max(5, settings.default.max_examples // 6))  # of what takes a second
NONSENSE = (
    *(
        "",
        " ",
        "x",
        "-1",
        "0",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e308",
        "5e-324",
        "-0.0",
        "1,2",
        "0:1:3",
        "1:2",
        ":",
    ),
    *(
        "a,b",
        ";",
        ",",
        "1;2",
        "1,2;3,4",
        "1,2;3",
        "[/bold]",
        "é",
        "\x1b[2J",
        "\udcff",
        "--json",
        "true",
        "none",
        "x" * 300,
    ),
    *("99999999999999999999", "-99999999999999999999", "0x10", "1_000", "½"),
)
PLACES = (
    *("new.nc", "new.png", "new.svg", "new.html", "new", "new.txt", "a/b/new.nc", "a/b", ".", ".nc", "pipe", "pipe.nc"),
    *("/proc/nowhere/x.nc", "file/x.nc", "folder.nc", "folder.png", "file", "x" * 300 + ".nc", "[/bold].nc"),
)
# by the name of a parameter; small where they are sizes
MEANINGFUL = {
    "out": PLACES,
    "keep": PLACES,
    "duration": ("0.5", "1"),
    "dt": ("0.1", "0.05"),
    "trials": ("1", "2"),
    "port": ("0",),
    "host": ("127.0.0.1", "localhost"),
    "steps": ("5", "10", "40"),
    "save_points": ("2", "3", "0,0.5"),
    "blocks": ("2", "3"),
    "width": ("3", "4"),
    "depth": ("2", "3"),
    "skills": ("3", "5"),
    "classes": ("2", "3"),
    "features": ("2", "3"),
    "samples": ("1", "2"),
    "per_class": ("1", "2"),
    "seed": ("0", "7"),
    "teacher": ("1,0.5", "1"),
    "dynamics": ("overdamped", "inertial", "langevin"),
    "geometry": ("logits", "isotropic", "all", "logits,isotropic", "kernel"),
    "procedure": ("followed", "published"),
    "method": ("exact", "published", "euler", "sgd", "sde", "flow"),
    "precision": ("float32", "float64"),
    "initialisation": ("gaussian", "balanced", "orthogonal"),
    "reduction": ("sum", "mean"),
    "ito": ("derived", "published", "none"),
    "scheme": ("weak2", "euler", "milstein"),
    "data": ("geomnist", "mnist", "digits", "5"),
    "scale": ("smoke", "laptop", "paper"),
    "until": ("5", "40", "1e9"),
    "schedule": ("constant", "cosine", "linear:0.1", "wsd:20", "watched.nc", "file"),
    "quantity": ("loss", "probe_loss", "loads", "weight"),
    "like": (".", "run", "watched.nc", "file"),
    "reach": ("0", "0.5"),
    "grid": (
        "time=1,2",
        "time=0:2:3",
        "rate=0.5,1",
        "time=1",
        "x=1",
        "time=1,1",
        "time=a,b",
        "time=nan,inf",
        "seed=1,2",
    ),
    "set": ("rate=0.5", "rate=x", "time=1", "rate=none", "seed=3", "rate=1e400", "x=1"),
    "seeds": ("1", "2", "3,4", "1,1", "1e3", "true"),
    "scheduler": ("here", "nowhere.json", "file", "tcp://127.0.0.1:x", "tls://127.0.0.1:x", "http://127.0.0.1:80"),
    "workers": ("1", "2"),
    "timeout": ("0.1", "1"),
    "window": ("3", "5", "7"),
}
NUMBERS = ("0.1", "1", "2", "0.1,0.2", "0:1:3")
CHEAP = {
    "spring-block": {"--duration": "1", "--dt": "0.1", "--trials": "2", "--save-points": "3", "--blocks": "3"},
    "elastic": {"--duration": "1", "--dt": "0.1", "--trials": "2", "--save-points": "3", "--samples": "2"},
    "deep-linear": {"--duration": "0.1", "--trials": "2", "--save-points": "3", "--width": "4", "--depth": "2"},
    "mode": {"--duration": "1", "--dt": "0.1", "--trials": "2", "--save-points": "3"},
    "scalar-network": {"--duration": "0.05", "--trials": "2", "--save-points": "3", "--width": "3"},
    "multilinear": {"--skills": "5", "--steps": "10", "--batch-size": "5", "--trials": "2", "--save-points": "3"},
}


def _blank(record):
    return matplotlib.figure.Figure()


@pytest.fixture(scope="module")
def _no_work():
    """Experiments are read but not run, networks are not trained."""

    def at(experiment, scale):
        experiment.settings(scale)
        return xr.Dataset({"a": 1.0})

    imitated = load(OLD / "imitation" / "imitation.nc"), False
    with (
        mock.patch.object(Experiment, "at", at),
        mock.patch.object(Experiment, "judge", lambda experiment, _: experiment.unjudged("not run here")),
        mock.patch("dynascope.report.find", lambda name: replace(registry.find(name), picture=_blank)),
        mock.patch("dynascope.cli.imitate.train", return_value=load(OLD / "imitation" / "networks.nc")),
        mock.patch("dynascope.cli.imitate.imitate_to", return_value=imitated),
        mock.patch("dynascope.cli.imitate._draw", return_value={}),
    ):
        yield


@cache
def _parameters(command, *below):
    found = typer.main.get_command(import_module(f"dynascope.cli.{command}").app)
    for name in below:
        found = found.commands[name]
    return [each for each in found.params if each.param_type_name == "option"]


@st.composite
def options(draw, *words, base=(), most=4):
    """Some options of a command with values that mean something, or do not; `base` stands where nothing is drawn."""
    chosen = dict(base)
    for each in draw(st.lists(st.sampled_from(_parameters(*words)), unique_by=lambda each: each.name, max_size=most)):
        if each.is_flag:
            chosen[draw(st.sampled_from([*each.opts, *each.secondary_opts]))] = None
        else:
            meant = st.sampled_from(MEANINGFUL.get(each.opts[0][2:].replace("-", "_"), NUMBERS))
            chosen[each.opts[0]] = draw(st.one_of(meant, meant, st.sampled_from(NONSENSE)))
    return [word for option, value in chosen.items() for word in ([option] if value is None else [option, value])]


def _furnish():
    """What may be in the way of an output, and what can be read."""
    Path("file").write_text("in the way")
    for name in ("pipe", "pipe.nc"):
        os.mkfifo(name)
    for name in ("folder.nc", "folder.png"):
        Path(name).mkdir()
    for name in ("spring_block", "locally_elastic", "watched"):
        shutil.copy(OLD / "records" / f"{name}.nc", ".")
    shutil.copytree(OLD / "watched", "run")
    shutil.copytree(OLD / "sweeps" / "function", "sweep")
    shutil.copytree(OLD / "reproduced", "reproduced")


READ = ("spring_block.nc", "locally_elastic.nc", "watched.nc", "run", "sweep", "reproduced", *PLACES, *NONSENSE)
_readable = st.sampled_from(READ)
_typed = st.sampled_from(NONSENSE)


def _run(*words, names=()):
    with promise.world():
        _furnish()
        kind = " ".join(words[:2]) if words[0] in ("simulate", "data", "sweep") else words[0]
        promise.run(*words, kind=kind, names=names)


@given(st.lists(st.one_of(st.sampled_from(["--version", "--help", "show", "simulate", "sweep", "nothing"]), _typed)))
def test_the_command_itself(words):
    with promise.world():
        promise.run(*words[:2], kind="dynascope")


@given(st.lists(_readable, max_size=2), options("show"))
def test_show(files, more):
    _run("show", *files, *more)


@given(
    _readable,
    st.one_of(options(name).map(lambda more, name=name: (name, more)) for name in ("runs", "report", "advise")),
)
def test_runs_report_and_advise(place, command):
    _run(command[0], place, *command[1])


async def _closed(_shelf, door, host, _browser, told):
    door.close()
    told(host)


@given(st.lists(_readable, max_size=2), options("live", base={"--port": "0"}))
def test_live(folders, more):
    with mock.patch("dynascope.live.server._serve", _closed), mock.patch("signal.raise_signal"):
        _run("live", *folders, *more)


@given(st.lists(_readable, max_size=2), options("results"))
def test_results(folders, more):
    _run("results", *folders, *more)


@given(
    st.lists(st.one_of(st.sampled_from([*PAPERS, "6", "S2", "Figure", "3", "Theorem 3.1"]), _typed), max_size=3),
    options("where"),
)
def test_where(words, more):
    _run("where", *words, *more)


@given(st.one_of(options("cite").map(lambda more: ["cite", *more]), _typed.map(lambda name: ["data", "fetch", name])))
def test_cite_and_fetch(words):
    _run(*words)


@given(
    st.sampled_from([["data", "list"], ["data", "path"], ["data", "fetch", "mnist"], ["data", "fetch", "cifar10"]]),
    _typed,
)
def test_data(words, more):
    _run(*words, *([more] if more == "--json" else []))


@pytest.mark.ci
@pytest.mark.parametrize("family", CHEAP)
@given(data=st.data())
def test_simulate(family, data):
    words = data.draw(options("simulate", family, base=CHEAP[family].items()))
    _run("simulate", family, *words, names=[each.name for each in _parameters("simulate", family)])


@pytest.mark.ci
@given(st.sampled_from(["locally_elastic.nc", "locally_elastic.nc", *READ]), options("estimate", "elastic"))
def test_estimate_elastic(file, more):
    _run("estimate", "elastic", file, *more)


@pytest.mark.ci
@given(st.sampled_from(READ), options("estimate", "spring-block"))
def test_estimate_spring_block(file, more):
    _run("estimate", "spring-block", file, *more)


_EXPERIMENTS = (
    "decay:decay",
    "decay:decay",
    "mode",
    "decay:",
    ":decay",
    "decay:nothing",
    "math:pi",
    ".:x",
    "..:x",
    "a/b:c",
)


@pytest.mark.usefixtures("_no_work")
@given(
    st.sampled_from([*_EXPERIMENTS, *NONSENSE]),
    options("sweep", "run", base=[("--grid", "time=1,2"), ("--scheduler", "here")]),
)
def test_sweep(experiment, more):
    _run("sweep", "run", experiment, *more)


@given(
    st.sampled_from([["retry", "sweep", "decay:decay"], ["retry"], ["status"], ["gather"]]),
    st.sampled_from(["sweep", "sweep", *READ]),
    st.data(),
)
def test_sweep_folders(words, folder, data):
    base = [("--scheduler", "here")] if words[0] == "retry" else []
    _run("sweep", *words, *([folder] if len(words) == 1 else []), *data.draw(options("sweep", words[0], base=base)))


@pytest.mark.ci
@pytest.mark.usefixtures("_no_work")
@given(
    st.sampled_from(["spring_block/left_friction", "phases/dropout", "", "x", "a/b", "../x", *NONSENSE]),
    options("reproduce"),
)
def test_reproduce(name, more):
    _run("reproduce", name, *more)


@pytest.mark.ci
@pytest.mark.usefixtures("_no_work")
@given(st.sampled_from([*registry.FAMILIES, "spring-block", *NONSENSE]), options("verify"))
def test_verify(family, more):
    _run("verify", family, *more)


@pytest.mark.ci
@pytest.mark.usefixtures("_no_work")
@given(st.lists(_readable, max_size=1), options("imitate"))
def test_imitate(run, more):
    _run("imitate", *run, *more)


@pytest.mark.ci
@few
@given(_readable, options("forecast", base={"--quantity": "probe_loss"}))
def test_forecast(run, more):
    _run("forecast", run, *more)
