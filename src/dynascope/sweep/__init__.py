"""Sweeps: many configurations of an experiment, over one process, the cores of a machine, or a cluster.

>>> import tempfile
>>> from dynascope.sweep import sweep
>>> def decay(time, seed=0):
...     return {"left": 0.5 ** time}
>>> with tempfile.TemporaryDirectory() as folder:
...     table = sweep(decay, grid={"time": [1.0, 2.0]}, seeds=3, out=folder, scheduler="here")
>>> table["left"].sel(time=2.0).values.tolist()
[0.25, 0.25, 0.25]
"""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, former={"Sweepable": "dynascope.sweep.Workload"})
