"""Experiments that take milliseconds, for the tests of sweeps, and what they left in a folder."""

import os
import time

import numpy as np
import xarray as xr

from dynascope import digest
from dynascope.sweep import Workload
from dynascope.sweep.folder import SweepFolder


def walk(drift=0.0, noise=1.0, steps=5, seed=0, pause=0.0, log=""):
    """A random walk; says in a file that it was computed."""
    time.sleep(pause)
    path = np.cumsum(drift + noise * np.random.default_rng(seed).normal(size=steps))
    if log:
        with open(log, "ab", buffering=0) as stream:
            stream.write(f"{drift:g} {noise:g} {seed}\n".encode())
    return xr.Dataset({"position": ("time", path), "end": path[-1]}, coords={"time": np.arange(1, steps + 1)})


def walk_packs(pack):
    """The same, many at once: what is said in the file is which ran together."""
    assert len({each["steps"] for each in pack}) == 1, "steps are shared"
    runs = [walk(**(each | {"log": ""})) for each in pack]
    if pack[0]["log"]:
        with open(pack[0]["log"], "ab", buffering=0) as stream:
            stream.write((" ".join(f"{each['drift']:g}/{each['seed']}" for each in pack) + "\n").encode())
    return runs


PACKED = Workload(
    walk_packs,
    {"drift": 0.0, "noise": 1.0, "steps": 5, "seed": 0, "pause": 0.0, "log": ""},
    shared=("steps",),
    seconds=10.0,
)


def fragile(x, seed=0):
    """Raises for x = 2."""
    if x == 2:
        raise ZeroDivisionError("x is two")
    return {"double": 2.0 * x, "name": f"run {seed}", "sign": x > 0, "count": int(x)}


def deadly(x):
    """Takes its worker with it."""
    if x == 1:
        os.kill(os.getpid(), 9)
    return {"x": x}


def no_record(x):
    """What netCDF cannot hold."""
    return xr.Dataset({"z": complex(x, 1)})


def whereabouts(x=0, pause=0.0, meet="", people=1):
    """Says which process ran it, in which job of Slurm or with which GPU; waits for others to work at the same time."""
    time.sleep(pause)
    if meet:
        late = time.monotonic() + 300
        open(f"{meet}/{os.getpid()}", "w").close()
        while len(os.listdir(meet)) < people:
            assert time.monotonic() < late, "the others do not come"
            time.sleep(0.02)
    names = ("SLURM_JOB_ID", "SLURM_JOB_PARTITION", "SLURM_MEM_PER_NODE", "SSH_CONNECTION", "CUDA_VISIBLE_DEVICES")
    return xr.Dataset({"process": os.getpid()} | {name.lower(): os.environ.get(name, "") for name in names})


def digests(out):
    """Digests of the results, by address."""
    return {key: digest(record) for key, record in SweepFolder(out).records()}
