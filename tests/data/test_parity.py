"""Multitask sparse parity: what is drawn, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.data import SparseParity


@given(
    skills=st.integers(1, 5), relevant=st.integers(1, 4), spare=st.integers(0, 20), seed=st.integers(0, 99),
)  # fmt: skip
def test_targets_are_parities_of_the_bits_of_the_named_skill(skills, relevant, spare, seed):
    task = SparseParity(skills, skills * relevant + spare, relevant)
    x, y, ranks = task.sample(20, seed)
    for row, target, rank in zip(x, y, ranks, strict=True):
        assert np.flatnonzero(row[:skills]).tolist() == [rank - 1]
        own = row[skills + (rank - 1) * relevant : skills + rank * relevant]
        assert target == (-1) ** int(own.sum())


def test_frequencies_and_bits_are_as_stated():
    task = SparseParity(skills=5, exponent=0.6)
    x, y, ranks = task.sample(100_000, seed=1)
    error = np.sqrt(task.frequency * (1 - task.frequency) / 1e5)
    assert np.all(np.abs(np.bincount(ranks)[1:] / 1e5 - task.frequency) < 4 * error)
    assert np.all(np.abs(x[:, 5:].mean(0) - 0.5) < 4 * 0.5 / np.sqrt(1e5))
    assert abs(y.mean()) < 4 / np.sqrt(1e5)
    assert task.frequency[0] / task.frequency[3] == pytest.approx(4**1.6)


def test_one_skill_and_the_same_seed():
    task = SparseParity()
    first, again = task.sample(50, 3, skill=4), task.sample(50, 3, skill=4)
    assert set(first[2]) == {4}
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"skills": 0}, "skills must be a whole number of at least 1"),
        ({"skills": 11}, "bits must lie between 33 and 62, got 32"),
        ({"bits": 63}, "bits must lie between 15 and 62, got 63"),
        ({"exponent": float("nan")}, "exponent must be finite"),
    ],
)
def test_bad_tasks_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SparseParity(**arguments)


def test_bad_samples_are_refused():
    task = SparseParity()
    with pytest.raises(ValueError, match="skill must be at most 5, got 6"):
        task.sample(5, skill=6)
    with pytest.raises(ValueError, match=r"x must have the shape \(sample, 37\)"):
        task.parity(np.zeros((2, 36)))
