"""Sources of noise against the learning rate: runs bear the claims out, spoilt ones do not."""

import numpy as np
import pytest

from dynascope.experiments.phases import noise_sources
from dynascope.experiments.registry import find

NAME = "phases/noise_sources"


def test_runs_bear_every_claim_out(smoke, failed):
    assert not failed(NAME, smoke(NAME)[0])


@pytest.mark.parametrize(
    ("quantity", "cells", "factor", "claims"),
    [
        ("spread", (0, 1), 2.0, {"batch-kept"}),  # the learning rate alone counts
        ("spread", (1, 1), 2.0, {"dropout-kept"}),
        ("spread", (0, 2), 0.5, {"batch-doubled"}),  # the learning rate does not count
        ("spread", (1, 2), 0.5, {"dropout-doubled"}),
        ("drift", (slice(None),), 0.9, {"label-drift"}),
        ("variance", (slice(None),), 0.9, {"label-variance", "label-others"}),
        ("other_variance", (slice(None),), 0.9, {"label-others"}),
    ],
)
def test_each_claim_can_fail(quantity, cells, factor, claims, smoke, failed):
    record = smoke(NAME)[0]
    record[quantity][cells] *= factor
    assert failed(NAME, record) == {f"s7-{claim}" for claim in claims}


def test_noise_that_batches_do_not_average_is_caught(monkeypatch, failed):
    """One sample, taken as often as the batch is large."""
    batch = noise_sources._batch

    def alike(random, runs, width, x, y, *, size):
        seen, targets, mask = batch(random, runs, width, x, y, size=1)
        return np.repeat(seen, size, axis=1), np.repeat(targets, size, axis=1), mask

    monkeypatch.setattr(noise_sources, "_batch", alike)
    experiment = find(NAME)
    assert "s7-batch-kept" in failed(NAME, experiment.record(experiment.settings("smoke")))
