"""Every command and function that writes, called as a user would call it, small enough to take a second at most."""

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch import nn

import dynascope
from campaign.children import Place
from campaign.fetching import BLOCK, SETS, serve
from campaign.swept import BROKEN, log, note, walk
from dynascope import cli, monitor
from dynascope.monitor import journal
from dynascope.networks import MLP, Ensemble
from dynascope.networks.training import Trainer
from dynascope.records import digest, write_whole
from dynascope.schema import read_arrays
from dynascope.sweep import sweep
from dynascope.sweep.batches import NAME
from dynascope.sweep.folder import SweepFolder

STEPS, SAVES = 24, 4  # of the runs that are trained; between two checkpoints
QUICK = ("spring_block/effective_friction", "spring_block/left_friction", "spring_block/data_separation")
IMAGES = bytes([0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 8, 0, 0, 0, 8]) + np.random.default_rng(0).bytes(20 * 64)
_OF_TWO_STEPS = ("gradient_change", "loss_fall", "loss_rise", "update_ratio")  # missing right after a resume
_SMALL = ("--duration", "1", "--trials", "2", "--save-points", "21")
_GRID = ("--grid", "drift=0:3:4", "--seeds", "3")


@dataclass(frozen=True)
class Subject:
    """Something that writes.

    run: does it, in the current folder, and returns an exit status. older: the same with other settings, whose files
    lie there already in half of the trials. start: fills the folder before. units: finished pieces of work in a folder,
    which must stay, and must not be done again. view: what must be the same after an undisturbed run; all files, if not
    given.
    """

    name: str
    run: Callable[[], int]
    older: Callable[[], int] | None = None
    start: Callable[[Path, Path], object] = lambda inputs, out: None
    units: Callable[[Path], set[str]] = lambda out: set()
    view: Callable[[Path], Mapping[str, str]] | None = None
    share: float = 1.0  # of kills, relative to others


def command(*arguments: str) -> Callable[[], int]:
    """A call of the command line."""

    def call() -> int:
        sys.argv = ["dynascope", *arguments]
        try:
            cli.main()
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return call


# --- records and pictures ---------------------------------------------------------------------------------------------


def _save(seed: int) -> int:
    noise = np.random.default_rng(seed).normal(size=(200, 50))
    dynascope.save(xr.Dataset({"a": (("time", "x"), noise)}, attrs={"seed": str(seed)}), "run.nc")
    return 0


def _copy(*names: str) -> Callable[[Path, Path], object]:
    def start(inputs: Path, out: Path) -> None:
        for name in names:
            (shutil.copytree if (inputs / name).is_dir() else shutil.copyfile)(inputs / name, out / name)

    return start


# --- sweeps -----------------------------------------------------------------------------------------------------------


def _results(out: Path) -> dict[str, str]:
    """Tasks that are finished, and the digests of their results."""
    found = {}
    for _, record in SweepFolder(out / "s").records():
        own = json.loads(record.attrs["sweep"])["configuration"]
        found[f"{own['drift']:g}/{own['seed']}"] = digest(record)
    return found


def _swept(out: Path) -> set[str]:
    return set(_results(out))


def _sweep_view(out: Path) -> dict[str, str]:
    """Results in whatever batches they came, and all other files."""
    others = [path for path in sorted(out.rglob("*")) if path.is_file() and path.name != NAME]
    return {**_results(out), **{str(path.relative_to(out)): content(path) for path in others}}


def _broken_sweep(folder: Path) -> None:
    """A sweep of which a quarter has failed."""
    os.environ[BROKEN] = "yes"
    try:
        sweep(walk, {"drift": np.linspace(0, 3, 4)}, folder, seeds=3, scheduler="here", progress=False)
    except RuntimeWarning:
        pass
    finally:
        del os.environ[BROKEN]


# --- trained and watched runs -----------------------------------------------------------------------------------------


def _network() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.arange(60) % 3
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), x, y


def _watched(*, checkpoints: bool) -> int:
    """A user's training, watched; with checkpoints it goes on from the last one."""
    model, x, y = _network()
    optimiser, first, saved = torch.optim.SGD(model.parameters(), lr=0.1), 0, Path("model.pt")
    if checkpoints and saved.exists():
        held = torch.load(saved, weights_only=True)
        model.load_state_dict(held["model"])
        first = held["step"]
    options = {"first_step": first, "resume": True} if checkpoints else {}
    place = Place(Path.cwd().parent)
    with dynascope.watch(model, (x, y), every=1, slow=0 if checkpoints else 8, out="w", **options) as run:
        log(place.told, 0)
        for step in range(first + 1, STEPS + 1):
            loss = nn.functional.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            run.step(loss=loss.item())
            log(place.told, step)
            if checkpoints and step % SAVES == 0:
                content = {"model": model.state_dict(), "step": step}
                write_whole(saved, partial(torch.save, content))
    return 0


def _measured(out: Path) -> set[str]:
    """Steps that journals hold."""
    return {
        str(entry["step"])
        for folder in out.glob("w*")
        if journal.is_run(folder)
        for entry in journal.read(folder)
        if entry["kind"] == "measure"
    }


def _seen(out: Path, without: Sequence[str] = ()) -> dict[str, str]:
    """The run that was watched last: a training that starts again gets a folder of its own."""
    last = max(out.glob("w*"), key=lambda each: int(each.name.partition("-")[2] or 1))
    files = {path.name for path in last.iterdir()}
    record = dynascope.load(last / "record.nc") if "record.nc" in files else xr.Dataset()
    kept = (digest(each.drop_vars(without, errors="ignore")) for each in (monitor.open_run(last), record))
    return dict(zip(("journal", "record", "files"), (*kept, " ".join(sorted(files))), strict=True))


def _train(steps: int = STEPS) -> int:
    x = np.random.default_rng(0).normal(size=(12, 1, 4, 4)).astype(np.float32)
    ensemble = Ensemble(MLP((1, 4, 4), 3, width=8, depth=2), trials=2, learning_rate=0.1)
    run = ensemble.train(x, np.arange(12) % 3, steps, record_every=2, checkpoint="run.npz", checkpoint_every=SAVES)
    dynascope.save(run, "run.nc")
    return 0


def _trained(file: str) -> Callable[[Path], set[str]]:
    """Steps that a checkpoint holds."""

    def units(out: Path) -> set[str]:
        if not (out / file).exists():
            return set()
        return set(map(str, range(int(read_arrays(out / file)["state/step"][0]))))

    return units


def note_steps() -> None:
    """Let trainers say which steps they do."""
    advance = Trainer.advance

    def noted(self: Trainer, steps: int) -> None:
        for step in range(self.steps_done, self.steps_done + steps):
            note(step)
        advance(self, steps)

    Trainer.advance = noted


# --- experiments ------------------------------------------------------------------------------------------------------


def _judged(out: Path) -> set[str]:
    """Experiments of which every file is there."""
    return {name for name in QUICK if (out / "kept" / name / "smoke" / "result.json").exists()}


def _fetched(out: Path) -> set[str]:
    """Blocks of downloads that have arrived, whole files under the names of their parts."""
    return {
        f"{file}:{block}"
        for file in (each for files in SETS.values() for each in files)
        for path in (out / "data" / file, out / "data" / f"{file}.part")
        if path.exists()
        for block in range(path.stat().st_size // BLOCK)
    }


def _fetch(name: str) -> int:
    os.environ["DYNASCOPE_DATA"] = str(Path.cwd() / "data")
    with serve():
        return command("data", "fetch", name)()


def prepare(inputs: Path) -> int:
    """Make what commands read, once, in the current folder."""
    command("simulate", "elastic", "--duration", "10", "--trials", "6", "--samples", "5", "--out", "means.nc")()
    _watched(checkpoints=False)
    os.rename("w", "watched")
    _broken_sweep(Path("broken"))
    command("sweep", "campaign.swept:walk", *_GRID, "--scheduler", "here", "--out", "swept")()
    for name in QUICK[-2:]:
        dynascope.report.reproduce(name, "smoke", "experiments")
    means = dynascope.load("means.nc")
    np.savez("means.npz", times=means["time"].values, class_means=means["class_mean"].values)
    os.mkdir("images")
    Path("images", "a.gz").write_bytes(gzip.compress(IMAGES, mtime=0))
    os.mkdir("trained")
    with contextlib.chdir("trained"):
        _train(STEPS // 2)
    for path in Path().iterdir():
        path.rename(inputs / path.name)
    return 0


SWEEP = ("sweep", "campaign.swept:walk", *_GRID, "--out", "s")
IMITATE = ("imitate", "--trials", "2", "--steps", "40", "--per-class", "4", "--geometry")
SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("save", partial(_save, 0), partial(_save, 1), share=2),
        Subject(
            "simulate",
            command("simulate", "spring-block", *_SMALL, "--out", "run.png"),
            command("simulate", "spring-block", *_SMALL, "--seed", "1", "--out", "run.png"),
        ),
        Subject(
            "estimate",
            command("estimate", "elastic", "means.nc", "--out", "found.png"),
            command("estimate", "elastic", "means.nc", "--geometry", "isotropic", "--out", "found.png"),
            start=_copy("means.nc"),
        ),
        Subject("show", command("show", "watched", "--out", "run.svg"), start=_copy("watched"), share=0.5),
        Subject("report", command("report", "watched"), start=_copy("watched"), share=0.5),
        Subject("cite", command("cite", "--out", "cited.bib")),
        Subject("train", _train, units=_trained("run.npz"), share=2),
        Subject("watch", partial(_watched, checkpoints=False), units=_measured, view=_seen, share=2),
        Subject(
            "watch resumed",
            partial(_watched, checkpoints=True),
            units=_measured,
            view=partial(_seen, without=_OF_TWO_STEPS),
            share=2,
        ),
        Subject("sweep", command(*SWEEP, "--scheduler", "here"), units=_swept, view=_sweep_view, share=2),
        Subject(
            "sweep retry",
            command("sweep", "retry", "s", "campaign.swept:walk", "--scheduler", "here"),
            start=lambda inputs, out: shutil.copytree(inputs / "broken", out / "s"),
            units=_swept,
            view=_sweep_view,
            share=2,
        ),
        Subject("sweep gather", command("sweep", "gather", "swept", "--out", "table.nc"), start=_copy("swept")),
        Subject("sweep on workers", command(*SWEEP, "--workers", "2"), units=_swept, view=_sweep_view, share=0.5),
        Subject("reproduce", command("reproduce", QUICK[2], "--scale", "smoke")),
        Subject(
            "verify",
            command("verify", "spring_block", "--scale", "smoke", "--keep", "kept", "--out", "claims.json"),
            units=_judged,
            share=0.5,
        ),
        Subject(
            "results",
            command("results", "experiments", "--out", "pages"),
            start=_copy("experiments"),
        ),
        Subject(
            "imitate",
            command(*IMITATE, "logits", "--out", "i"),
            command(*IMITATE, "isotropic", "--out", "i"),
            units=_trained("i/networks.npz"),
            share=0.4,
        ),
        Subject("data fetch", partial(_fetch, "mnist"), units=_fetched),
        Subject("data fetch archive", partial(_fetch, "cifar10"), units=_fetched),
    )
}


def content(path: Path) -> str:
    """What a file holds, as one short text."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
