"""What figures read off trained networks."""

import numpy as np
import xarray as xr

from dynascope.experiments.deep_linear.reading import time_to_reach


def test_times_to_reach():
    amplitude = np.stack([np.linspace(0, 1, 11), np.zeros(11), np.full(11, 2.0)], axis=1)
    run = xr.Dataset(
        {"amplitude": (("time", "mode"), amplitude)}, {"time": np.arange(11.0), "singular_value": ("mode", [1.0] * 3)}
    )
    np.testing.assert_allclose(time_to_reach(run, 0.55), [5.5, np.nan, 0.0])
