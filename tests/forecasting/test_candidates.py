"""Ways to continue a curve, each against something that does not know how it is written."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import curve_fit

from dynascope import Multilinear
from dynascope.forecasting.candidates import CANDIDATES, candidates_after, earlier, schedule
from dynascope.forecasting.candidates.earlier import Known
from dynascope.forecasting.candidates.powers import POWER
from dynascope.forecasting.candidates.schedule import MULTI_POWER, MultiPower, law, learn_law
from dynascope.forecasting.candidates.shapes import Shapes
from dynascope.forecasting.candidates.theory import mode, skills
from dynascope.forecasting.pace import Pace, pace_of
from dynascope.forecasting.seen import Seen

X = np.arange(1, 51) / 50
AHEAD = np.array([1.5, 2.0, 4.0])
NAMED = {each.name: each for each in CANDIDATES}


@pytest.mark.parametrize("name", [each.name for each in CANDIDATES if isinstance(each, Shapes)])
def test_a_shape_of_the_grid_is_found_exactly(name):
    candidate = NAMED[name]
    for numbers in candidate.grid[:: max(len(candidate.grid) // 7, 1)]:
        past, future = candidate.shape(X, *numbers), candidate.shape(AHEAD, *numbers)
        if np.ptp(past) < 1e-3:
            continue  # nothing to see of it
        found = candidate.fit(Seen(X, (0.3 + 2 * past)[None]), AHEAD)
        np.testing.assert_allclose(found.plain[0], 0.3 + 2 * future, rtol=1e-4, atol=1e-4)


def test_power_laws_end_where_another_program_lets_them_end():
    rng = np.random.default_rng(0)
    y = 0.5 + 0.7 * X**-0.43 + 0.003 * rng.standard_normal(len(X))
    (a, b, c), _ = curve_fit(lambda x, a, b, c: a + b * x**-c, X, y, p0=(0.4, 1.0, 0.5))
    found = POWER.fit(Seen(X, y[None]), AHEAD).plain[0]
    np.testing.assert_allclose(found, a + b * AHEAD**-c, atol=0.01)


def test_many_curves_are_what_each_is_alone():
    rng = np.random.default_rng(1)
    y = 1 + rng.random((4, 1)) * X**-0.5 + 0.01 * rng.standard_normal((4, len(X)))
    for candidate in CANDIDATES[:-2]:
        together = candidate.fit(Seen(X, y), AHEAD).mean
        for curve, row in zip(y, together, strict=True):
            np.testing.assert_allclose(candidate.fit(Seen(X, curve[None]), AHEAD).mean[0], row, rtol=1e-9)


def test_a_mode_solves_its_equation():
    for depth, start in ((2, 0.01), (3, 0.1)):
        flow = solve_ivp(
            lambda t, w, depth=depth: depth * w ** (2 - 2 / depth) * (1 - w),
            (0, 80),
            [start],
            dense_output=True,
            rtol=1e-10,
        )
        times = np.linspace(0.1, 80, 4000)
        half = np.interp(0.5, flow.sol(times)[0], times)
        ours = mode(np.array([0.5, 1.0, 1.5]), 1.0, start, float(depth))
        np.testing.assert_allclose(ours, (1 - flow.sol(half * np.array([0.5, 1.0, 1.5]))[0]) ** 2, atol=2e-4)


def test_skills_are_those_of_the_multilinear_model():
    model = Multilinear(skills=1000, skill_exponent=0.5, target=1.0, initial=0.01, learning_rate=1.0)
    times = np.array([0.5, 1.0, 5.0, 20.0])
    half = float(np.log(99) / (2 * model.frequency(1)))
    ours, theirs = skills(times, 1.0, 0.5), model.loss(time=times * half)
    np.testing.assert_allclose(ours / ours[0], theirs / theirs[0], rtol=1e-3)


def test_the_law_is_the_sum_over_steps():
    step = np.arange(1, 2001)
    rate = np.where(step < 1200, 1.0, 1 - 0.9 * (step - 1200) / 800)
    alpha, rho, speed, power = 0.5, 0.4, 60.0, 0.8
    pace = Pace(step / 1000, rate)
    begun = (step[0] / 1000) * np.array([1 / 2, 1 / (1 + power)])
    found = law(pace, np.array([0.5, 1.0, 1.6, 2.0]), np.array([[alpha, rho, speed, power]]))[0]
    area = begun[0] + np.concatenate([[0], np.cumsum((rate[1:] + rate[:-1]) / 2)]) / 1000
    total = begun[1] + np.concatenate([[0], np.cumsum((rate[1:] ** power + rate[:-1] ** power) / 2)]) / 1000
    for time, value in zip((500, 1000, 1600, 2000), found, strict=True):
        gained = sum(
            (rate[k - 1] - rate[k]) * (1 - 1 / (1 + speed * rate[k] ** -0.5 * (area[time - 1] - area[k])))
            for k in range(1, time)
        )
        assert value == pytest.approx((total[time - 1] / total[999]) ** -alpha - rho * gained, abs=2e-3)


def _paced(alpha, rho, seed, noise=1e-4):
    """A run of 2000 steps whose rate falls at the end, by the law, in units of 1000 steps."""
    step = np.arange(1.0, 2001.0, 20.0)
    rate = np.where(step < 1200, 1.0, 1 - 0.95 * (step - 1200) / 800)
    shape = law(pace_of(step, rate, 0.0, 1000.0), step / 1000, np.array([[alpha, rho, 60.0, 0.85]]))[0]
    value = 1 + 0.5 * shape + noise * np.random.default_rng(seed).standard_normal(len(step))
    return step, value, rate


def test_the_law_of_earlier_runs_is_learnt_and_used():
    runs = []
    for seed, rho in enumerate((0.9, 1.0, 1.1)):
        step, value, rate = _paced(0.5, rho, seed)
        runs.append(Seen(step / step[-1], value[None], pace_of(step, rate, 0.0, step[-1]), step[-1]))
    found = learn_law(runs, 1000.0)
    assert found.drop[0] == pytest.approx(1.0, rel=0.15)
    assert found.exponent[0] == pytest.approx(0.5, rel=0.15)
    step, value, rate = _paced(0.5, 1.0, 9)
    now = step < 1100  # before the rate has moved: only earlier runs know what its fall will give
    seen = Seen(step[now] / step[now][-1], value[now][None], pace_of(step, rate, 0.0, step[now][-1]), step[now][-1])
    end = np.array([step[-1] / step[now][-1]])
    assert found.fit(seen, end).mean[0, 0] == pytest.approx(value[-1], abs=0.02)
    assert abs(MULTI_POWER.fit(seen, end).mean[0, 0] - value[-1]) > 0.03


def test_the_law_doubts_what_decays_will_give_more_than_its_way():
    step, value, rate = _paced(0.5, 1.0, 0)
    now = step < 1000
    scale = step[now][-1]
    seen = Seen(step[now] / scale, value[now][None], pace_of(step, rate, 0.0, scale), scale)
    before, after = np.array([1180.0, step[-1]]) / scale  # the rate begins to fall at 1200
    found = MULTI_POWER.fit(seen, np.array([before, after]))
    way = np.abs(found.mean[0] - seen.last)
    assert found.doubt[0, 0] == pytest.approx(schedule._DOUBT[0] * way[0])
    assert schedule._DOUBT[0] * way[1] + 0.01 < found.doubt[0, 1] < sum(schedule._DOUBT) * 2 * way[1]
    known = Known(step, value, pace_of(step, rate, 0.0, 1.0))
    both = candidates_after((known,), MULTI_POWER)[-1].fit(seen, np.array([before, after]))
    alone = 2 * both.mean - found.mean - seen.last  # half of it is the law, half the way of the earlier run
    np.testing.assert_allclose(both.doubt, np.hypot(earlier._DOUBT * alone, found.doubt) / 2)


def test_rates_ahead_that_rise_and_fall_do_not_make_the_law_sure():
    step, value, _ = _paced(0.5, 1.0, 0)
    now = step < 1000
    scale = step[now][-1]
    doubts = []
    for later in (0.3, 1.0):  # the rate falls to .3 and comes back, or does not
        rate = np.where(step < 1200, 1.0, np.where(step < 1600, 0.3, later))
        seen = Seen(step[now] / scale, value[now][None], pace_of(step, rate, 0.0, scale), scale)
        doubts.append(float(MULTI_POWER.fit(seen, step[-1:] / scale).doubt[0, 0]))
    assert doubts[1] > 1.2 * doubts[0]


def test_a_rate_that_rises_from_0_is_known_to_the_law():
    step, value, _ = _paced(0.5, 1.0, 0)
    rate = np.minimum((step - 1) / 200, np.where(step < 1200, 1.0, 1 - 0.95 * (step - 1200) / 800))
    for begun, records in ((True, 50), (False, 1)):
        scale = step[records - 1]
        seen = Seen(step[:records] / scale, value[None, :records], pace_of(step, rate, 0.0, scale), scale)
        found = MULTI_POWER.fit(seen, step[-1:] / scale)
        assert (found is not None) == begun
        assert found is None or all(np.isfinite(each).all() for each in vars(found).values())
    run = Seen(step / step[-1], value[None], pace_of(step, rate, 0.0, step[-1]), step[-1])
    assert np.isfinite(learn_law([run], 1000.0).numbers).all()


def test_a_run_of_another_schedule_is_no_example():
    step, value, rate = _paced(0.5, 1.0, 0)
    known = Known(step, value, pace_of(step, rate, 0.0, 1.0))
    still = Known(step, value, None)
    now = step < 1100
    scale = step[now][-1]
    seen = Seen(step[now] / scale, value[now][None] + 0.3, pace_of(step, rate, 0.0, scale), scale)
    end = np.array([step[-1] / scale])
    one, other = (candidates_after((each,), MultiPower())[-1].fit(seen, end) for each in (known, still))
    assert other is None
    assert one.mean[0, 0] == pytest.approx(value[-1] + 0.3, abs=0.15)
