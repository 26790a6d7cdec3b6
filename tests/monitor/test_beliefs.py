"""The signal is the package's own load curve of what a network believes."""

import numpy as np
import pytest
import torch

from dynascope import load_curve
from dynascope.monitor.beliefs import curves, signals


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    codes = np.arange(240) % 4
    layers = [random.normal(size=(240, 6)) + s * np.eye(6)[codes] for s in (0.5, 1.5, 2.0, 5.0)]
    logits = 4 * np.eye(4)[codes] + random.normal(size=(240, 4))
    return [torch.as_tensor(each)[None] for each in layers], torch.as_tensor(logits)[None], codes


def test_it_is_the_load_curve_of_the_beliefs(rows):
    layers, logits, _ = rows
    believed = logits[0].argmax(-1).numpy()
    expected = load_curve([each[0].numpy() for each in layers], believed)
    found = signals(layers, logits, torch.ones(1), 4)
    assert found.bend == pytest.approx(float(expected["bend"]))
    assert found.low == pytest.approx(float(expected["bend_low"]), abs=0.1)
    assert found.high == pytest.approx(float(expected["bend_high"]), abs=0.1)
    assert curves(layers, torch.as_tensor(believed)[None], 4)[0] == pytest.approx(expected["load"].values[None])


def test_networks_side_by_side_are_those_alone(rows):
    layers, logits, _ = rows
    two = [torch.cat([each, each * 2 + each**2]) for each in layers]
    both = signals(two, torch.cat([logits, logits.flip(1)]), torch.ones(2), 4)
    alone = [
        signals([each[[k]] for each in two], logits if k == 0 else logits.flip(1), torch.ones(1), 4) for k in (0, 1)
    ]
    assert both.bend == pytest.approx(np.concatenate([each.bend for each in alone]))


def test_it_is_not_ready_while_classes_are_missing_or_hardly_learnt(rows):
    layers, logits, _ = rows
    assert signals(layers, logits, torch.ones(1), 4).ready.all()
    assert not signals(layers, logits, torch.full((1,), 0.4), 4).ready.any()
    blind = logits.clone()
    blind[..., 3] = -100
    assert not signals(layers, blind, torch.ones(1), 4).ready.any()
    assert not signals([each * torch.nan for each in layers], logits, torch.ones(1), 4).ready.any()


def test_one_logit_says_one_of_two_classes():
    x = torch.tensor([[[0.0], [1.0], [3.0], [4.5]]])
    found = signals([x, x**2, x**3], torch.tensor([[[-1.0], [-1.0], [1.0], [1.0]]]), torch.ones(1), 2)
    assert found.ready.all()
    assert found.sure == pytest.approx(1 / (1 + np.exp(-1)))
