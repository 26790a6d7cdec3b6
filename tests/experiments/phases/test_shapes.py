"""Shapes of load curves, and whether accuracy is best where they are straightest."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.phases.shapes import bend, straight


def _curve(values):
    return xr.DataArray(values, dims="layer")


def test_shapes():
    layers = np.arange(8.0)
    assert float(bend(_curve(-(layers**2)))) == pytest.approx(2.0)
    assert float(bend(_curve(layers**2))) == pytest.approx(-2.0)
    assert float(straight(_curve(3 - 2 * layers))) == pytest.approx(1.0)
    assert float(straight(_curve(-(layers**2)))) < 0.97


def test_the_straightest_curve_with_the_worst_accuracy_is_caught(failed):
    layers, bends = np.arange(8), np.array([0.0, 0.1, 0.2])
    load = np.broadcast_to((-layers - bends[:, None] * layers**2)[None, :, None], (2, 3, 4, 8))
    score = np.broadcast_to(np.array([0.5, 0.9, 0.9])[None, :, None], (2, 3, 4)) + 1e-3 * np.arange(4)
    dims = ("kind", "setting", "trial")
    record = xr.Dataset({"load": ((*dims, "layer"), load), "score": (dims, score)})
    assert failed("phases/much_data", record) == {"fig-s12a-accuracy", "fig-s12b-accuracy"}
    assert not failed("phases/much_data", record.assign(score=1 - record["score"]))
