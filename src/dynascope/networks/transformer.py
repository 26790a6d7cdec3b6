"""Small transformers: for arithmetic modulo a number, the standard case of grokking, and for images."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dynascope.checks import count, flag
from dynascope.networks.mlp import checked_share
from dynascope.networks.network import Dropout, Network


class Embed(nn.Module):
    """Tokens → vectors, plus a vector for each place."""

    def __init__(self, tokens: int, places: int, width: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(places, width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, place) whole numbers → (n, place, width)."""
        return self.token(x) + self.place.weight  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention over all earlier places, or over all, then a two-layer network, on normalised inputs, added to them.

    dropout: share of what is added that is set to 0
    """

    def __init__(self, width: int, heads: int, *, causal: bool = True, dropout: float | None = None) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.drop_1, self.drop_2 = (nn.Identity() if dropout is None else Dropout(dropout) for _ in range(2))
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, place, width) → the same."""
        n, places, width = x.shape
        query, key, value = self.mix(self.norm_1(x)).view(n, places, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / (width // self.heads) ** 0.5  # (n, head, place, place)
        if self.causal:
            later = torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
            scores = torch.where(later, float("-inf"), scores)
        seen = scores.softmax(-1) @ value
        x = x + self.drop_1(self.out(seen.transpose(1, 2).reshape(n, places, width)))
        return x + self.drop_2(self.down(F.relu(self.up(self.norm_2(x)))))  # type: ignore[no-any-return]


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


class Patches(nn.Module):
    """Images → vectors of their square patches, plus a vector for each place."""

    def __init__(self, channels: int, size: int, patch: int, width: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(channels, width, patch, stride=patch)
        self.place = nn.Embedding((size // patch) ** 2, width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channel, row, column) → (n, place, width)."""
        return self.cut(x).flatten(2).transpose(1, 2) + self.place.weight  # type: ignore[no-any-return]


class MeanOverPlaces(nn.Module):
    """(n, place, width) → (n, width)."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x.mean(1)


class VisionTransformer(Network):
    """Cut images into patches, let them attend to each other in `layers` blocks, and read out their mean.

    classes: how many numbers come out
    channels: of the images
    size: pixels of a side of the images, a multiple of `patch`
    patch: pixels of a side of a patch
    width: of the vectors, a multiple of `heads`
    heads: of the attention
    layers: blocks of attention and a two-layer network
    dropout: share of what a block adds that is set to 0

    Probe points: the patches and each block, all places. Source: Dosovitskiy et al. 2021, small and with a mean.

    >>> VisionTransformer(10, 1, size=10)(torch.zeros(2, 1, 10, 10)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        classes: int = 10,
        channels: int = 3,
        *,
        size: int = 32,
        patch: int = 2,
        width: int = 64,
        heads: int = 4,
        layers: int = 6,
        dropout: float = 0.0,
    ) -> None:
        classes, channels = count("classes", classes), count("channels", channels)
        size, patch, width = count("size", size), count("patch", patch), count("width", width)
        heads, layers, dropout = count("heads", heads), count("layers", layers), checked_share("dropout", dropout)
        for name, value, by, of in (("width", width, "heads", heads), ("size", size, "patch", patch)):
            if value % of:
                raise ValueError(f"{name} must be a multiple of {by}, got {value} and {of}")
        blocks = {f"block_{k}": Block(width, heads, causal=False, dropout=dropout) for k in range(1, layers + 1)}
        stages: dict[str, nn.Module] = {
            "patches": Patches(channels, size, patch, width),
            **blocks,
            "mean": MeanOverPlaces(),
            "norm": nn.LayerNorm(width),
            "linear": nn.Linear(width, classes),
        }
        super().__init__(stages, shape=(channels, size, size), classes=classes, probes=("patches", *blocks))
