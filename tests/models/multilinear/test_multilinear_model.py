"""The multilinear model: limits, descent against closed forms, scaling laws, what it refuses."""

import mpmath
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from dynascope import Multilinear, grid
from dynascope.models.multilinear.curves import SkillSet
from dynascope.models.multilinear.scaling import best_exposure, estimate_exponent, prefactor

alphas, starts, targets = st.floats(0.1, 2.0), st.floats(1e-6, 0.9), st.floats(0.2, 5.0)


@given(alphas, starts, targets, st.floats(0.01, 1.0), st.booleans())
def test_limits(alpha, start, target, rate, linear):
    model = Multilinear(50, alpha, target, start * target, rate, linear)
    np.testing.assert_allclose(model.strength([1, 50], time=0.0), start * target, rtol=1e-9)
    np.testing.assert_allclose(model.loss(time=0.0), (target * (1 - start)) ** 2 / 2, rtol=1e-9)
    np.testing.assert_allclose(model.strength(7, time=1e12), target, rtol=1e-9)
    np.testing.assert_allclose(model.loss(parameters=0), target**2 / 2, rtol=1e-12)
    assert float(model.loss()) == 0.0
    np.testing.assert_allclose(model.frequency(np.arange(1, 51)).sum(), 1.0)
    # unlimited data and time are limits of much of either
    np.testing.assert_allclose(model.loss(time=3.0, data=10**9), model.loss(time=3.0), rtol=1e-6)
    np.testing.assert_allclose(model.loss(time=1e13, data=20), model.loss(data=20), rtol=1e-9)


def test_grids_broadcast_and_lead():
    model = Multilinear(100, **grid(skill_exponent=[0.3, 0.6, 0.9], initial=[0.01, 0.1]))
    times, known = np.array([1.0, 10.0, 100.0]), np.array([5, 50])
    table = model.loss(time=times[:, None], parameters=known)
    assert table.shape == (3, 2, 3, 2)
    alone = Multilinear(100, 0.6, 1.0, 0.1).loss(time=100.0, parameters=5)
    np.testing.assert_allclose(table[1, 1, 2, 0], alone, rtol=1e-13)
    assert model.strength([[1, 2]], time=times, data=[[10], [20]]).shape == (3, 2, 1, 2, 2, 3)
    assert model.exponent("time").shape == model.prefactor("compute").shape == (3, 2)
    assert model.optimal_compute([1e3, 1e4])["loss"].dims == ("skill_exponent", "initial", "budget")
    assert model.emergence("data", [1, 2], [5, 6, 7]).shape == (3, 2, 2, 3)


def _order(batch_runs):
    """Slope of log error on log step, by least squares."""
    steps, errors = np.transpose(batch_runs)
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


@pytest.mark.parametrize("linear", [pytest.param(False, marks=pytest.mark.ci), True])
def test_descent_converges_to_the_flow_with_its_order(linear):
    errors = []
    for halving in range(4):
        rate = 0.4 / 2**halving
        model = Multilinear(40, 0.6, 1.5, 0.05, rate, linear)
        run = model.simulate(40 * 2**halving, 0, 1, save_points=2)
        errors.append((rate, abs(float(run["loss"][0, -1]) - float(model.loss(time=40.0 * 2**halving)))))
    assert 0.9 < _order(errors) < 1.1


def test_sgd_means_meet_the_closed_form():
    model = Multilinear(60, **grid(skill_exponent=[0.4, 1.0]), initial=0.1, learning_rate=0.02)
    run = model.simulate(600, 5, 400, data=40, parameters=12, save_points=[200, 600], track=[2, 12, 13], seed=3)
    form = model.loss(time=[200, 600], data=40, parameters=12)
    error = run["loss"].std("trial", ddof=1) / 20
    assert np.all(abs(run["loss"].mean("trial") - form) < 4 * error + 0.01 * form)
    strength = run["strength"].isel(time=-1)
    expected = model.strength([2, 12, 13], time=600, data=40, parameters=12)
    assert np.all(abs(strength.mean("trial") - expected) < 4 * strength.std("trial", ddof=1) / 20 + 0.005)
    assert np.all(strength.sel(skill=13) == 0)  # the model lacks it
    assert np.all(run["training_loss"].isel(time=-1).mean("trial") < run["loss"].isel(time=-1).mean("trial"))


def test_training_loss_is_the_loss_where_data_are_unlimited():
    run = Multilinear(30, linear=True, initial=0.0).simulate(20, 0, 2, save_points=3, parameters=10)
    np.testing.assert_allclose(run["loss"], run["training_loss"], rtol=1e-12)
    assert np.array_equal(run["loss"][0], run["loss"][1])


def test_skills_that_were_never_seen_keep_their_start():
    model = Multilinear(30, 0.6, 1.0, 0.2, 0.9)
    run = model.simulate(4000, 0, 64, data=10, save_points=2, track=np.arange(1, 31)).isel(time=-1)
    strength = run["strength"].values
    seen = strength > 0.5
    np.testing.assert_allclose(strength[seen], 1.0, atol=1e-9)
    np.testing.assert_array_equal(strength[~seen], 0.2)
    np.testing.assert_allclose(run["training_loss"], 0.0, atol=1e-12)
    direct = (model.frequency(np.arange(1, 31)) * (1 - strength) ** 2 / 2).sum(axis=1)
    np.testing.assert_allclose(run["loss"], direct, rtol=1e-9)


@pytest.mark.parametrize("batch", [0, 3])
def test_data_without_any_known_skill_teach_nothing(batch):
    model = Multilinear(10**4, 0.05, 1.0, 0.2, 0.5)
    run = model.simulate(30, batch, 8, data=1, parameters=1, save_points=2, track=[1, 2], seed=2)
    taught = run["strength"].isel(time=-1).sel(skill=1) > 0.2
    assert not taught.all()
    form = [float(model.loss(time=0.0, parameters=1))] * 2
    np.testing.assert_allclose(run["loss"].isel(trial=np.flatnonzero(~taught)[0]), form, rtol=1e-9)


@pytest.mark.ci
@given(st.floats(0.1, 1.5), st.floats(1e-6, 0.9), targets)
def test_prefactor_in_time_is_a_difference_of_polylogarithms(alpha, start, target):
    task = SkillSet(1000, alpha, target, start * target, 0.7, False)
    s, c = alpha / (alpha + 1), start / (1 - start)
    with mpmath.workdps(30):
        integral = mpmath.gamma(s) * (mpmath.polylog(s - 1, -1 / c) - mpmath.polylog(s, -1 / c)).real
    expected = target**2 / 2 * task.normaliser / (alpha + 1) * (2 * target * 0.7 * task.normaliser) ** -s * integral
    assert prefactor("time", task) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
def test_exponents_and_prefactors_hold_for_many_skills(alpha, linear):
    model = Multilinear(10**9, alpha, 2.0, 0.05, 0.5, linear)
    for resource, amounts in (("time", [1e3, 1e5]), ("data", [1e5, 1e6]), ("parameters", [1e5, 1e6])):
        loss = model.loss(**{resource: np.array(amounts)})
        np.testing.assert_allclose(model.scaling_law(resource, amounts), loss, rtol=1e-4)
        slope = np.diff(np.log(loss + model.absent_loss(resource)))[0] / np.diff(np.log(amounts))[0]
        assert slope == pytest.approx(float(model.exponent(resource)), rel=1e-4)
    best = model.optimal_compute([1e9, 1e12])
    np.testing.assert_allclose(model.scaling_law("compute", [1e9, 1e12]), best["loss"], rtol=2e-3)


@given(st.floats(0.2, 1.5), st.floats(1e-4, 0.5), st.integers(2, 400), st.floats(1, 7))
def test_the_best_split_is_the_best(alpha, start, skills, log_budget):
    model, budget = Multilinear(skills, alpha, 1.0, start, 0.5), 10.0**log_budget
    best = model.optimal_compute([budget])
    known = np.arange(1, skills + 1)
    every = model.loss(time=budget / known, parameters=known)
    assert float(best["loss"][0]) == pytest.approx(every.min(), rel=1e-9, abs=1e-15)
    steps, chosen = float(best["time"][0]), float(best["parameters"][0])
    assert steps * chosen == pytest.approx(budget)
    last = model.strength(int(chosen), time=steps)
    assert float(best["last_strength"][0]) == pytest.approx(float(last), rel=1e-9)


def test_best_exposure_does_not_depend_on_scales():
    exposures = [
        2 * target * best_exposure(SkillSet(100, 0.6, target, 0.01 * target, rate, False))[0]
        for target, rate in ((1.0, 1.0), (3.0, 0.1))
    ]
    assert exposures[0] == pytest.approx(exposures[1], rel=1e-6)


def test_fitted_exponents_cover_the_truth():
    x, random = np.geomspace(10, 1000, 12), np.random.default_rng(1)
    inside = []
    for _ in range(300):
        noise = 1 + 0.1 * random.standard_normal((10, 12)) + 0.1 * random.standard_normal((10, 1))
        found = estimate_exponent(x, (2 * x**-0.35 - 0.02) * noise, absent=0.02)
        inside.append(float(found["low"]) <= -0.35 <= float(found["high"]))
    assert 0.92 < np.mean(inside) < 0.98  # 95 % within three standard errors of 300 draws, and a little for 10 trials
    assert abs(float(estimate_exponent(x, x**-0.35)["curvature"])) < 1e-9
    assert not bool(estimate_exponent([10, 11, 12], [3.0, 2.9, 2.8])["ok"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"skill_exponent": 0.0}, "skill_exponent must be above 0, got 0.0"),
        ({"skill_exponent": [0.3, -1.0]}, "skill_exponent must be above 0, got -1.0"),
        ({"initial": 1.0}, "initial must be below target"),
        ({"initial": 0.0}, "initial must be above 0, or no product can grow"),
        ({"initial": -0.1, "linear": True}, "initial must be at least 0"),
        ({"target": -1.0}, "target must be above 0"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"skills": 0}, "skills must be a whole number of at least 1"),
        ({"skill_exponent": "steep"}, "skill_exponent must be a real number"),
        ({"target": xr.DataArray([1.0, 2.0], dims="time")}, "dimension name 'time' is taken"),
    ],
)
def test_bad_models_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Multilinear(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.loss(time=-1.0), "time must be at least 0"),
        (lambda m: m.loss(data=0), "data must be at least 1; leave it out"),
        (lambda m: m.loss(data=2.5), "data must be whole numbers"),
        (lambda m: m.loss(parameters=1001), "parameters must be at most skills = 1000"),
        (lambda m: m.loss(time=[1, 2], data=[1, 2, 3]), "time and data must broadcast"),
        (lambda m: m.strength(0), "skill must be a whole number from 1 to skills = 1000"),
        (lambda m: m.exponent("money"), "resource must be one of time, data, parameters, compute"),
        (lambda m: m.optimal_compute([0.0]), "budgets must be a list of numbers above 0"),
        (lambda m: m.scaling_law("time", 0.0), "amount must be above 0"),
        (lambda m: m.emergence("luck", 1, 1.0), "kind must be one of time, data, parameters"),
        (lambda m: m.emergence("data", 1, 1.5), "x must be whole numbers from 1 on"),
        (lambda m: m.emergence("data", 1, 5, calibration=0.5), "calibration must be at least 1"),
        (lambda m: m.emergence_point("time", 1, 1.0), "threshold must be below 1"),
        (lambda m: m.simulate(steps=0), "steps must be a whole number of at least 1"),
        (lambda m: m.simulate(batch_size=-1), "batch_size must be a whole number of at least 0"),
        (lambda m: m.simulate(parameters=2000), "parameters must be at most skills"),
        (lambda m: m.simulate(track=[1, 1]), "track must be a list of different ranks"),
        (lambda m: m.simulate(sed=1), "sed=1 is not an option.*Did you mean seed"),
        (lambda m: m.simulate(seed=-1), "seed must be an integer"),
        (lambda m: estimate_exponent([1, 2], [1, 2]), "x must list at least 3 positive values"),
        (lambda m: estimate_exponent([1, 2, 3], [1, 0, -1]), "losses \\+ absent must be above 0"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(Multilinear())


def test_steps_that_could_diverge_are_refused():
    with pytest.raises(ValueError, match="learning_rate must stay below 1/target"):
        Multilinear(learning_rate=1.0).simulate(steps=5)
    with pytest.raises(ValueError, match="learning_rate must stay below 2 /"):
        Multilinear(learning_rate=2.5, linear=True).simulate(steps=5)
    assert np.isfinite(Multilinear(learning_rate=2.0).simulate(steps=50, batch_size=0, trials=1)["loss"]).all()
