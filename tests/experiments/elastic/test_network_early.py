"""How wild A is in the first updates: judged on planted curves, and on mean paths that meet the pole of (11)."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.elastic import network_early

FRAME = np.eye(3) - 1 / 3


def record(curves, loss=None):
    """Curves (ensemble, model, step), with a validation loss that has fallen by 5 % at step 50."""
    steps = np.arange(curves.shape[-1])
    falling = np.broadcast_to(1 - 0.001 * steps, (len(curves), len(steps))) if loss is None else loss
    content = {"intra": (("ensemble", "model", "step"), curves), "loss": (("ensemble", "step"), falling)}
    return xr.Dataset(content, coords={"step": steps})


def walks(random, *factors, ensembles=20, steps=60):
    """Curves that go up and down at random, one model more than the other by the factors."""
    return random.standard_normal((ensembles, 2, steps)).cumsum(axis=-1) * np.reshape(factors, (2, 1))


def test_models_that_are_as_wild_as_each_other_are_not_told_apart():
    random = np.random.default_rng(0)
    found = [network_early._wild(record(walks(random, 1.0, 1.0))).verdict for _ in range(300)]
    assert found.count("reproduced") <= 3


@pytest.mark.parametrize(("factors", "verdict"), [((3.0, 1.0), "reproduced"), ((1.0, 3.0), "not reproduced")])
def test_the_wilder_model_is_found(factors, verdict):
    assert network_early._wild(record(walks(np.random.default_rng(1), *factors))).verdict == verdict


def test_one_ensemble_that_all_but_meets_its_pole_says_little():
    """Its mean would be decided by it: nineteen others are as wild by either model."""
    curves = walks(np.random.default_rng(2), 1.0, 1.0)
    curves[0, 0, 20] = 1e6
    assert network_early._wild(record(curves)).verdict == "not reproduced"


def test_what_comes_after_the_loss_has_fallen_does_not_count():
    curves = walks(np.random.default_rng(3), 1.0, 1.0, steps=200)
    curves[:, 0, 100:] *= 100.0
    assert network_early._wild(record(curves)).verdict == "not reproduced"


def test_a_loss_that_does_not_fall_leaves_it_undetermined():
    curves = walks(np.random.default_rng(4), 3.0, 1.0)
    assert network_early._wild(record(curves, loss=np.ones((20, 60)))).verdict == "not determined"


def test_the_printed_strength_is_wild_where_a_path_meets_the_pole_only():
    steps, ups = np.arange(60), []
    for path in (1.0 + 0.5 * np.sin(steps + 0.5), 1.5 + steps / 20):  # in units in which the pole lies at 1
        logits, _ = network_early.integrated(path[:, None, None] * FRAME * 1.5 + 0.3)
        ups.append(np.abs(np.diff(logits)).sum() - abs(logits[-1] - logits[0]))
    assert ups[0] > 10 * abs(ups[1])
