"""Three ways to simulate one model: exact transitions, small steps, and the discrete process behind it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.experiments.claims import three_errors
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.equations import STEPS
from dynascope.models.elastic.strengths import PowerLaw, Sampled
from dynascope.models.stepping import follow

START = np.array([[1.0, -0.5, 0.2], [0.1, 0.8, -0.3], [-0.2, 0.4, 1.5]])
FULL = np.cov(np.random.default_rng(4).normal(size=(9, 30)))


def _scheme_moments(method, steps, model):
    """Mean and covariance of a stepped linear scheme, without sampling: one lane for each unit of noise."""
    dt = 2.0 / steps
    lanes = steps * 9 + 1  # the last lane has no noise
    noise = np.zeros((steps, 9, 1, lanes))
    lane = np.arange(steps * 9)
    noise[lane // 9, lane % 9, 0, lane] = 1.0
    parameters = model._step_parameters(steps, dt) | {
        "noise": np.ones((1, 1)),
        "factor": np.eye(9).reshape(3, 3, 3, 3),
    }
    with jax.enable_x64(True):
        given = {name: jnp.asarray(value) for name, value in parameters.items()}
        start = {"mean": jnp.broadcast_to(jnp.asarray(START)[..., None, None], (3, 3, 1, lanes))}
        path = follow(STEPS[method, False, False], start, jnp.asarray(noise), parameters=given, dt=dt)
        last = np.asarray(path["mean"][-1]).reshape(9, lanes)
    response = last[:, :-1] - last[:, -1:]
    return last[:, -1], response @ response.T


@pytest.mark.ci
@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("heun", 2)])
def test_weak_order_of_the_stepped_schemes(method, order):
    model = LocallyElastic(3, 3, PowerLaw(1.5, 0.7), -0.4, "logits", noise=1.0)
    mean, covariance = model.mean_path([2.0], START)[0].ravel(), model.covariance([2.0], samples=1)[0]
    sizes = np.array([10, 20, 40, 80])
    errors = np.array(
        [
            [np.linalg.norm(m - mean), np.linalg.norm(c - covariance)]
            for m, c in (_scheme_moments(method, int(n), model) for n in sizes)
        ]
    )
    slopes = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    np.testing.assert_allclose(slopes, order, atol=0.15)


@pytest.mark.parametrize("covariance", [None, [0.5, 1.0, 2.0], FULL])
@pytest.mark.parametrize("method", ["exact", "heun"])
def test_simulation_has_the_exact_law(method, covariance):
    model = LocallyElastic(3, 3, PowerLaw(1.0, 0.5), 0.2, "mixture", [0.2, 0.3, 0.5], 0.4, covariance=covariance)
    samples, trials, times = 3, 3000, [1.0, 2.0]
    options = {"method": method, "dt": None if method == "exact" else 0.02, "seed": 3}
    run = model.simulate(2.0, samples=samples, trials=trials, save_points=times, start=START, **options)
    np.testing.assert_allclose(run["point"].mean("sample"), run["class_mean"], atol=1e-12)
    bias = 2e-4 if method == "heun" else 0.0  # of order dt²
    exact = model.mean_path(times, START).reshape(2, 9)
    for name, of in (("class_mean", "class_mean"), ("point", "point")):
        values = run[name] if of == "class_mean" else run[name].isel(sample=1)
        values = values.values.reshape(trials, 2, 9)
        law = model.covariance(times, samples, of=of)
        variance = np.einsum("tii->ti", law)
        error = three_errors(np.sqrt(variance / trials))
        assert np.all(np.abs(values.mean(axis=0) - exact) < error + bias)
        for index in range(2):
            spread = np.sqrt((np.outer(variance[index], variance[index]) + law[index] ** 2) / trials)
            off = np.abs(np.cov(values[:, index].T) - law[index])
            assert np.all(off < three_errors(spread) + bias)


def test_general_elasticity_and_matrix_valued_entries():
    random = np.random.default_rng(1)
    knots, values = np.array([0.0, 1.0, 2.0]), random.normal(size=(3, 3, 3))
    whole = LocallyElastic(3, 3, geometry="isotropic", elasticity=Sampled(knots, values), noise=0.0)
    blown_up = np.einsum("tkl,ij->tklij", values, np.eye(3))
    as_blocks = LocallyElastic(3, 3, geometry="isotropic", elasticity=Sampled(knots, blown_up), noise=0.0)
    path = whole.mean_path([1.5], START)
    np.testing.assert_allclose(as_blocks.mean_path([1.5], START), path, atol=1e-9)
    stepped = as_blocks.simulate(1.5, 0.005, 1, 1, save_points=[1.5], start=START, method="heun")
    np.testing.assert_allclose(stepped["class_mean"][0], path, atol=2e-5)
    symmetric = LocallyElastic(3, 3, 0.7, 0.2, "logits")
    same = LocallyElastic(3, 3, geometry="logits", elasticity=np.full((3, 3), 0.2) + 0.5 * np.eye(3))
    np.testing.assert_allclose(same.mean_path([2.0], START), symmetric.mean_path([2.0], START), atol=1e-9)


def _discrete_error(model, dt, trials, batch_size=1):
    run = model.simulate(
        2.0, dt, 4, trials, save_points=[2.0], start=START, seed=1, discrete=True, batch_size=batch_size
    )
    means = run["class_mean"].isel(time=-1).values.reshape(trials, -1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(trials), means.var(axis=0, ddof=1)


@pytest.mark.parametrize("sampling", [None, [0.2, 0.3, 0.5], [[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.0, 0.5, 0.5]]])
def test_discrete_process_follows_the_mean_path(sampling):
    model = LocallyElastic(3, 3, PowerLaw(1.0, 0.5), 0.3, "logits", sampling, 0.1)
    steps, dt = 200, 0.01
    mean, error, _ = _discrete_error(model, dt, 4000)
    euler = START.ravel().copy()
    for step in range(steps):  # the mean of (4) is Euler's path, exactly
        euler = euler + dt * model.drift(step * dt) @ euler
    assert np.all(np.abs(mean - euler) < three_errors(error))


@pytest.mark.ci
def test_larger_batches_and_smaller_steps_bring_the_discrete_process_to_the_sde():
    """Sampling adds variance of order h/batch to the class means: it must fall in proportion."""
    model = LocallyElastic(3, 3, 1.0, 0.3, "logits", noise=0.0)
    trials = 4000
    excess = [
        _discrete_error(model, dt, trials, batch)[2].sum() for dt, batch in ((0.04, 1), (0.02, 1), (0.01, 1), (0.04, 4))
    ]
    np.testing.assert_allclose(np.array(excess[1:]) / excess[:1], [0.5, 0.25, 0.25], rtol=0.12)


@pytest.mark.ci
def test_discrete_softmax_process_follows_its_mean_path():
    model = LocallyElastic(3, 3, 3.0, 0.5, "softmax", noise=0.05)
    mean, error, _ = _discrete_error(model, 0.005, 2000)
    exact = model.mean_path([2.0], START)[0].ravel()
    # samples spread by 0.05·√2 about their mean, which bends the softmax by at most half of that squared
    assert np.all(np.abs(mean - exact) < three_errors(error) + 0.5 * 2 * 0.05**2 * 2.0 + 0.005)


def test_points_may_start_anywhere():
    start = np.random.default_rng(0).normal(size=(3, 4, 3))
    for options in ({}, {"method": "euler", "dt": 0.1}, {"discrete": True, "dt": 0.1}):
        run = LocallyElastic(noise=0.0).simulate(1.0, samples=4, trials=2, save_points=2, start=start, **options)
        np.testing.assert_allclose(run["point"].isel(trial=0, time=0), start, atol=1e-15)
        inner = run["point"] - run["class_mean"]
        np.testing.assert_allclose(inner.isel(time=-1), inner.isel(time=0), atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"method": "euler"}, pytest.param({"discrete": True, "batch_size": 3}, marks=pytest.mark.ci)]
)
@pytest.mark.parametrize("geometry", ["logits", pytest.param("softmax", marks=pytest.mark.ci)])
def test_trials_and_grid_points_do_not_disturb_each_other(geometry, options):
    common = {"duration": 0.3, "dt": 0.1, "samples": 2, "save_points": 2, **options}
    pair = LocallyElastic(geometry=geometry, noise=[0.1, 0.3])
    few, many = (pair.simulate(trials=trials, **common).isel(trial=3) for trials in (4, 40))
    assert few.drop_attrs().identical(many.drop_attrs())
    alone = LocallyElastic(geometry=geometry, noise=0.3).simulate(trials=4, **common).isel(trial=3)
    np.testing.assert_allclose(few["point"].isel(grid_0=1), alone["point"], atol=1e-13)


def test_a_step_too_long_is_named():
    with pytest.raises(FloatingPointError, match=r"stopped being finite at step \d+ .* with noise="):
        LocallyElastic(intra=1e200).simulate(10.0, 1.0, 1, 1, method="euler", save_points=2)
