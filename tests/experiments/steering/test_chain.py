"""Claims about a steered chain fail where it answers otherwise, and its theory holds in the limits."""

import numpy as np
import pytest

from dynascope.experiments.steering.chain import FRICTION, REST, SPEED, START, settled, theory

NAME = "steering/chain"


def _copied(record, variable, *, to, source):
    """A record in which one loop is another."""
    values = record[variable].copy(deep=True)
    values.loc[{"loop": to}] = values.sel(loop=source).values
    return record.assign({variable: values})


def _moved(record, loop, by):
    values = record["curvature"].copy(deep=True)
    values.loc[{"loop": loop}] += by
    return record.assign(curvature=values)


def _rarer(record):
    """A loop that turns its knob as far at each measurement, however few there are."""
    values = record["knob"].copy(deep=True)
    values.loc[{"loop": "every 4"}] = START + (values.sel(loop="every 1") - START) / 4
    return record.assign(knob=values)


SPOILED = {
    "steer-chain-response": lambda record: _moved(record, "held at 0.6", 0.02),
    "steer-chain-lag": lambda record: _copied(record, "curvature", to="turned at once", source="held at 0.8"),
    "steer-chain-slow": lambda record: _copied(record, "knob", to="slow", source="fast"),
    "steer-chain-fast": lambda record: _copied(record, "knob", to="fast", source="slow"),
    "steer-chain-stable": lambda record: _moved(record, "fast", 0.02),
    "steer-chain-measurements": _rarer,
}


@pytest.mark.parametrize("claim", SPOILED)
def test_each_claim_fails_alone(claim, smoke, failed):
    record, _ = smoke(NAME)
    assert failed(NAME, record) == set()
    assert failed(NAME, SPOILED[claim](record)) == {claim}


def test_without_noise_a_pull_takes_all_of_the_friction_and_in_much_noise_half_of_the_difference():
    speed = SPEED * np.arange(1, 6) / 6
    quiet, loud = settled([-0.7, 200.0], 0.05)[0]  # noise forces of 0.004 and 16
    np.testing.assert_allclose(quiet, FRICTION[0] + speed, atol=0.002)
    np.testing.assert_allclose(loud, (FRICTION[0] - FRICTION[1]) / 2 + speed, atol=0.002)


def test_the_fall_is_that_of_the_settled_curvature():
    fall, _ = theory(0.05)
    here, there = settled([REST, REST + 0.01], 0.05)[0].mean(axis=1)
    assert (here - there) / 0.01 == pytest.approx(fall, rel=0.05)
