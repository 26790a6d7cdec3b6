"""Whatever lies where a file is expected is read, or refused in one sentence that names it.

`make fuzz` gives many more inputs, other ones each time.
"""

import functools
import json
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import promise
import pytest
import strategies
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import OLD
from torch.utils.tensorboard import SummaryWriter

from dynascope import load, save
from dynascope.data import images
from dynascope.data.folder import data_sets
from dynascope.forecasting.curves import read_curves
from dynascope.imitation import class_means
from dynascope.models.elastic.recorded import load_class_means
from dynascope.monitor import journal, open_run
from dynascope.monitor.resuming import open_journal
from dynascope.results import collect_results, finished, load_result
from dynascope.schema import read_arrays
from dynascope.sweep import asked, gather, status
from dynascope.sweep.cluster import address_of

pytestmark = pytest.mark.usefixtures("own_code")
few = settings(max_examples=max(5, settings.default.max_examples // 6))  # of what takes a second
JOURNAL = OLD / "watched" / journal.NAME
SWEEP = OLD / "sweeps" / "function"
NAME = "spring_block/left_friction"
RESULT = OLD / "reproduced" / NAME / "smoke" / "result.json"


def _records(*names):
    return st.one_of(strategies.records(OLD / "records" / name) for name in names)


@given(
    _records("watched.nc", "ensemble.nc", "mode_equation.nc", "locally_elastic.nc"),
    st.sampled_from([load, load, open_run, class_means, load_class_means, read_curves]),
)
def test_records(thing, reader):
    with promise.world():
        thing.put(Path("run.nc"))
        promise.read(lambda: reader(Path("run.nc")), kind="record", names=["run.nc"])


@pytest.mark.ci
@given(
    _records("watched.nc", "spring_block.nc", "ensemble.nc", "chain_fit.nc"),
    st.sampled_from([["show"], ["show", "--json"], ["report"], ["advise"], ["runs"], ["estimate", "elastic"]]),
)
def test_commands_on_records(thing, words):
    with promise.world():
        thing.put(Path("run.nc"))
        promise.run(*words, "run.nc", kind=f"{words[0]} RECORD", names=["run.nc", "run must", "files must"])


@pytest.mark.ci
@few
@given(
    _records("watched.nc", "spring_block.nc", "multilinear.nc"),
    st.sampled_from(["a.png", "a.html"]),
)
def test_pictures_of_records(thing, out):
    with promise.world():
        thing.put(Path("run.nc"))
        promise.run("show", "run.nc", "--out", out, kind="show RECORD --out", names=["run.nc"])


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Load curves that a chain can be fitted to."""
    times, layers = np.linspace(0.0, 8.0, 9), np.arange(4)
    loads = 3.0 - layers * (1 - np.exp(-times))[:, None] * np.array([0.0, 0.5, 0.8, 1.0])
    run = xr.Dataset({"load": (("time", "layer"), loads)}, {"time": times})
    return save(run, tmp_path_factory.mktemp("fuzz") / "chain.nc")


@pytest.mark.ci
@few
@given(data=st.data())
@pytest.mark.parametrize("family", ["spring-block", "elastic"])
def test_estimates_of_records(chain, family, data):
    path = {"spring-block": chain, "elastic": OLD / "records" / "locally_elastic.nc"}[family]
    with promise.world():
        data.draw(strategies.records(path)).put(Path("run.nc"))
        promise.run("estimate", family, "run.nc", kind=f"estimate {family}", names=[])


def _means():
    means = np.arange(6 * 24 * 9, dtype=float).reshape(6, 24, 3, 3) ** 0.5 + np.eye(3)
    return {"times": np.arange(24.0), "class_means": means}


@given(st.one_of(strategies.arrays(_means), strategies.foreign, strategies.damaged(lambda: strategies.npz(**_means()))))
def test_arrays(thing):
    with promise.world():
        thing.put(Path("run.npz"))
        for reader in (load_class_means, class_means):
            promise.read(lambda reader=reader: reader(Path("run.npz")), kind=".npz", names=["run.npz"])
        promise.run("estimate", "elastic", "run.npz", kind="estimate elastic", names=[])


@given(strategies.journals(JOURNAL))
def test_journals(thing):
    with promise.world():
        thing.put(Path("watched", journal.NAME))
        for reader in (open_run, class_means, journal.status, read_curves):
            promise.read(lambda reader=reader: reader(Path("watched")), kind="journal", names=["watched"])


_ROWS = [{"step": step, "train/loss": 1 / (1 + step), "lr": 0.1} for step in range(8)]
_CSV = "step,loss,lr\n" + "".join(f"{row['step']},{row['train/loss']},{row['lr']}\n" for row in _ROWS)


def _lines(rows):
    return strategies.Thing("bytes", "".join(json.dumps(row) + "\n" for row in rows).encode())


@functools.cache
def _events():
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            for row in _ROWS:
                writer.add_scalar("train/loss", row["train/loss"], row["step"])
        return next(Path(folder).iterdir()).read_bytes()


LOGS = {
    "log.csv": strategies.damaged(_CSV.encode),
    "log.json": st.one_of(
        strategies.spoiled({"step": [0, 1, 2], "loss": [3.0, 2.0, 1.0], "lr": [0.1, 0.1, 0.1]}).map(strategies.as_json),
        strategies.spoiled({"log_history": _ROWS}).map(strategies.as_json),
    ),
    "log.jsonl": st.one_of(
        st.lists(strategies.spoiled(_ROWS[0]), min_size=1, max_size=3).map(lambda extra: _lines([*_ROWS[1:], *extra])),
        strategies.damaged(lambda: _lines(_ROWS).content),
    ),
    "events.out.tfevents.0": strategies.damaged(_events),
}


@given(data=st.data())
@pytest.mark.parametrize("name", LOGS)
def test_logs(name, data):
    with promise.world():
        data.draw(st.one_of(LOGS[name], LOGS[name], strategies.foreign)).put(Path(name))
        promise.read(lambda: read_curves(name), kind=f"log {Path(name).suffix}", names=[name])


@pytest.mark.ci
@few
@given(data=st.data())
@pytest.mark.parametrize("name", LOGS)
def test_forecasts_of_logs(name, data):
    with promise.world():
        data.draw(st.one_of(LOGS[name], LOGS[name], strategies.foreign)).put(Path(name))
        promise.run("forecast", name, kind="forecast LOG", names=[name])


@pytest.mark.ci
@few
@given(strategies.journals(JOURNAL), st.sampled_from([["watched"], ["log.csv", "--like", "."]]))
def test_forecasts_of_journals(thing, words):
    with promise.world():
        thing.put(Path("watched", journal.NAME))
        Path("log.csv").write_text(_CSV)
        promise.run("forecast", *words, kind="forecast RUN", names=["watched", "like must", "quantity must"])


_START = json.loads(JOURNAL.read_bytes().splitlines()[0].partition(b" ")[2])
_NOW = json.loads(JOURNAL.read_bytes().splitlines()[1].partition(b" ")[2])["numbers"]


@given(strategies.journals(JOURNAL), st.sampled_from([None, 0, 2, 4]), st.sampled_from([None, True, False]))
def test_continued_journals(thing, first_step, resume):
    def go_on():
        opened, _ = open_journal(Path("watched"), _START, _NOW, first_step=first_step, resume=resume)
        opened.append({"kind": "measure", "step": 99, "time": 1.0, "numbers": _NOW})
        opened.close()

    with promise.world():
        thing.put(Path("watched", journal.NAME))
        promise.read(go_on, kind="journal, continued", names=["watched", "out must"])


@given(
    strategies.journals(JOURNAL),
    st.sampled_from(
        [
            ["show"],
            ["show", "--json"],
            ["show", "--follow"],
            ["runs"],
            ["runs", "--json"],
            ["show", "watched"],
            ["advise"],
        ]
    ),
)
def test_commands_on_journals(thing, words):
    with promise.world():
        thing.put(Path("watched", journal.NAME))
        promise.run(*words, "watched", kind=f"{words[0]} RUN", names=["watched"], changes=False)


@pytest.mark.ci
@few
@given(strategies.journals(JOURNAL), st.sampled_from([["report"], ["show", "--out", "a.png"]]))
def test_pictures_of_journals(thing, words):
    with promise.world():
        thing.put(Path("watched", journal.NAME))
        promise.run(*words, "watched", kind=f"{words[0]} RUN", names=["watched"])


OTHERS = list(map(Path, (".lock", "results/0.nc", "results/batches.bin", "damaged/x")))


@st.composite
def sweep_parts(draw):
    """(path in the folder of a sweep, what lies there)."""
    files = sorted(path.relative_to(SWEEP) for path in SWEEP.rglob("*.*") if path.is_file())
    path = draw(st.sampled_from([Path("sweep.json"), *files, *OTHERS]))
    if path.suffix == ".json":
        return path, draw(strategies.json_files(SWEEP / path))
    if path in files:
        return path, draw(strategies.records(SWEEP / path))
    return path, draw(strategies.foreign)


@given(st.lists(sweep_parts(), min_size=1, max_size=2))
def test_sweep_folders(parts):
    with promise.world():
        shutil.copytree(SWEEP, "out")
        for path, thing in parts:
            thing.put("out" / path)
        for reader in (status, gather, asked):
            promise.read(lambda reader=reader: reader("out"), kind="sweep folder", names=["out"])


@pytest.mark.ci
@given(
    st.lists(sweep_parts(), min_size=1, max_size=2),
    st.sampled_from(
        [
            ["status", "out"],
            ["status", "out", "--json"],
            ["gather", "out"],
            ["retry", "out"],
            ["retry", "out", "decay:decay", "--scheduler", "here"],
            ["run", "decay:decay", "--grid", "time=1:5:5", "--seeds", "2", "--scheduler", "here", "--out", "out"],
        ]
    ),
)
def test_commands_on_sweep_folders(parts, words):
    with promise.world():
        shutil.copytree(SWEEP, "out")
        for path, thing in parts:
            thing.put("out" / path)
        promise.run("sweep", *words, kind=f"sweep {words[0]} FOLDER", names=["out"], changes=words[0] != "status")


@given(
    st.one_of(
        strategies.spoiled({"type": "Scheduler", "address": "tls://127.0.0.1:8786"}).map(strategies.as_json),
        strategies.hostile.map(lambda each: strategies.as_json({"address": each})),
        strategies.foreign,
    )
)
def test_scheduler_files(thing):
    with promise.world():
        thing.put(Path("scheduler.json"))
        promise.read(lambda: address_of("scheduler.json", False), kind="scheduler file", names=["scheduler"])


@given(strategies.json_files(RESULT))
def test_results(thing):
    with promise.world():
        place = Path("root", NAME, "smoke", "result.json")
        thing.put(place)
        for reader in (load_result, lambda _: collect_results(["root"])):
            promise.read(lambda reader=reader: reader(place), kind="result.json", names=["result.json"])
        with mock.patch("dynascope.results.source_commit", return_value=json.loads(RESULT.read_text())["commit"]):
            promise.read(lambda: finished(Path("root"), NAME, "smoke"), kind="result.json", names=["result.json"])


@pytest.mark.ci
@given(strategies.json_files(RESULT), st.sampled_from(["root/result.json", "page/kept/a.json", "root/small.png"]))
def test_pages_of_results(thing, place):
    with promise.world():
        for each in ("root", "page/kept"):
            Path(each).mkdir(parents=True)
        shutil.copy(RESULT, "root")
        thing.put(Path(place))
        promise.run("results", "root", "--out", "page", kind="results FOLDER", names=["root", "page"])


_IDX = {
    f"mnist-{split}-{kind}": bytes(head) + bytes(range(size))
    for split in ("train", "t10k")
    for kind, head, size in (
        ("images-idx3-ubyte", [0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 2], 16),
        ("labels-idx1-ubyte", [0, 0, 8, 1, 0, 0, 0, 4], 4),
    )
}


@given(st.sampled_from(sorted(_IDX)), st.data())
def test_image_files(name, data):
    with promise.world():
        for each, content in _IDX.items():
            strategies.Thing("bytes", content).put(Path("data", each))
        data.draw(st.one_of(strategies.damaged(lambda: _IDX[name]), strategies.foreign)).put(Path("data", name))
        promise.read(lambda: images("mnist"), kind="image files", names=["mnist", "data"])
        promise.read(data_sets, kind="image files", names=["data"])


def _cifar():
    kinds = {"x": np.ones((6, 10, 10, 3), np.uint8), "y": np.arange(6) % 3}
    return {f"{kind}_{part}": values for part in ("train", "test") for kind, values in kinds.items()}


@given(
    st.one_of(strategies.arrays(_cifar), strategies.damaged(lambda: strategies.npz(**_cifar())), strategies.foreign),
    st.sampled_from(["cifar10_3class.npz", "data_batch_2.bin"]),
)
def test_colour_image_files(thing, name):
    with promise.world():
        if name.endswith(".bin"):
            for each in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
                rows = np.zeros((3, 3073), np.uint8)
                rows[:, 0] = np.arange(3)
                strategies.Thing("bytes", rows.tobytes()).put(Path("data", f"{each}.bin"))
        thing.put(Path("data", name))
        promise.read(lambda: images("cifar10", classes=3), kind="image files", names=["cifar", "data"])


@pytest.mark.ci
@given(st.data())
def test_checkpoints(data):
    import torch  # noqa: F401, PLC0415

    from dynascope.networks import MLP, Ensemble  # noqa: PLC0415

    x, y = np.arange(48, dtype=np.float32).reshape(12, 1, 2, 2) / 48, np.arange(12) % 3

    def go_on(steps):
        ensemble = Ensemble(MLP((1, 2, 2), 3, width=2, depth=2), trials=2, learning_rate=0.01, device="cpu")
        return ensemble.train(x, y, steps, probe=(x, y), record_every=2, checkpoint="a.npz", progress=False)

    with promise.world():
        go_on(4)
        whole = Path("a.npz").read_bytes()
        wrong = strategies.arrays(lambda: read_arrays(Path("a.npz")))
        data.draw(st.one_of(wrong, strategies.damaged(lambda: whole), strategies.foreign)).put(Path("a.npz"))
        promise.read(lambda: go_on(6), kind="checkpoint", names=["checkpoint"])


@pytest.mark.ci
@few
@given(st.data())
def test_imitations_that_are_there(data):
    path = OLD / "imitation" / "imitation.nc"
    with promise.world():
        data.draw(strategies.records(path)).put(Path("out", "imitation.nc"))
        words = ["imitate", str(OLD / "imitation" / "networks.nc"), "--geometry", "logits", "--out", "out"]
        with mock.patch("dynascope.imitation.pipeline.imitate", return_value=load(path)):
            promise.run(*words, kind="imitate RUN", names=["imitation.nc", "out"])
