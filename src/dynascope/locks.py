"""Locks on folders, which the system drops with the process that holds them."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held_lock(path: Path, patience: float = 0.0) -> Iterator[bool]:
    """Lock a file that nothing is ever written to, and that may not be a link; say whether it could be had.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with held_lock(Path(folder) / ".lock") as first, held_lock(Path(folder) / ".lock") as second:
    ...         first, second
    (True, False)
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ValueError(f"{str(path)!r} must be a file that can be written, not a link ({error})") from error
    try:
        yield _locks(handle, time.monotonic() + patience)
    finally:
        os.close(handle)  # which unlocks


def _locks(handle: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        else:
            return True
