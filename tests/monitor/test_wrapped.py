"""Models as trainers leave them: in pieces, with accumulated gradients, under accelerate, recomputed activations."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from dynascope import watch
from dynascope.monitor import examine
from networks import mlp, seed_all, train, vectors


@pytest.mark.ci
def test_a_model_in_pieces_is_measured_by_all_its_processes(tmp_path):
    program = Path(__file__).with_name("two_shards.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first["same"] == second["same"] == [True, True]
    assert first["steps"] == list(range(0, 45, 5))
    assert second["steps"] == [25, 30, 35, 40]  # in memory, since it began again at step 20 with the other
    assert first["folder"] == str(tmp_path / "kept")
    assert second["folder"] == "None"
    assert first["skipped"] == {"elasticity": "the model is sharded"}
    assert first["apart"] == [0.0, 0.0]
    for told in (first, second):
        assert "every must say when to measure a model that is sharded" in told["refused"][0]
        assert "says of step 20 is another state" in told["refused"][1]


def _accelerated(watched, precision):
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    seed_all(3)
    helper = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2, mixed_precision=precision)
    x, y = vectors()
    model = mlp()
    loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
    model, optimiser, loader = helper.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05), loader)
    watching = watch(model, probe=(x, y), every=2, slow=2) if watched else contextlib.nullcontext()
    with watching as run:
        for _ in range(2):
            for inputs, labels in loader:
                with helper.accumulate(model):
                    loss = nn.functional.cross_entropy(model(inputs), labels)
                    helper.backward(loss)
                    optimiser.step()
                    optimiser.zero_grad()
                    if run and helper.sync_gradients:
                        run.step(loss=loss)
    return {**model.state_dict(), "random": torch.get_rng_state()}, run


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerate_with_accumulated_gradients(precision):
    plain, _ = _accelerated(False, precision)
    watched, run = _accelerated(True, precision)
    assert [name for name in plain if not torch.equal(plain[name], watched[name])] == []
    assert run.record["step"].values.tolist() == [0, 2, 4, 6, 8, 10]
    assert np.isfinite(run.record["intra"].values[-1])
    alone = mlp()
    alone.load_state_dict({name: value for name, value in watched.items() if name != "random"})
    without_autocast = watch(alone, probe=vectors(), every=1, slow=0).record.loads[0]
    np.testing.assert_array_equal(run.record.loads[-1], without_autocast)


class LowRank(nn.Module):
    """LoRA by hand: a linear map that is frozen, and a small one that is trained."""

    def __init__(self, linear, rank=2):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, linear.in_features) / linear.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + x @ self.down.T @ self.up.T


class Adapted(nn.Module):
    """The same of modules, which run after the linear map."""

    def __init__(self, linear, act):
        super().__init__()
        self.linear, self.act = linear, act
        self.adapter = nn.Sequential(nn.Linear(16, 2, bias=False), nn.Linear(2, 3, bias=False))

    def forward(self, x):
        return self.act(self.linear(x)) + self.adapter(x)


@pytest.mark.parametrize(("act", "readout"), [(torch.neg, "2"), (torch.tanh, "2.adapter.1 Linear")])
def test_a_readout_with_an_adapter_is_one_map_where_it_is_linear(act, readout):
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), Adapted(nn.Linear(16, 3), act))
    assert watch(model, vectors(), every=1, slow=0)._layers.readout.name == readout
    deep = nn.Sequential(nn.Linear(6, 3), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))  # linear, but in a row
    assert watch(deep, vectors(), every=1, slow=0)._layers.readout.name == "1.1 Linear"


def test_low_rank_adapters():
    ends = []
    for watched in (False, True):
        seed_all(3)
        parts = [nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3)]
        model = nn.Sequential(*(each for part in parts for each in (LowRank(part), nn.ReLU())))[:-1]
        optimiser = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=1e-2)
        x, y = vectors(120)
        options = {"slow": 0, "optimizer": optimiser, "training": x + 1}
        with watch(model, (x, y), every=10, **options) if watched else contextlib.nullcontext() as run:
            for _ in range(160):
                chosen = torch.randint(len(x), (16,))
                loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                if run:
                    run.step(loss=loss)
        ends.append({**model.state_dict(), "random": torch.get_rng_state()})
    assert [name for name in ends[0] if not torch.equal(ends[0][name], ends[1][name])] == []
    assert run.layers == ["input", "0", "2"]
    assert examine(run.record).line == "healthy: none of 20 faults up to step 160"
    assert run.record.loads[-1, -1] < run.record.loads[0, -1] - 0.5
    head, plain = model[4], nn.Linear(16, 3)
    with torch.no_grad():  # the readout is what both maps make together
        plain.weight.copy_(head.linear.weight + head.up @ head.down)
        plain.bias.copy_(head.linear.bias)
    merged = watch(nn.Sequential(*model[:4], plain), (x, y), every=1, slow=0).record
    for name in ("nc3", "nc4"):
        np.testing.assert_allclose(run.record[name][-1], merged[name][0], rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_torch_has_quantised(monkeypatch):
    monkeypatch.setattr(torch.backends.quantized, "engine", "qnnpack")  # which runs on any processor
    seed_all(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    plain, small = (watch(each, vectors(), every=1, slow=0) for each in (model, quantised))
    assert [each.split()[0] for each in small.layers] == ["input", "0", "2"]
    assert small.skipped == plain.skipped
    for name in ("loads", "nc1", "nc3"):
        np.testing.assert_allclose(small.record[name], plain.record[name], rtol=0.05, atol=0.02)


class Recomputing(nn.Module):
    """Blocks whose activations are made again in the backward pass."""

    def __init__(self, how):
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.2), nn.ReLU()) for _ in range(3)]
        self.first, self.head, self.how = nn.Linear(6, 16), nn.Linear(16, 3), how
        self.blocks = nn.ModuleList([checkpoint_wrapper(each) if how == "wrapper" else each for each in blocks])

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x) if self.how == "wrapper" else checkpoint(block, x, use_reentrant=self.how == "reentrant")
        return self.head(x)


@pytest.mark.parametrize("how", ["wrapper", "function", "reentrant"])
def test_recomputed_activations(how):
    ends = []
    for watched in (False, True):
        seed_all(3)
        model = Recomputing(how)
        slow = 0 if how == "reentrant" else 2  # it refuses the gradients that elasticity needs
        watching = watch(model, probe=vectors(), every=5, slow=slow) if watched else contextlib.nullcontext()
        with watching as run:
            train(model, vectors(), 20, after=lambda loss, run=run: run and run.step(loss=loss))
        ends.append({**model.state_dict(), "random": torch.get_rng_state()})
    assert [name for name in ends[0] if not torch.equal(ends[0][name], ends[1][name])] == []
    assert run.layers == ["input", "first", "blocks.0", "blocks.1", "blocks.2"]
    assert np.isfinite(run.record.loads.values).all()
