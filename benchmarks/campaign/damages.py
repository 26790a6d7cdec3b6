"""Files of every kind, with bits flipped or the end cut off: the reader says so or computes again; no wrong number."""

import json
import random
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

import dynascope
from campaign.children import import_as, run
from campaign.subjects import SUBJECTS, Subject
from campaign.swept import walk
from campaign.trials import Bench, Outcome
from dynascope import monitor
from dynascope.data.images import read_idx
from dynascope.models.elastic.recorded import load_class_means
from dynascope.monitor import journal
from dynascope.records import digest, to_json
from dynascope.results import load_result
from dynascope.sweep import asked, gather, status, sweep

SAID, SAME, WRONG = "said", "no effect", "wrong"
Found = Mapping[str, str]  # what was read, piece by piece


@dataclass(frozen=True)
class Kind:
    """A kind of file: where it lies among the inputs, which file of a folder is damaged, and what reads it."""

    name: str
    source: str
    file: str
    read: Callable[[Path], Found]


def _journal(folder: Path) -> Found:
    """Numbers of each step. Lines that are damaged are counted; a run whose end is missing counts as stopped."""
    found = monitor.open_run(folder)
    if "damaged" in json.loads(found.attrs["parameters"]) or journal.status(folder) != "finished":
        warnings.warn("some of it is missing", stacklevel=1)
    return {
        f"{name} at {step}": repr(values.tolist())
        for name, variable in found.data_vars.items()
        for step, values in zip(found["step"].values, variable.transpose("step", ...).values, strict=True)
        if not (values.dtype.kind == "f" and np.isnan(values).all())
    }


def _table(table: xr.Dataset) -> Found:
    """Results of tasks; a gap is none."""
    values = table["end"].to_series().dropna() if "end" in table else {}
    return {str(point): repr(value) for point, value in values.items()}


def _swept(folder: Path) -> Found:
    found = sweep(walk, **{name: asked(folder)[name] for name in ("grid", "seeds")}, out=folder, scheduler="here")
    return _table(found)


def _failures(folder: Path) -> Found:
    found = {str(each["configuration"]): each["error"] for each in status(folder)["failures"]}
    return {name: error for name, error in found.items() if not _told("cannot be read any more" in error)}


def _told(so: bool) -> bool:
    if so:
        warnings.warn("it is said", stacklevel=1)
    return so


def _checkpoint(folder: Path) -> Found:
    shutil.copyfile(folder / "run.npz", "run.npz")
    SUBJECTS["train"].run()
    return {"run": digest(dynascope.load("run.nc"))}


KINDS = {
    kind.name: kind
    for kind in (
        Kind("record", "means.nc", "", lambda path: {"record": digest(dynascope.load(path))}),
        Kind("journal", "watched", "journal.jsonl", _journal),
        Kind("plan of a sweep", "swept", "sweep.json", lambda path: {**_table(gather(path)), "": to_json(asked(path))}),
        Kind("gathered result of a sweep", "swept", "results/*", lambda folder: _table(gather(folder))),
        Kind("result of a sweep run again", "swept", "results/*", _swept),
        Kind("failure in a sweep", "broken", "failures/*.json", _failures),
        Kind(
            "result of an experiment",
            "experiments",
            "**/result.json",
            lambda folder: {str(path): repr(load_result(path)) for path in folder.rglob("result.json")},
        ),
        Kind("checkpoint", "trained", "run.npz", _checkpoint),
        Kind("class means", "means.npz", "", lambda path: {"": repr(load_class_means(path).values.tolist())}),
        Kind("images", "images", "*.gz", lambda folder: {"": repr(read_idx(next(folder.glob("*.gz"))).tolist())}),
    )
}
_NONE = Subject("", lambda: 0)


def undamaged(bench: Bench, kind: Kind) -> Found:
    """What a whole file holds."""
    truth, _, refused = _read(bench, kind, None)
    if refused:
        raise RuntimeError(f"{kind.name} cannot be read: {bench.said()}")
    import_as(bench.place)
    return truth


def damage(bench: Bench, kind: Kind, truth: Found, draw: random.Random) -> Outcome:
    """Damage a file, and see what its reader makes of it."""
    found, told, refused = _read(bench, kind, draw)
    false = {name for name, value in found.items() if truth.get(name) != value}
    said = told or refused
    verdict = WRONG if false or (found != truth and not said) else SAID if said else SAME
    outcome = Outcome()
    outcome.counts[verdict] += 1
    if verdict == WRONG:
        outcome.notes.append(f"{sorted(false)[:3]} of {len(truth)} after {_where(bench)}: {bench.said()[-400:]}")
    return outcome


def _where(bench: Bench) -> str:
    return (bench.place.root / "damage").read_text()


def _read(bench: Bench, kind: Kind, draw: random.Random | None) -> tuple[Found, bool, bool]:
    """What is read in a child, whether it warned, and whether it refused."""
    bench.set_out(_NONE, older=False)
    source, target, answer = bench.inputs / kind.source, bench.place.out / kind.source, bench.place.root / "answer"
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
    if draw is not None:
        _spoil(draw.choice(sorted(target.glob(kind.file))) if kind.file else target, draw, bench.place.root / "damage")

    def work() -> int:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = kind.read(target)
        answer.write_text(json.dumps([found, bool(told)]))
        return 0

    answer.unlink(missing_ok=True)
    status = run(work, bench.place).status
    if status == 0:
        return *json.loads(answer.read_text()), False
    return {} if status == 2 else {"traceback": bench.said()}, False, True


def _spoil(path: Path, draw: random.Random, note: Path) -> None:
    """Flip one to three bits, or cut the end off."""
    content = bytearray(path.read_bytes())
    if draw.random() < 0.3:
        length = draw.randrange(len(content))
        path.write_bytes(content[:length])
        note.write_text(f"{path.name} cut to {length} of {len(content)} bytes")
        return
    places = [draw.randrange(8 * len(content)) for _ in range(draw.randint(1, 3))]
    for place in places:
        content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    note.write_text(f"{path.name} flipped at bits {places}")
