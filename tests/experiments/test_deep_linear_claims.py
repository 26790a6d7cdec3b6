"""The claims on deep linear networks can fail, and fail for the right reason."""

import numpy as np
import pytest
import xarray as xr

from dynascope import DeepLinear
from dynascope.experiments import registry
from dynascope.experiments.deep_linear import aligned_modes, diffusion_peaks, gradient_flow, timescales
from dynascope.experiments.deep_linear.reading import time_to_reach


def _failed(claims):
    return {claim.id for claim in claims if claim.verdict == "not reproduced"}


def test_wrong_objects_are_caught(monkeypatch):
    """Every exact object spoilt by 20 % at once: each claim about it must notice."""
    names = ("gradient", "noise_covariance", "mode_diffusion", "mode_hessian", "ito_drift", "tangent_kernel")
    for name in names:
        right = getattr(DeepLinear, name)

        def spoilt(self, *a, right=right, **k):
            values = right(self, *a, **k)
            return [1.2 * each for each in values] if isinstance(values, list) else 1.2 * values

        monkeypatch.setattr(DeepLinear, name, spoilt)
    _, claims = registry.find("deep_linear/exact_objects").evaluate("smoke")
    assert _failed(claims) == {
        "prop-3.1-gradient",
        "prop-3.2-covariance",
        "prop-3.2-factors",
        "prop-3.3-diffusion",
        "prop-3.3-ntk",
        "prop-3.4-hessian",
        "prop-3.4-ito",
        "isotropic-diffusion",
    }


@pytest.fixture(scope="module")
def aligned():
    return aligned_modes.run(aligned_modes.SCALES["smoke"])


def test_a_wrong_drift_is_caught(aligned, monkeypatch):
    assert not _failed(aligned_modes.check(aligned))
    right = DeepLinear.aligned_ito_drift
    monkeypatch.setattr(DeepLinear, "aligned_ito_drift", lambda self, w, **options: 1.2 * right(self, w, **options))
    assert _failed(aligned_modes.check(aligned)) == {"eq6-ito", "eq4-independent"}


def test_a_wrong_diffusion_is_caught(aligned, monkeypatch):
    right = DeepLinear.predicted_diffusion
    monkeypatch.setattr(DeepLinear, "predicted_diffusion", lambda self, w: 1.1 * right(self, w))
    assert _failed(aligned_modes.check(aligned)) == {"eq7-diffusion"}


def test_a_wrong_curve_is_caught(monkeypatch):
    record = gradient_flow.run(gradient_flow.SCALES["smoke"])
    right = gradient_flow.logistic
    monkeypatch.setattr(gradient_flow, "logistic", lambda t, s, w: right(1.05 * t, s, w))
    assert "eq3-logistic" in _failed(gradient_flow.check(record))


def test_wrong_figures_are_caught():
    record = diffusion_peaks.run(diffusion_peaks.PEAKS.scales["smoke"])
    check = diffusion_peaks.PEAKS.check
    assert not _failed(check(record))
    higher = record.assign(predicted_diffusion=4 * record["predicted_diffusion"])
    assert _failed(check(higher)) == {"fig-1-height"}
    late = record.assign(diffusion=record["diffusion"].roll(time=80))
    assert {"fig-1-time", "fig-1-precedes"} <= _failed(check(late))
    swapped = record.isel(mode=[2, 1, 0]).assign_coords(mode=record["mode"])
    assert "fig-1-order" in _failed(check(swapped))


def test_other_times_are_caught():
    learned = np.random.default_rng(0).normal(1.0, 0.01, (4, 32, 3)) * np.array([8.0, 13.0, 26.0])
    slower = {"gd": 1.0, "sgd": 1.0, "langevin": 1.0, "sgd, mean loss": 6.0}

    def judged(**changed):
        factors = np.array(list((slower | changed).values()))[:, None, None]
        values = (("optimiser", "trial", "mode"), learned * factors)
        record = xr.Dataset({"learned": values, "peak": (values[0], 0.9 * values[1])}, {"optimiser": list(slower)})
        return _failed(timescales.check(record.assign_attrs(parameters='{"width": 12}')))

    assert judged() == set()
    assert judged(sgd=1.1) == {"fig-3-same-time", "fig-3-modes"}
    assert judged(**{"sgd, mean loss": 5.0}) == {"fig-3-mean-loss"}


def test_passage_times():
    amplitude = np.stack([np.linspace(0, 1, 11), np.zeros(11), np.full(11, 2.0)], axis=1)
    run = xr.Dataset(
        {"amplitude": (("time", "mode"), amplitude)}, {"time": np.arange(11.0), "singular_value": ("mode", [1.0] * 3)}
    )
    np.testing.assert_allclose(time_to_reach(run, 0.55), [5.5, np.nan, 0.0])
