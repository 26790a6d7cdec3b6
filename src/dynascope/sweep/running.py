"""The sweep itself: what is missing is computed and kept."""

import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import xarray as xr

from dynascope.checks import Given, count, flag, scalar
from dynascope.files import remove_leftovers
from dynascope.progress import PATIENCE, progress_bar, shown
from dynascope.records import Json
from dynascope.sweep.batches import Head
from dynascope.sweep.folder import DAMAGED, RESULTS, SweepFolder
from dynascope.sweep.gpus import gpus
from dynascope.sweep.pace import estimate, seconds_each, seconds_left
from dynascope.sweep.pack_runner import run_batch
from dynascope.sweep.places import Slurm, Ssh
from dynascope.sweep.plan import Grid, Plan, Seeds, Task, as_text, make_packs, make_plan, seconds_of
from dynascope.sweep.stacks import Failure
from dynascope.sweep.table import FAILED, FINISHED, MISSING, counted, gathered, outcomes
from dynascope.sweep.workload import Workload, as_workload

HERE = "here"
ON_CORE, ON_GPU = 30.0, 3000.0  # seconds that a pack takes on one core, and one that a GPU runs would take there


def sweep(
    experiment: object,
    grid: Given[Grid],
    out: str | os.PathLike[str],
    *,
    seeds: Given[Seeds] = None,
    fixed: Given[Mapping[str, object] | None] = None,
    scheduler: object = None,
    workers: Given[int | None] = None,
    retry: Given[bool] = False,
    pack_seconds: Given[float | None] = None,
    timeout: Given[float] = 10.0,
    trust_network: Given[bool] = False,
    price: Given[float | None] = None,
    reference: Mapping[str, str] | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Run an experiment at every point of a grid, and gather the results in one dataset.

    experiment: a function of one configuration, a `Workload`, a model family, or an experiment of the registry
    grid: lists of values, {"slope": [0, 0.5]}: all combinations; or a list of configurations
    out: folder for results; what lies there under the same source, configuration and seed is kept
    seeds: how many (from 0), or a list; without it the experiment's own
    fixed: values of parameters that do not vary
    scheduler: None starts one worker with one thread on each core; "here" works in this process, without Dask;
        `Slurm(jobs=4)` and `Ssh(["node1"])` start workers elsewhere; else the address of a Dask scheduler
        (tls://host:8786), the .json file it wrote, or a Dask client or cluster
    workers: number of workers started on this machine
    retry: also run again what failed before, with the code as it is now; what is finished stays
    pack_seconds: length of packs on one core; 30 if not given, on GPUs 3000
    timeout: seconds to wait for the scheduler's answer
    trust_network: also accept a scheduler without TLS: whoever reaches it runs code as you
    price: of one worker for an hour; then what the sweep will take and cost is said first
    reference: how `dynascope sweep retry` finds the experiment again

    A task that raises leaves its traceback in the folder, and the others go on. The program may be killed at any
    moment; the same call goes on where it was. More: docs/sweep.md.

    >>> import tempfile
    >>> def decay(time, rate=1.0):
    ...     return {"left": 2.0 ** (-rate * time)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = sweep(decay, {"time": [1.0, 2.0], "rate": [1.0, 2.0]}, folder, scheduler="here")
    >>> table["left"].sel(time=2.0, rate=1.0).item()
    0.25
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            'sweep was called while a worker imports this script: put the call below `if __name__ == "__main__":`'
        )
    workload = as_workload(experiment)
    plan = make_plan(workload, grid, seeds=seeds, fixed=fixed)
    where = _Where(
        scheduler,
        None if workers is None else count("workers", workers),
        scalar("timeout", timeout, above=0.0),
        flag("trust_network", trust_network),
        None if price is None else scalar("price", price, at_least=0.0),
    )
    size = where.pack_seconds(workload) if pack_seconds is None else scalar("pack_seconds", pack_seconds, above=0.0)
    if scheduler is not None and workers is not None:
        raise ValueError(f"workers must be left out: none are started on this machine with scheduler={scheduler!r}")
    if isinstance(scheduler, str | os.PathLike) and scheduler != HERE:  # refused before the folder is touched
        import_module("dynascope.sweep.cluster").address_of(scheduler, where.trust_network)
    folder = SweepFolder(out)
    remove_leftovers(Path(tempfile.gettempdir()))  # of workers whose sweep was killed
    with folder.locked():
        if flag("retry", retry):
            plan = _with_finished(plan, folder)
        folder.write_plan(plan, reference or _reference(experiment))
        for again in (retry, False):
            _compute(workload, plan, folder, where=where, retry=again, pack_seconds=size, progress=progress)
            table, damaged = gathered(folder)
            if not damaged:
                break
            folder.set_aside(list(damaged))
            warnings.warn(
                f"{counted(damaged)} were damaged: they lie in {str(folder.path / DAMAGED)!r}, and are computed "
                f"again ({next(iter(damaged.values()))})",
                RuntimeWarning,
                stacklevel=2,
            )
    failed = int((table["outcome"] == FAILED).sum())
    if failed:
        warnings.warn(
            f"{failed} of {len(plan.tasks)} tasks failed; `dynascope sweep status {out}` says why, and "
            "retry=True runs them again",
            RuntimeWarning,
            stacklevel=2,
        )
    return table


@dataclass(frozen=True)
class _Where:
    """Who computes, and for how much an hour."""

    scheduler: object
    workers: int | None
    timeout: float
    trust_network: bool
    price: float | None

    @property
    def known_workers(self) -> int | None:
        """How many there will be; None on a scheduler that others started."""
        if self.scheduler is None:
            return self.workers or os.cpu_count()
        if isinstance(self.scheduler, Slurm | Ssh):
            return self.scheduler.size
        return 1 if self.scheduler == HERE else None

    def pack_seconds(self, workload: Workload) -> float:
        """How long a pack takes on one core; a GPU is as fast as many."""
        near = self.scheduler is None or self.scheduler == HERE
        gpu = bool(gpus()) if near else isinstance(self.scheduler, Slurm) and bool(self.scheduler.gpu)
        return ON_GPU if workload.gpu and gpu else ON_CORE


def _reference(experiment: object) -> dict[str, str] | None:
    """Text by which another program finds a function; None for what is defined in a script or at a prompt."""
    module, name = getattr(experiment, "__module__", None), getattr(experiment, "__qualname__", "<")
    return None if module in (None, "__main__") or "<" in name else {"name": f"{module}:{name}"}


def _with_finished(plan: Plan, folder: SweepFolder) -> Plan:
    """Keep results that older code finished in this sweep: only the rest gets an address under the code of now."""
    try:
        before, _ = folder.read_plan()
    except ValueError:
        return plan
    finished = folder.keys(RESULTS)
    kept = {as_text(task.configuration): task.key for task in before.tasks if task.key in finished}
    tasks = [replace(task, key=kept.get(as_text(task.configuration), task.key)) for task in plan.tasks]
    return replace(plan, tasks=tasks)


def _compute(
    workload: Workload,
    plan: Plan,
    folder: SweepFolder,
    *,
    where: _Where,
    retry: bool,
    pack_seconds: float,
    progress: bool | None,
) -> None:
    """Run what is not finished, and store it as it comes."""
    states = dict(zip((task.key for task in plan.tasks), outcomes(folder, plan), strict=True))
    wanted = (MISSING, FAILED) if retry else (MISSING,)
    packs = [
        [task for task in pack if states[task.key] in wanted] for pack in make_packs(workload, plan.tasks, pack_seconds)
    ]
    packs = [pack for pack in packs if pack]
    if not packs:
        return
    total = sum(map(len, packs))
    each = _seconds_each(workload, packs, folder)
    _say_estimate(total, each, where, progress)
    runs = closing(_runs(workload, packs, where, plan.code, folder.path))  # workers go at once where writing fails
    with progress_bar(f"sweep {plan.name}", total, progress) as report, runs as arriving:
        done = 0
        for head, batch in arriving:
            try:
                folder.take_in(head, batch)
            except OSError as error:
                kept = sum(state == FINISHED for state in states.values())
                raise OSError(
                    f"a result cannot be written to {str(folder.path)!r} ({error}); {kept} finished results are kept: "
                    "make room and run the same command again"
                ) from error
            states.update(dict.fromkeys(head.keys, FINISHED) | dict.fromkeys(head.failures, FAILED))
            done += len(head.keys) + len(head.failures)
            if each is None and done < total:
                each = seconds_each([head])
                _say_estimate(total - done, each, where, progress)
            report(done, lambda: _counts(states))


def _seconds_each(workload: Workload, packs: Sequence[Sequence[Task]], folder: SweepFolder) -> float | None:
    """What a task takes on one core: as the workload says, or as finished ones did; None if nothing is known."""
    if workload.seconds is None:
        return seconds_each([batch.head for batch in folder.heads()])
    costs = [seconds_of(workload, task) for pack in packs for task in pack]
    return sum(costs) / len(costs)


def _say_estimate(tasks: int, each: float | None, where: _Where, progress: bool | None) -> None:
    """Say what a sweep will take, if it is known: of long ones on a terminal, and wherever a price is given."""
    if each is not None and (where.price is not None or (shown(progress) and tasks * each > PATIENCE)):
        print(estimate(tasks, each, where.known_workers, where.price), file=sys.stderr)


def _counts(states: dict[str, str]) -> str:
    finished, failed = (sum(state == kind for state in states.values()) for kind in (FINISHED, FAILED))
    return f"{finished} of {len(states)} finished" + (f", {failed} failed" if failed else "")


def _runs(
    workload: Workload, packs: Sequence[Sequence[Task]], where: _Where, code: str, folder: Path
) -> Generator[tuple[Head, bytes], None, None]:
    if where.scheduler == HERE:
        at, most = 0, None
        while at < len(packs):
            done = run_batch(workload, packs[at:], code, most)
            at, most = at + done.packs, done.most
            yield done.head, done.batch
        return
    from dynascope.sweep.cluster import connected, run_on_cluster  # noqa: PLC0415 (Dask takes half a second)

    with ExitStack() as stack:
        scheduler, more = where.scheduler, {}
        if isinstance(scheduler, Slurm | Ssh):
            crews = import_module("dynascope.sweep.crews")
            crew = stack.enter_context(crews.hired(scheduler, folder, gpu=workload.gpu))
            scheduler, more = crew.cluster, {"check": crew.check}
        client = stack.enter_context(
            connected(
                scheduler,
                workers=where.workers,
                timeout=where.timeout,
                trust_network=where.trust_network,
                gpu=workload.gpu,
            )
        )
        yield from run_on_cluster(workload, packs, client, code=code, **more)


def asked(out: str | os.PathLike[str]) -> dict[str, Json]:
    """Say what a sweep was asked for, as arguments of `sweep`: grid, seeds, fixed and reference.

    out: the folder of the sweep

    >>> import tempfile
    >>> def decay(time, rate=1.0):
    ...     return {"left": 2.0 ** (-rate * time)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sweep(decay, {"time": [1.0, 2.0]}, folder, scheduler="here")
    ...     found = asked(folder)
    >>> found["grid"], found["seeds"], found["fixed"]
    ({'time': [1.0, 2.0]}, None, {'rate': 1.0})
    """
    plan, reference = SweepFolder(out).read_plan()
    axes = dict(plan.axes)
    seeds = axes.pop("seed", None) if list(axes)[-1] == "seed" and len(axes) > 1 else None
    grid: Grid = axes
    if "configuration" in axes:
        left_out = {*plan.fixed, *(["seed"] if seeds else [])}
        points = plan.tasks[:: len(seeds or [0])]
        grid = [{name: v for name, v in task.configuration.items() if name not in left_out} for task in points]
    return {"grid": grid, "seeds": seeds, "fixed": plan.fixed, "reference": reference}


def status(out: str | os.PathLike[str]) -> dict[str, Json]:
    """Say how far a sweep is: counts, whether a program works on it now, how long it will take, why tasks failed.

    out: the folder of the sweep

    work_seconds: on one core, so far. left_seconds: until all is done, at the pace of the last minute over all workers;
    None where nothing came in. left_work_seconds: on one core; None before the first task.

    >>> import tempfile
    >>> def decay(time):
    ...     return {"left": 0.5 ** time}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sweep(decay, {"time": [1.0, 2.0]}, folder, scheduler="here")
    ...     found = status(folder)
    >>> found["finished"], found["failed"], found["missing"], found["running"]
    (2, 0, 0, False)
    """
    folder = SweepFolder(out)
    return _status(folder, folder.read_plan()[0])


def watch_status(out: str | os.PathLike[str], pause: float) -> Iterator[dict[str, Json]]:
    """Say how far a sweep is, again and again, until nothing is missing or no program works on it.

    pause: seconds between two looks

    >>> import tempfile
    >>> def decay(time):
    ...     return {"left": 0.5 ** time}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sweep(decay, {"time": [1.0, 2.0]}, folder, scheduler="here")
    ...     [found["finished"] for found in watch_status(folder, 1.0)]
    [2]
    """
    folder = SweepFolder(out)
    plan, _ = folder.read_plan()
    while True:
        running = folder.is_locked()  # before the look: what comes in until it ends is seen
        found = _status(folder, plan)
        yield found
        if not (running and found[MISSING]):
            return
        time.sleep(pause)


def _status(folder: SweepFolder, plan: Plan) -> dict[str, Json]:
    states, heads = outcomes(folder, plan), [batch.head for batch in folder.heads()]
    failed = [task for task, state in zip(plan.tasks, states, strict=True) if state == FAILED]
    each, missing = seconds_each(heads), states.count(MISSING)
    return {
        "experiment": plan.name,
        "tasks": len(plan.tasks),
        **{kind: states.count(kind) for kind in (FINISHED, FAILED, MISSING)},
        "running": folder.is_locked(),
        "work_seconds": sum(head.seconds for head in heads),
        "left_seconds": seconds_left(heads, missing),
        "left_work_seconds": None if each is None else missing * each,
        "failures": [_described(task, plan, folder.failure(task.key)) for task in failed],
    }


def _described(task: Task, plan: Plan, failure: Failure) -> dict[str, Json]:
    varied = {name: value for name, value in task.configuration.items() if name not in plan.fixed}
    return {"configuration": varied, "error": failure.error, "traceback": failure.traceback, "address": task.key}
