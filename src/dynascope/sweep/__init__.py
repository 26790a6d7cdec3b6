"""Sweeps: many configurations of an experiment, over one process, the cores of a machine, or a cluster.

>>> import tempfile
>>> def decay(time, seed=0):
...     return {"left": 0.5 ** time}
>>> with tempfile.TemporaryDirectory() as folder:
...     table = sweep(decay, grid={"time": [1.0, 2.0]}, seeds=3, out=folder, scheduler="here")
>>> table["left"].sel(time=2.0).values.tolist()
[0.25, 0.25, 0.25]
"""

from typing import Any

from dynascope.deprecation import new_name
from dynascope.sweep.running import asked, status, sweep
from dynascope.sweep.table import gather
from dynascope.sweep.workload import Workload

__all__ = ["Workload", "asked", "gather", "status", "sweep"]


def __getattr__(name: str) -> Any:
    return globals()[new_name("dynascope.sweep", name, {"Sweepable": "Workload"})]
