"""How training on one sample moves others, class by class, for any PyTorch model; the model is left as it was."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from dynascope.checks import ArrayLike, Given, count, scalar
from dynascope.measure.arrays import CACHED, class_codes
from dynascope.measure.side_effects import undisturbed
from dynascope.statistics.errors import over_trials

_dual: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = forward_ad.make_dual
_parts_of_dual: Callable[[torch.Tensor], forward_ad.UnpackedDualTensor] = forward_ad.unpack_dual
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_CHUNK = 16, 256  # samples per forward pass, at least and at most


def class_elasticity(
    model: Given[nn.Module],
    inputs: Given[torch.Tensor],
    labels: ArrayLike,
    *,
    learning_rate: float | None = None,
    loss: Loss = nn.functional.cross_entropy,
    layer: str | None = None,
    steps_per_class: int = 8,
    seed: int = 0,
) -> xr.Dataset:
    """Measure how far a step of SGD on a sample of one class moves the features of every class.

    For a sample x, w' = w − h ∇L(x), Δ(x') = f(x'; w') − f(x'; w), relative change |Δ(x')|/|Δ(x)| (He and Su); averaged
    over x of the class `source` and x' ≠ x of the class `class`. pull = mean cos(Δ(x'), Δ(x)) says whether they move
    the same way.

    model: any module that maps a batch of inputs to a tensor (sample, output).
    inputs: (sample, …) on the model's device.
    labels: (sample,), whole numbers that `loss` understands.
    learning_rate: h of a step that is really made; by default its first order, which does not depend on h (B.1).
    loss: of (output, label) batches.
    layer: name of a submodule whose output is taken as the features, flattened; by default the model's output.
    steps_per_class: samples of each class that a step is tried on, drawn with `seed`.

    Returns elasticity, its standard error over the samples stepped on, and pull, over (class, source); and the numbers
    intra (mean of the diagonal), inter (mean of the rest), ratio = inter/intra. Time does not enter: the step is one
    iteration. The model runs in evaluation mode and is not changed; random states stay as they were. Cost:
    docs/measures.md.
    Source: elastic (B.1), Section 2; He and Su (2020), The local elasticity of neural networks.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> found = class_elasticity(model, torch.eye(2).repeat(3, 1), [0, 1] * 3)  # classes that share no input
    >>> float(found["intra"].round(6)), float(found["inter"])
    (1.0, 0.0)
    """
    rate = None if learning_rate is None else scalar("learning_rate", learning_rate, above=0.0)
    steps = count("steps_per_class", steps_per_class)
    random = np.random.default_rng(count("seed", seed, at_least=0))
    classes, codes = _probe(model, inputs, labels)
    chosen = [random.permutation(np.flatnonzero(codes == k))[:steps] for k in range(len(classes))]
    truth = torch.as_tensor(classes[codes], device=inputs.device)
    with undisturbed(model), sdpa_kernel(SDPBackend.MATH), _read(model, layer) as read:  # fused kernels have no jvp
        step = _Step(read, _leaves(model), inputs, truth, codes, loss, rate)
        rows = [
            np.stack([step.moves(int(sample)) for sample in each]) for each in chosen
        ]  # per source (step, 2, class)
    return _summary(classes, rows)


def at_once(*inputs: torch.Tensor, most: int = _CHUNK[1]) -> int:
    """Samples per forward pass: fewer large ones on a CPU, whose cache then holds what layers make.

    Passes are about equal, so that none is left with a sample alone, which some networks refuse. inputs: all that one
    pass takes, sample by sample.

    >>> at_once(torch.ones(100, 3, 32, 32)), at_once(torch.ones(43, 3, 32, 32)), at_once(torch.ones(100, 2))
    (34, 22, 100)
    """
    samples, size = max(len(inputs[0]), 1), most
    for each in inputs:
        if each.device.type == "cpu":
            size = min(size, max(CACHED // max(each[:1].numel(), 1), _CHUNK[0]))
    return -(-samples // -(-samples // size))


@dataclass(frozen=True)
class _Step:
    """One step of SGD on one sample, seen by all samples."""

    read: "_Reader"
    weights: Mapping[str, torch.Tensor]
    inputs: torch.Tensor
    labels: torch.Tensor
    codes: np.ndarray
    loss: Loss
    rate: float | None

    def moves(self, sample: int) -> np.ndarray:
        """Class means of |Δ(x')|/|Δ(x)| and of cos(Δ(x'), Δ(x)), (2, class)."""
        change = self._change(self._direction(sample)).double()  # (sample, feature)
        length = change.norm(dim=1)
        if not float(length[sample]) > 0:
            raise ValueError(
                f"inputs must include no sample that a step does not move, got sample {sample}: its loss has no slope "
                "left, or learning_rate is too small"
            )
        cosine = change @ change[sample] / length[sample] / length.clamp(min=torch.finfo(torch.float64).tiny)
        found = torch.stack([length / length[sample], cosine]).cpu().numpy()  # (2, sample)
        others = np.arange(len(self.codes)) != sample
        classes = range(int(self.codes.max()) + 1)
        return np.stack([found[:, others & (self.codes == k)].mean(axis=1) for k in classes], axis=1)

    def _direction(self, sample: int) -> dict[str, torch.Tensor]:
        """−∇L(x), scaled to length 1 unless a real step is made: its length cancels, its underflow would not."""
        chosen = slice(sample, sample + 1)
        with torch.enable_grad():
            cost = self.loss(self.read.outputs(self.weights, self.inputs[chosen]), self.labels[chosen])
            slopes = torch.autograd.grad(
                cost.sum(), list(self.weights.values()), allow_unused=True, materialize_grads=True
            )
        size = torch.stack([slope.norm() for slope in slopes]).norm().clamp(min=1e-30) if self.rate is None else 1.0
        return {name: -slope / size for name, slope in zip(self.weights, slopes, strict=True)}

    def _change(self, direction: dict[str, torch.Tensor]) -> torch.Tensor:
        still = {name: weight.detach() for name, weight in self.weights.items()}
        if self.rate is not None:
            moved = {name: weight + self.rate * direction[name] for name, weight in still.items()}
            return self.read(moved, self.inputs) - self.read(still, self.inputs)
        pieces = []
        with torch.no_grad(), forward_ad.dual_level():
            with warnings.catch_warnings():  # torch's own, when its forward mode is first used
                warnings.simplefilter("ignore", DeprecationWarning)
                duals = {name: _dual(weight, direction[name]) for name, weight in still.items()}
            for chunk in torch.split(self.inputs, at_once(self.inputs)):
                value = self.read.features(duals, chunk)
                tangent = _parts_of_dual(value).tangent
                pieces.append(torch.zeros_like(value) if tangent is None else tangent)
        return torch.cat(pieces)


def _summary(classes: np.ndarray, rows: list[np.ndarray]) -> xr.Dataset:
    means = np.stack([each.mean(axis=0) for each in rows], axis=-1)  # (2, class, source)
    unknown = np.full(len(rows), np.nan)  # of a single step
    errors = [over_trials(each[:, 0], axis=0).error if len(each) > 1 else unknown for each in rows]
    intra, inter = _inside_outside(means[0])
    return xr.Dataset(
        {
            "elasticity": (("class", "source"), means[0], {"long_name": "relative change of features"}),
            "standard_error": (("class", "source"), np.stack(errors, axis=-1)),
            "pull": (("class", "source"), means[1], {"long_name": "cosine of changes"}),
            "intra": intra,
            "inter": inter,
            "ratio": inter / intra,
        },
        coords={"class": classes.tolist(), "source": classes.tolist()},
    )


def _inside_outside(matrix: np.ndarray) -> tuple[float, float]:
    inside = np.eye(len(matrix), dtype=bool)
    return float(matrix[inside].mean()), float(matrix[~inside].mean())


def gradient_gram(
    model: Given[nn.Module],
    inputs: Given[torch.Tensor],
    labels: ArrayLike,
    *,
    layer: str | None = None,
    max_memory: float = 1e9,
) -> xr.Dataset:
    """Average the Gram matrix of gradients over classes: how a step on class l can move the outputs of class k.

    Θ_kl = E[∂f(x')/∂w ∂f(x)/∂wᵀ] over independent x' of class k and x of class l, a K × K grid of p × p blocks (B.4).
    The mean factorises, Θ_kl = J_k J_lᵀ with J_k = ∂(mean of f over class k)/∂w, so that K·p vector–Jacobian products
    of class means give it exactly; no gradient of a single sample is formed.

    model, inputs, labels, layer: see `class_elasticity`; features of p outputs. max_memory: bytes for the rows of J,
    all K·p of them for as many parameters at a time as fit; the backward passes are repeated for each such part.
    Returns gram (class, output, source, source_output), strength = tr Θ_kl/p (class, source), intra (mean of its
    diagonal) and inter (mean of the rest). Model and random states stay as they were; see there.
    Cost: p backward passes of all inputs times ⌈4·K·p·P/max_memory⌉ for P float32 parameters: for a ResNet18 of 11
    million with 10 classes about 50 passes at 1 GB, 10 at 4.5 GB. Source: elastic (B.1)–(B.4).

    >>> gradient_gram(nn.Linear(2, 1, bias=False), torch.eye(2).repeat(3, 1), [0, 1] * 3)["strength"].values
    array([[1., 0.],
           [0., 1.]])
    """
    classes, codes = _probe(model, inputs, labels)
    limit = scalar("max_memory", max_memory, above=0.0)
    groups = [inputs[torch.as_tensor(np.flatnonzero(codes == k), device=inputs.device)] for k in range(len(classes))]
    with undisturbed(model), _read(model, layer) as read:
        weights = _leaves(model)
        outputs = read(weights, inputs[:1]).shape[1]
        rows = len(classes) * outputs
        gram = torch.zeros(rows, rows, dtype=torch.float64, device=inputs.device)
        for names in _parts(weights, rows, limit):
            # (class·output, weight)
            slopes = torch.cat([_mean_slopes(read, weights, names, group) for group in groups])
            for first in range(0, slopes.shape[1], 2**20):
                piece = slopes[:, first : first + 2**20].double()
                gram += piece @ piece.T
    blocks = gram.cpu().numpy().reshape(len(classes), outputs, len(classes), outputs)
    strength = np.einsum("kili->kl", blocks) / outputs
    intra, inter = _inside_outside(strength)
    labelled = classes.tolist()
    return xr.Dataset(
        {
            "gram": (("class", "output", "source", "source_output"), blocks),
            "strength": (("class", "source"), strength),
            "intra": intra,
            "inter": inter,
        },
        coords={"class": labelled, "source": labelled},
    )


def _parts(weights: Mapping[str, torch.Tensor], rows: int, limit: float) -> Iterator[list[str]]:
    """Split the parameters so that `rows` gradients of each part fit; one tensor is never split."""
    part: list[str] = []
    held = 0
    for name, weight in weights.items():
        size = rows * weight.numel() * weight.element_size()
        if part and held + size > limit:
            yield part
            part, held = [], 0
        part, held = [*part, name], held + size
    yield part


def _mean_slopes(
    read: "_Reader", weights: Mapping[str, torch.Tensor], names: list[str], group: torch.Tensor
) -> torch.Tensor:
    """∂(mean output over a class)/∂(some weights), (output, weight), summed over chunks of the class."""
    total: torch.Tensor | int = 0
    for chunk in torch.split(group, at_once(group)):
        with torch.enable_grad():
            means = (read.features(weights, chunk).sum(dim=0) / len(group)).unbind()  # one for each output
        chosen = [weights[name] for name in names]
        rows = []
        for index, mean in enumerate(means):
            slopes = torch.autograd.grad(
                mean, chosen, retain_graph=index + 1 < len(means), materialize_grads=True, allow_unused=True
            )
            rows.append(torch.cat([slope.reshape(-1) for slope in slopes]))
        total = total + torch.stack(rows)
    return torch.as_tensor(total)


class _Reader:
    """Runs a model with given weights and takes features off its output or off a submodule."""

    def __init__(self, model: nn.Module, held: dict[str, object] | None) -> None:
        self.model, self.held = model, held

    def outputs(self, weights: Mapping[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        found = functional_call(self.model, dict(weights), (inputs,))
        if not isinstance(found, torch.Tensor) or found.ndim < 2:
            raise ValueError(
                f"model must return a tensor (sample, output), got {type(found).__name__}; "
                "wrap it in a module that picks the logits"
            )
        return found

    def features(self, weights: Mapping[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        found: object = self.outputs(weights, inputs)
        if self.held is not None:
            found = self.held.pop("features", None)
            if not isinstance(found, torch.Tensor):
                raise ValueError(
                    f"layer must be a submodule that runs and returns a tensor, got {type(found).__name__}"
                )
        return torch.as_tensor(found).flatten(1)

    def __call__(self, weights: Mapping[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([self.features(weights, chunk) for chunk in torch.split(inputs, at_once(inputs))])


@contextmanager
def _read(model: nn.Module, layer: str | None) -> Iterator[_Reader]:
    if layer is None:
        yield _Reader(model, None)
        return
    modules = dict(model.named_modules())
    if layer not in modules or not layer:
        raise ValueError(f"layer must name a submodule, one of {', '.join(filter(None, modules))}, got {layer!r}")
    held: dict[str, object] = {}
    hook = modules[layer].register_forward_hook(lambda _module, _inputs, output: held.update(features=output))
    try:
        yield _Reader(model, held)
    finally:
        hook.remove()


def _leaves(model: nn.Module) -> dict[str, torch.Tensor]:
    """Stand-ins for the trained parameters that share their memory but not their gradients."""
    found = {name: each.detach().requires_grad_() for name, each in model.named_parameters() if each.requires_grad}
    if not found:
        raise ValueError("model must have parameters that require gradients, got none")
    return found


def _probe(model: object, inputs: object, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Classes and the class of each sample, with at least two samples each."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(inputs, torch.Tensor) or inputs.ndim < 2:
        raise ValueError(f"inputs must be a tensor (sample, …), got {type(inputs).__name__}")
    if inputs.is_floating_point() and not bool(torch.isfinite(inputs).all()):
        raise ValueError("inputs must be finite everywhere, got NaN or infinity")
    home = next((each.device for each in model.parameters()), inputs.device)
    if home != inputs.device:
        raise ValueError(f"inputs must be on the model's device, {home}, got {inputs.device}; use inputs.to(…)")
    classes, codes = class_codes(labels, len(inputs))
    if classes.dtype.kind not in "iu":
        raise ValueError(f"labels must be whole numbers, which the loss takes, got {classes.dtype}")
    if np.bincount(codes).min() < 2:
        lonely = classes[int(np.bincount(codes).argmin())]
        raise ValueError(f"labels must hold every class at least twice, got class {lonely} once")
    return classes, codes
