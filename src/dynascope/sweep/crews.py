"""Workers that a sweep starts elsewhere, as jobs of Slurm or by ssh, and keeps at their number until it ends."""

import asyncio
import hashlib
import json
import os
import platform
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import dask
import distributed

from dynascope.files import scratch_folder
from dynascope.sweep.cluster import ALLOWED_DEATHS, certificates, started
from dynascope.sweep.places import Slurm, Ssh, walltime_seconds

PAUSE = 2.0  # seconds between two looks at who has ended
LOG_END = 1500  # characters of the log of a worker that are shown
MOST_MARGIN = 300  # seconds before a job's time is over in which its workers leave; less for short jobs
ENDING = 10.0  # seconds that a worker reached by ssh may take to end
_LOOPBACK = ("localhost", "127.0.0.1")


class _Means(Protocol):
    """How members of a crew are started and stopped; each has a slot, and is told from others there by a handle."""

    def begin(self, slot: int, name: str) -> str: ...
    def ended(self, handles: Sequence[str]) -> list[str]: ...
    def log(self, handle: str) -> str: ...
    def stop(self) -> None: ...


class Crew:
    """Members at work: who ends before the sweep is replaced, until none of them has brought a result for long.

    cluster: the scheduler that they join, in this process
    """

    def __init__(self, cluster: distributed.SpecCluster, means: _Means, size: int) -> None:
        self.cluster = cluster
        self._means, self._allowed = means, size + ALLOWED_DEATHS
        self._started, self._ends = 0, 0  # members in all; those that ended since a result came
        self._failure: Exception | None = None
        self._over = threading.Event()
        self._size, self._members = size, list[str]()
        self._thread = threading.Thread(target=self._watch, name="crew", daemon=True)

    def start(self) -> None:
        """Start all members, and look after them from now on."""
        self._members += [self._begin(slot) for slot in range(self._size)]
        self._thread.start()

    def _begin(self, slot: int) -> str:
        self._started += 1
        return self._means.begin(slot, f"{slot}-{self._started}")

    def check(self, arrived: bool) -> None:
        """Take note of results that came in; raise where no more can be expected."""
        if arrived:
            self._ends = 0
        if self._failure is not None:
            raise self._failure

    def _watch(self) -> None:
        while not self._over.wait(PAUSE) and self._failure is None:
            try:
                self._replace()
            except Exception as error:  # said by the thread that works
                self._failure = error

    def _replace(self) -> None:
        for handle in self._means.ended(self._members):
            self._ends += 1
            if self._ends > self._allowed:
                raise ConnectionError(
                    f"{self._ends} workers were started and ended one after another while no result came; finished "
                    f"results are kept. The log of the last one ends: {self._means.log(handle)}"
                )
            slot = self._members.index(handle)
            try:
                self._members[slot] = self._begin(slot)
            except ConnectionError:  # Slurm may be back at the next look
                if self._ends == self._allowed:
                    raise

    def close(self) -> None:
        """Stop looking, and all members."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._means.stop()


@contextmanager
def hired(place: Slurm | Ssh, folder: Path, *, gpu: bool) -> Iterator[Crew]:
    """Start a scheduler in this process, and a crew that works for it, with certificates of this run alone.

    folder: of the sweep; jobs of Slurm find their certificates in it
    gpu: whether the experiment uses GPUs
    """
    with scratch_folder("workers", folder.resolve()) as scratch:
        security = certificates(scratch)
        with started([], scratch, security, _listen(place)) as cluster:
            means: _Means
            if isinstance(place, Slurm):
                means = _Jobs(place, cluster.scheduler_address, security, scratch)
            else:
                means = _Shells(place, cluster.scheduler_address, security, scratch, gpu=gpu)
            crew = Crew(cluster, means, len(place.hosts) if isinstance(place, Ssh) else int(place.jobs))
            try:
                crew.start()
                yield crew
            finally:
                crew.close()


def _listen(place: Slurm | Ssh) -> str:
    if place.listen is not None:
        try:
            with socket.socket() as tried:
                tried.bind((place.listen, 0))
        except OSError as error:
            raise ValueError(
                f"listen must be an IPv4 address of this machine, got {place.listen!r} ({error})"
            ) from error
        return place.listen
    near = isinstance(place, Ssh) and all(host.rpartition("@")[2] in _LOOPBACK for host in place.hosts)
    return "127.0.0.1" if near else str(distributed.utils.get_ip())


def _python_path() -> str:
    """Where this program finds modules, so that workers find the same."""
    return os.pathsep.join(dict.fromkeys(os.path.abspath(each) for each in sys.path if os.path.exists(each or ".")))


class _Jobs:
    """Jobs of Slurm. All have one name, which follows from the folder: those of a sweep that was killed are found."""

    def __init__(self, place: Slurm, address: str, security: distributed.Security, scratch: Path) -> None:
        try:
            import dask_jobqueue.slurm  # noqa: PLC0415 (only for Slurm)
        except ImportError as error:
            raise ValueError(
                "scheduler \"slurm\" needs dask-jobqueue; install it: pip install 'dynascope[sweep]'"
            ) from error
        self._job = dask_jobqueue.slurm.SLURMJob
        self._logs = scratch
        where = f"{platform.node()}:{scratch.parent}"
        self._name = f"dynascope-{hashlib.sha256(where.encode()).hexdigest()[:12]}"
        own = dask.config.get("jobqueue.slurm")
        walltime = place.walltime or own["walltime"]
        lasts = walltime_seconds(walltime)
        arguments = {
            f"--tls-{key.replace('_', '-')}": value
            for key, value in security.get_tls_config_for_role("worker").items()
            if value
        }
        arguments |= {"--memory-limit": "0", "--lifetime": f"{lasts - min(MOST_MARGIN, lasts / 10):g}s"}
        arguments |= {"--resources": "GPU=1"} if place.gpu else {}
        output = str(scratch).replace("%", "%%")
        self._options = {
            "scheduler": address,
            "queue": place.partition,
            "walltime": walltime,
            "memory": place.memory or own["memory"] or "1GB",
            "cores": int(place.workers),
            "processes": int(place.workers),
            "job_name": self._name,
            "python": shlex.quote(own["python"] or sys.executable),
            "job_directives_skip": [
                *own["job-directives-skip"],
                *([] if place.memory or own["memory"] else ["--mem="]),
            ],
            "job_extra_directives": [
                *own["job-extra-directives"],
                f"--output={shlex.quote(output)}/%j.log",
                *(["--gres=gpu:1"] if place.gpu else []),
            ],
            "job_script_prologue": [*own["job-script-prologue"], f"export PYTHONPATH={shlex.quote(_python_path())}"],
            "worker_extra_args": [
                *own["worker-extra-args"],
                "--no-dashboard",
                *(f"{name} {shlex.quote(value)}" for name, value in arguments.items()),
            ],
        }
        _slurm("scancel", f"--name={self._name}")  # jobs of a sweep in this folder that was killed

    def begin(self, slot: int, name: str) -> str:
        job = self._job(name=name, **self._options)
        try:
            asyncio.run(job.start())
        except RuntimeError as error:
            raise ConnectionError(f"Slurm refuses a job: {str(error).partition('stderr:')[2].strip()}") from error
        return str(job.job_id)

    def ended(self, handles: Sequence[str]) -> list[str]:
        listed = _slurm("squeue", "--noheader", f"--name={self._name}", "--format=%A")
        return [] if listed is None else [each for each in handles if each not in listed.split()]

    def log(self, handle: str) -> str:
        return _end_of(self._logs / f"{handle}.log")

    def stop(self) -> None:
        _slurm("scancel", f"--name={self._name}")


def _slurm(*command: str) -> str | None:
    """What a program of Slurm says; None where Slurm does not answer now."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ValueError(
            f'scheduler "slurm" needs {command[0]} on the PATH of this machine: start the sweep where jobs are started'
        ) from error
    return done.stdout if not done.returncode else None


class _Shells:
    """Workers started by ssh, which hands them their certificates through its standard input and ends with this one."""

    def __init__(self, place: Ssh, address: str, security: distributed.Security, scratch: Path, *, gpu: bool) -> None:
        self._place, self._logs = place, scratch
        order = {"address": address, "workers": int(place.workers), "gpu": gpu}
        files = security.get_tls_config_for_role("worker")
        self._order = order | {"key": Path(files["key"]).read_text(), "certificate": Path(files["cert"]).read_text()}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, slot: int, name: str) -> str:
        far = (
            f"PYTHONPATH={shlex.quote(_python_path())} exec {shlex.quote(sys.executable)} -m dynascope.sweep.ssh_worker"
        )
        command = [*shlex.split(self._place.command), "-o", "BatchMode=yes", "--", self._place.hosts[slot], far]
        try:
            with (self._logs / f"{name}.log").open("wb") as log:
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        except FileNotFoundError as error:
            raise ValueError(f"command must be a program on the PATH of this machine, got {command[0]!r}") from error
        self._running[name] = process
        with suppress(BrokenPipeError):  # it has ended already, which is seen at the next look
            assert process.stdin is not None
            process.stdin.write(json.dumps(self._order | {"name": name}).encode() + b"\n")
            process.stdin.flush()
        return name

    def ended(self, handles: Sequence[str]) -> list[str]:
        return [each for each in handles if self._running[each].poll() is not None]

    def log(self, handle: str) -> str:
        return _end_of(self._logs / f"{handle}.log")

    def stop(self) -> None:
        for process in self._running.values():
            if process.stdin is not None:
                process.stdin.close()  # tells the worker to end, and ssh with it
        for process in self._running.values():
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _end_of(log: Path) -> str:
    try:
        return log.read_text(errors="replace")[-LOG_END:].strip() or "(nothing)"
    except OSError:
        return "(there is none)"
