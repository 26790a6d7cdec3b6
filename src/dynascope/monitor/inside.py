"""Inside transformers: what attention looks at, how large its logits are, and how the features of a layer are spread.

Attention is seen where it is computed, in `scaled_dot_product_attention` or in a softmax over (query, key), in a pass
of a few samples: models need not return it. Kernels of other libraries are not seen.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dynascope.monitor.features import Layer, Layers, rows_first
from dynascope.monitor.probing import Probe, feed
from dynascope.monitor.tracing import clean, first_tensor, hooked
from dynascope.records import Json

SAMPLES, QUERIES = 8, 64  # of the probe, and evenly spaced positions of each, that are looked into
_SOFTMAX = (F.softmax, torch.softmax, torch.Tensor.softmax)


def look_inside(model: nn.Module, probe: Probe, layers: Layers) -> dict[str, Json]:
    """Measure attention, outliers and norms layer by layer, on the first 8 samples.

    attention_entropy: (layer, head), mean over queries of −Σ p log p over keys: 0 where one key gets all, log n where n
    keys get alike. attention_logit: (layer, head), the largest logit before the softmax. NaN in layers without
    attention; of several in a layer, as in a decoder, the first counts.
    outliers: (layer,), p Σ_j s_j⁴/(Σ_j s_j²)² over the root mean squares s_j of p features: 1 where all are alike, p
    where one has all. norms: (layer,), mean length of a position's features.
    Time does not enter; natural logarithm. Source: Zhai et al. (2023) for the entropy, Dehghani et al. (2023) for the
    logits, He et al. (2024) for the kurtosis of features.

    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    >>> probe = Probe.of((torch.ones(4, 2), [0, 0, 1, 1]), net)
    >>> found = look_inside(net, probe, find_layers(net, probe))
    >>> round(found["norms"][0], 3), found["outliers"][0]
    (1.414, 1.0)
    """
    part = slice(0, min(SAMPLES, len(probe)))
    seen = {name: _Seen() for name in layers.names}
    if layers.input is not None and isinstance(probe.inputs, torch.Tensor):
        seen["input"].spread(probe.inputs[part], layers.input)
    with _watching(model, layers, seen, part.stop):
        feed(model, probe.part(part))
    heads = max((len(each.entropy) for each in seen.values()), default=0)
    numbers: dict[str, Json] = {
        "outliers": [each.outliers for each in seen.values()],
        "norms": [each.norm for each in seen.values()],
    }
    if heads:
        numbers["attention_entropy"] = [_padded(each.entropy, heads) for each in seen.values()]
        numbers["attention_logit"] = [_padded(each.logit, heads) for each in seen.values()]
    return numbers


def _padded(values: list[float], size: int) -> list[float]:
    return values + [math.nan] * (size - len(values))


@dataclass
class _Seen:
    """What was seen of a layer; attention by heads."""

    entropy: list[float] = field(default_factory=list)
    logit: list[float] = field(default_factory=list)
    outliers: float = math.nan
    norm: float = math.nan

    def spread(self, tensor: torch.Tensor, layer: Layer) -> None:
        x = rows_first(tensor, layer).detach().double().flatten(0, -2)  # (position, feature)
        power = x.square().mean(dim=0)
        self.norm = float(x.norm(dim=1).mean())
        self.outliers = float(len(power) * power.square().sum() / power.sum().square())

    def attend(self, logits: torch.Tensor) -> None:
        """logits: (sample, head, query, key), −∞ where a key is hidden."""
        if self.entropy:
            return
        chances = torch.softmax(logits.detach().double(), dim=-1)
        entropy = torch.special.entr(chances).sum(dim=-1)
        self.entropy = entropy.nanmean(dim=(0, 2)).tolist()
        self.logit = logits.amax(dim=(0, 2, 3)).double().tolist()


class _Attention(TorchFunctionMode):
    """Hands logits of attention on; everything runs as it would."""

    def __init__(self, samples: int, found: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self.samples, self.found = samples, found

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is F.multi_head_attention_forward:
            return self._within(function, args, kwargs)
        if function is F.scaled_dot_product_attention:
            self.found(_logits(*args, **kwargs))
        elif function in _SOFTMAX and isinstance(args[0] if args else None, torch.Tensor):
            self._softmax(args[0])
        return function(*args, **kwargs)

    def _within(self, function: Any, args: Any, kwargs: Any) -> Any:
        """PyTorch's own layer: this mode is off inside it, so what it calls is replaced for that call."""
        attention, softmax = F.scaled_dot_product_attention, F.softmax

        def attend(*args: Any, **kwargs: Any) -> torch.Tensor:
            self.found(_logits(*args, **kwargs))
            return attention(*args, **kwargs)

        def normalise(logits: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            self._softmax(logits)
            return softmax(logits, *args, **kwargs)

        F.scaled_dot_product_attention, F.softmax = attend, normalise  # type: ignore[assignment]
        try:
            return function(*args, **kwargs)
        finally:
            F.scaled_dot_product_attention, F.softmax = attention, softmax

    def _softmax(self, logits: torch.Tensor) -> None:
        if logits.ndim == 3 and logits.shape[0] % self.samples == 0 and logits.shape[1] == logits.shape[2]:
            logits = logits.reshape(self.samples, -1, *logits.shape[1:])  # heads beside samples
        if logits.ndim == 4 and logits.shape[0] == self.samples and min(logits.shape[2:]) > 1:
            self.found(_spaced(logits))


def _spaced(tensor: torch.Tensor) -> torch.Tensor:
    """Evenly spaced queries."""
    length = tensor.shape[2]
    return tensor if length <= QUERIES else tensor[:, :, _places(length).to(tensor.device)]


def _places(length: int) -> torch.Tensor:
    return torch.linspace(0, length - 1, QUERIES).round().long() if length > QUERIES else torch.arange(length)


def _logits(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Logits as `scaled_dot_product_attention` defines them, of some queries."""
    length, keys = query.shape[-2], key.shape[-2]
    places = _places(length).to(query.device)
    key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3) if enable_gqa else key
    logits = query[..., places, :].float() @ key.float().transpose(-2, -1)
    logits = logits * (scale if scale is not None else query.shape[-1] ** -0.5)
    if is_causal:
        logits = logits.masked_fill(torch.arange(keys, device=query.device) > places[:, None], -math.inf)
    if attn_mask is not None:
        mask = attn_mask.expand(*attn_mask.shape[:-2], length, keys)[..., places, :]
        logits = logits.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else logits + mask
    return logits if logits.ndim == 4 else logits.unsqueeze(1)


@contextmanager
def _watching(model: nn.Module, layers: Layers, seen: dict[str, _Seen], samples: int) -> Iterator[None]:
    """See to which layer each attention belongs, by the modules that are running, and what the layers' features are."""
    paths = {module: clean(path) for path, module in model.named_modules()}
    running: list[str] = []

    def take(module: nn.Module, number: int, tensor: torch.Tensor | None, entering: bool) -> None:
        for layer in layers.hidden:
            if (layer.module, layer.number, layer.entering) == (module, number, entering) and tensor is not None:
                seen[layer.name].spread(tensor, layer)

    def enter(module: nn.Module, number: int, given: torch.Tensor | None) -> None:
        running.append(f"{paths[module]} ({number + 1})" if number else paths[module])
        take(module, number, given, True)

    def leave(module: nn.Module, number: int, made: object) -> None:
        running.pop()
        take(module, number, first_tensor(made), False)

    def found(logits: torch.Tensor) -> None:
        name = next((each for each in reversed(running) if each in seen), None)
        if name is not None:
            seen[name].attend(logits)

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # which has no attention to see
    try:
        with hooked([module for module in paths if module is not model], enter, leave), _Attention(samples, found):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
