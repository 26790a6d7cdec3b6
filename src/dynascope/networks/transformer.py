"""A small transformer for arithmetic modulo a number, the standard case of grokking."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dynascope.checks import count, flag
from dynascope.networks.network import Network


class Embed(nn.Module):
    """Tokens → vectors, plus a vector for each place."""

    def __init__(self, tokens: int, places: int, width: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(places, width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, place) whole numbers → (n, place, width)."""
        return self.token(x) + self.place.weight  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention over all earlier places, then a two-layer network, each on normalised inputs and added to them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, place, width) → the same."""
        n, places, width = x.shape
        query, key, value = self.mix(self.norm_1(x)).view(n, places, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / (width // self.heads) ** 0.5  # (n, head, place, place)
        later = torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
        seen = torch.where(later, float("-inf"), scores).softmax(-1) @ value
        x = x + self.out(seen.transpose(1, 2).reshape(n, places, width))
        return x + self.down(F.relu(self.up(self.norm_2(x))))  # type: ignore[no-any-return]


class LastPlace(nn.Module):
    """(n, place, width) → (n, width)."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x[:, -1]


class ModularTransformer(Network):
    """Read the tokens (a, b, "=") and say a ∘ b modulo `modulus`, one number per class.

    modulus: numbers are 0 … modulus − 1; the token "=" is `modulus` itself
    width: of the vectors, a multiple of `heads`
    heads: of the attention
    layers: blocks of attention and a two-layer network
    final_norm: whether the last place is normalised before it is read out

    Inputs are int64 (n, 3). Probe points: the embedding, each block, the last place, and its norm if it has one.
    Source: Power et al. 2022 (two layers, width 128, four heads).

    >>> ModularTransformer(97)(torch.tensor([[3, 5, 97]])).shape
    torch.Size([1, 97])
    """

    def __init__(
        self, modulus: int = 97, *, width: int = 128, heads: int = 4, layers: int = 2, final_norm: bool = False
    ) -> None:
        modulus, width = count("modulus", modulus, at_least=2), count("width", width)
        heads, layers = count("heads", heads), count("layers", layers)
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width} and {heads}")
        blocks = {f"block_{k}": Block(width, heads) for k in range(1, layers + 1)}
        norm = {"norm": nn.LayerNorm(width)} if flag("final_norm", final_norm) else {}
        stages: dict[str, nn.Module] = {
            "embed": Embed(modulus + 1, 3, width),
            **blocks,
            "last": LastPlace(),
            **norm,
            "linear": nn.Linear(width, modulus),
        }
        super().__init__(stages, shape=(3,), classes=modulus, probes=("embed", *blocks, "last", *norm))
        self.tokens = modulus + 1
