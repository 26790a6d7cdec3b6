"""Sums over skills and means over data against adding up every term."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dynascope import Multilinear
from dynascope.models.multilinear.curves import SkillSet
from dynascope.models.multilinear.quadrature import binomial_rule, power_sum, representatives, sum_rule

exponents, starts = st.floats(0.05, 4.0), st.floats(1e-9, 0.95)


def _gaps(share, model, time):
    """1 − R/S from (4.11), or (C.4), written out again."""
    start = float(model.initial / model.target)
    exposure = float(model.learning_rate) * share * time
    if model.linear:
        return (1 - start) * np.exp(-exposure)
    return 1 / (1 + start / (1 - start) * np.exp(np.minimum(2 * float(model.target) * exposure, 600.0)))


def _shares(skills, exponent):
    weights = np.arange(1.0, skills + 1) ** -(exponent + 1)
    return weights / weights.sum()


@given(exponents, starts, st.floats(0.1, 5.0), st.integers(1, 20_000), st.booleans(), st.floats(-1, 8))
def test_loss_in_time_is_the_direct_sum(exponent, start, target, skills, linear, log_time):
    model = Multilinear(skills, exponent, target, start * target, 0.3, linear)
    share, time = _shares(skills, exponent), 10.0**log_time
    direct = target**2 / 2 * np.sum(share * _gaps(share, model, time) ** 2)
    np.testing.assert_allclose(model.loss(time=time), direct, rtol=1e-11, atol=1e-15 * target**2)


@given(exponents, starts, st.integers(1, 20_000), st.integers(1, 10**9))
def test_loss_with_data_is_the_direct_sum(exponent, start, skills, data):
    model, share = Multilinear(skills, exponent, 1.0, start), _shares(skills, exponent)
    with np.errstate(divide="ignore"):
        direct = (1 - start) ** 2 / 2 * np.sum(share * np.exp(data * np.log1p(-share)))
    # D·log(1 − P) carries the rounding of P times D
    np.testing.assert_allclose(model.loss(data=data), direct, rtol=1e-10, atol=1e-15)


@given(exponents, st.integers(1, 5000), st.data())
def test_loss_with_few_parameters_is_the_direct_sum(exponent, skills, draw):
    known = draw.draw(st.integers(0, skills))
    model, share = Multilinear(skills, exponent, 2.0, 0.1, 0.4), _shares(skills, exponent)
    gaps = np.where(np.arange(skills) < known, _gaps(share, model, 50.0), 1.0)
    np.testing.assert_allclose(model.loss(time=50.0, parameters=known), 2 * np.sum(share * gaps**2), rtol=1e-11)
    np.testing.assert_allclose(model.loss(parameters=known), 2 * share[known:].sum(), rtol=1e-9, atol=1e-15)


@given(st.floats(0.1, 2.0), st.floats(1e-6, 0.9), st.integers(1, 300), st.floats(-1, 6), st.integers(0, 30))
def test_all_three_resources_together_average_over_the_counts(exponent, start, data, log_time, known):
    model, share, time = Multilinear(30, exponent, 1.0, start, 0.3), _shares(30, exponent), 10.0**log_time
    counts = np.arange(data + 1)
    total = strength = 0.0
    for rank, chance in enumerate(share, start=1):
        weights, gaps = binom.pmf(counts, data, chance), _gaps(counts / data, model, time)
        total += chance * (weights @ gaps**2 if rank <= known else 1.0) / 2
        strength += (1 - weights @ gaps) if rank <= known else 0.0
    found = model.loss(time=time, data=data, parameters=known)
    np.testing.assert_allclose(found, total, rtol=1e-10, atol=1e-14)
    summed = model.strength(np.arange(1, 31), time, data, parameters=known).sum()
    np.testing.assert_allclose(summed, strength, rtol=1e-9, atol=1e-12)


@given(st.integers(1, 10**6), st.integers(0, 31))
def test_sum_rule_is_exact_for_polynomials(count, degree):
    places, weights = sum_rule(count)
    x, scale = np.arange(count) / max(count, 1) - 0.5, max(count, 1)
    np.testing.assert_allclose(weights @ (places / scale - 0.5) ** degree, np.sum(x**degree), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("draws", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("chance", [1e-7, 0.02, 0.5, 0.999, 1.0])
def test_binomial_rule_has_the_right_moments(draws, chance):
    counts, weights = binomial_rule(draws, np.array([chance]))
    assert counts.shape[1] < 400
    mean, variance = draws * chance, draws * chance * (1 - chance)
    np.testing.assert_allclose(np.sum(weights), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.sum(weights * counts), mean, rtol=1e-9)
    np.testing.assert_allclose(np.sum(weights * (counts - mean) ** 2), variance, rtol=1e-7, atol=1e-12)


def test_many_skills_need_few_nodes():
    ranks, multiplicity = representatives(1, 10**7, 1.5)
    assert len(ranks) < 700
    np.testing.assert_allclose(multiplicity.sum(), 1e7, rtol=1e-12)
    task = SkillSet(10**7, 0.3, 1.0, 0.01, 1.0, False)
    share = task.frequency(np.arange(1.0, 10**7 + 1))
    for time in (1e2, 1e6, 1e9):
        direct = np.sum(share * task.gap(time * share) ** 2) / 2
        np.testing.assert_allclose(task.loss(np.array([time]), None, None), direct, rtol=1e-11)


def test_no_table_of_skills_and_times_is_made():
    model = Multilinear(10**6)
    model.loss(time=1.0)
    tracemalloc.start()
    try:
        model.loss(time=np.geomspace(1, 1e7, 10_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6  # bytes; the table would take 80 GB


def test_power_sum_near_its_end():
    last = 10**6
    for first in (1, 10, last - 2000, last - 3, last):
        direct = np.sum(np.arange(first, last + 1.0)[::-1] ** -1.3)
        np.testing.assert_allclose(power_sum(1.3, np.array(float(first)), float(last)), direct, rtol=1e-9)
