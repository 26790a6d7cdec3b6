"""The claims on the one-mode equation can fail, and fail for the right reason."""

import functools

import numpy as np
import pytest

from dynascope import ModeEquation
from dynascope.experiments import registry
from dynascope.models.mode_equation.model import Peak


@functools.cache
def _record(name):
    """Computed once with the right formulas; what is spoilt is what `check` compares it with."""
    experiment = registry.find(f"deep_linear/{name}")
    return experiment.run(experiment.config("smoke"))


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
def test_a_wrong_formula_is_caught(case, monkeypatch):
    name, method, spoil, expected = WRONG[case]
    record, right = _record(name), getattr(ModeEquation, method)
    assert not expected & _failed(name, record)
    monkeypatch.setattr(ModeEquation, method, lambda self, *a, **k: spoil(right, self, *a, **k))
    assert expected <= _failed(name, record)


def _failed(name, record):
    claims = registry.find(f"deep_linear/{name}").check(record)
    return {claim.id for claim in claims if claim.verdict == "not reproduced"}


def test_a_wrong_equation_is_caught(monkeypatch):
    """A density that follows the printed drift is not that of simulated modes."""
    right = ModeEquation.density_path

    def published(self, *a, **k):
        fields = {name: getattr(self, name) for name in ("depth", "singular_value", "temperature", "label_noise")}
        return right(ModeEquation(**fields, ito="published"), *a, **k)

    experiment = registry.find("deep_linear/mode_density")
    monkeypatch.setattr(ModeEquation, "density_path", published)
    claims = experiment.check(experiment.run(experiment.config("smoke")))
    assert "mode-prop5.1" in {claim.id for claim in claims if claim.verdict == "not reproduced"}
