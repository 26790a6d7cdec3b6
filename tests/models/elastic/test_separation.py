"""The theorem's verdict, and probabilities by the Gaussian law against simulated clouds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.strengths import Constant, Function, PowerLaw, Sampled


def verdict(intra, inter, classes=3, geometry="isotropic", features=None):
    return LocallyElastic(classes, features or classes, intra, inter, geometry).separation_verdict()


@given(st.integers(2, 6), st.floats(0.3, 2.0), st.sampled_from(["isotropic", "logits"]))
def test_border_is_half_the_number_of_classes(classes, ratio, geometry):
    found = verdict(PowerLaw(ratio * classes / 2, 1.0), 0.0, classes, geometry)
    assert found.exponent == pytest.approx(ratio / 2, rel=2e-2)  # what a power law has not forgotten by the horizon
    assert found.tail_index == pytest.approx(1.0, abs=1e-6)
    if abs(ratio - 1) > 0.1:
        assert found.separates is (ratio > 1)


@pytest.mark.parametrize("geometry", ["isotropic", "logits"])
def test_orders_above_and_below_the_border(geometry):
    for intra, inter, expected in [
        (0.3, 0.2, True),
        (0.2, 0.2, False),
        (PowerLaw(0.1, 0.7), 0.0, True),
        (PowerLaw(5.0, 1.3), 0.0, False),
        (PowerLaw(0.01, 0.9), 0.0, True),  # slow, but it comes
        (Function(lambda t: 1 / ((3 + t) * np.log(3 + t))), Constant(0.0), False),
        (Function(lambda t: np.log(3 + t) / (3 + t)), Constant(0.0), True),
    ]:
        assert verdict(intra, inter, geometry=geometry).separates is expected, (intra, inter)


def test_logits_separate_where_the_theorem_does_not_reach():
    """Amplitudes that grow by themselves part classes with any α ≠ β; the simulation says so too."""
    start = np.array([[1.0, 0.2, 0.0], [0.0, 1.4, 0.1], [0.1, 0.0, 0.7]])
    for intra in (0.2, lambda t: 0.3 + 0.1 / (1 + t) ** 2):
        assert not verdict(intra, 0.3).separates
        assert verdict(intra, 0.3, geometry="logits").separates
        model = LocallyElastic(3, 3, intra, 0.3, "logits", noise=1.0)
        assert model.separation_probability([1.0, 120.0], 10, start=start, trials=10).tolist() == [0.0, 1.0]


def test_close_to_the_border_nothing_is_claimed():
    found = verdict(PowerLaw(1.5, 1.0), 0.0)
    assert found.separates is None
    assert "too close to tell" in found.reason


def test_inter_class_strength_lowers_the_border_of_logits():
    """β = b/t adds b/(K − 1) to the exponent of the L-model, and nothing to that of the I-model."""
    inter = PowerLaw(0.8, 1.0)
    intra = PowerLaw(1.4, 1.0)  # α − β = 0.6/t, c/K = 0.2
    assert verdict(intra, inter).exponent == pytest.approx(0.2, rel=1e-3)
    assert verdict(intra, inter, geometry="logits").exponent == pytest.approx(0.6, rel=1e-2)


def test_sampled_curves_are_judged_where_they_end():
    found = verdict(Sampled([0.0, 50.0], [1.0, 0.5]), 0.1)
    assert found.horizon == 50.0
    assert found.separates
    assert verdict(Sampled([0.0, 0.5], [1.0, 0.5]), 0.1).separates
    assert not verdict(PowerLaw(1.0, 1.5), Sampled([0.0, 1.2], [0.0, 0.0])).separates  # the law goes on


def test_fast_growth_keeps_its_exponent():
    assert verdict(0.4, 0.1, geometry="logits").exponent == pytest.approx(1e12 * 0.45 / 3, rel=1e-2)


def test_time_zero_and_stepped_geometries():
    start = np.eye(3)
    assert LocallyElastic().separation_probability([0.0], 3, start=start, trials=2).tolist() == [1.0]
    model = LocallyElastic(geometry="softmax", intra=3.0, noise=0.01)
    assert model.separation_probability([0.5], 3, start=start, trials=2, dt=0.05).tolist() == [1.0]


def test_verdict_is_refused_where_it_is_not_derived():
    for model in (LocallyElastic(geometry="mixture"), LocallyElastic(sampling=[0.2, 0.3, 0.5])):
        with pytest.raises(ValueError, match="use separation_probability"):
            model.separation_verdict()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("covariance", [None, "per class"])
def test_gaussian_law_meets_exact_separability_in_one_dimension(classes, covariance):
    shape = None if covariance is None else np.linspace(0.5, 2.0, classes)
    model = LocallyElastic(classes, 1, 0.9, 0.4, "isotropic", noise=0.5, covariance=shape)
    start, times, trials = np.arange(classes)[:, None] - 0.4, [0.5, 3.0, 6.0], 400
    options = {"samples": 6, "start": start}
    simulated = model.separation_probability(times, trials=trials, seed=1, **options)
    law = model.separation_probability(times, trials=40_000, seed=2, direction=[-2.0], **options)
    error = np.sqrt(law * (1 - law) * (1 / trials + 1 / 40_000))
    assert np.all(np.abs(simulated - law) < 3 * error + 1e-12)
    assert np.all((law > 0.01) & (law < 0.99)), law  # the comparison must be able to fail


def test_probability_of_separation_by_chance():
    """Two classes of the same law part with probability 2 n!²/(2n)! (footnote 5 of the source)."""
    model = LocallyElastic(2, 1, 0.0, 0.0, "isotropic", noise=1.0)
    chance = model.separation_probability([1.0], 3, start=[[0.0], [0.0]], direction=[1.0], trials=200_000)
    assert float(chance[0]) == pytest.approx(2 / 20, abs=3 * 0.001)


def test_a_noise_grid_gives_one_curve_each():
    model = LocallyElastic(2, 2, 1.0, 0.2, "logits", noise=[0.1, 0.5, 2.0])
    start = [[0.3, -0.3], [-0.3, 0.3]]
    law = model.separation_probability([1.0, 4.0], 10, start=start, direction=[1.0, -1.0], trials=500)
    assert law.shape == (3, 2)
    assert np.all(np.diff(law, axis=0) <= 0)
    assert model.separation_probability([1.0, 4.0], 10, start=start, trials=5).shape == (3, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": [2.0, 1.0]}, "times must be an increasing list"),
        ({"start": np.eye(2)}, "start must end in the shape"),
        ({"start": np.ones((2, 3, 3))}, "start must be one set of class means"),
        ({"direction": [1.0, 0.0]}, "direction must be 3 numbers"),
        ({"direction": [0.0, 0.0, 0.0]}, "direction must be 3 numbers, not all 0"),
        ({"seed": -1, "direction": [1.0, 0.0, 0.0]}, "seed must be an integer"),
        ({"trials": 0}, "trials must be a whole number"),
        ({"samples": 0}, "samples must be a whole number"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        LocallyElastic().separation_probability(**({"times": [1.0], "start": np.eye(3)} | change))


def test_growth_beyond_any_power_is_not_given_as_one():
    found = verdict(PowerLaw(1.0, 0.5), PowerLaw(0.2, 0.5), geometry="logits")
    assert found.exponent > 1e4
    assert "grows faster than t^100 by then" in found.reason
