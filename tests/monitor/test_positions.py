"""Sequences are read where the readout reads them, outputs and readouts are found or asked for, doubts are said."""

import numpy as np
import pytest
import torch
from sequence_networks import GoogLeNet, Gpt, LastToken, SequenceClassifier, Squeeze, Translator, Vit
from torch import nn

from dynascope import watch
from dynascope.measure import data_separation, neural_collapse
from networks import images, vectors

Y = torch.arange(90) % 3


def _tokens(length=8):
    tokens = torch.randint(1, 12, (90, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 2] = Y + 1
    return tokens


def _stream(body, tokens):
    """The residual stream after the embedding and after every block, and what enters the head."""
    x = body.wte(tokens) + body.wpe(torch.arange(tokens.shape[1]))
    found = [x]
    for block in body.h:
        found.append(block(found[-1]))
    return [*found[:-1], body.norm(found[-1])]


def test_every_block_is_read_at_the_token_that_the_head_reads():
    """By default inner blocks were read over all tokens: the last one seemed to do all of the work, untrained."""
    torch.manual_seed(0)
    model, tokens = LastToken(), _tokens()
    run = watch(model, probe=(tokens, Y), every=1, slow=0)
    assert run.layers == ["wte", "h.0", "h.1", "h.2"]
    with torch.no_grad():
        exact = [float(data_separation(x[:, -1], Y)) for x in _stream(model, tokens)]
    np.testing.assert_allclose(run.record["loads"][0], exact, rtol=1e-5)
    assert run.skipped["wpe"].startswith("no floating-point tensor with one row per sample")


def test_the_last_token_that_is_not_padding_is_found_sample_by_sample():
    torch.manual_seed(0)
    model, tokens = SequenceClassifier(Gpt()), _tokens()
    ends = 3 + torch.arange(90) % 5
    tokens[torch.arange(8) > ends[:, None]] = 0
    run = watch(model, probe=(tokens, Y), every=1, slow=0)
    assert run._layers.readout.name == "score"
    assert not any(note.startswith("readout") for note in run.notes)
    with torch.no_grad():
        rows = [x[torch.arange(90), ends] for x in _stream(model.transformer, tokens)]
    np.testing.assert_allclose(run.record["loads"][0], [float(data_separation(x, Y)) for x in rows], rtol=1e-5)
    logits = model(tokens)["logits"]
    np.testing.assert_allclose(run.record["probe_loss"][0], nn.functional.cross_entropy(logits, Y).item(), rtol=1e-5)


def test_a_layer_without_the_position_is_left_out_with_a_reason():
    x, y = (each[:30] for each in images())
    model = Vit()
    run = watch(model, probe=(x[..., :8, :8].contiguous(), y), every=1, slow=0)
    assert run.layers == ["blocks.0", "blocks.1"]
    assert run.skipped == {
        "patches": "at the positions that the readout uses it is the same for every sample",
        "input": "it has no positions like those that the readout uses",
    }
    assert np.isfinite(run.record["loads"].values).all()


@pytest.mark.parametrize(("positions", "chosen"), [(2, [2]), (-1, [7]), ([0, 1], [0, 1])])
def test_positions_can_be_asked_for(positions, chosen):
    model, tokens = LastToken(), _tokens()
    run = watch(model, probe=(tokens, Y), every=1, slow=0, positions=positions)
    with torch.no_grad():
        exact = float(data_separation(_stream(model, tokens)[1][:, chosen].mean(dim=1), Y))
    assert np.isclose(run.record["loads"].sel(layer="h.0")[0], exact, rtol=1e-5)
    with pytest.raises(ValueError, match=r"positions must be whole numbers from -8 to 7, or a mask \(90, 8\)"):
        watch(model, probe=(tokens, Y), positions=9)


def test_positions_make_no_sense_without_sequences():
    with pytest.raises(ValueError, match="positions must be left out"):
        watch(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), probe=vectors(), positions=0)


def test_positions_are_found_where_the_tail_has_no_derivative():
    class Rounded(LastToken):
        def forward(self, tokens):
            return super().forward(tokens).detach()

    model = Rounded()
    used = watch(model, probe=(_tokens(), Y), every=1, slow=0)._layers.reading.used
    assert used.sum(dim=1).eq(1).all()
    assert used[:, -1].all()


def test_a_convolution_that_makes_maps_of_classes_is_the_readout():
    x, y = images()
    model = Squeeze()
    run = watch(model, probe=(x, y), every=1, slow=0)
    assert run.layers == ["input", "features.0 Conv2d", "features.2 Conv2d"]
    assert run._layers.readout.name == "classifier.1 Conv2d"
    assert "readout: what follows 'classifier.1' changes its values" in run.notes  # an activation
    with torch.no_grad():
        last = model.features(x).mean(dim=(2, 3))
    signs = neural_collapse(last, y, model.classifier[1].weight.flatten(1), model.classifier[1].bias)
    for name in ("nc1", "nc3", "nc4"):
        assert np.isclose(run.record[name][0], signs[name], rtol=1e-5), name


class Two(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.body, self.side, self.head = nn.Linear(6, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.other = other

    def forward(self, x):
        h = self.body(x).relu()
        if self.other == "embedding":
            return {"embedding": h, "output": self.head(h)}
        return {"aux": self.side(h), "scores": self.head(h)}


@pytest.mark.parametrize(("right", "other"), [("output", "embedding"), ("scores", "aux")])
def test_of_several_outputs_the_last_made_is_read_and_the_guess_is_said(right, other):
    (x, y), model = vectors(), Two(other)
    run = watch(model, probe=(x, y), every=1, slow=0)
    assert run._layers.readout.name == "head"
    assert f"output: {right!r} of {other!r}, {right!r} is read; output= picks another" in run.notes
    loss = nn.functional.cross_entropy(model(x)[right], y).item()
    assert np.isclose(run.record["probe_loss"][0], loss, rtol=1e-5)
    for output in (other, lambda made: made[other]):
        asked = watch(model, probe=(x, y), every=1, slow=0, output=output)
        assert np.isclose(asked.record["probe_loss"][0], nn.functional.cross_entropy(model(x)[other], y).item())
        assert not any(note.startswith("output") for note in asked.notes)
    with pytest.raises(ValueError, match="output='nothing' is none"):
        watch(model, probe=(x, y), output="nothing")


def test_branches_are_one_layer_and_auxiliary_heads_none():
    run = watch(GoogLeNet(), probe=images(), every=1, slow=0)
    assert run.layers == ["input", "conv1", "inception3a", "inception3b", "inception4"]
    assert run.skipped == {"aux": "it does not feed the output that is read"}


def test_an_encoder_stands_beside_the_decoder():
    tokens = _tokens()
    inputs = {"input_ids": tokens, "decoder_input_ids": tokens.flip(1)}
    run = watch(Translator(), probe=(inputs, tokens.flip(1).roll(-1, 1)), every=1)
    assert run.layers == ["embed (2)", "decoder.0", "decoder.1"]
    assert run.skipped["encoder.0"] == "it runs beside 'embed (2)', not in a row with it"


def test_a_small_probe_says_so():
    """Pure noise: 8 samples of 4 classes have the load of about log(4/3), 400 that of log(396/3)."""
    x, y = torch.randn(400, 20, generator=torch.Generator().manual_seed(0)), torch.arange(400) % 4
    model = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 4))
    few = watch(model, probe=(x[:8], y[:8]), every=1, slow=0)
    assert few.record["loads"][0, 0] < 1
    assert any(note.startswith("probe: 8 samples of 4 classes are too few") for note in few.notes)
    many = watch(model, probe=(x, y), every=1, slow=0)
    assert many.record["loads"][0, 0] > 3
    assert many.notes == []


@pytest.mark.ci
def test_intervals_stand_beside_loads_and_cover_other_samples():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    generator = torch.Generator().manual_seed(3)
    y = torch.arange(30000) % 3
    x = torch.randn(30000, 6, generator=generator) + 2 * torch.eye(3, 6)[y]
    truth = watch(model, probe=(x, y), every=1, slow=0).record.isel(step=0)
    inside = {"loads": [], "increment": []}
    for first in range(0, 12000, 300):
        part = slice(first, first + 300)
        found = watch(model, probe=(x[part], y[part]), every=1, slow=0).record.isel(step=0)
        assert found["loads_interval"].dims == ("layer", "bound")
        for name, kept in inside.items():
            low, high = found[f"{name}_interval"].sel(bound="low"), found[f"{name}_interval"].sel(bound="high")
            kept.append(((low <= truth[name]) & (truth[name] <= high)).values[1:])
    for name, kept in inside.items():
        assert np.mean(kept) > 0.85, name  # 80 draws of 95 % that share their samples two by two
