"""Sweep in a child, kill it with signal 9 at a random moment, start again in the same folder; then finish.

After each death the folder must hold whole packs, and what it held before. Prints how many results it held each time.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from small_experiments import PACKED

from dynascope.sweep import sweep
from dynascope.sweep.folder import RESULTS, SweepFolder
from dynascope.sweep.plan import make_packs, make_plan

GRID = {"drift": np.linspace(0, 1, 9)}


def killed_once(out, wait):
    process = os.fork()
    if process == 0:
        sweep(PACKED, GRID, out, seeds=4, scheduler="here")
        os._exit(0)
    time.sleep(wait)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def main(out, times):
    begun = time.perf_counter()
    sweep(PACKED, GRID, Path(out).with_name("warm"), seeds=4, scheduler="here")
    whole = time.perf_counter() - begun
    packs = make_packs(PACKED, make_plan(PACKED, GRID, seeds=4).tasks, 30.0)
    moments = random.Random(5)
    folder, before, held = SweepFolder(out), set(), []
    for _ in range(times):
        killed_once(out, moments.uniform(0.0, 0.4 * whole))
        with folder.locked():
            finished = folder.keys(RESULTS)
        assert before <= finished
        for pack in packs:
            assert len({task.key for task in pack} & finished) in (0, len(pack)), "half a pack"
        before = finished
        held.append(len(finished))
    sweep(PACKED, GRID, out, seeds=4, scheduler="here")
    json.dump(held, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
