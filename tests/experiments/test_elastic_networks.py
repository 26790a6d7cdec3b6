"""Claims on trained networks: judged on networks that learn, on planted ones, and on ones that were spoilt."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments import registry
from dynascope.experiments.elastic import network_cases, network_corruption, network_course, network_training
from dynascope.experiments.elastic.network_training import Training, clear_from, pictures, record_steps
from dynascope.models.elastic.mean_path import logit_path
from dynascope.models.elastic.strengths import PowerLaw

TINY = {"data": "geomnist", "network": "mlp", "size": 8, "per_class": 20, "probes": 10, "records": 30, "trials": 8}


def planted(given, labels=None, *, turn=True, growth=0.05, outputs=0.05):
    """What training would return if class means followed the L-model: random at first, then along their margins."""
    steps = np.array(record_steps(given.steps, given.records))
    random = np.random.default_rng(3)
    copies = given.trials if labels is None else len(labels)
    start = 0.02 * random.standard_normal((copies, 3, 3))
    frame = np.eye(3) - 1 / 3
    kept = np.ones(copies) if labels is None else [np.mean(row == labels[0]) * 1.5 - 0.5 for row in labels]
    drift = logit_path(steps.astype(float), 0.02 * frame, PowerLaw(growth, 0.4), PowerLaw(-0.01 * growth, 0.4))
    means = start[:, None] * (1.0 if turn else 0.0) + drift * np.reshape(kept, (-1, 1, 1, 1))
    if not turn:
        means = means + 0 * start[:, None]
    means = means + 0.002 * random.standard_normal(means.shape)
    truth = np.repeat(np.arange(3), given.probes)
    samples = means[:, :, truth] + outputs * random.standard_normal((copies, 1, len(truth), 3))
    right = (samples.argmax(-1) == truth).mean(-1)
    chosen = np.take_along_axis(samples, truth[None, None, :, None], 3)[..., 0]
    loss = (np.log(np.exp(samples).sum(-1)) - chosen).mean(-1)
    drawn = random.integers(0, 3, (copies, given.steps))
    at = np.searchsorted(steps, np.arange(given.steps), side="right") - 1
    noisy = means[np.arange(copies)[:, None], at, drawn] + 0.05 * random.standard_normal((copies, given.steps, 3))
    return xr.Dataset(
        {
            "class_mean": (("copy", "step", "class", "logit"), means.astype(np.float32)),
            "loss": (("copy", "step"), loss),
            "accuracy": (("copy", "step"), right),
            "output": (("copy", "step", "sample", "logit"), samples),
            "drawn_output": (("copy", "update", "draw", "logit"), noisy[:, :, None]),
            "drawn_label": (("copy", "update", "draw"), drawn[:, :, None]),
        },
        coords={"step": steps},
        attrs={"device": '"cpu"'},
    )
