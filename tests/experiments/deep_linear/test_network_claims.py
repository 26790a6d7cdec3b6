"""The claims on deep linear networks can fail, and fail for the right reason."""

import json

import numpy as np
import pytest
import xarray as xr

from dynascope import DeepLinear
from dynascope.experiments.deep_linear import gradient_flow
from dynascope.experiments.registry import find

ALIGNED, FLOW, PEAKS = (f"deep_linear/{name}" for name in ("aligned_modes", "gradient_flow", "diffusion_peaks"))


def _spoil(monkeypatch, name, factor):
    right = getattr(DeepLinear, name)

    def spoilt(self, *a, **k):
        values = right(self, *a, **k)
        return [factor * each for each in values] if isinstance(values, list) else factor * values

    monkeypatch.setattr(DeepLinear, name, spoilt)


@pytest.mark.ci
def test_wrong_objects_are_caught(monkeypatch):
    """Every exact object spoilt by 20 % at once: each claim about it must notice."""
    for name in ("gradient", "noise_covariance", "mode_diffusion", "mode_hessian", "ito_drift", "tangent_kernel"):
        _spoil(monkeypatch, name, 1.2)
    _, findings = find("deep_linear/exact_objects").evaluate("smoke")
    assert {finding.id for finding in findings if finding.fails("smoke")} == {
        "prop-3.1-gradient",
        "prop-3.2-covariance",
        "prop-3.2-factors",
        "prop-3.3-diffusion",
        "prop-3.3-ntk",
        "prop-3.4-hessian",
        "prop-3.4-ito",
        "isotropic-diffusion",
    }


@pytest.mark.ci
def test_a_wrong_drift_is_caught(smoke, failed, monkeypatch):
    record, _ = smoke(ALIGNED)
    assert not failed(ALIGNED, record)
    _spoil(monkeypatch, "aligned_ito_drift", 1.2)
    assert failed(ALIGNED, record) == {"eq6-ito", "eq4-independent"}


@pytest.mark.ci
def test_a_wrong_diffusion_is_caught(smoke, failed, monkeypatch):
    record, _ = smoke(ALIGNED)
    _spoil(monkeypatch, "predicted_diffusion", 1.1)
    assert failed(ALIGNED, record) == {"eq7-diffusion"}


def test_a_wrong_curve_is_caught(smoke, failed, monkeypatch):
    record, _ = smoke(FLOW)
    right = gradient_flow.logistic
    monkeypatch.setattr(gradient_flow, "logistic", lambda t, s, w: right(1.05 * t, s, w))
    assert "eq3-logistic" in failed(FLOW, record)


@pytest.mark.ci
def test_wrong_figures_are_caught(smoke, failed):
    record, _ = smoke(PEAKS)
    assert not failed(PEAKS, record)
    higher = record.assign(predicted_diffusion=4 * record["predicted_diffusion"])
    assert failed(PEAKS, higher) == {"fig-1-height"}
    late = record.assign(diffusion=record["diffusion"].roll(time=80))
    assert {"fig-1-time", "fig-1-precedes"} <= failed(PEAKS, late)
    swapped = record.isel(mode=[2, 1, 0]).assign_coords(mode=record["mode"])
    assert "fig-1-order" in failed(PEAKS, swapped)


def test_other_times_are_caught(failed):
    learned = np.random.default_rng(0).normal(1.0, 0.01, (4, 32, 3)) * np.array([8.0, 13.0, 26.0])
    slower = {"gd": 1.0, "sgd": 1.0, "langevin": 1.0, "sgd, mean loss": 6.0}

    def judged(**changed):
        factors = np.array(list((slower | changed).values()))[:, None, None]
        values = (("optimiser", "trial", "mode"), learned * factors)
        record = xr.Dataset({"learned": values, "peak": (values[0], 0.9 * values[1])}, {"optimiser": list(slower)})
        return failed("deep_linear/timescales", record.assign_attrs(config=json.dumps({"width": 12})))

    assert judged() == set()
    assert judged(sgd=1.1) == {"fig-3-same-time", "fig-3-modes"}
    assert judged(**{"sgd, mean loss": 5.0}) == {"fig-3-mean-loss"}
