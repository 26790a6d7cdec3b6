"""What cannot be an argument is refused by name, with what is allowed, and never by an exception of another library."""

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

from dynascope import imitate, load, save, watch
from dynascope.networks import MLP, Ensemble
from dynascope.sweep import sweep

MEANS = xr.DataArray(
    np.random.default_rng(0).normal(size=(2, 30, 3, 3)),
    dims=("trial", "time", "class", "feature"),
    coords={"time": np.arange(30.0)},
)
PROBE = (torch.randn(30, 4), torch.arange(30) % 3)


def train(**options):
    return Ensemble(MLP(4, 2, width=4, depth=1), trials=2).train(np.ones((4, 4)), [0, 1, 0, 1], 2, **options)


@pytest.mark.parametrize("value", [5, None, object(), lambda: 3])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda value: imitate(MEANS, value), "geometry must be names from isotropic"),
        (lambda value: train(measures=value), "measures must be names from"),
        (lambda value: watch(nn.Linear(4, 3), probe=PROBE, loggers=value), "loggers must be a list of"),
        (lambda value: save(xr.Dataset(), value), "path must be the path of a file"),
        (lambda value: load(value), "path must be the path of a file"),
        (
            lambda value: sweep(lambda x: {"y": x}, {"x": [1]}, value, scheduler="here"),
            "out must be the path of a file",
        ),
    ],
)
def test_arguments_of_the_wrong_kind(call, message, value):
    with pytest.raises(ValueError, match=message):
        call(value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Ensemble(MLP(4, 2), vary=5), "vary must map settings of the network, .* to values, got 5"),
        (lambda: train(checkpoint=5), "checkpoint must be the path of a file or folder, got 5"),
        (lambda: watch(nn.Linear(4, 3), probe=PROBE, loss=5), "loss must be a function of outputs and targets, got 5"),
        (lambda: watch(nn.Linear(4, 3), probe=PROBE, out=5), "out must be the path of a file or folder, got 5"),
        (lambda: watch(nn.Linear(4, 3), probe=PROBE, class_names=5), "class_names must be a list of 3 names or more"),
        (lambda: watch(nn.Linear(4, 3), probe=PROBE, training="x"), "training must be a tensor of inputs"),
    ],
)
def test_arguments_that_are_numbers(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("scalar-network", "--duration", "1e308", "--width", "3"), "duration"),
        (("multilinear", "--skills", "3", "--steps", "10", "--batch-size", "5", "--track", ""), "track"),
        (("elastic", "--duration", "1", "--elasticity", ""), "elasticity"),
    ],
)
def test_a_sentence_names_the_option_that_was_given(command, words, name):
    code, _, err = command("simulate", *words, "--trials", "2", "--save-points", "3")
    assert code == 2
    assert err.startswith(f"error: {name}")
