"""What the first measurement of a process needs, loaded before anything is timed."""

import functools

import torch
from torch import nn

from dynascope.measure.side_effects import undisturbed
from dynascope.monitor import measuring
from dynascope.monitor.features import read_features
from dynascope.monitor.layers import find_layers
from dynascope.monitor.probing import Probe


@functools.cache
def warm_up(device: torch.device, *, slow: bool) -> None:
    """Measure a network of two numbers once: libraries and kernels that are loaded on first use are there afterwards.

    No random number is drawn.

    >>> warm_up(torch.device("cpu"), slow=False)
    """
    net = nn.Linear(2, 2, device="meta").to_empty(device=device)
    nn.init.eye_(net.weight)
    nn.init.zeros_(net.bias)
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], device=device).repeat(2, 1)
    probe = Probe.of((corners, [0, 1, 0, 1, 1, 0, 1, 1]), net)
    with undisturbed(net):
        layers = find_layers(net, probe)
        features = read_features(net, probe, layers)
        measuring.quick(features, layers)
        if slow:
            measuring.spectrum(features, layers.reading.task)
            measuring.elasticity(net, probe, layers, nn.functional.cross_entropy)
