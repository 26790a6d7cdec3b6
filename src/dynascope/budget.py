"""What a run costs, estimated before it begins: what this machine has no memory or time for is refused."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

COPIES = 3  # of what a run holds, while it is laid out and written: measured over all families, from 1.6 to 3.6
RATE = 5e7  # numbers that a core steps in a second, within a factor of a few
LONGEST = 7 * 24.0  # hours
_limited: ContextVar[bool] = ContextVar("limited", default=True)
_GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def unlimited(anything: bool = True) -> Iterator[None]:
    """Run also what seems to need more memory or time than there is.

    anything: False keeps the limits, for who decides by a flag

    >>> with unlimited():
    ...     require_room({"trials": 10**12}, 10**14)
    """
    token = _limited.set(_limited.get() and not anything)
    try:
        yield
    finally:
        _limited.reset(token)


def require_room(
    sizes: Mapping[str, int], numbers: int, *, updates: int = 0, precision: str = "float64", free: int | None = None
) -> None:
    """Refuse a run that does not fit into the memory that is free, or that takes more than a week.

    sizes: what the cost grows with, by name, for the message
    numbers: that the run holds at once, in its state and in its record
    updates: how many numbers are changed, in all steps together
    free: bytes, where they are not this machine's

    >>> require_room({"trials": 100}, 10**6)
    >>> require_room({"trials": 10**12, "blocks": 7}, 7 * 10**12, free=8 * 10**9)
    Traceback (most recent call last):
    ValueError: trials = 1e+12 and blocks = 7 need about 1.7e+05 GB of memory, and 8 GB are free; choose smaller ones, \
or say that it may be tried all the same (--no-limit, in Python `with dynascope.budget.unlimited():`)
    """
    needed = COPIES * (4 if precision == "float32" else 8) * min(numbers, 1e200)
    hours = min(updates, 1e200) / RATE / 3600
    there = free_memory() if free is None else free
    if not _limited.get() or (needed <= there and hours <= LONGEST):
        return
    names = [f"{name} = {size if size < 1e9 else f'{min(size, 1e300):.3g}'}" for name, size in sizes.items()]
    cost = f"need about {needed / 1e9:.2g} GB of memory, and {there / 1e9:.2g} GB are free"
    if needed <= there:
        cost = f"take about {hours:.2g} hours, and at most {LONGEST:g} are allowed"
    raise ValueError(
        f"{', '.join(names[:-1])}{' and ' if names[1:] else ''}{names[-1]} {cost}; choose smaller ones, or say that it "
        "may be tried all the same (--no-limit, in Python `with dynascope.budget.unlimited():`)"
    )


def free_memory() -> int:
    """Bytes that this program can still take: of the machine, or of the group that the system confines it to.

    >>> free_memory() > 10**6
    True
    """
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError):  # other systems do not say more
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        free = int(found[1]) * 1024 if found else free
    own = ""
    with suppress(OSError):
        own = Path("/proc/self/cgroup").read_text().rpartition("::/")[2].strip()
    for group in {_GROUPS, _GROUPS / own}:
        with suppress(OSError, ValueError):  # no such group, or "max": no limit
            cache = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), re.MULTILINE)
            used = int((group / "memory.current").read_text()) - (int(cache[1]) if cache else 0)
            free = min(free, int((group / "memory.max").read_text()) - used)
    return max(free, 0)
