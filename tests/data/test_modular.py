"""Equations modulo a number are true, and each stands in one part only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.data import modular_arithmetic

CHECKS = {
    "division": lambda a, b, c, p: c * b % p == a,
    "addition": lambda a, b, c, p: (a + b) % p == c,
    "subtraction": lambda a, b, c, p: (c + b) % p == a,
    "multiplication": lambda a, b, c, p: a * b % p == c,
}


@given(st.sampled_from([2, 3, 5, 7, 11, 13]), st.sampled_from(sorted(CHECKS)), st.floats(0.3, 0.7), st.integers(0, 9))
def test_equations(modulus, operation, share, seed):
    x, y, xt, yt = modular_arithmetic(modulus, operation, train_share=share, seed=seed)
    for tokens, answers in ((x, y), (xt, yt)):
        a, b, equals = tokens.T
        assert CHECKS[operation](a, b, answers, modulus).all()
        assert (equals == modulus).all()
        assert answers.dtype == tokens.dtype == np.int64
    together = np.concatenate([x, xt])
    expected = modulus * (modulus - (operation == "division"))
    assert len(together) == len(np.unique(together, axis=0)) == expected
    assert abs(len(x) - share * expected) <= 0.5


def test_seeds_split_differently():
    one, again, other = (modular_arithmetic(7, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modulus": 9}, "modulus must be a prime for division"),
        ({"modulus": 1}, "modulus"),
        ({"train_share": 1.0}, "train_share must be below 1"),
        ({"train_share": 0.0}, "train_share must be above 0"),
        ({"modulus": 2, "train_share": 0.01}, "leave equations"),
        ({"operation": "power"}, "operation must be one of"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        modular_arithmetic(**options)
