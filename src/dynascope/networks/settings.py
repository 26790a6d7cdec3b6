"""What the trials of an ensemble have in common, what they differ in, and how they start. Needs only PyTorch."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dynascope.networks import draws
from dynascope.networks.network import Network

OPTIMIZERS, LOSSES, SAMPLINGS = ("sgd", "adam", "adamw"), ("cross_entropy", "mse"), ("replacement", "shuffled")
TRAINED = ("all", "last")


@dataclass(frozen=True)
class Settings:
    """What the trials have in common, and arrays over the trials for what can differ."""

    trials: np.ndarray  # numbers of the trials: their random numbers depend on the number alone
    learning_rate: np.ndarray
    batch_size: int = 1
    seed: int = 0
    optimizer: str = "sgd"
    momentum: np.ndarray = field(default_factory=lambda: np.zeros(1))
    weight_decay: np.ndarray = field(default_factory=lambda: np.zeros(1))
    label_noise: np.ndarray = field(default_factory=lambda: np.zeros(1))
    input_noise: np.ndarray = field(default_factory=lambda: np.zeros(1))
    vary: Mapping[str, np.ndarray] = field(default_factory=dict)
    loss: str = "cross_entropy"
    sampling: str = "replacement"
    trained: str = "all"
    later: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)  # what changes after a step
    precision: str = "float32"
    device: str = "cpu"


def initial_state(network: Network, settings: Settings) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack parameters and buffers of all trials, each initialised from (seed, trial)."""
    parameters: dict[str, list[Tensor]] = {}
    buffers: dict[str, list[Tensor]] = {}
    own = copy.deepcopy(network)
    for index, number in enumerate(settings.trials.tolist()):
        for name, buffer in own.named_buffers():
            if (last := name.rpartition(".")[2]) in settings.vary:
                buffer.fill_(float(settings.vary[last][index]))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(draws.keys(torch.tensor(settings.seed), number, draws.START)))
            own.reset_parameters()
        for held, tensors in ((parameters, own.named_parameters()), (buffers, own.named_buffers())):
            for name, tensor in tensors:
                held.setdefault(name, []).append(tensor.detach().clone())
    dtype = getattr(torch, settings.precision)

    def stack(tensors: list[Tensor]) -> Tensor:
        stacked = torch.stack(tensors).to(settings.device)
        return stacked.to(dtype) if stacked.is_floating_point() else stacked

    return {n: stack(t) for n, t in parameters.items()}, {n: stack(t) for n, t in buffers.items()}
