"""Local elasticity against steps that are really made and gradients that are written out; models stay untouched."""

import os
import random

import numpy as np
import pytest
import torch
from torch import nn

from dynascope.measure import class_elasticity, gradient_gram


def _network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10), nn.Tanh(), nn.Linear(10, 3)
    )  # fmt: skip


def _probe(samples=24, classes=3):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(samples) % classes
    inputs = torch.randn(samples, 6, generator=generator)
    inputs[torch.arange(samples), labels] += 2
    return inputs, labels


def _by_hand(model, inputs, labels, rate):
    """He and Su's ratio from copies that are trained for one step, all samples stepped on."""
    model.eval()
    before = model(inputs).detach()
    sums, counts = np.zeros((3, 3)), np.zeros((3, 3))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for sample in range(len(inputs)):
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[sample : sample + 1]), labels[sample : sample + 1]).backward()
        optimizer.step()
        moved = (model(inputs).detach() - before).norm(dim=1)
        model.load_state_dict(state)
        for other in range(len(inputs)):
            if other != sample:
                sums[labels[other], labels[sample]] += float(moved[other] / moved[sample])
                counts[labels[other], labels[sample]] += 1
    return sums / counts


def test_elasticity_meets_steps_made_by_an_optimizer():
    inputs, labels = _probe()
    model, inputs = _network().double(), inputs.double()
    expected = _by_hand(model, inputs, labels, 1e-3)
    made = class_elasticity(model, inputs, labels, learning_rate=1e-3, steps_per_class=8)
    assert np.allclose(made["elasticity"], expected, rtol=1e-6)
    limit = class_elasticity(model, inputs, labels, steps_per_class=8)
    assert np.allclose(limit["elasticity"], _by_hand(model, inputs, labels, 1e-6), rtol=1e-4)
    assert np.isclose(limit["intra"], np.diag(limit["elasticity"]).mean())
    assert np.isclose(limit["ratio"], limit["inter"] / limit["intra"])


def test_small_losses_do_not_drown_in_rounding():
    """In float32 and with a loss of 1e-9 the first order still meets float64."""
    inputs, labels = _probe()
    model = _network()
    with torch.no_grad():
        model[-1].weight *= 30
    single = class_elasticity(model, inputs, labels)
    double = class_elasticity(model.double(), inputs.double(), labels)
    assert np.allclose(single["elasticity"], double["elasticity"], rtol=1e-3)


def test_gram_meets_written_out_gradients():
    inputs, labels = _probe()
    model, inputs = _network().double().eval(), inputs.double()
    rows = np.zeros((24, 3, sum(p.numel() for p in model.parameters())))
    for sample in range(24):
        for output in range(3):
            slopes = torch.autograd.grad(model(inputs[sample : sample + 1])[0, output], list(model.parameters()))
            rows[sample, output] = torch.cat([slope.flatten() for slope in slopes]).numpy()
    members = [np.flatnonzero(labels.numpy() == k) for k in range(3)]
    expected = np.zeros((3, 3, 3, 3))
    for k in range(3):
        for j in range(3):
            pairs = [rows[a] @ rows[b].T for a in members[k] for b in members[j]]
            expected[k, :, j] = np.mean(pairs, axis=0)
    for memory in (1e9, 500.0):  # all at once, and parameter by parameter
        found = gradient_gram(model, inputs, labels, max_memory=memory)
        assert np.allclose(found["gram"], expected, atol=1e-10)
    assert np.allclose(found["strength"], np.einsum("kiji->kj", expected) / 3)
    assert np.isclose(found["intra"], np.trace(found["strength"]) / 3)


def test_inner_layers_can_be_watched():
    inputs, labels = _probe()
    model = _network()
    found = class_elasticity(model, inputs, labels, layer="2")
    assert found["elasticity"].shape == (3, 3)
    assert gradient_gram(model, inputs, labels, layer="5")["gram"].shape == (3, 10, 3, 10)
    assert not model[2]._forward_hooks


@pytest.mark.parametrize("measure", [class_elasticity, gradient_gram])
def test_nothing_is_changed(measure):
    inputs, labels = _probe()
    model = _network().train()
    model[1].eval()  # a flag that differs from the others
    nn.functional.cross_entropy(model(inputs), labels).backward()
    states = [torch.get_rng_state(), np.random.get_state()[1].copy()]  # noqa: NPY002
    before = {name: value.clone() for name, value in model.state_dict().items()}
    slopes = [parameter.grad.clone() for parameter in model.parameters()]
    versions = [parameter._version for parameter in model.parameters()]
    measure(model, inputs, labels)
    assert [module.training for module in model.modules()] == [True, True, False, True, True, True, True, True]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(p.grad, slope) for p, slope in zip(model.parameters(), slopes, strict=True))
    assert [parameter._version for parameter in model.parameters()] == versions
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


class Noisy(nn.Module):
    """Draws from every generator that a training run may rely on."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x):
        random.random()
        np.random.normal()  # noqa: NPY002
        return self.inner(x) + 1e-3 * torch.randn(3)


@pytest.mark.skipif("DYNASCOPE_CHECK_TYPES" in os.environ, reason="checks of types draw random numbers themselves")
@pytest.mark.parametrize("measure", [class_elasticity, gradient_gram])
def test_a_model_that_draws_leaves_all_random_states_alone(measure):
    inputs, labels = _probe()
    model = Noisy()

    def drawn():
        return torch.randn(3).tolist(), np.random.normal(size=3).tolist(), random.random()  # noqa: NPY002

    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    expected = drawn()
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    measure(model, inputs, labels)
    assert drawn() == expected


def test_flags_come_back_when_the_model_fails():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 3)

        def forward(self, x):
            return {"logits": self.inner(x)}

    model = Picky().train()
    with pytest.raises(ValueError, match="got dict; wrap it in a module that picks the logits"):
        class_elasticity(model, *_probe())
    assert model.training
    assert model.inner.training


def test_convolutions_and_frozen_parameters():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )
    model[0].weight.requires_grad_(False)
    inputs, labels = torch.randn(8, 1, 8, 8), [0, 1] * 4
    found = class_elasticity(model, inputs, labels, layer="3", steps_per_class=2)
    assert np.isfinite(found["elasticity"]).all()
    whole = gradient_gram(model, inputs, labels)
    model[0].weight.requires_grad_(True)
    assert whole["intra"] < gradient_gram(model, inputs, labels)["intra"]


BAD = {
    "model": ((lambda x: x), *_probe(), {}, "model must be a torch.nn.Module, got function"),
    "inputs": (_network(), np.ones((4, 6)), [0, 0, 1, 1], {}, "inputs must be a tensor"),
    "nan": (_network(), torch.ones(4, 6) * torch.nan, [0, 0, 1, 1], {}, "inputs must be finite"),
    "labels": (_network(), torch.ones(4, 6), [0, 1], {}, "labels must name the class of each of the 4 samples"),
    "text": (_network(), torch.ones(4, 6), ["a", "a", "b", "b"], {}, "labels must be whole numbers"),
    "single": (_network(), torch.ones(4, 6), [0, 0, 0, 1], {}, "every class at least twice, got class 1 once"),
    "layer": (_network(), *_probe(), {"layer": "nowhere"}, "layer must name a submodule"),
    "frozen": (_network().requires_grad_(False), *_probe(), {}, "parameters that require gradients"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    model, inputs, labels, options, message = BAD[case]
    for measure in (class_elasticity, gradient_gram):
        with pytest.raises(ValueError, match=message):
            measure(model, inputs, labels, **options)


def test_steps_must_move_something():
    inputs, labels = _probe()
    with pytest.raises(ValueError, match="learning_rate must be above 0"):
        class_elasticity(_network(), inputs, labels, learning_rate=0.0)
    with pytest.raises(ValueError, match="a step does not move, got sample"):
        class_elasticity(_network(), inputs, labels, learning_rate=1e-30)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_on_a_gpu():
    inputs, labels = _probe()
    model = _network().double()
    here = class_elasticity(model, inputs.double(), labels)
    with pytest.raises(ValueError, match="inputs must be on the model's device, cuda:0, got cpu"):
        class_elasticity(model.cuda(), inputs.double(), labels)
    there = class_elasticity(model, inputs.double().cuda(), labels.cuda())
    assert np.allclose(here["elasticity"], there["elasticity"], rtol=1e-8)


def test_transformers_are_differentiated_too():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Flatten(), nn.Linear(24, 3))
    inputs, labels = torch.randn(12, 3, 8), torch.arange(12) % 3
    exact = class_elasticity(model.double(), inputs.double(), labels)
    stepped = class_elasticity(model, inputs.double(), labels, learning_rate=1e-6)
    np.testing.assert_allclose(exact["elasticity"], stepped["elasticity"], rtol=1e-4)
    assert torch.backends.mha.get_fastpath_enabled()
