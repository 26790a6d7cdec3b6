"""One real step of SGD on one sample beside its first order: what it does to the weights and to other samples."""

import copy
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn
from torch.func import functional_call, jvp, vjp

from dynascope.measure.elasticity import gradient_gram

Weights = dict[str, torch.Tensor]


def step_errors(
    model: nn.Module, sample: np.ndarray, label: int, others: np.ndarray, learning_rates: Sequence[float]
) -> tuple[Float[np.ndarray, " rate"], Float[np.ndarray, "rate sample"]]:
    """How far real steps on one sample are from their first order: in the weights, and in the logits of other samples.

    Δw = h ∂X/∂wᵀ (e − softmax X) (B.3) and ΔX' = ∂X'/∂w Δw (B.1), (B.2), held against `torch.optim.SGD` with softmax
    cross-entropy: |real − stated|/|stated|, for all weights together and for each of the others. The first is rounding;
    the second falls in proportion to h, except where a step crosses a kink of the network.

    model: maps a batch to logits, in evaluation mode; it is not changed. sample: one input. others: (sample, …).
    learning_rates: h of each step. Source: elastic (B.1)–(B.3).

    >>> model = nn.Linear(2, 2).double()  # its logits are linear in the weights: first order is all there is
    >>> weights, logits = step_errors(model, np.ones(2), 0, np.eye(2), [0.1])
    >>> logits.shape, bool(max(weights.max(), logits.max()) < 1e-12)
    ((1, 2), True)
    """
    x, probe, start = _tensor(model, sample[None]), _tensor(model, others), _weights(model)
    outputs, back = _with_slopes(model, x, start)
    target = torch.tensor([label], device=x.device)
    stated = back(nn.functional.one_hot(target, outputs.shape[1]) - outputs.softmax(dim=1))  # Δw/h
    before, slope = _along(model, probe, start, stated)
    weights, outputs_off = [], []
    for rate in learning_rates:
        stepped = copy.deepcopy(model)
        torch.autograd.backward(nn.functional.cross_entropy(stepped(x), target))
        torch.optim.SGD(stepped.parameters(), lr=rate).step()
        moved = torch.cat([(weight - start[name]).ravel() for name, weight in _weights(stepped).items()])
        wanted = rate * torch.cat([each.ravel() for each in stated.values()])
        with torch.no_grad():
            change = stepped(probe) - before
        weights.append(float((moved - wanted).norm() / wanted.norm()))
        outputs_off.append(((change - rate * slope).norm(dim=1) / (rate * slope).norm(dim=1)).cpu().numpy())
    return np.array(weights), np.stack(outputs_off)


def mean_drift(
    model: nn.Module, samples: np.ndarray, labels: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, "class logit"]:
    """Change of class means over the learning rate in a step on a random sample: the mean of (B.1), nothing decoupled.

    ∂X̄_k/∂w E[∂X/∂wᵀ (e − softmax X)]. samples: (sample, …), as many of each class. Source: elastic (B.1), (B.4).

    >>> mean_drift(nn.Linear(2, 2).double(), np.eye(2), np.array([0, 1])).shape
    (2, 2)
    """
    x, start = _tensor(model, samples), _weights(model)
    own = torch.as_tensor(labels, device=x.device)
    outputs, back = _with_slopes(model, x, start)
    margins = nn.functional.one_hot(own, outputs.shape[1]) - outputs.softmax(dim=1)
    direction = back(margins / len(x))
    slope = _along(model, x, start, direction)[1]
    return np.stack([slope[own == k].mean(dim=0).cpu().numpy() for k in torch.unique(own)])


def logits(model: nn.Module, samples: np.ndarray) -> Float[np.ndarray, "sample logit"]:
    """Outputs of a model for samples given as an array.

    >>> logits(nn.Linear(2, 3).double(), np.eye(2)).shape
    (2, 3)
    """
    with torch.no_grad():
        return np.asarray(model(_tensor(model, samples)).cpu().numpy())


def logits_and_gram(
    model: nn.Module, samples: np.ndarray, labels: Int[np.ndarray, " sample"]
) -> tuple[Float[np.ndarray, "sample logit"], Float[np.ndarray, "class logit class logit"]]:
    """Logits, and the Gram matrix Θ of `measure.gradient_gram`, of samples given as an array.

    >>> logits_and_gram(nn.Linear(2, 2).double(), np.eye(2).repeat(2, 0), np.array([0, 0, 1, 1]))[1].shape
    (2, 2, 2, 2)
    """
    return logits(model, samples), gradient_gram(model, _tensor(model, samples), labels)["gram"].values


def _with_slopes(
    model: nn.Module, inputs: torch.Tensor, weights: Weights
) -> tuple[torch.Tensor, Callable[[torch.Tensor], Weights]]:
    """Outputs, and what their transposed derivative by the weights makes of a factor for each."""
    found = vjp(lambda moved: functional_call(model, moved, (inputs,)), weights)
    outputs, back = found[0], found[1]
    return outputs.detach(), lambda factor: back(factor)[0]


def _along(
    model: nn.Module, inputs: torch.Tensor, weights: Weights, direction: Weights
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs, and their derivative along a direction of the weights."""
    with warnings.catch_warnings():  # torch's own, when its forward mode is first used
        warnings.simplefilter("ignore", DeprecationWarning)
        found = jvp(lambda moved: functional_call(model, moved, (inputs,)), (weights,), (direction,))
    return found[0].detach(), found[1].detach()


def _tensor(model: nn.Module, array: np.ndarray) -> torch.Tensor:
    """The array where the model is, and as precise."""
    home = next(model.parameters())
    return torch.as_tensor(array, dtype=home.dtype, device=home.device)


def _weights(model: nn.Module) -> Weights:
    return {name: weight.detach() for name, weight in model.named_parameters()}
