"""How far work is and how long it takes, for people: a progress bar for work over two seconds, on a terminal only."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds of silence before the bar appears


def shown(show: bool | None) -> bool:
    """Whether anything is drawn: what the user says, or whether there is a terminal.

    >>> shown(False)
    False
    """
    return sys.stderr.isatty() if show is None else show


@contextmanager
def progress_bar(label: str, total: float, show: bool | None = None) -> Iterator[Callable[..., None]]:
    """Yield a function that reports how much of `total` is done, and how it goes: done(5, lambda: "loss 0.3").

    `show=None` draws on a terminal once the work has taken two seconds, True draws at once, False never.

    >>> with progress_bar("counting", 10) as done:
    ...     done(5)
    """
    if not shown(show):
        yield lambda amount, note=None: None
        return
    from rich.console import Console  # noqa: PLC0415 (a tenth of a second, only where something is drawn)
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=600.0,  # seconds; tasks of a sweep take up to a minute each
    )
    task = bar.add_task(label, total=total)
    begun = time.monotonic()

    def done(amount: float, note: Callable[[], str] | None = None) -> None:
        bar.update(task, completed=amount, description=label if note is None else f"{label} {note()}")
        if not bar.live.is_started and (show or time.monotonic() - begun > PATIENCE):
            bar.start()

    try:
        yield done
    finally:
        bar.stop()
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(0.31), duration(42.4), duration(200), duration(9000)
    ('0.3 s', '42 s', '3.3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
