"""Stacked two-layer networks on sparse parity: beside autograd, PyTorch's optimizers and a network that is known."""

import numpy as np
import pytest
import torch

from dynascope.data import SparseParity
from dynascope.networks.parity import ParitySettings, ParityTrainer, train_parity

TASK = SparseParity(skills=3, bits=12)
NUMBERS = torch.arange(4000)


def settings(**changes):
    usual = {"trials": 2, "widths": (5, 8), "batch_size": 32, "precision": "float64", "initial": 0.3, "device": "cpu"}
    return ParitySettings(TASK, **usual | changes)


def plain_outputs(x, hidden, readout, offset):
    return torch.relu(x @ hidden) @ readout + offset


@pytest.mark.parametrize("widths", [(7,), (5, 8)])
@pytest.mark.parametrize("data", [(), (20, 60)])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_is_that_of_pytorch(widths, data, optimizer):
    """Every network by itself, with autograd and torch.optim, on the samples that it was given."""
    chosen = settings(widths=widths, data=data, optimizer=optimizer, learning_rate=0.01, weight_decay=0.003)
    trainer = ParityTrainer(chosen)
    batches, starts = [], {name: value.clone() for name, value in trainer.state.items()}
    for _ in range(5):
        batches.append(trainer.inputs(trainer._numbers()))
        trainer.advance(1)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    for copy in range(len(trainer.keys)):
        for net in range(len(widths)):
            own = trainer.owner[:, net] == 1
            names = {"hidden": (copy, slice(None), own), "readout": (copy, own), "offset": (copy, net)}
            weights = [starts[name][place].clone().requires_grad_() for name, place in names.items()]
            descent = kinds[optimizer](weights, lr=0.01, weight_decay=0.003)
            for x, sign in batches:
                loss = 0.5 * (plain_outputs(x[copy], *weights) - 5 * sign[copy]).square().mean()
                descent.zero_grad()
                loss.backward()
                descent.step()
            for weight, (name, place) in zip(weights, names.items(), strict=True):
                assert torch.allclose(trainer.state[name][place], weight, rtol=0, atol=1e-10)


def test_full_batches_and_a_falling_learning_rate_are_those_of_pytorch():
    sizes = (20, 60)
    chosen = settings(widths=(5,), data=sizes, full_batch=True, learning_rate=0.05, decay=0.5, decay_every=2)
    trainer = ParityTrainer(chosen)
    starts = {name: value.clone() for name, value in trainer.state.items()}
    trainer.advance(5)
    x, sign = trainer.inputs(trainer._numbers())
    for copy, size in enumerate(np.repeat(sizes, 2)):
        weights = [starts[name][copy].clone().requires_grad_() for name in ("hidden", "readout", "offset")]
        descent = torch.optim.SGD(weights, lr=0.05)
        schedule = torch.optim.lr_scheduler.StepLR(descent, 2, 0.5)
        for _ in range(5):
            error = plain_outputs(x[copy, :size], *weights) - 5 * sign[copy, :size]
            descent.zero_grad()
            (0.5 * error.square().mean()).backward()
            descent.step()
            schedule.step()
        for weight, name in zip(weights, ("hidden", "readout", "offset"), strict=True):
            assert torch.allclose(trainer.state[name][copy], weight, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="full_batch needs training sets"):
        ParityTrainer(settings(full_batch=True))


def test_samples_are_those_of_the_task():
    trainer = ParityTrainer(settings(trials=3))
    x, sign = trainer.inputs(NUMBERS.expand(3, -1))
    for copy in range(3):
        assert np.array_equal(TASK.parity(x[copy, :, :-1].numpy()), sign[copy].numpy())
    assert bool((x[..., -1] == 1).all())
    share = x[..., :3].mean((0, 1)).numpy()
    assert np.all(np.abs(share - TASK.frequency) < 4 * np.sqrt(TASK.frequency / 12_000))
    bits = x[..., 3:-1].flatten(0, 1)
    assert bool(((bits.mean(0) - 0.5).abs() < 4 * 0.5 / 12_000**0.5).all())
    joint = torch.corrcoef(bits.T) - torch.eye(12)
    assert float(joint.abs().max()) < 4.5 / 12_000**0.5
    assert not torch.equal(x[0], x[1])  # each trial has its own


def test_training_sets_lie_within_each_other_and_batches_within_them():
    trainer = ParityTrainer(settings(data=(10, 40), batch_size=500))
    drawn = trainer._numbers()
    assert [set(row.tolist()) for row in drawn] == [set(range(n)) for n in (10, 10, 40, 40)]
    x, _ = trainer.inputs(NUMBERS[:10].expand(4, -1))
    assert torch.equal(x[0], x[2])  # the first samples of trial 0 at both sizes


def test_fresh_batches_never_repeat():
    trainer = ParityTrainer(settings())
    seen = [trainer._numbers()[0]]
    trainer.advance(1)
    seen.append(trainer._numbers()[0])
    assert torch.equal(torch.cat(seen), torch.arange(64))


def test_a_network_does_not_depend_on_its_neighbours():
    together = train_parity(settings(trials=3, widths=(5, 8), data=(30, 60)), [0, 10], samples=64)["strength"]
    alone = train_parity(settings(trials=2, widths=(8,), data=(60,)), [0, 10], samples=64)["strength"]
    assert np.allclose(together[1:, :2, 1:], alone, rtol=0, atol=1e-12)


def test_strengths_of_a_network_that_knows_a_skill():
    """α = β = γ = √(2S), c = −S of layerwise (C.9) on the bits of skill 2 gives R_2 = S and no other strength."""
    trainer = ParityTrainer(settings(trials=1, widths=(3,), target=2.0))
    root, first = (2 * 2.0) ** 0.5, 3 + 3
    hidden = torch.zeros(16, 3, dtype=torch.float64)
    hidden[first : first + 3] = root * torch.tensor([[-1.0, -1, 1], [1, 1, -1], [-1, -1, 1]]).double()
    hidden[-1] = root * torch.tensor([0.0, 1, -1]).double()
    trainer.state["hidden"][0] = hidden
    trainer.state["readout"][0] = root * torch.tensor([-2.0, 1, 1])
    trainer.state["offset"][0] = -2.0
    found = trainer.strengths(256)[0, 0].numpy()
    assert found[1] == pytest.approx(1.0, abs=1e-12)  # exact: the patterns of its bits are complete
    assert np.abs(found[[0, 2]]).max() < 1e-12


def test_what_is_recorded():
    found = train_parity(settings(), [0, 4, 6], samples=16)
    assert found["strength"].shape == (1, 2, 2, 3, 3)
    assert np.isnan(found["train_loss"][..., 0]).all()
    trainer = ParityTrainer(settings())
    trainer.advance(4)
    assert np.allclose(found["train_loss"][0, ..., 1], trainer.loss / 4)


def test_divergence_is_reported():
    with pytest.raises(FloatingPointError, match="before step 200; lower learning_rate"):
        train_parity(settings(learning_rate=50.0, precision="float32"), [0, 200], samples=16)
