"""Workers of a sweep, killed in each of its phases: the sweep goes on by itself and ends as if nothing had happened."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from campaign.children import Child, Place
from campaign.subjects import Subject
from campaign.trials import Bench, Outcome, Reference
from dynascope.sweep.folder import RESULTS, SweepFolder

_PATIENCE = 90.0  # seconds until a phase begins
_TASKS = 12


def killed(bench: Bench, subject: Subject, reference: Reference, phase: str, draw: random.Random) -> Outcome:
    """Run a sweep on workers and kill one of them in a phase: start, tasks, gathering or close."""
    outcome, (begins, longest) = Outcome(), PHASES[phase]
    bench.set_out(subject, older=False)
    child = Child(subject.run, bench.place)
    late = time.perf_counter() + _PATIENCE
    while not begins(bench.place, child.pid) and time.perf_counter() < late:
        time.sleep(0.005)
    time.sleep(draw.uniform(0.0, longest))
    workers = _workers(child.pid)
    if workers:
        os.kill(draw.choice(workers), signal.SIGKILL)
        outcome.counts["kills"] += 1
    bench.compare(subject, reference, outcome, child.wait())
    return outcome


def _workers(pid: int) -> list[int]:
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [each.pid for each in children if "spawn_main" in " ".join(each.cmdline())]
    except psutil.Error:
        return []


def _results(out: Path) -> int:
    return len(SweepFolder(out / "s").keys(RESULTS))


def _tasks_begun(place: Place, _: int) -> bool:
    return place.done.exists()


# phase -> (when it begins, how long it lasts at most in seconds)
PHASES: dict[str, tuple[Callable[[Place, int], object], float]] = {
    "start": (lambda place, pid: _workers(pid), 2.0),
    "tasks": (_tasks_begun, 0.3),
    "gathering": (lambda place, pid: _results(place.out) > 0, 0.1),
    "close": (lambda place, pid: _results(place.out) == _TASKS, 0.5),
}
