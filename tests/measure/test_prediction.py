"""The held-out regression load: against the noise that was planted, and where in-sample fits are perfect."""

import jax
import numpy as np
import pytest
import torch

from dynascope.measure import data_separation, load_curve


def _planted(samples, features, *, noise=0.5, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(samples, features))
    return x, x[:, :3] @ np.ones((3, 2)) + noise * random.normal(size=(samples, 2)), random


def test_it_is_the_planted_noise_where_samples_are_many():
    x, y, _ = _planted(4000, 5)
    found = float(data_separation(x, y, kind="held_out"))
    exact = np.sqrt(2 * 0.5**2 / 2)  # two outputs with variance .25 each, over 2N
    assert np.isclose(found, exact, rtol=0.03)  # 3 standard errors of 8000 squares
    assert 0 < found - float(data_separation(x, y, kind="regression")) < 0.01 * found


def test_a_wide_layer_of_noise_predicts_nothing_though_it_fits_everything():
    random = np.random.default_rng(1)
    x, y = random.normal(size=(120, 600)), np.eye(3)[np.arange(120) % 3]
    level = np.sqrt((1 - 1 / 3) / 2)  # of the mean alone: the targets' spread
    assert np.isclose(float(data_separation(x, y, kind="held_out")), level, rtol=0.05)
    with pytest.raises(ValueError, match="kind='held_out'"):
        data_separation(x, y, kind="regression")


def test_groups_are_held_out_together():
    """Features that only name the group predict a target that is the group's own, unless the group is held out."""
    random = np.random.default_rng(2)
    groups = np.repeat(np.arange(40), 5)
    x, y = np.eye(40)[groups] + 0.01 * random.normal(size=(200, 40)), random.normal(size=40)[groups]
    assert float(data_separation(x, y, kind="held_out")) < 0.3
    assert float(data_separation(x, y, kind="held_out", groups=groups)) > 0.6


def test_libraries_agree():
    x, y, _ = _planted(80, 6)
    exact = float(data_separation(x, y, kind="held_out"))
    assert np.isclose(float(data_separation(torch.as_tensor(x), torch.as_tensor(y), kind="held_out")), exact)
    with jax.enable_x64(True):
        both = jax.numpy.asarray(x), jax.numpy.asarray(y)
    assert np.isclose(float(data_separation(*both, kind="held_out")), exact)


def test_intervals_cover_the_truth():
    """60 draws of 95 % intervals: below 88 % would be 2.5 standard errors off."""
    flat = 1.011  # fits of 5 numbers to 225 samples miss by √(1 + 5/225)
    inside = []
    for seed in range(60):
        x, y, random = _planted(300, 4, noise=0.3, seed=seed)
        layers = [x + scale * random.normal(size=x.shape) for scale in (0.6, 0.3, 0.0)]
        curve = load_curve(layers, y, kind="held_out", resamples=200)
        inside.append(curve["load_low"][-1] <= np.sqrt(2 * 0.3**2 / 2) * flat <= curve["load_high"][-1])
    assert np.mean(inside) >= 0.88


def test_too_few_groups_are_named():
    x, y, _ = _planted(30, 3)
    with pytest.raises(ValueError, match=r"at least 4 groups, so that some can be held out, got 3"):
        data_separation(x, y, kind="held_out", groups=np.arange(30) % 3)
    with pytest.raises(ValueError, match="groups must name the group of each of the 30 samples"):
        data_separation(x, y, kind="held_out", groups=[1, 2])
