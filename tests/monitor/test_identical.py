"""A watched training run is the same run, bit for bit, and so is everything random after it."""

import json
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from same_training import FEW, MANY, RUNS, differences
from torch import nn

from dynascope import watch
from dynascope.measure.side_effects import undisturbed
from dynascope.monitor import attach, running
from networks import mlp, seed_all, train, vectors


def _differences(device, steps):
    """What differs between runs with and without the monitor, all found by one program."""
    program = Path(__file__).with_name("same_training.py")
    done = subprocess.run(
        [sys.executable, str(program), device, str(steps)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _none(steps):
    return {f"{kind} {backend}": [] for kind, backend in RUNS[steps]}


@pytest.mark.parametrize("steps", [FEW, pytest.param(MANY, marks=pytest.mark.ci)])
def test_weights_buffers_flags_and_random_states_are_equal_bit_for_bit(steps):
    assert _differences("cpu", steps) == _none(steps)


def test_the_comparison_notices_a_monitor_that_disturbs(monkeypatch):
    @contextmanager
    def careless(_model):
        with torch.no_grad():
            yield

    for module in (attach, running):
        monkeypatch.setattr(module, "undisturbed", careless)
    found = differences("mlp", None, FEW)
    assert {"1.running_mean", "torch random state"} <= set(found)


def test_nothing_is_compiled_again_because_of_the_monitor():
    def count(watched):
        torch._dynamo.reset()
        made = []

        def backend(graph, _inputs):
            made.append(graph)
            return graph.forward

        seed_all(0)
        model = mlp()
        call = torch.compile(model, backend=backend)
        if watched:
            with watch(call, probe=vectors(), every=5, slow=2) as run:
                train(model, vectors(), 20, call=call, after=lambda loss: run.step())
        else:
            train(model, vectors(), 20, call=call)
        return len(made)

    assert count(True) == count(False) > 0


class Restless(nn.Module):
    """Draws from every random source, replaces one buffer, writes another, and keeps a table that it makes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(1))
        self.table = None

    def forward(self, x):
        self.count += 1
        self.seen = torch.rand(1) + np.random.rand() + random.random()  # noqa: NPY002
        if self.table is None:
            self.table = torch.ones(6)
        return self.linear(x * self.table)


def test_buffers_and_random_states_come_back_and_caches_stay_usable():
    model = Restless()
    seen, version = model.seen, model.linear.weight._version
    seed_all(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    with undisturbed(model):
        model(vectors()[0])
        assert not model.training
    assert model.seen is seen
    assert float(model.count) == 0
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]
    assert model.linear.weight._version == version
    assert model.table is not None
    assert not model.table.is_inference()
    model(vectors()[0]).sum().backward()  # would fail with a table made in inference mode


def test_measuring_between_forward_and_backward_is_harmless():
    model, (x, y) = mlp(), vectors()
    with watch(model, probe=(x, y), every=1) as run:
        loss = nn.functional.cross_entropy(model(x), y)
        run.step()
        loss.backward()
    assert model[0].weight.grad is not None


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # processors without bfloat16 take another way
def test_autocast_cache_is_not_poisoned():
    model, (x, y) = mlp(), vectors()
    with watch(model, probe=(x, y), every=1) as run, torch.autocast("cpu", dtype=torch.bfloat16):
        run.step()
        nn.functional.cross_entropy(model(x).float(), y).backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_bit_identical_on_a_gpu_with_deterministic_algorithms():
    assert _differences("cuda", MANY) == _none(MANY)
