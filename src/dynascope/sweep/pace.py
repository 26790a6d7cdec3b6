"""How fast a sweep goes, from what its batches say of themselves; what is left of it, in time and money."""

import time
from collections.abc import Sequence

from dynascope.progress import duration
from dynascope.sweep.batches import Head

RECENT = 60.0  # seconds whose batches tell how fast it goes now


def seconds_each(heads: Sequence[Head]) -> float | None:
    """Seconds of work that a task took on one core, on average; None before the first.

    >>> seconds_each([Head(["a1", "a2"], {}, 3.0, 0.0)])
    1.5
    """
    count = sum(_tasks(head) for head in heads)
    return sum(head.seconds for head in heads) / count if count else None


def seconds_left(heads: Sequence[Head], missing: int, now: float | None = None) -> float | None:
    """Seconds until nothing is missing, at the pace of the last minute over all workers; None where nothing came in.

    >>> seconds_left([Head(["a1", "a2"], {}, 3.0, ended=100.0)], missing=4, now=101.0)
    8.0
    """
    now = time.time() if now is None else now
    recent = [head for head in heads if now - RECENT < head.ended <= now]
    if not recent:
        return None
    begun = min(head.ended - head.seconds for head in recent)
    return missing * (now - begun) / sum(_tasks(head) for head in recent)


def _tasks(head: Head) -> int:
    return len(head.keys) + len(head.failures)


def estimate(tasks: int, each: float, workers: int | None, price: float | None) -> str:
    """What a sweep will take, in words.

    each: seconds of work of a task on one core. workers: None if not known. price: of one worker for an hour.

    >>> estimate(1000, 7.2, 4, 0.5)
    '1000 tasks: about 2.0 h of work on one core, 30.0 min on 4 workers, cost about 1'
    """
    work = tasks * each
    words = [f"{tasks} tasks: about {duration(work)} of work on one core"]
    if workers is not None and workers > 1:
        words.append(f"{duration(work / min(workers, tasks))} on {workers} workers")
    if price is not None:
        words.append(f"cost about {work / 3600 * price:.2g}")
    return ", ".join(words)
