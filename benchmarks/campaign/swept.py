"""What is swept. Workers import this file, so it is light."""

import os
from pathlib import Path

import numpy as np

DONE = "CAMPAIGN_DONE"  # the file that says what was computed
BROKEN = "CAMPAIGN_BROKEN"  # set while a sweep is prepared whose tasks must fail


def note(unit: object) -> None:
    """Say that a piece of work was begun, where the campaign counts them."""
    if DONE in os.environ:
        log(Path(os.environ[DONE]), unit)


def log(path: Path, unit: object, _write=os.write) -> None:  # the write of before the campaign counts writes
    """Add a line that a kill leaves whole or out."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        _write(file, f"{unit}\n".encode())
    finally:
        os.close(file)


def walk(drift: float, seed: int = 0) -> dict[str, float]:
    """A random walk's end; fails at drift 1 while BROKEN is set."""
    note(f"{drift:g}/{seed}")
    if os.environ.get(BROKEN) and drift == 1:
        raise RuntimeError("broken for now")
    return {"end": float(np.cumsum(drift + np.random.default_rng(seed).normal(size=2000))[-1])}
