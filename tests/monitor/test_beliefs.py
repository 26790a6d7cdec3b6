"""The signal is the package's own load curve of what a network believes."""

import numpy as np
import pytest
import torch

from dynascope import load_curve
from dynascope.measure.arrays import pieces_of
from dynascope.measure.separation import layer_load
from dynascope.monitor.beliefs import believed, chances, curves, shortfalls, signals


def _seen(layers, logits, classes=4):
    """Where all labels are what the networks say."""
    return signals(layers, logits, believed(logits), classes)


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    codes = np.arange(240) % 4
    layers = [random.normal(size=(240, 6)) + s * np.eye(6)[codes] for s in (0.5, 1.5, 2.0, 5.0)]
    logits = 4 * np.eye(4)[codes] + random.normal(size=(240, 4))
    return [torch.as_tensor(each)[None] for each in layers], torch.as_tensor(logits)[None], codes


def test_it_is_the_load_curve_of_the_beliefs(rows):
    layers, logits, _ = rows
    said = logits[0].argmax(-1).numpy()
    expected = load_curve([each[0].numpy() for each in layers], said)
    found = _seen(layers, logits)
    assert found.bend == pytest.approx(float(expected["bend"]))
    assert found.low == pytest.approx(float(expected["bend_low"]), abs=0.1)
    assert found.high == pytest.approx(float(expected["bend_high"]), abs=0.1)
    assert curves(layers, torch.as_tensor(said)[None], 4)[0] == pytest.approx(expected["load"].values[None])


def test_networks_side_by_side_are_those_alone(rows):
    layers, logits, _ = rows
    two = [torch.cat([each, each * 2 + each**2]) for each in layers]
    both = _seen(two, torch.cat([logits, logits.flip(1)]))
    alone = [_seen([each[[k]] for each in two], logits if k == 0 else logits.flip(1)) for k in (0, 1)]
    assert both.bend == pytest.approx(np.concatenate([each.bend for each in alone]))


def test_it_is_not_ready_while_classes_are_missing_or_hardly_learnt(rows):
    layers, logits, _ = rows
    assert _seen(layers, logits).ready.all()
    wrong = believed(logits)
    wrong[:, : 6 * wrong.shape[1] // 10] += 1
    found = signals(layers, logits, wrong % 4, 4)
    assert found.fit == pytest.approx(0.4)
    assert not found.ready.any()
    blind = logits.clone()
    blind[..., 3] = -100
    assert not _seen(layers, blind).ready.any()
    assert not _seen([each * torch.nan for each in layers], logits).ready.any()


def test_one_logit_says_one_of_two_classes():
    x = torch.tensor([[[0.0], [1.0], [3.0], [4.5]]])
    found = _seen([x, x**2, x**3], torch.tensor([[[-1.0], [-1.0], [1.0], [1.0]]]), 2)
    assert found.ready.all()
    assert found.sure == pytest.approx(1 / (1 + np.exp(-1)))


def test_doubt_is_by_how_much_what_is_said_is_more_likely_than_the_label():
    logits = torch.as_tensor(np.log([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]]))[None]
    rows = [torch.arange(4.0).reshape(1, 2, 2)] * 3
    right, wrong = (signals(rows, logits, torch.tensor([y]), 3) for y in ([0, 0], [1, 2]))
    assert (right.doubt, right.contradicted, right.fit) == (0.0, 0.0, 1.0)
    assert wrong.doubt == pytest.approx(((0.7 - 0.2) + (0.5 - 0.2)) / 2)
    firm = signals(rows, logits, torch.tensor([[2, 2]]), 3)
    assert (firm.contradicted, firm.fit) == (0.5, 0.0)  # 0.7 − 0.1 is more than one half
    one = torch.tensor([[[np.log(3.0)]]])  # a single logit: 3/4 for class 1
    assert shortfalls(chances(one), torch.tensor([[0]])).tolist() == [[pytest.approx(0.5)]]
    assert not _seen([logits] * 3, torch.full_like(logits, torch.nan), 2).ready.any()


def test_wide_layers_are_measured_in_pieces_as_if_whole():
    """Loads and their slopes add over features, so pieces of a layer that is far from 0 give what all of it gives."""
    random = np.random.default_rng(0)
    codes = np.arange(500) % 5
    x = 100 + random.normal(size=(500, 1000)) + random.normal(size=(5, 1000))[codes]
    assert len(pieces_of(x)) > 3
    total = ((x - x.mean(0)) ** 2).sum(1)
    within = ((x - np.stack([x[codes == k].mean(0) for k in range(5)])[codes]) ** 2).sum(1)
    between = total - within
    load, slope = np.log(within.sum() / between.sum()), within / within.sum() - between / between.sum()
    loads, slopes = curves([torch.as_tensor(x)[None]], torch.as_tensor(codes)[None], 5)
    found = layer_load(x, codes)
    np.testing.assert_allclose([loads[0, 0], found.load], load, rtol=1e-11)
    np.testing.assert_allclose([slopes[0, :, 0], found.influence], [slope] * 2, atol=1e-12)
