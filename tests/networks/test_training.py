"""An ensemble against ordinary PyTorch training, trial by trial."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dynascope.data import geomnist
from dynascope.networks import CNN, MLP, LeNet, ModularTransformer, VisionTransformer
from dynascope.networks.training import Settings, Trainer, initial_state

X, Y = geomnist(per_class=10)
SMALL = X.reshape(30, 1, 8, 4, 8, 4).mean((3, 5))
TOKENS = np.stack([*np.divmod(np.arange(25), 5), np.full(25, 5)], 1)
CASES = {
    "lenet": (LeNet(3), X, Y, {}),
    "momentum": (
        MLP((1, 8, 8), 3, width=6, depth=2, batch_norm=True, slope=0.1),
        SMALL,
        Y,
        {"batch_size": 5, "momentum": [0.9, 0.5, 0.0], "weight_decay": [0.01, 0.0, 0.1], "sampling": "shuffled"},
    ),
    "adam": (CNN((1, 8, 8), 3, channels=3, depth=2), SMALL, Y, {"batch_size": 6, "optimizer": "adam"}),
    "adamw": (
        MLP((1, 8, 8), 3, width=6, depth=2),
        SMALL,
        Y,
        {"batch_size": 3, "optimizer": "adamw", "weight_decay": [0.1, 1.0, 0.0]},
    ),
    "decayed sgd": (LeNet(3), X, Y, {"batch_size": 2, "weight_decay": [0.1, 0.2, 0.3]}),
    "decayed adam": (LeNet(3), X, Y, {"batch_size": 2, "optimizer": "adam", "weight_decay": [0.1, 0.2, 0.3]}),
    "squared": (MLP((1, 8, 8), 3, width=6, depth=1, target_scale=3.0), SMALL, Y, {"batch_size": 3, "loss": "mse"}),
    "vision transformer": (
        VisionTransformer(3, 1, size=8, patch=4, width=8, heads=2, layers=1, dropout=0.0),
        SMALL,
        Y,
        {"batch_size": 4, "optimizer": "adam"},
    ),
    "transformer": (ModularTransformer(5, width=8, heads=2), TOKENS, TOKENS[:, :2].sum(1) % 5, {"batch_size": 4}),
}


def settings(trials=(0, 1, 2), **options):
    arrays = {name: np.array(value) if isinstance(value, list) else value for name, value in options.items()}
    rate = np.array([0.01, 0.02, 0.005])[list(trials)]
    return Settings(trials=np.array(trials), learning_rate=rate, seed=4, **({"precision": "float64"} | arrays))


def one_after_another(network, given, x, y, steps):
    """Each trial by itself: modules, torch.optim, no vmap; from the same start and with the same batches."""
    order = Trainer(network, given, x, y).batches(0, steps)
    weights, buffers = initial_state(network, given)
    x = torch.as_tensor(x, dtype=torch.int64 if network.tokens else torch.float64)
    trained = []
    for i in range(len(given.trials)):
        own = copy.deepcopy(network).double().train()
        own.load_state_dict({name: held[i] for name, held in {**weights, **buffers}.items()})
        shared = {"lr": float(given.learning_rate[i]), "weight_decay": float(np.broadcast_to(given.weight_decay, 3)[i])}
        if given.optimizer != "sgd":
            kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[given.optimizer]
            optimizer = kind(own.parameters(), **shared)
        else:
            optimizer = torch.optim.SGD(
                own.parameters(), momentum=float(np.broadcast_to(given.momentum, 3)[i]), **shared
            )
        for pick in order[:, i]:
            optimizer.zero_grad()
            labels = torch.as_tensor(y)[pick]
            if given.loss == "mse":
                loss = 0.5 * F.mse_loss(own(x[pick]), own.target_scale * F.one_hot(labels, own.classes).double())
            else:
                loss = F.cross_entropy(own(x[pick]), labels)
            loss.backward()
            optimizer.step()
        trained.append(own.eval()(x).detach())
    return torch.stack(trained)


@pytest.mark.parametrize("case", CASES)
def test_same_as_training_one_after_another(case):
    network, x, y, options = CASES[case]
    given = settings(**options)
    trainer = Trainer(network, given, x, y)
    start = trainer.outputs(x)
    trainer.advance(12)
    expected = one_after_another(network, given, x, y, 12)
    # biases before batch norm have gradients of rounding alone, and Adam moves them as far as others
    close = {"rtol": 1e-5, "atol": 1e-7} if case == "adam" else {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(trainer.outputs(x), expected, **close)
    assert float((start - expected).abs().max()) > 1e-3  # something was learnt
    alone = trainer.network_of(1)
    torch.testing.assert_close(alone(trainer.inputs(x)), expected[1], **close)


@pytest.mark.parametrize("sampling", ["replacement", "shuffled"])
def test_a_copy_does_not_depend_on_the_others(sampling):
    network = MLP((1, 8, 8), 3, width=6, depth=2, batch_norm=True, dropout=0.3)
    noise = {"label_noise": [0.5, 0.0, 0.3], "input_noise": [0.1, 0.2, 0.0], "batch_size": 4, "sampling": sampling}
    vary = {"slope": np.array([0.0, 0.5, 1.0]), "dropout": np.array([0.0, 0.3, 0.5])}
    together = Trainer(network, settings(**noise, vary=vary), SMALL, Y)
    together.advance(20)
    for i in range(3):
        own = {name: [value[i]] if isinstance(value, list) else value for name, value in noise.items()}
        alone = Trainer(network, settings((i,), **own, vary={n: v[i : i + 1] for n, v in vary.items()}), SMALL, Y)
        alone.advance(20)
        torch.testing.assert_close(alone.outputs(SMALL)[0], together.outputs(SMALL)[i], rtol=1e-9, atol=1e-11)


def test_float32_copies_agree_to_its_precision():
    given = settings(precision="float32")
    together = Trainer(LeNet(3), given, X, Y)
    together.advance(30)
    alone = Trainer(LeNet(3), settings((2,), precision="float32"), X, Y)
    alone.advance(30)
    torch.testing.assert_close(alone.outputs(X)[0], together.outputs(X)[2], rtol=1e-4, atol=1e-5)


def test_batches():
    given = settings(batch_size=7, sampling="shuffled")
    trainer = Trainer(LeNet(3), given, X, Y)
    order = trainer.batches(0, 12)  # three epochs of four batches; 2 of 30 samples are left out
    for epoch in range(3):
        drawn = order[4 * epoch : 4 * epoch + 4].transpose(0, 1).reshape(3, -1)
        assert all(len(set(row.tolist())) == 28 for row in drawn)
    assert torch.equal(trainer.batches(5, 4), order[5:9])
    free = Trainer(LeNet(3), settings(batch_size=50), X, Y).batches(0, 200)
    counts = torch.bincount(free.flatten(), minlength=30)
    expected = 3 * 50 * 200 / 30
    assert float((counts - expected).abs().max()) < 4.5 * expected**0.5
    assert not torch.equal(free[:, 0], free[:, 1])


def test_label_noise_draws_the_share_anew():
    given = settings(batch_size=30, label_noise=[0.0, 0.5, 1.0], sampling="shuffled")
    trainer = Trainer(LeNet(3), given, X, Y)
    labels = torch.zeros(3, 30, dtype=torch.int64)
    _, spoiled = trainer._spoil(torch.zeros(3, 30, 1), labels, trainer.noise_keys)
    changed = (spoiled != 0).sum(1)
    assert changed[0] == 0
    assert 0 < changed[1] <= 15
    assert changed[1] < changed[2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA graphs cannot be captured")
@pytest.mark.parametrize("case", CASES)
def test_captured_steps_on_a_gpu_are_the_same(case):
    network, x, y, options = CASES[case]
    on_cpu, on_gpu = (Trainer(network, settings(**options, device=d), x, y) for d in ("cpu", "cuda"))
    for trainer in (on_cpu, on_gpu):
        trainer.advance(12)
    torch.testing.assert_close(on_gpu.outputs(x).cpu(), on_cpu.outputs(x), rtol=1e-6, atol=1e-8)


TURNED = {
    "dropout": (np.array([0.1, 0.2, 0.5]), {"vary": {"dropout": np.array([0.1, 0.2, 0.5])}}),
    "weight_decay": (np.array([0.1, 0.0, 1.0]), {"weight_decay": np.array([0.1, 0.0, 1.0])}),
    "learning_rate": (np.array([2.0, 0.5, 1.0]), {"learning_rate": np.array([0.02, 0.01, 0.005])}),
}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("name", TURNED)
def test_what_is_turned_is_as_if_given_later(name, optimizer):
    network = MLP((1, 8, 8), 3, width=6, depth=2, batch_norm=True)
    values, given = TURNED[name]
    own = settings(batch_size=5, optimizer=optimizer)
    turned = Trainer(network, own, SMALL, Y)
    turned.advance(3)
    turned.turn(name, values)
    turned.advance(3)
    change = given.get("vary", given)
    later = Trainer(network, replace(own, later={3: change}), SMALL, Y)
    later.advance(6)
    for before, after in zip(turned.parameters.values(), later.parameters.values(), strict=True):
        torch.testing.assert_close(before, after, rtol=1e-12, atol=1e-12)
    held = turned.rate if name == "learning_rate" else turned.decay
    turned.turn(name, values / 2)
    assert held is (turned.rate if name == "learning_rate" else turned.decay)  # a captured graph reads it


def test_features_of_some_trials_are_those_among_all():
    trainer = Trainer(MLP((1, 8, 8), 3, width=6, depth=2), settings(batch_size=5), SMALL, Y)
    ((_, everyone),) = trainer.features(trainer.inputs(SMALL), ("act_1",))
    ((where, some),) = trainer.features(trainer.inputs(SMALL), ("act_1",), torch.tensor([2, 0]))
    assert len(range(*where.indices(2))) == 2
    torch.testing.assert_close(some["act_1"], everyone["act_1"][[2, 0]])
