"""Where a sweep can start workers other than on this machine: as jobs of Slurm, or on machines reached by ssh."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dynascope.checks import Given, count, flag

_WALLTIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<fields>\d+(?::\d+){0,2})")
_MEMORY = re.compile(r"\d+(\.\d+)? ?([KMGT]i?B?)", re.IGNORECASE)


@dataclass(frozen=True)
class Slurm:
    """Workers as jobs of Slurm, started from a machine that has `sbatch`; a job that ends is followed by another.

    jobs: how many at a time
    workers: in each job, with a core each
    partition, walltime (hours:minutes:seconds, days-hours, …), memory of a job (4GB): as Slurm takes them. Not given,
        they are those of your Dask-jobqueue configuration, which also holds accounts and other directives; else Slurm's
        own, and 30 minutes.
    gpu: each job asks for a GPU, for its only worker
    listen: address of this machine that the jobs can reach; found by itself if not given

    The folder of the sweep must be seen by the jobs: certificates lie there while the sweep runs.

    >>> Slurm(jobs=4, partition="short", walltime="00:20:00").jobs
    4
    """

    jobs: Given[int]
    workers: Given[int] = 1
    partition: str | None = None
    walltime: str | None = None
    memory: str | None = None
    gpu: Given[bool] = False
    listen: str | None = None

    def __post_init__(self) -> None:
        count("jobs", self.jobs)
        if count("workers", self.workers) > 1 and flag("gpu", self.gpu):
            raise ValueError(f"workers must be 1 where each job has a GPU, got {self.workers}; ask for more jobs")
        if self.walltime is not None:
            walltime_seconds(self.walltime)
        if self.memory is not None and not _MEMORY.fullmatch(self.memory):
            raise ValueError(f"memory must be an amount such as 4GB or 500MB, got {self.memory!r}")
        for name in ("partition", "listen"):
            _require_word(name, getattr(self, name))

    @property
    def size(self) -> int:
        """Workers of all jobs."""
        return int(self.jobs) * int(self.workers)


@dataclass(frozen=True)
class Ssh:
    """Workers on machines that are reached by ssh, without a password, with the same environment at the same path.

    hosts: names or user@name; twice means two workers
    workers: at each entry of `hosts`; where the experiment uses GPUs and a host has some, one on each of them instead
    command: the program with its options, `ssh -F config -p 2222`
    listen: address of this machine that the hosts can reach; found by itself if not given

    A worker that ends is started again, and all end with the sweep. Certificates travel through ssh.

    >>> Ssh(hosts=["node1", "node2"]).size
    2
    """

    hosts: Sequence[str]
    workers: Given[int] = 1
    command: str = "ssh"
    listen: str | None = None

    def __post_init__(self) -> None:
        count("workers", self.workers)
        if isinstance(self.hosts, str) or not self.hosts:
            raise ValueError(f"hosts must be a list of at least one host, got {self.hosts!r}")
        for host in self.hosts:
            _require_word("hosts", host)
        if not self.command.strip():
            raise ValueError("command must be a program with its options, such as 'ssh -p 2222', got nothing")
        _require_word("listen", self.listen)

    @property
    def size(self) -> int:
        """Workers on all hosts, if none has a GPU."""
        return len(self.hosts) * int(self.workers)


def _require_word(name: str, text: str | None) -> None:
    """What becomes an argument of a program must not look like an option of it."""
    if text is not None and not re.fullmatch(r"[^\s\-][^\s]*", text):
        raise ValueError(f"{name} must be a word without spaces that does not begin with -, got {text!r}")


def walltime_seconds(text: str) -> int:
    """Seconds of a time limit as Slurm writes it.

    >>> walltime_seconds("90"), walltime_seconds("00:20:00"), walltime_seconds("1-6"), walltime_seconds("10:30")
    (5400, 1200, 108000, 630)
    """
    found = _WALLTIME.fullmatch(text)
    if found is None:
        raise ValueError(f"walltime must be hours:minutes:seconds, minutes or days-hours, got {text!r}")
    fields = [int(each) for each in found["fields"].split(":")]
    largest = 0 if found["days"] is not None or len(fields) == 3 else 1  # hours first, or minutes
    seconds = 86400 * int(found["days"] or 0)
    seconds += sum(unit * field for unit, field in zip((3600, 60, 1)[largest:], fields, strict=False))
    if not seconds:
        raise ValueError(f"walltime must be above 0, got {text!r}")
    return seconds
