"""Steps and their first order, against differences of real networks."""

import numpy as np
import pytest
import torch
from torch import nn

from dynascope.networks import first_order

X = np.random.default_rng(0).standard_normal((6, 4))
Y = np.array([0, 1, 2, 0, 1, 2])


@pytest.fixture
def smooth():
    """A small network without kinks, in double precision."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def test_errors_fall_with_the_learning_rate_and_the_network_stays_as_it_was(smooth):
    before = [weight.clone() for weight in smooth.parameters()]
    weights, logits = first_order.step_errors(smooth, X[0], 1, X, [1e-3, 1e-4, 1e-5])
    assert weights.max() < 1e-9
    assert np.allclose(np.diff(np.log10(logits), axis=0), -1, atol=0.01)
    assert all(torch.equal(one, other) for one, other in zip(before, smooth.parameters(), strict=True))
    assert all(weight.grad is None for weight in smooth.parameters())


def test_the_mean_drift_is_what_a_short_step_on_all_samples_does(smooth):
    x, y, rate = torch.as_tensor(X), torch.as_tensor(Y), 1e-6
    expected = first_order.mean_drift(smooth, X, Y)
    before = smooth(x).detach()
    nn.functional.cross_entropy(smooth(x), y).backward()
    torch.optim.SGD(smooth.parameters(), lr=rate).step()
    moved = ((smooth(x) - before) / rate).detach().numpy()
    assert np.allclose([moved[k == Y].mean(axis=0) for k in range(3)], expected, rtol=1e-4, atol=1e-6)


def test_decoupled_and_exact_drift_agree_where_all_samples_of_a_class_are_one(smooth):
    same = X[:3].repeat(2, axis=0)
    own = np.repeat(np.arange(3), 2)
    logits, gram = first_order.logits_and_gram(smooth, same, own)
    power = np.exp(logits[::2])
    margins = np.eye(3) - power / power.sum(axis=1, keepdims=True)
    assert np.allclose(np.einsum("kilj,lj->ki", gram, margins) / 3, first_order.mean_drift(smooth, same, own))
