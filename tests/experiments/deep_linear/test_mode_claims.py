"""The claims on the one-mode equation can fail, and fail for the right reason."""

import numpy as np
import pytest

from dynascope import ModeEquation
from dynascope.experiments.deep_linear import mode_density, mode_stationary
from dynascope.models.mode_equation.model import Peak


def _scaled(factor):
    return lambda right, self, *a, **k: factor * right(self, *a, **k)


def _swapped(**changes):
    """Moments with some of them scaled."""

    def spoil(right, self, *a, **k):
        moments = right(self, *a, **k)
        return moments._replace(**{name: factor * getattr(moments, name) for name, factor in changes.items()})

    return spoil


WRONG = {
    # experiment, method, replacement, claims that must fail
    "gradient": ("mode_coefficients", "gradient_drift", _scaled(1.001), {"mode-eq5"}),
    "diffusion": ("mode_coefficients", "diffusion", _scaled(1.2), {"mode-eq7"}),
    "ito": ("mode_coefficients", "ito_drift", _scaled(1.2), {"mode-eq14", "mode-eq6"}),
    "zero": ("mode_coefficients", "stationary_moments", _swapped(drift_zero=1.001), {"mode-eq17-zero"}),
    "peak": (
        "mode_peak",
        "peak",
        lambda right, self: Peak(*(1.03 * part for part in right(self))),
        {"mode-eq9"},
    ),
    "bound": (
        "mode_peak",
        "peak",
        lambda right, self: Peak(np.nan_to_num(right(self).amplitude, nan=0.5), right(self).diffusion),
        {"mode-eq10"},
    ),
    "passage": ("mode_peak", "time_to_reach", _scaled(1.1), {"mode-eq3", "mode-peak-time"}),
    "clock": ("mode_density", "time_to_reach", _scaled(1.2), {"mode-clock"}),
    "mean": (
        "mode_stationary",
        "stationary_moments",
        _swapped(mean=1.0015),
        {"mode-eq17-mean", "mode-eq17-mean-sgd"},
    ),
    "variance": ("mode_stationary", "stationary_moments", _swapped(variance=1.15), {"mode-eq18", "mode-eq18-sgd"}),
    "mode": ("mode_stationary", "stationary_moments", _swapped(mode=1.03), {"mode-eq17-mode"}),
    "density": (
        "mode_stationary",
        "stationary_density",
        lambda right, self, w: right(self, np.asarray(w) + 0.02),
        {"mode-eq16"},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_formula_is_caught(case, smoke, failed, monkeypatch):
    """The record was made with the right formulas; what is spoilt is what it is held against."""
    name, method, spoil, expected = WRONG[case]
    record, right = smoke(f"deep_linear/{name}")[0], getattr(ModeEquation, method)
    assert not expected & failed(f"deep_linear/{name}", record)
    monkeypatch.setattr(ModeEquation, method, lambda self, *a, **k: spoil(right, self, *a, **k))
    assert expected <= failed(f"deep_linear/{name}", record)


def test_an_exponent_that_stays_finite_near_zero_is_caught(smoke, failed, monkeypatch):
    record, right = smoke("deep_linear/mode_stationary")[0], ModeEquation.diffusion
    monkeypatch.setattr(ModeEquation, "diffusion", lambda self, w: right(self, w) / np.asarray(w) ** 2)
    finite = record["decade"].copy(data=[mode_stationary._decade(depth) for depth in mode_stationary.DEPTHS])
    for wrong in (finite, 0 * record["decade"], 1.01 * record["decade"]):
        assert failed("deep_linear/mode_stationary", record.assign(decade=wrong)) == {"mode-eq16-limit"}


def test_a_wrong_equation_is_caught(smoke, failed, monkeypatch):
    """A density that follows the printed drift is not that of simulated modes."""
    right = ModeEquation.density_path

    def published(self, *a, **k):
        fields = {name: getattr(self, name) for name in ("depth", "singular_value", "temperature", "label_noise")}
        return right(ModeEquation(**fields, ito="published"), *a, **k)

    record, _ = smoke("deep_linear/mode_density")
    monkeypatch.setattr(ModeEquation, "density_path", published)
    _, path, shares = mode_density._spread_path(record.sizes["amplitude"])
    spoilt = record.assign(predicted_share=(("time", "bin"), shares), density=(("time", "amplitude"), path))
    assert failed("deep_linear/mode_density", spoilt) == {"mode-prop5.1"}
