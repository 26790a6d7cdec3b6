"""Future learning rates: formulas in closed form, tables, and schedulers as they would step."""

import copy
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler as schedulers

from dynascope.forecasting.curves import Curve
from dynascope.forecasting.schedules import future_rates

STEP = np.arange(0.0, 101.0, 10.0)


def _curve(rate=0.1):
    rates = None if rate is None else np.broadcast_to(np.asarray(rate, float), STEP.shape)
    return Curve(STEP, 1 / (1 + STEP), rates, "loss")


def _at(found, *steps):
    step, rate = found
    assert np.all(np.diff(step) > 0)
    return np.interp(steps, step, rate)


def _cosine(step, begin, end, peak, floor):
    return floor + (peak - floor) * (1 + np.cos(np.pi * (np.asarray(step) - begin) / (end - begin))) / 2


@pytest.mark.parametrize(
    ("formula", "rates"),
    [
        ("constant", [0.1, 0.1, 0.1]),
        ("linear", [0.075, 0.05, 0.0]),
        ("linear:0.5", [0.0875, 0.075, 0.05]),
        ("cosine", _cosine([150, 200, 300], 100, 300, 0.1, 0.0)),
        ("cosine:0.1", _cosine([150, 200, 300], 100, 300, 0.1, 0.01)),
        ("wsd:200", [0.1, 0.1, 0.0]),
        ("wsd:100:0.2", [0.08, 0.06, 0.02]),
    ],
)
def test_formulas_go_on_from_the_last_rate(formula, rates):
    found = future_rates(formula, _curve(), 300)
    assert found[0][[0, -1]].tolist() == [0, 300]
    np.testing.assert_allclose(_at(found, 0, 100, 150, 200, 300), [0.1, 0.1, *rates], atol=1e-6)


def test_a_late_decay_begins_at_its_step():
    np.testing.assert_allclose(_at(future_rates("wsd:203:0.5", _curve(), 303), 203, 253, 303), [0.1, 0.075, 0.05])


@pytest.mark.parametrize("floor", [0.0, 0.01, 0.04])
def test_a_cosine_goes_on(floor):
    past = np.where(STEP < 20, 0.1 * STEP / 20, _cosine(STEP, 20, 300, 0.1, floor))  # after a warm-up
    for formula in ("cosine", f"cosine:{floor / 0.1}"):
        found = future_rates(formula, _curve(past), 300)
        np.testing.assert_allclose(
            _at(found, 0, 150, 200, 300), [0, *_cosine([150, 200, 300], 20, 300, 0.1, floor)], atol=1e-6
        )


def test_what_follows_another_cosine_or_a_line_begins_anew():
    for past in (_cosine(STEP, 0, 150, 0.1, 0.0), 0.1 - 0.0005 * STEP):
        found = future_rates("cosine", _curve(past), 300)
        np.testing.assert_allclose(_at(found, 200, 300), [past[-1] / 2, 0], atol=1e-6)


def test_without_a_schedule_only_a_constant_rate_is_known():
    assert future_rates(None, _curve(None), 300) is None
    assert future_rates(None, _curve(0.1 - 0.0005 * STEP), 300) is None
    assert set(future_rates(None, _curve(), 300)[1].tolist()) == {0.1}


def test_tables(tmp_path):
    given = {"step": [0, 200, 400], "learning_rate": [0.4, 0.2, 0.0]}
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(given))
    for each in (given, path, str(path)):
        np.testing.assert_allclose(_at(future_rates(each, _curve(), 300), 0, 100, 200, 300), [0.1, 0.1, 0.2, 0.1])
        found = future_rates(each, _curve(None), 300)  # nothing else is known of the past
        np.testing.assert_allclose(_at(found, 0, 100, 200, 300), [0.4, 0.3, 0.2, 0.1])
    later = {"step": [101, 300], "lr": [0.5, 0.5]}
    np.testing.assert_allclose(_at(future_rates(later, _curve(), 300), 100, 101, 300), [0.1, 0.5, 0.5])


def _optimizer(*rates):
    return torch.optim.SGD(
        [{"params": [torch.nn.Parameter(torch.ones(3))], "lr": rate} for rate in rates], momentum=0.9
    )


SCHEDULERS = {
    "steps": lambda sgd: schedulers.StepLR(sgd, 70, 0.5),
    "cosine": lambda sgd: schedulers.CosineAnnealingLR(sgd, 300),
    "restarts": lambda sgd: schedulers.CosineAnnealingWarmRestarts(sgd, 90),
    "exponential": lambda sgd: schedulers.ExponentialLR(sgd, 0.99),
    "function": lambda sgd: schedulers.LambdaLR(sgd, lambda step: 1 / (1 + step)),
    "one cycle": lambda sgd: schedulers.OneCycleLR(sgd, 0.5, total_steps=300),
    "cycles": lambda sgd: schedulers.CyclicLR(sgd, 0.01, 0.5, step_size_up=40),
    "sequence": lambda sgd: schedulers.SequentialLR(
        sgd, [schedulers.LinearLR(sgd, 0.1, 1.0, 50), schedulers.PolynomialLR(sgd, 250)], [50]
    ),
    "chain": lambda sgd: schedulers.ChainedScheduler(
        [schedulers.LinearLR(sgd, 0.1, 1.0, 50), schedulers.ExponentialLR(sgd, 0.99)]
    ),
}


def _stepped(scheduler, steps):
    rates = [max(scheduler.get_last_lr())]
    for _ in range(steps):
        scheduler.optimizer.step()
        scheduler.step()
        rates.append(max(scheduler.get_last_lr()))
    return rates


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", SCHEDULERS)
def test_schedulers_say_what_they_would_do_and_stay_as_they_are(kind):
    scheduler = SCHEDULERS[kind](_optimizer(0.05, 0.1))
    past = _stepped(scheduler, 100)
    before = copy.deepcopy([scheduler.state_dict(), scheduler.optimizer.state_dict()["param_groups"]])
    found = future_rates(scheduler, _curve(past[::10]), 300)
    assert str(before) == str([scheduler.state_dict(), scheduler.optimizer.state_dict()["param_groups"]])
    np.testing.assert_allclose(
        _at(found, *range(0, 101, 10), *range(101, 301)), past[::10] + _stepped(scheduler, 200)[1:]
    )


def test_a_scheduler_that_has_not_begun_begins_at_step_0():
    found = future_rates(schedulers.CosineAnnealingLR(_optimizer(0.1), 300), _curve(None), 300)
    np.testing.assert_allclose(_at(found, 0, 100, 300), _cosine([0, 100, 300], 0, 300, 0.1, 0.0), atol=1e-9)


def test_a_scheduler_whose_copy_would_be_large_is_copied_without_its_parameters():
    class Uncopied(torch.nn.Parameter):
        def __deepcopy__(self, memo):
            raise AssertionError

    sgd = torch.optim.SGD([Uncopied(torch.ones(1))], lr=0.1)
    assert future_rates(schedulers.StepLR(sgd, 1000), _curve(), 300)[1][-1] == 0.1


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"step": [0, 200], "lr": [0.1, 0.1]}, "schedule must reach until = 300, it ends at step 200"),
        (lambda: schedulers.OneCycleLR(_optimizer(0.1), 0.5, total_steps=250), "until = 300, it ends at step 250"),
        (lambda: schedulers.ReduceLROnPlateau(_optimizer(0.1)), "steps by itself, ReduceLROnPlateau waits"),
        (lambda: schedulers.LambdaLR(_optimizer(0.1), lambda step: 1 - step / 100), "rates of at least 0, got -"),
        ({"step": [0, 300], "loss": [0.1, 0.1]}, "must hold learning rates .* schedule has loss beside its steps"),
        ({"step": [0, math.nan], "lr": [0.1, 0.1]}, "steps must be finite, but in schedule record 2"),
        ({"step": [300, 0], "lr": [0.1, 0.1]}, "in schedule step 0 follows step 300"),
        ({"step": [0, 300], "lr": [0.1, math.nan]}, "schedule must hold numbers everywhere, got nan"),
        ({"step": [0, 300], "lr": [0.1, -0.1]}, "must be finite and at least 0, schedule has -0.1"),
        ({"step": [0, 300], "lr": [0.1, "low"]}, "got 'low'"),
        ({}, "schedule must have a column of steps"),
        (5, "schedule must be a formula .*, got int"),
        (
            "exponential",
            r"schedule must be one of constant, .* or the path of a table that is there, got 'exponential'",
        ),
        ("constant:0.5", "got 'constant:0.5'"),
        ("wsd", "got 'wsd'"),
        ("cosine:nan", "with numbers from 0 on, got 'cosine:nan'"),
        ("linear:-1", "got 'linear:-1'"),
        ("linear:", "got 'linear:'"),
        ("wsd:50", "must begin to fall between the last step, 100, and until = 300"),
        ("wsd:300", "must begin to fall between the last step, 100, and until = 300"),
    ],
)
def test_what_is_no_schedule_is_refused(schedule, message):
    with pytest.raises(ValueError, match=message):
        future_rates(schedule() if callable(schedule) else schedule, _curve(), 300)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("constant", "but the run has none: record it with watch"),
        ({"step": [50, 300], "lr": [0.1, 0.1]}, "must say the past, too, .* it begins at step 50, the run at 0"),
    ],
)
def test_the_past_of_a_run_without_rates_must_come_from_the_schedule(schedule, message):
    with pytest.raises(ValueError, match=message):
        future_rates(schedule, _curve(None), 300)


@pytest.mark.parametrize("until", [100, 50, math.nan, math.inf, "300"])
def test_an_end_that_is_none(until):
    with pytest.raises(ValueError, match="until must be"):
        future_rates("constant", _curve(), until)


@given(
    st.sampled_from(["constant", "cosine", "cosine:0.3", "linear", "linear:2", "wsd:100", "wsd:100.5:0.1"]),
    st.lists(st.floats(0, 1), min_size=len(STEP), max_size=len(STEP)),
    st.floats(101, 1e9),
)
def test_formulas_lead_from_the_first_step_to_the_end_without_gaps(formula, past, until):
    step, rate = future_rates(formula, _curve(past), until)
    assert (step[0], step[-1]) == (0, until)
    assert np.all(np.diff(step) > 0)
    assert np.isfinite(rate).all()
    assert (rate >= 0).all()
    np.testing.assert_array_equal(rate[: len(STEP)], past)
