"""The two stages of learning are found where they were planted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.models.elastic.geometry import margin_directions
from dynascope.models.elastic.mean_path import logit_path
from dynascope.models.elastic.strengths import Constant
from dynascope.statistics.stages import learning_stages

TIMES = np.linspace(0.0, 20.0, 201)


def rotation_then_growth(turn, trials, seed, *, noise=0.0):
    """Unit patterns on a random walk over the sphere that ends in the simplex at time `turn`, then growth."""
    random = np.random.default_rng(seed)
    final = margin_directions(3, 3) / np.linalg.norm(margin_directions(3, 3))
    paths = np.empty((trials, len(TIMES), 3, 3))
    for path in paths:
        direction = final
        for i in range(len(TIMES) - 1, -1, -1):
            if TIMES[i] < turn:  # backwards in time, away from the simplex
                direction = direction + 0.3 * random.normal(size=(3, 3))
                direction = direction / np.linalg.norm(direction)
            path[i] = direction * np.exp(0.3 * max(TIMES[i] - turn, 0.0))
    return paths + noise * random.normal(size=paths.shape)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("turn", [4.0, 10.0, 14.0])
def test_planted_stages_are_found(turn, noise):
    paths = rotation_then_growth(turn, 10, 0, noise=noise)
    found = learning_stages(TIMES, paths)
    assert found["ok"], found.attrs["reason"]
    # a walk of step 0.3 in 8 dimensions turns by half of its final angle in one to two of these steps
    assert float(found["amplification_time"]) == pytest.approx(turn, abs=0.3)
    assert found["amplification_time_low"] <= found["amplification_time"] <= found["amplification_time_high"]
    assert float(found["amplification_time_high"] - found["amplification_time_low"]) < 1.0
    one = learning_stages(TIMES, paths[0])
    assert one["ok"]
    assert float(one["amplification_time"]) == pytest.approx(turn, abs=0.5)
    assert "amplification_time_low" not in one


@given(st.floats(2.0, 5.0), st.floats(-0.5, 0.3), st.sampled_from([2, 3, 5]), st.integers(0, 99))
def test_amplification_begins_when_the_growing_pattern_dominates(ratio, mixed, classes, seed):
    """Exact paths from a start whose random part neither grows nor shrinks: |s(t) d| = |random part| at τ."""
    simplex = margin_directions(classes, classes)
    random = np.random.default_rng(seed).normal(size=(classes, classes))
    random -= (random * simplex).sum(axis=1, keepdims=True) * simplex / (simplex[0] @ simplex[0])  # c_k = 0
    seen = random - random.mean(axis=0)
    seen_along = (seen * simplex).sum() / np.linalg.norm(simplex)
    random *= np.exp(ratio) * np.linalg.norm(simplex) / np.linalg.norm(seen)
    assert abs(seen_along) < 1e-9  # the random part is at a right angle to the pattern as a whole
    rate = (1.0 - mixed) / classes
    times = np.linspace(0.0, 2.5 * ratio / rate, 400)
    found = learning_stages(times, logit_path(times, simplex + random, Constant(1.0), Constant(mixed)))
    assert found["ok"], found.attrs["reason"]
    # midway between the two levels is a little less than 45°: 0.08 to 0.16 e-folds late for these ratios
    assert float(found["amplification_time"]) == pytest.approx(ratio / rate, abs=0.2 / rate)


@pytest.mark.ci
def test_intervals_cover_the_stage_time_of_many_trials():
    simplex = margin_directions(3, 3)

    def starts(trials, seed):
        random = np.random.default_rng(seed).normal(size=(trials, 3, 3))
        random -= (random * simplex).sum(axis=2, keepdims=True) * simplex / (simplex[0] @ simplex[0])
        return simplex + 5 * random

    times = np.linspace(0.0, 12.0, 241)
    truth = learning_stages(times, logit_path(times, starts(2000, 10**6), Constant(1.0), Constant(-0.5)))
    covered = 0
    for seed in range(200):
        path = logit_path(times, starts(20, seed), Constant(1.0), Constant(-0.5))
        found = learning_stages(times, path, seed=seed)
        low, high = float(found["amplification_time_low"]), float(found["amplification_time_high"])
        covered += low <= float(truth["amplification_time"]) <= high
    assert 0.90 <= covered / 200 <= 0.98


def test_paths_without_two_stages_are_refused():
    aligned = np.exp(TIMES / 5)[:, None, None] * margin_directions(3, 3)
    turning = np.stack([np.cos(TIMES / 7), np.sin(TIMES / 7)], axis=-1)[:, None, :] * np.array([[1.0], [-1.0]])
    settled = rotation_then_growth(10.0, 1, 0)[0]
    settled = settled / np.linalg.norm(settled, axis=(1, 2), keepdims=True)
    for path, reason in ((aligned, "hardly turn"), (turning, "keep turning"), (settled, "do not grow")):
        found = learning_stages(TIMES, path)
        assert not found["ok"]
        assert reason in found.attrs["reason"]
        assert np.isnan(found["amplification_time"])


def test_few_trials_give_no_interval():
    found = learning_stages(TIMES, rotation_then_growth(10.0, 3, 0))
    assert "3 trials are too few" in found.attrs["reason"]
    assert not found["ok"]
    assert float(found["amplification_time"]) == pytest.approx(10.0, abs=0.3)
    assert np.isnan(found["amplification_time_low"])


def test_a_common_shift_and_uneven_times_change_nothing():
    path = rotation_then_growth(10.0, 1, 3)[0]
    found = learning_stages(TIMES, path)
    assert float(learning_stages(TIMES, path + 7.0)["amplification_time"]) == float(found["amplification_time"])
    keep = np.concatenate([np.arange(0, 80, 2), np.arange(80, 120), np.arange(120, 201, 4)])
    thinned = learning_stages(TIMES[keep], path[keep])
    assert float(thinned["amplification_time"]) == pytest.approx(float(found["amplification_time"]), abs=0.2)
