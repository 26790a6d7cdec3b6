"""What a sweep costs beside its work, from 1,000 to 100,000 tasks of 20 µs, and what is lost where it is killed.

Each case runs in a process of its own: seconds from the call of `sweep` to its table, on workers that run already; what
is not work, in ms a task, by the clock and of the processor, which other programs on the machine do not slow down;
files, bytes, the peak of the client's memory, seconds that `status` and `gather` take. With --kills, sweeps are killed
again and again, clients or workers, and held against an undisturbed one. With --slurm KILLS, a Slurm of one node is
started here (slurm-wlm and munge must be installed), and jobs, workers and clients of one sweep on it are killed in
turn, each time after more results have come in. With --rivals PYTHON, 1,000 of the same tasks run with Optuna and Ray
Tune, where that Python has them (`sweep_rivals.py`).
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from dynascope.records import digest
from dynascope.sweep import Slurm, gather, status, sweep
from dynascope.sweep.cluster import connected
from dynascope.sweep.folder import RESULTS, SweepFolder

sys.path.append(str(Path(__file__).parent.parent / "tests" / "sweep"))
import slurm_here

WORK = 20e-6  # seconds of a task
SLOW = 1e-3  # of those that are killed
SLOWER = 5e-3  # of those that are killed on Slurm, so that as many kills fit in
WORKERS, JOBS = 2, 4
HERE, ON_WORKERS, ON_SLURM = "one process", "two workers", "jobs of Slurm"
WHERE = {
    HERE: {"scheduler": "here"},
    ON_WORKERS: {"workers": WORKERS},
    ON_SLURM: {"scheduler": Slurm(jobs=JOBS, listen="127.0.0.1")},
}


def tiny(x: float, seed: int = 0, work: float = WORK) -> dict[str, float]:
    """A task that takes as long as it should; a long one sleeps, and leaves the processor to workers that start."""
    if work > WORK:
        time.sleep(work)
        return {"y": 2.0 * x + seed}
    until = time.perf_counter() + work
    while time.perf_counter() < until:
        pass
    return {"y": 2.0 * x + seed}


def run(folder: Path, tasks: int, work: float = WORK, **where: object) -> None:
    """The sweep that all cases run."""
    sweep(tiny, {"x": np.arange(tasks // 10) / 7}, folder, seeds=10, fixed={"work": work}, progress=False, **where)


def timed(call: Callable[..., object], *arguments: object, **options: object) -> float:
    """Seconds that a call takes."""
    begun = time.perf_counter()
    call(*arguments, **options)
    return time.perf_counter() - begun


def processor_seconds() -> float:
    """Time of the processor that this process and its workers have used, however many others wait for it."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def case(tasks: int, where: str) -> dict[str, float]:
    """One sweep, measured."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder, scheduler, start = Path(place, "sweep"), "here", 0.0
        if where == ON_WORKERS:
            begun = time.perf_counter()
            cluster = connected(None, workers=WORKERS, timeout=60, trust_network=False)
            scheduler = stack.enter_context(cluster)
            start = time.perf_counter() - begun
        run(Path(place, "first"), 100, scheduler=scheduler)  # imports
        before = processor_seconds()
        seconds = timed(run, folder, tasks, scheduler=scheduler)
        spent = processor_seconds() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {
            "s": seconds,
            "ms a task": 1e3 * (seconds / tasks - WORK / (1 if where == HERE else WORKERS)),
            "of processor": 1e3 * (spent / tasks - WORK),
            "load": os.getloadavg()[0],
            "start of workers, s": start,
            "files": len(files),
            "MB": sum(path.stat().st_size for path in files) / 1e6,
            "peak, MB": peak,
            "status, s": timed(status, folder),
            "gather, s": timed(gather, folder),
        }


def measured(tasks: int, where: str) -> dict[str, float]:
    """The same in a process of its own."""
    own = [sys.executable, __file__, "--case", str(tasks), where]
    return json.loads(subprocess.run(own, check=True, capture_output=True, text=True).stdout)


def results_digest(folder: Path) -> str:
    """One digest of all results of a sweep, whatever batches they came in."""
    return digest(gather(folder))


def begin(folder: Path, tasks: int, where: str, work: float = SLOW) -> subprocess.Popen:
    """A sweep in a process of its own."""
    return subprocess.Popen([sys.executable, __file__, "--run", str(folder), str(tasks), where, str(work)])


def kill_clients(folder: Path, tasks: int, kills: int, draw: random.Random) -> str:
    """Kill the program that sweeps, again and again, each time within three seconds."""
    lost, before, held = 0, set(), 0
    for _ in range(kills):
        child = begin(folder, tasks, HERE)
        while not SweepFolder(folder).is_locked() and child.poll() is None:
            time.sleep(0.01)
        time.sleep(draw.uniform(0.0, 3.0))
        child.kill()
        child.wait()
        now = SweepFolder(folder).keys(RESULTS)
        held += 0 < len(now) < tasks
        lost, before = lost + len(before - now), now
    begin(folder, tasks, HERE).wait()
    return f"{kills} kills of the client, {held} of them half-way: {lost} finished results lost"


def kill_workers(folder: Path, tasks: int, kills: int, draw: random.Random) -> str:
    """Kill workers of a sweep that goes on, as soon as there are some again."""
    child, killed = begin(folder, tasks, ON_WORKERS), 0
    while child.poll() is None and killed < kills:
        time.sleep(draw.uniform(0.3, 1.5))
        with suppress(psutil.Error):
            children = psutil.Process(child.pid).children(recursive=True)
            workers = [each for each in children if "spawn_main" in " ".join(each.cmdline())]
            if workers and SweepFolder(folder).keys(RESULTS):
                draw.choice(workers).kill()
                killed += 1
    return f"{killed} kills of workers: the sweep ends with status {child.wait()}"


def disturbed(tasks: int, kills: int) -> None:
    """Kill clients and workers, and compare with an undisturbed sweep."""
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        calm = Path(place, "calm")
        run(calm, tasks, SLOW, scheduler="here")
        for name, strike in (("clients", kill_clients), ("workers", kill_workers)):
            said, found = strike(Path(place, name), tasks, kills // 2, draw), status(Path(place, name))
            same = results_digest(calm) == results_digest(Path(place, name))
            print(f"{said}, {found['finished']} of {tasks} finished, digest as undisturbed: {same}", flush=True)


def processes_of_jobs(word: str) -> list[psutil.Process]:
    """Processes in jobs of the Slurm that was started here, whose command line holds a word."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            own = each.environ()
            if own.get("SLURM_CONF") == os.environ["SLURM_CONF"] and "SLURM_JOB_ID" in own:
                found += [each] if word in " ".join(each.cmdline()) else []
    return found


def kill_job(draw: random.Random) -> bool:
    """Kill a job: at once, as at the end of its time, or by its first process."""
    running = subprocess.run(["squeue", "-h", "-t", "running", "-o", "%A"], capture_output=True, text=True, check=True)
    way = draw.choice((["--signal=KILL", "--full"], [], None))
    scripts = processes_of_jobs("slurm_script")
    if way is None and scripts:
        victim = draw.choice(scripts)
        for each in (*victim.children(recursive=True), victim):
            each.kill()
        return True
    jobs = running.stdout.split()
    return bool(jobs) and subprocess.run(["scancel", *(way or []), draw.choice(jobs)], check=False).returncode == 0


def kill_on_slurm(folder: Path, tasks: int, kills: int, draw: random.Random) -> str:
    """Kill jobs, workers and clients in turn, each after more results have come in."""
    counts, lost, before, child = dict.fromkeys(("job", "worker", "client"), 0), 0, set(), None
    apart = tasks // (2 * kills)  # results between two kills
    while sum(counts.values()) < kills:
        child = child or begin(folder, tasks, ON_SLURM, SLOWER)
        while len(now := SweepFolder(folder).keys(RESULTS)) < len(before) + apart and child.poll() is None:
            time.sleep(0.05)
        lost, before = lost + len(before - now), now
        print(f"{len(now)} results, {counts} killed", file=sys.stderr, flush=True)
        if child.poll() is not None:
            break
        time.sleep(draw.uniform(0.0, 1.0))
        kind = draw.choices(list(counts), [5, 4, 1])[0]
        with suppress(psutil.Error):
            if kind == "job":
                counts[kind] += kill_job(draw)
            elif kind == "worker" and (workers := processes_of_jobs("spawn_main")):
                draw.choice(workers).kill()
                counts[kind] += 1
            elif kind == "client":
                child.kill()
                child.wait()
                counts[kind], child = counts[kind] + 1, None
    code = (child or begin(folder, tasks, ON_SLURM, SLOWER)).wait()
    lost += len(before - SweepFolder(folder).keys(RESULTS))
    struck = ", ".join(f"{number} kills of a {kind}" for kind, number in counts.items())
    return f"{struck}, all after results had come in: {lost} finished results lost; it ends with status {code}"


def disturbed_on_slurm(tasks: int, kills: int) -> None:
    """The same on Slurm."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        Path(place, "slurm").mkdir()
        os.environ.update(stack.enter_context(slurm_here.slurm(Path(place, "slurm"))))
        calm, folder = begin(Path(place, "calm"), tasks, HERE, SLOWER), Path(place, "out")
        begun = time.perf_counter()
        said, found = kill_on_slurm(folder, tasks, kills, random.Random(0)), status(folder)
        seconds = time.perf_counter() - begun
        calm.wait()
        same = results_digest(Path(place, "calm")) == results_digest(folder)
        print(f"{said}, {found['finished']} of {tasks} finished in {seconds:.0f} s, digest as undisturbed: {same}")


def show(results: dict[tuple[int, str], dict[str, float]]) -> None:
    """All figures beside one another."""
    table = Table("tasks", "where", *next(iter(results.values())), box=None, pad_edge=False)
    for (tasks, where), found in results.items():
        table.add_row(f"{tasks}", where, *(f"{value:.3g}" for value in found.values()))
    Console(width=200).print(table)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    options.add_argument("--kills", type=int, default=0, help="of clients and workers, half of each")
    options.add_argument("--killed-tasks", type=int, default=20_000, help="of the sweep that is killed, 1 ms each")
    options.add_argument("--slurm", type=int, default=0, help="kills of jobs, workers and clients on a Slurm")
    options.add_argument("--slurm-tasks", type=int, default=100_000, help="of that sweep, 5 ms each")
    options.add_argument("--rivals", help="a Python with Optuna and Ray")
    options.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.case:
        print(json.dumps(case(int(given.case[0]), given.case[1])))
        return
    if given.run:
        folder, tasks, where, work = given.run
        run(Path(folder), int(tasks), float(work), **WHERE[where])
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if given.tasks:
        show({(tasks, where): measured(tasks, where) for tasks in given.tasks for where in (HERE, ON_WORKERS)})
    if given.kills:
        disturbed(given.killed_tasks, given.kills)
    if given.slurm:
        disturbed_on_slurm(given.slurm_tasks, given.slurm)
    if given.rivals:
        subprocess.run([given.rivals, str(Path(__file__).with_name("sweep_rivals.py"))], check=True)


if __name__ == "__main__":
    main()
