"""Where a run's measurements go: into a folder of its own, or behind those of the run that it continues."""

import itertools
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dynascope.files import remove_leftovers
from dynascope.monitor import measuring
from dynascope.monitor.cadence import Cadence
from dynascope.monitor.features import Layers
from dynascope.monitor.journal import Journal
from dynascope.monitor.probing import Probe
from dynascope.monitor.telling import tell
from dynascope.records import Json

SAME = 1e-4  # relative: the same weights on another machine give numbers this close
_COMPARED = ("load", "probe_loss")
_Entry = Mapping[str, Json]


def apart(one: Mapping[str, Json], other: Mapping[str, Json]) -> float:
    """Say how far two measurements are from each other, relative to 1 + their size; infinity if only one is finite.

    >>> apart({"load": [3.0, 1.0]}, {"load": [3.0, 1.5]})
    0.25
    """
    shared = [name for name in _COMPARED if name in one and name in other]
    if not shared:
        return np.inf
    try:
        a, b = (np.concatenate([np.ravel(np.asarray(each[name], float)) for name in shared]) for each in (one, other))
    except (TypeError, ValueError, OverflowError):  # a journal may hold anything
        return np.inf
    if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    finite = np.isfinite(a) & np.isfinite(b)
    return float(np.max(np.abs(a - b)[finite] / (1 + np.abs(a[finite])), initial=0.0))


def heading(
    model: nn.Module,
    probe: Probe,
    layers: Layers,
    *,
    cadence: Cadence,
    options: Mapping[str, Json],
    facts: Mapping[str, Json],
) -> dict[str, Json]:
    """Make the first entry of a run: what is watched, and how. options, facts: more settings, and more about the run.

    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Linear(2, 2)
    >>> probe = Probe.of((torch.ones(4, 2), [0, 0, 1, 1]), net)
    >>> heading(net, probe, find_layers(net, probe), cadence=Cadence(5), options={}, facts={})["layers"]
    ['input', 'Linear']
    """
    task = layers.reading.task
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    settings: dict[str, Json] = {
        "every": cadence.every,
        "max_overhead": cadence.max_overhead,
        "slow": cadence.slow,
        **options,
        "torch": torch.__version__,
        "model": type(model).__name__,
        "samples": len(probe),
        "task": task.name,
        "answers": measuring.answers(layers),
        "loss_of_the_mean": measuring.loss_of_the_mean(layers),
    }
    if layers.readout is not None:
        settings |= {"readout": layers.readout.name}
        settings |= {"width": getattr(layers.readout.module, "in_features", None)}
    return {
        "kind": "start",
        "format": 1,
        "layers": layers.names,
        "kinds": layers.kinds,
        "classes": task.classes.tolist(),
        **facts,
        "probe": probe.fingerprint(),
        "settings": settings,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
    }


def open_journal(
    out: str | os.PathLike[str],
    start: _Entry,
    now: Mapping[str, Json] | None,
    *,
    first_step: int | None,
    resume: bool | None,
) -> tuple[Journal, int]:
    """Open the folder of a run; return its journal and the number of steps that are done.

    start: the entry that describes the run. now: what is measured before training, None if that failed.
    In a folder that holds a run already, a start at step 0 gets a fresh folder beside it, unless the state now is that
    of a later measurement. A later first_step continues the run if the state now is the one that was measured there.
    resume: True continues, False begins afresh, whatever was measured.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal, step = open_journal(folder, {}, None, first_step=None, resume=None)
    ...     journal.close()
    >>> step
    0
    """
    journal = Journal(out)
    try:
        step = _continued(journal, start, now, first_step, resume)
    except BaseException:
        journal.close()
        raise
    if step is not None:
        return journal, step
    journal.close()
    fresh = _beside(journal.folder)
    tell(
        f"{str(journal.folder)!r} holds a run already, and this is another one: it goes to {str(fresh)!r} "
        "(resume=True continues the old one)"
    )
    return Journal(fresh), first_step or 0


def _beside(folder: Path) -> Path:
    """Make the next numbered folder; one that another process makes at the same time is not shared."""
    for number in itertools.count(2):
        fresh = folder.with_name(f"{folder.name}-{number}")
        with suppress(FileExistsError):
            fresh.mkdir()
            break
        with suppress(OSError):  # it is a file, or another user's
            remove_leftovers(fresh)  # nothing else opens that folder again
    return fresh


def _continued(
    journal: Journal, start: _Entry, now: Mapping[str, Json] | None, first_step: int | None, resume: bool | None
) -> int | None:
    """The step at which the folder's run goes on; None for another run."""
    done = [entry for entry in journal.entries if entry["kind"] == "measure"]
    old = next((entry for entry in journal.entries if entry["kind"] == "start"), None)
    if old is None or not done:
        return first_step or 0
    differs = [key for key in ("layers", "classes", "probe") if old.get(key) != start[key]]
    if resume is None and not first_step:
        return None if differs or now is None else _recognised(done, now)
    if resume is False:
        return None
    for key in differs:
        raise ValueError(
            f"out must be a new folder or hold the same run, but its {key} differ: {old.get(key)} there, {start[key]} "
            "here; choose another folder"
        )
    if first_step is None:
        return int(done[-1]["step"])
    if resume is None:
        _require_same(journal.folder, [entry for entry in done if entry["step"] == first_step], now, first_step)
    return first_step


def _recognised(done: Sequence[_Entry], now: Mapping[str, Json]) -> int | None:
    """The step of the measurement that is like the one now, if it is a later one than the first."""
    distances = [apart(entry["numbers"], now) for entry in done]
    nearest = int(np.argmin(distances))
    return int(done[nearest]["step"]) or None if distances[nearest] <= SAME else None


def _require_same(folder: Path, there: Sequence[_Entry], now: Mapping[str, Json] | None, step: int) -> None:
    if not there or now is None:
        tell(
            f"the run in {str(folder)!r} was not measured at step {step}: it is continued, but not checked to be the "
            "same one"
        )
        return
    if min(apart(entry["numbers"], now) for entry in there) > SAME:
        raise ValueError(
            f"out must hold the run that is continued, but what {str(folder)!r} says of step {step} is another state: "
            f"loss on the probe {there[-1]['numbers'].get('probe_loss')} there, {now.get('probe_loss')} here; restore "
            "the checkpoint before watching, choose another folder, or force it with resume=True (or a fresh folder "
            "with resume=False)"
        )
