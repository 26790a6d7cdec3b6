"""When the monitor measures, on a clock that the test sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.monitor.cadence import Cadence, log_spaced


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def _simulate(cadence, clock, *, steps, step_time, fast, slow):
    """Train, measuring when told; return the steps measured, and whether the budget ever was passed."""
    measured, passed = [], 0.0
    for step in range(1, steps + 1):
        clock.now += step_time
        if cadence.due(step):
            measured.append(step)
            with cadence.charge("fast"):
                clock.now += fast
            cadence.expect_slow(10.0)
            if cadence.due_slow():
                with cadence.charge("slow"):
                    clock.now += slow
            cadence.measured += 1
            passed = max(passed, cadence.overhead)
    return measured, passed


@given(
    step_time=st.floats(0.001, 1.0),
    fast=st.floats(0.001, 2.0),
    slow=st.floats(0.01, 20.0),
    share=st.floats(0.005, 0.3),
)
def test_the_budget_is_kept_at_every_moment(step_time, fast, slow, share):
    clock = Clock()
    cadence = Cadence(None, share, clock=clock)
    cadence.expect_slow(0.0)
    with cadence.charge("fast"):  # the state before training
        clock.now += fast
    measured, _ = _simulate(cadence, clock, steps=2000, step_time=step_time, fast=fast, slow=min(slow, 10 * fast))
    training = 2000 * step_time
    if measured:
        assert cadence.overhead <= share * (1 + 1e-9)
    else:  # too short a run for a second measurement
        assert 2 * fast >= 0.5 * share * training * (1 - 1e-9)


def test_a_budget_is_also_used():
    clock = Clock()
    cadence = Cadence(None, 0.02, slow=0, clock=clock)
    _simulate(cadence, clock, steps=10_000, step_time=0.03, fast=0.1, slow=1.0)
    assert 0.018 < cadence.overhead <= 0.02


def test_a_run_of_known_length_is_measured_ten_times_at_least():
    def measured(steps, **options):
        clock = Clock()
        cadence = Cadence(steps=steps, clock=clock, **options)
        with cadence.charge("fast"):
            clock.now += 0.1
        return _simulate(cadence, clock, steps=steps, step_time=1e-4, fast=0.1, slow=1.0)[0]

    assert measured(500) == list(range(50, 501, 50))
    assert measured(7) == list(range(1, 8))
    assert measured(500, max_overhead=0.02) == []  # a budget that is given is kept


def test_what_comes_before_the_clock_starts_is_not_charged():
    clock = Clock()
    cadence = Cadence(clock=clock)
    with cadence.charge("fast"):
        clock.now += 5.0  # imports
    cadence.begin()
    assert cadence.overhead == 0.0
    clock.now += 1.0
    assert cadence.due(1)


def test_the_first_and_the_last_measurement_are_paid_for_by_training():
    clock = Clock()
    cadence = Cadence(slow=0, clock=clock)
    with cadence.charge("fast"):
        clock.now += 0.1
    measured, _ = _simulate(cadence, clock, steps=10_000, step_time=0.01, fast=0.1, slow=1.0)
    assert measured[0] == 1501  # the first, this one and the last one: 0.3 of 15 seconds
    with cadence.charge("fast"):
        clock.now += 0.1
    assert 0.018 < cadence.overhead <= 0.02


def test_epochs_are_told_not_counted():
    cadence = Cadence("epoch")
    assert not any(cadence.due(step) for step in range(100))
    assert cadence.due_at_epoch()
    assert not Cadence(10).due_at_epoch()


def test_default_is_two_per_cent_and_a_schedule_has_no_budget():
    assert Cadence().max_overhead == 0.02
    assert Cadence(every=10).max_overhead is None


def test_slow_measures_come_with_every_tenth():
    clock = Clock()
    cadence, slow = Cadence(every=5, slow=10, clock=clock), []
    for step in range(0, 501):
        if cadence.due(step):
            slow += [step] if cadence.due_slow() else []
            cadence.measured += 1
    assert slow == list(range(0, 501, 50))


def test_log_schedule_has_ten_points_per_decade():
    steps = [step for step in range(100_001) if log_spaced(step)]
    assert steps[0] == 0
    for decade in (100, 1000, 10_000):
        assert len([step for step in steps if decade <= step < 10 * decade]) == 10
    assert {1, 10, 100, 1000, 10_000, 100_000} <= set(steps)


@pytest.mark.parametrize("every", [0, -3, 1.5, "often", float("nan")])
def test_bad_schedules_are_named(every):
    with pytest.raises(ValueError, match="every must be a number of steps, 'epoch', 'log', or None"):
        Cadence(every=every)


def test_bad_budget_is_named():
    with pytest.raises(ValueError, match="max_overhead"):
        Cadence(None, 0.0)


@pytest.mark.parametrize(("steps", "expected"), [(1000, False), (10_000, True)])
def test_slow_measures_at_the_end_stay_within_the_budget(steps, expected):
    clock = Clock()
    cadence = Cadence(None, 0.02, clock=clock)
    with cadence.charge("fast"):
        clock.now += 0.1
    cadence.expect_slow(20.0)
    clock.now += steps * 0.05
    assert cadence.affords_last_slow() is expected  # 0.1 + 0.1 + 2 seconds, of 50 or 500
    assert Cadence(100, clock=clock).affords_last_slow()
    assert not Cadence(100, slow=0, clock=clock).affords_last_slow()
