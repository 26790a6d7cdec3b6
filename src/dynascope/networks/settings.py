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
TRAINED, PRODUCTS = ("all", "last"), ("usual", "full", "tf32", "bfloat16")


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
    products: str = "usual"  # how exact products and convolutions are within a step
    way: str = "auto"
    device: str = "cpu"


def initial_state(network: Network, settings: Settings) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack parameters and buffers of all trials, each initialised from (seed, trial)."""
    own = copy.deepcopy(network)
    parameters, buffers = ({n: t.detach() for n, t in each} for each in (own.named_parameters(), own.named_buffers()))
    varied = [(b, settings.vary[last]) for n, b in buffers.items() if (last := n.rpartition(".")[2]) in settings.vary]
    held = parameters | buffers
    stacked = {name: tensor.new_empty(len(settings.trials), *tensor.shape) for name, tensor in held.items()}
    with torch.random.fork_rng(devices=[]):
        for index, number in enumerate(settings.trials.tolist()):
            for buffer, values in varied:
                buffer.fill_(float(values[index]))
            key = int(draws.keys(torch.tensor(settings.seed), number, draws.START))
            torch.default_generator.manual_seed(key)
            own.reset_parameters()
            for name, tensor in held.items():
                stacked[name][index] = tensor
    dtype = getattr(torch, settings.precision)

    def moved(tensor: Tensor) -> Tensor:
        there = tensor.to(settings.device)
        return there.to(dtype) if there.is_floating_point() else there

    return {n: moved(stacked[n]) for n in parameters}, {n: moved(stacked[n]) for n in buffers}
