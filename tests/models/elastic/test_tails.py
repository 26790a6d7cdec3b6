"""Tail indices of power laws come back, and the printed form has the bias that its algebra gives it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.models.elastic.strengths import PowerLaw
from dynascope.models.elastic.tails import tail_index

TIMES = np.linspace(0.0, 1000.0, 601)


@given(st.floats(0.1, 3.0), st.floats(0.0, 2.5), st.sampled_from([-1.0, 1.0]), st.floats(-5, 5))
def test_power_laws_come_back(scale, index, sign, offset):
    law = PowerLaw(sign * scale, index)
    assert tail_index(TIMES, law(TIMES)) == pytest.approx(index, abs=1e-8)
    # the tail of the integral changes by scale·1000^(1−index): rounding of the offset limits what can be seen
    assert tail_index(TIMES, law.integral(TIMES) + offset, "integrated") == pytest.approx(index, abs=1e-3)


@given(st.floats(0.1, 3.0), st.floats(0.1, 0.9))
def test_the_printed_form_has_its_stated_bias(scale, index):
    log = np.log1p(TIMES[-200:])
    bias = (np.log(1 - index) - np.log(scale) - np.log(-np.expm1((index - 1) * log))) / log
    found = tail_index(TIMES, PowerLaw(scale, index).integral(TIMES), "published")
    assert found == pytest.approx(index + bias.mean(), abs=1e-9)


def test_rows_are_read_apart():
    curves = np.stack([PowerLaw(1.0, r)(TIMES) for r in (0.2, 0.9)])
    np.testing.assert_allclose(tail_index(TIMES, curves), [0.2, 0.9])
    integrals = np.stack([PowerLaw(1.0, r).integral(TIMES) for r in (0.2, 0.9)])[:, None]
    np.testing.assert_allclose(tail_index(TIMES, integrals, "integrated"), [[0.2], [0.9]], atol=1e-6)
    assert tail_index(TIMES, 1 / (1 + TIMES) + (TIMES < 900), points=50) == pytest.approx(1.0)


def test_what_has_no_tail_has_no_index():
    wave = np.sin(TIMES)
    assert np.isnan(tail_index(TIMES, wave))
    assert np.isnan(tail_index(TIMES, np.full(601, np.nan)))
    assert np.isnan(tail_index(TIMES, np.zeros(601), "integrated"))
    assert np.isnan(tail_index(TIMES, np.exp(TIMES / 20), "integrated"))  # steeper than any power that is tried
    assert np.isnan(tail_index(TIMES, -TIMES, "published"))


def test_bad_input():
    with pytest.raises(ValueError, match="method must be one of differentiated, integrated, published"):
        tail_index(TIMES, TIMES, "guess")
    with pytest.raises(ValueError, match="curve must end in the 601 times"):
        tail_index(TIMES, TIMES[1:])
    with pytest.raises(ValueError, match="points must be at most the number of times, 601"):
        tail_index(TIMES, TIMES, points=700)
