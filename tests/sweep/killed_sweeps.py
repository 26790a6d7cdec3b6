"""Sweep in a child, kill it with signal 9 at a random moment, start again in the same folder; then finish.

After each death the folder must hold whole packs, and what it held before. Prints how many results it held each time.
"""

import json
import os
import random
import signal
import sys
import time

import numpy as np
from small_experiments import PACKED

from dynascope.sweep import pack_runner, sweep
from dynascope.sweep.folder import RESULTS, SweepFolder
from dynascope.sweep.plan import make_packs, make_plan

GRID = {"drift": np.linspace(0, 1, 9)}


def killed_once(out, enough, wait):
    """Kill it a moment after the folder holds `enough` results, however long these take."""
    process = os.fork()
    if process == 0:
        pack_runner.BATCH_SECONDS = 0.0  # each pack is a batch
        sweep(PACKED, GRID, out, seeds=4, scheduler="here")
        os._exit(0)
    late = time.perf_counter() + 60
    while len(SweepFolder(out).keys(RESULTS)) < enough:
        assert time.perf_counter() < late, "the sweep does not go on"
        time.sleep(0.001)
    time.sleep(wait)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def main(out, times):
    tasks = make_plan(PACKED, GRID, seeds=4).tasks
    packs = make_packs(PACKED, tasks, 30.0)
    moments = random.Random(5)
    folder, before, held = SweepFolder(out), set(), []
    for _ in range(times):
        killed_once(out, min(len(before) + moments.randint(0, 5), len(tasks)), moments.uniform(0.0, 0.02))
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
