"""Attention, outliers and norms are those of an explicit computation, in every way that attention is written."""

import numpy as np
import pytest
import torch
from sequence_networks import Block, Gpt
from torch import nn
from torch.nn import functional as F

from dynascope import watch
from networks import Transformer, tokens


def _expected(block, x, *, causal):
    """Entropy and largest logit of each head, (head,)."""
    attention, h = block.attention, block.norm1(x)
    q, k, _ = (part.unflatten(2, (2, -1)).transpose(1, 2) for part in attention.qkv(h).chunk(3, dim=2))
    logits = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
    if causal:
        logits = logits.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -torch.inf)
    chances = logits.double().softmax(dim=3)
    entropy = -(chances * chances.clamp_min(1e-300).log()).sum(dim=3)
    return entropy.mean(dim=(0, 2)), logits.amax(dim=(0, 2, 3))


class Written(nn.Module):
    """Attention by hand, with a softmax."""

    def __init__(self, inner):
        super().__init__()
        self.qkv, self.out = inner.qkv, inner.out

    def forward(self, x):
        q, k, v = (part.unflatten(2, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        logits = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        mixed = F.softmax(logits.masked_fill(hidden, -torch.inf), dim=-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("by_hand", [False, True])
def test_attention_of_every_head(by_hand):
    torch.manual_seed(0)
    model, data = Gpt(), torch.randint(12, (20, 8), generator=torch.Generator().manual_seed(1))
    if by_hand:
        for block in model.h:
            block.attention = Written(block.attention)
    run = watch(model, probe=data, every=1, inside=True)
    now = run.record.isel(step=0)
    assert now["attention_entropy"].dims == ("layer", "head")
    assert np.isnan(now["attention_entropy"].sel(layer="wte")).all()
    with torch.no_grad():
        x = model.wte(data[:8]) + model.wpe(torch.arange(8))
        for block, name in zip(model.h, ("h.0", "h.1", "h.2"), strict=True):
            entropy, largest = _expected(block, x, causal=True)
            np.testing.assert_allclose(now["attention_entropy"].sel(layer=name), entropy, rtol=1e-5)
            np.testing.assert_allclose(now["attention_logit"].sel(layer=name), largest, rtol=1e-5)
            x = block(x)
            if name != "h.2":
                assert np.isclose(now["norms"].sel(layer=name), x.norm(dim=2).mean(), rtol=1e-5)
                power = x.square().mean(dim=(0, 1))
                assert np.isclose(now["outliers"].sel(layer=name), (power**2).mean() / power.mean() ** 2, rtol=1e-5)


def test_many_queries_are_looked_at_evenly():
    block = Block(16, causal=False)
    model = nn.Sequential(block, Block(16), Block(16), nn.Flatten(), nn.Linear(16 * 100, 3))
    x = torch.randn(12, 100, 16)
    run = watch(model, probe=(x, torch.arange(12) % 3), every=1, inside=True, slow=0)
    with torch.no_grad():
        entropy, _ = _expected(block, x[:8], causal=False)
    found = run.record["attention_entropy"].isel(step=0).sel(layer="0")
    np.testing.assert_allclose(found, entropy, rtol=0.01)


@pytest.mark.parametrize("weights", [False, True])
def test_layers_of_pytorch_are_seen(weights):
    model = Transformer()
    if weights:  # then they are computed by hand
        for layer in model.encoder.layers:
            layer._sa_block = lambda x, mask, padding, layer=layer, **_: layer.self_attn(x, x, x)[0]
    run = watch(model, probe=tokens(), every=1, inside=True, slow=0)
    found = run.record["attention_entropy"].isel(step=0)
    assert np.isfinite(found.sel(layer="encoder.layers.1")).all()
    assert (found.sel(layer="encoder.layers.0") <= np.log(7)).all()


def test_nothing_is_measured_unless_asked():
    assert "norms" not in watch(Gpt(), probe=torch.randint(12, (20, 8)), every=1).record


def test_one_strong_feature_is_an_outlier():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    x = torch.ones(12, 4) * torch.tensor([1000.0, 1.0, 1.0, 1.0])
    run = watch(model, probe=(x + 0.01 * torch.randn(12, 4), torch.arange(12) % 3), every=1, inside=True, slow=0)
    assert np.isclose(run.record["outliers"][0, 0], 4.0, rtol=1e-4)
