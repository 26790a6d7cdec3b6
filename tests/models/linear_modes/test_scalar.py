"""The scalar network against gradient flow of its loss, its levers, and gradient descent on its weights."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope import ScalarNetwork, grid
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow

TIMES = [0.0, 0.1, 0.5, 2.0]
weight = st.floats(-1.0, 1.0).map(lambda v: round(v, 3))
networks = st.tuples(
    st.lists(weight, min_size=3, max_size=3), st.lists(weight, min_size=3, max_size=3),
    st.floats(-2.0, 2.0).map(lambda v: round(v, 3)), st.floats(0.3, 3.0), st.floats(0.2, 2.0),
)  # fmt: skip


def _loss(w, data):
    inputs, target, scale = data
    error = inputs * jnp.sum(w["first"] * w["second"]) / scale - inputs * target
    return jnp.mean(error**2) / 2


def _network(fields):
    first, second, target, scale, variance = fields
    return ScalarNetwork(first, second, target, output_scale=scale, variance=variance)


@given(networks)
def test_theorem_1_follows_the_gradient_flow(fields):
    first, second, target, scale, variance = fields
    inputs = np.sqrt(variance) * np.array([1.0, -1.0])
    start = {"first": np.array(first), "second": np.array(second)}
    flow = gradient_flow(_loss, start, TIMES, data=(inputs, target, scale))
    run = _network(fields).solve(TIMES)
    for name in ("first", "second"):
        np.testing.assert_allclose(run[name].values.T, flow[name], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run["output"], (flow["first"] * flow["second"]).sum(axis=1) / scale, rtol=0, atol=1e-8)
    if target != 0 and np.all(start["first"] * start["second"] != 0):  # other units are on neither side
        both = run["aligned_output"] + run["anti_aligned_output"]
        np.testing.assert_allclose(both, run["output"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(run["loss"], variance * (run["output"] - target) ** 2 / 2, rtol=0, atol=1e-12)


@given(networks)
def test_printed_theorem_runs_twice_as_fast(fields):
    network = _network(fields)
    printed, twice = network.solve(TIMES, published=True), network.solve(2 * np.array(TIMES))
    np.testing.assert_allclose(printed["gamma"], twice["gamma"], rtol=1e-12)


@given(networks)
def test_amplification_is_the_limit_of_gamma_and_the_printed_6_14(fields):
    first, second, target, scale, variance = fields
    network = _network(fields)
    mean = np.sum(np.square(first) + np.square(second)) / (2 * scale)
    begin = np.dot(first, second) / scale
    root = np.sqrt(max(mean**2 - begin**2, 0.0) + target**2)
    if root < 0.05 or mean + begin < 1e-3 or (target < 0 and mean - begin < 1e-3):
        return  # settles slowly, or (6.14) is 0/0
    end = network.solve([40 * scale / (variance * root)])
    assert float(end["gamma"][0]) == pytest.approx(float(network.amplification()), rel=1e-8)
    if target > 0.05:
        assert float(network.amplification()) == pytest.approx((target + root) / (mean + begin), rel=1e-9)
        assert float(network.amplification()) >= target / mean * (1 - 1e-12)
    assert float(network.kernel_growth()) == pytest.approx(root / mean, rel=1e-7)


def test_growth_where_the_printed_form_is_0_over_0():
    apart = ScalarNetwork([1.0], [-1.0], [-0.5, 0.5])  # a = −b: the sum is 0
    assert apart.amplification()[0] == pytest.approx(1.0 / 0.5)  # B/|S|
    assert np.isinf(apart.amplification()[1])
    run = apart.solve([0.0, 500.0])
    np.testing.assert_allclose(run["output"][:, 1], [-0.5, 0.0], atol=1e-12)  # the saddle is never left
    assert np.isfinite(run["first"]).all()
    nothing = ScalarNetwork([0.0], [0.0], 0.0)
    assert float(nothing.amplification()) == 1.0


levers = st.sampled_from(["weight", "target", "input", "output"])


@given(networks, levers, st.floats(0.2, 5.0))
def test_levers_are_what_they_say(fields, lever, factor):
    first, second, target, scale, variance = fields
    moved = {
        "weight": ScalarNetwork(first, second, target, output_scale=scale, weight_scale=factor),
        "target": ScalarNetwork(first, second, target * factor, output_scale=scale),
        "input": ScalarNetwork(first, second, target / factor, output_scale=scale, variance=variance * factor**2),
        "output": ScalarNetwork(first, second, target, output_scale=scale / factor),
    }
    np.testing.assert_allclose(
        _network(fields).amplification(**{lever: factor}), moved[lever].amplification(), rtol=1e-10
    )


@given(networks, st.floats(0.3, 8.0))
def test_levers_to_reach_the_wanted_amplification(fields, wanted):
    network = _network(fields)
    for lever, factor in network.levers_to(wanted).items():
        if np.isfinite(factor) and 1e-6 < factor < 1e6:
            assert float(network.amplification(**{lever: factor})) == pytest.approx(wanted, rel=1e-7)


@given(networks)
def test_sensitivity_is_the_slope_of_log_amplification(fields):
    first, second, target, *_ = fields
    if abs(target) < 0.05 or np.sum(np.square(np.add(first, second))) < 0.05:
        return
    if np.sum(np.square(np.subtract(first, second))) < 0.05:
        return
    network = _network(fields)
    for lever, slope in network.sensitivity().items():
        step = 1e-5
        up, down = (np.log(network.amplification(**{lever: np.exp(sign * step)})) for sign in (1, -1))
        assert float(up - down) / (2 * step) == pytest.approx(float(slope), abs=1e-5)


def test_regimes():
    wide = ScalarNetwork([3.0, 3.0], [3.0, -3.0], target=[0.5, 50.0])
    assert wide.regime().tolist() == ["lazy", "rich"]
    assert wide.regime(change=0.01).tolist() == ["rich", "rich"]
    assert ScalarNetwork([1.0], [1.0], target=1e-9).regime() == "rich"  # unlearning is a change too


@pytest.mark.ci
def test_descent_converges_to_theorem_1_at_first_order():
    random = np.random.default_rng(3)
    first, second = random.normal(size=(2, 5)) * 0.7
    network = ScalarNetwork(first, second, 1.5, output_scale=2.0, variance=0.8)
    exact = network.solve([3.0])["first"].values[:, 0]
    rates = np.array([0.04, 0.02, 0.01, 0.005])
    errors = []
    for rate in rates:
        end = network.simulate(3.0, rate, 1, save_points=2)["first"].values[0, :, -1]
        errors.append(np.abs(end - exact).max())
    slope = np.polyfit(np.log(rates), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)


def test_sgd_meets_gradient_descent_on_average():
    network = ScalarNetwork([0.6, -0.3, 0.2], [0.4, 0.5, -0.1], 1.0)
    plain = network.simulate(3.0, 0.01, 1, save_points=4)["output"][0]
    noisy = network.simulate(3.0, 0.01, 2000, save_points=4, batch_size=4, label_noise=0.2, seed=3)["output"]
    spread = noisy.std("trial", ddof=1)
    gap = abs(noisy.mean("trial") - plain)
    # what fluctuations add is of second order in their size: a few of their variances
    assert np.all(gap[1:] < 3 * spread[1:] / np.sqrt(2000) + 3 * spread[1:] ** 2)
    assert float(spread[-1]) > 0.01


@pytest.mark.ci
def test_initial_weights_are_standard_normal_times_the_scale():
    run = ScalarNetwork(width=50, **grid(weight_scale=[1.0, 2.0])).simulate(0.002, 0.001, 200, save_points=2)
    start = run["first"].isel(time=0)
    np.testing.assert_allclose(start.sel(weight_scale=2.0), 2 * start.sel(weight_scale=1.0))
    count = 50 * 200
    assert abs(float(start[0].mean())) < 3 / np.sqrt(count)
    assert abs(float(start[0].var()) - 1) < 3 * np.sqrt(2 / count)
    other = run["second"].isel(time=0)[0]
    assert abs(float((start[0] * other).mean())) < 3 / np.sqrt(count)
    again = ScalarNetwork(run["first"][0, 0, :, 0].values, run["second"][0, 0, :, 0].values)
    np.testing.assert_allclose(
        again.simulate(0.002, 0.001, 1, save_points=2)["output"][0], run["output"][0, 0], rtol=1e-12
    )


def test_times_that_leave_out_0_keep_what_is_aligned():
    network = ScalarNetwork([1.0, 0.1], [1.0, -3.0], 2.0)
    late, early = network.solve([5.0]), network.solve([0.0, 5.0])
    for name in ("aligned_output", "anti_aligned_output", "gamma"):
        np.testing.assert_allclose(late[name][0], early[name][1])
    descent = network.simulate(1.0, 0.01, 1, save_points=[1.0])
    whole = network.simulate(1.0, 0.01, 1, save_points=[0.0, 1.0])
    np.testing.assert_allclose(descent["gamma"][0, 0], whole["gamma"][0, 1])


def test_a_grid_of_weights_and_targets():
    first = np.arange(6.0).reshape(3, 2) / 6
    network = ScalarNetwork(first, 0.3, [0.5, 1.0, 2.0])
    assert network.solve(TIMES)["first"].dims == ("grid_0", "unit", "time")
    alone = ScalarNetwork(first[1], 0.3, 1.0)
    np.testing.assert_allclose(network.amplification()[1], alone.amplification())
    assert network.amplification(weight=[0.5, 1.0, 2.0]).shape == (3,)
    free = ScalarNetwork([0.5], [0.5], variance=[1.0, 2.0])
    assert free.amplification().shape == (2,)  # also where the varied parameter does not matter


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"first": [1.0]}, "second must be given with the other layer"),
        ({"output_scale": 0.0}, "output_scale must be above 0, got 0.0"),
        ({"variance": -1.0}, "variance must be above 0"),
        ({"weight_scale": -1.0}, "weight_scale must be at least 0"),
        ({"width": 0}, "width must be a whole number of at least 1"),
        ({"first": [1.0, 2.0], "second": [1.0, 2.0, 3.0]}, "does not broadcast"),
        ({"target": np.inf}, "target must be finite"),
    ],
)
def test_bad_networks_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ScalarNetwork(**fields)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.solve([0.0, 1.0]), "first and second must be given here"),
        (lambda n: n.amplification(), "first and second must be given here"),
        (lambda n: n.simulate(label_noise=0.1), "label_noise must be 0 without a batch"),
        (lambda n: n.simulate(batch_size=0), "batch_size must be a whole number"),
        (lambda n: n.simulate(learning_rate=0.0), "learning_rate must be above 0"),
        (lambda n: n.simulate(precision="float16"), "precision must be one of"),
        (lambda n: n.simulate(seed=-1), "seed must be an integer"),
        (lambda n: n.simulate(epochs=3), "epochs=3 is not an option"),
        (lambda n: ScalarNetwork([1.0], [1.0]).amplification(input=0.0), "input must be above 0"),
        (lambda n: ScalarNetwork([1.0], [1.0]).levers_to(-1.0), "amplification must be above 0"),
        (lambda n: ScalarNetwork([1.0], [1.0]).regime(0.0), "change must be above 0"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(ScalarNetwork())


def test_steps_that_are_too_long_say_where_they_failed():
    with pytest.raises(FloatingPointError, match="use a smaller dt"):
        ScalarNetwork(weight_scale=10.0).simulate(10.0, 0.5, 2)
