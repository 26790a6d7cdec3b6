"""What is measured on the probe: quick numbers each time, slow ones now and then."""

from typing import Any, cast

import numpy as np
import torch
from torch import nn

from dynascope.measure.collapse import neural_collapse
from dynascope.measure.elasticity import Loss, class_elasticity
from dynascope.measure.separation import data_separation
from dynascope.measure.spectrum import feature_spectrum, minimum_feature_distance
from dynascope.monitor.layers import Features, Layers
from dynascope.monitor.probing import Logits, Probe
from dynascope.monitor.wrappers import whole
from dynascope.records import Json

SIGNS = ("nc1", "nc2_norm", "nc2_angle", "nc3", "nc4")
FEATURES = 32  # strongest features of the spectrum that are kept
ELASTIC_SAMPLES, ELASTIC_STEPS, ELASTIC_CLASSES = 8, 2, 100
Numbers = dict[str, Json]


def quick(features: Features, probe: Probe, layers: Layers, *, class_logits: bool = False) -> Numbers:
    """Load of every layer, signs of collapse, loss and accuracy on the probe; class means of logits if asked.

    A layer whose features are not finite, as in a run that diverged, has the load NaN.

    >>> from dynascope.monitor.layers import find_layers, read_features
    >>> net = nn.Sequential(nn.Linear(2, 2))
    >>> probe = Probe.of((torch.tensor([[1.0, 0], [1, 1], [0, 0], [0, 1]]), [0, 0, 1, 1]), net)
    >>> found = find_layers(net, probe)
    >>> sorted(quick(read_features(net, probe, found), probe, found))[:3]
    ['load', 'nc1', 'nc2_angle']
    """
    loads = [float(data_separation(each, probe.codes)) if _finite(each) else np.nan for each in features.layers]
    numbers: Numbers = {"load": loads, **dict.fromkeys(SIGNS, np.nan)}
    if _finite(features.last):
        found = neural_collapse(features.last, probe.codes, *_readout(layers, probe))
        numbers |= {name: float(found[name]) for name in SIGNS}
    labels = torch.as_tensor(probe.labels, device=features.logits.device)
    numbers["probe_loss"] = float(nn.functional.cross_entropy(features.logits.double(), labels))
    numbers["probe_accuracy"] = float((features.logits.argmax(dim=1) == labels).double().mean())
    if class_logits:
        logits = features.logits.double().cpu().numpy()
        numbers["class_logits"] = [logits[probe.codes == k].mean(axis=0).tolist() for k in range(len(probe.classes))]
    return numbers


def _finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _readout(layers: Layers, probe: Probe) -> tuple[torch.Tensor, torch.Tensor | None] | tuple[None, None]:
    """Rows of the readout that stand for the probe's classes."""
    if layers.readout is None:
        return None, None
    linear: Any = layers.readout.module  # a Linear, or what acts like one
    rows = torch.as_tensor(probe.classes, device=linear.weight.device)
    bias = None if linear.bias is None else whole(linear.bias.detach())[rows]
    return whole(linear.weight.detach())[rows], bias


def spectrum(features: Features, probe: Probe) -> Numbers:
    """Strength, usefulness and use of the last layer's features; distance from the fewest that could do.

    Every second sample of each class finds the features, the others evaluate them; the distance uses all.

    >>> x = torch.tensor([[1.0, 0], [2, 1], [0, 1], [1, 3]] * 2)
    >>> probe = Probe.of((x, [0, 0, 1, 1] * 2), nn.Linear(2, 2))
    >>> sorted(spectrum(Features([x], x, x), probe))[:3]
    ['constant_overlap', 'dimension_intensity', 'dimension_quality']
    """
    if not (_finite(features.last) and _finite(features.logits)):
        return {}
    place = np.zeros(len(probe), dtype=int)  # of each sample within its class
    for k in range(len(probe.classes)):
        place[probe.codes == k] = np.arange((probe.codes == k).sum())
    first, second = (torch.as_tensor(np.flatnonzero(place % 2 == side), device=features.last.device) for side in (0, 1))
    targets = torch.eye(len(probe.classes), device=features.last.device)[torch.as_tensor(probe.codes)[second.cpu()]]
    found = feature_spectrum(features.last[first], features.last[second], targets, features.logits[second])
    names = ("dimension_intensity", "dimension_quality", "dimension_utilization", "constant_overlap")
    numbers: Numbers = {name: float(found[name]) for name in names}
    for name in ("intensity", "quality", "utilization"):
        numbers[name] = found[name].values[:FEATURES].tolist()
    numbers["minimum_feature_distance"] = float(minimum_feature_distance(features.last, features.logits))
    return numbers


def can_step(probe: Probe) -> str:
    """Say why elasticity cannot be measured on a probe; empty if it can.

    >>> can_step(Probe.of((torch.ones(3, 2), [0, 0, 1]), nn.Linear(2, 2)))
    'every class needs two samples or more'
    """
    if not isinstance(probe.inputs, torch.Tensor) or probe.inputs.ndim < 2:
        return "it needs one input tensor"
    if len(probe.classes) > ELASTIC_CLASSES:
        return f"it is kept for up to {ELASTIC_CLASSES} classes"
    return "" if np.bincount(probe.codes).min() >= 2 else "every class needs two samples or more"


def elasticity(model: nn.Module, probe: Probe, loss: Loss) -> Numbers:
    """How a step on a sample of one class moves the logits of others, on up to 8 samples of each class, 2 stepped on.

    >>> probe = Probe.of((torch.eye(2).repeat(3, 1), [0, 1] * 3), nn.Linear(2, 2))
    >>> round(elasticity(nn.Linear(2, 2, bias=False), probe, nn.functional.cross_entropy)["intra"], 6)
    1.0
    """
    chosen = np.sort(
        np.concatenate([np.flatnonzero(probe.codes == k)[:ELASTIC_SAMPLES] for k in range(len(probe.classes))])
    )
    held = cast(torch.Tensor, probe.inputs)  # `can_step` asks for it
    inputs = held[torch.as_tensor(chosen, device=held.device)]
    labels = probe.labels[chosen]
    found = class_elasticity(Logits(model), inputs, labels, loss=loss, steps_per_class=ELASTIC_STEPS)
    numbers: Numbers = {name: found[name].values.tolist() for name in ("elasticity", "pull")}
    return numbers | {name: float(found[name]) for name in ("intra", "inter")}


def elasticity_passes(probe: Probe) -> float:
    """Cost of `elasticity` in passes of the whole probe, for a first guess of its time.

    >>> elasticity_passes(Probe.of((torch.eye(2).repeat(100, 1), [0, 1] * 100), nn.Linear(2, 2)))
    1.28
    """
    samples = sum(min(ELASTIC_SAMPLES, int(size)) for size in np.bincount(probe.codes))
    return 4 * len(probe.classes) * ELASTIC_STEPS * samples / len(probe)
