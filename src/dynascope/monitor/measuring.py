"""What is measured on the probe: quick numbers each time, slow ones now and then."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import nn

from dynascope.measure.collapse import neural_collapse
from dynascope.measure.elasticity import Loss, class_elasticity
from dynascope.measure.separation import CONFIDENCE, LayerLoad, layer_load, resampled
from dynascope.measure.spectrum import feature_spectrum, minimum_feature_distance
from dynascope.monitor.beliefs import Signal, signals
from dynascope.monitor.features import Features, Layers, Reading, read_features
from dynascope.monitor.outputs import readout_rows
from dynascope.monitor.probing import Logits, Probe
from dynascope.monitor.tasks import Task
from dynascope.records import Json

SIGNS = ("nc1", "nc2_norm", "nc2_angle", "nc3", "nc4")
FEATURES = 32  # strongest features of the spectrum that are kept
ELASTIC_SAMPLES, ELASTIC_STEPS, ELASTIC_CLASSES = 8, 2, 100
ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
RESAMPLES = 200  # of the bootstrap beside the loads
TOO_LOW, LOOSE = 0.1, 3.5  # a load that chance alone lowers by more is told, unless it is above that
Numbers = dict[str, Json]


def quick(features: Features, layers: Layers, *, class_logits: bool = False) -> Numbers:
    """Load of every layer with its interval, signs of collapse, loss and accuracy on the probe; class means if asked.

    A layer whose features are not finite, as in a run that diverged, has the load NaN.

    >>> from dynascope.monitor.features import read_features
    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Sequential(nn.Linear(2, 2))
    >>> probe = Probe.of((torch.tensor([[1.0, 0], [1, 1], [0, 0], [0, 1]]), [0, 0, 1, 1]), net)
    >>> found = find_layers(net, probe)
    >>> sorted(quick(read_features(net, probe, found), found))[:3]
    ['increment_interval', 'load', 'loads_interval']
    """
    task = layers.reading.task
    measured = loads_of(features.layers, task)
    numbers: Numbers = {"load": [each.load for each in measured]} | _intervals(measured, task)
    if task.separates:
        if features.hits is not None and len(features.layers) > 2:
            numbers |= believes(features, task).numbers()
        numbers |= dict.fromkeys(SIGNS, np.nan)
        if _finite(features.last):
            found = neural_collapse(features.last, task.codes, *_readout(layers, features.last))
            numbers |= {name: float(found[name]) for name in SIGNS}
    numbers |= _scores(features, "probe")
    if class_logits:
        logits = features.logits.double().cpu().numpy()
        numbers["class_logits"] = [logits[task.codes == k].mean(axis=0).tolist() for k in range(len(task.classes))]
    return numbers


def believes(features: Features, task: Task) -> Signal:
    """What the network shows of its own beliefs about the probe.

    >>> x = torch.tensor([[1.0, 0], [2, 1], [0, 1], [1, 3]])
    >>> task = Task("classification", torch.tensor([0, 0, 1, 1]), np.arange(2), np.array([0, 0, 1, 1]), x, np.arange(4))
    >>> believes(Features([x, 2 * x, x], x, x, torch.ones(4), torch.ones(4)), task).fit.tolist()
    [1.0]
    """
    rows, logits = [each[None] for each in features.layers], features.logits[None]
    return signals(rows, logits, task.labels.to(logits.device).reshape(1, -1), len(task.classes))


def on_test(features: Features, reading: Reading) -> Numbers:
    """Loads, loss and accuracy on the test part of the probe.

    >>> x = torch.tensor([[1.0, 0], [2, 1], [0, 1], [1, 3]])
    >>> task = Task("classification", torch.tensor([0, 0, 1, 1]), np.arange(2), np.array([0, 0, 1, 1]), x, np.arange(4))
    >>> list(on_test(Features([x], x, x, torch.ones(4), torch.ones(4)), Reading(task)))
    ['test_loads', 'test_loss', 'test_accuracy']
    """
    loads = [each.load for each in loads_of(features.layers, reading.task)]
    return {"test_loads": loads} | _scores(features, "test")


def _scores(features: Features, name: str) -> Numbers:
    scores: Numbers = {f"{name}_loss": float(features.losses.mean())}
    if features.hits is not None:
        scores[f"{name}_accuracy"] = float(features.hits.mean())
    return scores


def loads_of(layers: Sequence[torch.Tensor], task: Task) -> list[LayerLoad]:
    """Measure the load of every layer from its rows' features, with the influence of every row.

    >>> codes = np.array([0, 0, 1, 1])
    >>> task = Task("classification", torch.as_tensor(codes), np.arange(2), codes, torch.empty(0), np.arange(4))
    >>> len(loads_of([torch.tensor([[1.0, 0], [2, 1], [0, 1], [1, 3]])], task))
    1
    """
    nothing = LayerLoad(math.nan, np.full(len(task), np.nan))
    found = []
    for each in layers:
        if not _finite(each):
            found.append(nothing)
        elif task.separates:
            found.append(layer_load(each, task.codes))
        else:
            found.append(layer_load(each, task.targets.to(each.device), kind="held_out", groups=task.sample))
    return found


def _intervals(measured: list[LayerLoad], task: Task) -> Numbers:
    """95 % intervals of loads, increments and bend from the probe's bootstrap, which draws whole samples."""
    drawn = resampled(measured, RESAMPLES, 0, groups=task.sample)
    spread = {"loads": drawn, "increment": np.pad(-np.diff(drawn, axis=1), ((0, 0), (1, 0)), constant_values=np.nan)}
    return {f"{name}_interval": np.quantile(values, ENDS, axis=0).T.tolist() for name, values in spread.items()}


def small_probe(loads: list[float], names: list[str], task: Task) -> str:
    """Say that a probe is too small for its classes: where class means differ by chance, loads come out too low.

    Among N rows of K classes tr Σb holds tr Σw (K − 1)/(N − K) by chance, so that no load exceeds about
    log((N − K)/(K − 1)). Empty where that lowers every load by at most 0.1, or where only loads above 3.5 are lowered,
    which say "hardly separated" in any case.

    >>> task = Task("classification", torch.arange(8) % 4, np.arange(4), np.arange(8) % 4, torch.empty(0), np.arange(8))
    >>> small_probe([0.2], ["input"], task)
    'probe: 8 samples of 4 classes are too few: the load 0.20 of input is 1 or more too low by chance; use 110 or more'
    """
    finite = [load for load in loads if math.isfinite(load)]
    rows, kinds = len(task), len(task.classes)
    enough = kinds + math.exp(LOOSE) * (kinds - 1)
    if not task.separates or not finite or rows >= enough:
        return ""
    worst = max(finite)
    chance = (kinds - 1) / (rows - kinds) * math.exp(worst)  # share of Σb
    lost = math.log(rows / (rows - kinds)) - (math.log(1 - chance) if chance < 1 else -math.inf)
    if lost <= TOO_LOW:
        return ""
    much = f"about {lost:.1f}" if lost < 1 else "1 or more"
    what = "samples" if task.places is None else "positions"
    return (
        f"probe: {rows} {what} of {kinds} classes are too few: the load {worst:.2f} of {names[loads.index(worst)]} is "
        f"{much} too low by chance; use {math.ceil(enough / 10) * 10} or more"
    )


def with_size(layers: Layers, features: Features) -> Layers:
    """Add to the notes that the probe is too small, if it is.

    >>> from dynascope.monitor.features import read_features
    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Linear(2, 2)
    >>> probe = Probe.of((torch.tensor([[1.0, 0], [1, 1], [0, 0], [0, 1]]), [0, 0, 1, 1]), net)
    >>> found = find_layers(net, probe)
    >>> len(with_size(found, read_features(net, probe, found)).notes)
    1
    """
    task = layers.reading.task
    told = (
        small_probe([each.load for each in loads_of(features.layers, task)], layers.names, task)
        if task.separates
        else ""
    )
    return replace(layers, notes=(*layers.notes, told)) if told else layers


def _finite(tensor: torch.Tensor) -> bool:
    if tensor.numel() == 0:
        return True
    return bool(torch.isfinite(torch.stack(tensor.aminmax())).all())  # NaN is both; no array of as many answers


def _readout(layers: Layers, last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None] | tuple[None, None]:
    """Rows of the readout that stand for the task's classes; one logit z counts as the two −z/2 and z/2."""
    if layers.readout is None:
        return None, None
    task = layers.reading.task
    if task.name == "binary":
        weight, bias = readout_rows(layers.readout.module, last.shape[1], [0], last)
        both = torch.tensor([-0.5, 0.5], dtype=weight.dtype, device=weight.device)
        return both[:, None] * weight, None if bias is None else both * bias
    return readout_rows(layers.readout.module, last.shape[1], task.classes.tolist(), last)


def answers(layers: Layers) -> int:
    """Among how many answers a network that knows nothing would guess; 0 where they are numbers, or not known."""
    task, readout = layers.reading.task, None if layers.readout is None else layers.readout.module
    if task.name in ("binary", "multilabel"):
        return 2
    known = [getattr(readout, name, None) for name in ("out_features", "out_channels")]
    if task.name == "regression" or (task.name == "language" and not any(known)):
        return 0
    return next((int(each) for each in known if each), 0) or int(task.classes.max()) + 1


def loss_of_the_mean(layers: Layers) -> float | None:
    """Loss on the probe of one answer for all, for numbers; None for other tasks."""
    task = layers.reading.task
    if task.name != "regression":
        return None
    labels = task.labels.double()
    return float(((labels - labels.mean(dim=0)) ** 2).mean())


def spectrum(features: Features, task: Task) -> Numbers:
    """Strength, usefulness and use of the last layer's features; distance from the fewest that could do.

    Every second row of each class finds the features, the others evaluate them; the distance uses all.

    >>> x = torch.tensor([[1.0, 0], [2, 1], [0, 1], [1, 3]] * 2)
    >>> codes = np.array([0, 0, 1, 1] * 2)
    >>> task = Task("classification", torch.as_tensor(codes), np.arange(2), codes, x, np.arange(8))
    >>> sorted(spectrum(Features([x], x, x, x[:, 0], x[:, 0]), task))[:3]
    ['constant_overlap', 'dimension_intensity', 'dimension_quality']
    """
    if task.name == "language" or not (_finite(features.last) and _finite(features.logits)):
        return {}
    if bool((features.logits == features.logits[:1]).all()):  # a readout that starts at 0
        return {}
    codes = task.codes if task.separates else np.zeros(len(task), dtype=int)
    place = np.zeros(len(task), dtype=int)  # of each row within its class
    for k in range(codes.max() + 1):
        place[codes == k] = np.arange((codes == k).sum())
    home = features.last.device
    first, second = (torch.as_tensor(np.flatnonzero(place % 2 == side), device=home) for side in (0, 1))
    wanted = torch.eye(len(task.classes))[torch.as_tensor(codes)] if task.separates else task.targets
    targets = wanted.to(home, features.last.dtype)[second]
    found = feature_spectrum(features.last[first], features.last[second], targets, features.logits[second])
    names = ("dimension_intensity", "dimension_quality", "dimension_utilization", "constant_overlap")
    numbers: Numbers = {name: float(found[name]) for name in names}
    for name in ("intensity", "quality", "utilization"):
        numbers[name] = found[name].values[:FEATURES].tolist()
    numbers["minimum_feature_distance"] = float(minimum_feature_distance(features.last, features.logits))
    return numbers


def can_step(probe: Probe, task: Task) -> str:
    """Say why elasticity cannot be measured; empty if it can.

    >>> probe = Probe.of((torch.ones(3, 2), [0, 0, 1]), nn.Linear(2, 2))
    >>> task = Task("classification", probe.labels, np.arange(2), np.array([0, 0, 1]), torch.empty(0), np.arange(3))
    >>> can_step(probe, task)
    'every class needs two samples or more'
    """
    if task.name != "classification" or task.places is not None:
        return "it needs samples of classes"
    if not isinstance(probe.inputs, torch.Tensor) or probe.inputs.ndim < 2:
        return "it needs one input tensor"
    if len(task.classes) > ELASTIC_CLASSES:
        return f"it is kept for up to {ELASTIC_CLASSES} classes"
    return "" if np.bincount(task.codes).min() >= 2 else "every class needs two samples or more"


def elasticity(model: nn.Module, probe: Probe, layers: Layers, loss: Loss) -> Numbers:
    """How a step on a sample of one class moves the logits of others, on up to 8 samples of each class, 2 stepped on.

    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Linear(2, 2, bias=False)
    >>> probe = Probe.of((torch.eye(2).repeat(3, 1), [0, 1] * 3), net)
    >>> round(elasticity(net, probe, find_layers(net, probe), nn.functional.cross_entropy)["intra"], 6)
    1.0
    """
    task = layers.reading.task
    chosen = np.sort(
        np.concatenate([np.flatnonzero(task.codes == k)[:ELASTIC_SAMPLES] for k in range(len(task.classes))])
    )
    held = cast(torch.Tensor, probe.inputs)  # `can_step` asks for it
    inputs = held[torch.as_tensor(chosen, device=held.device)]
    labels = task.labels.numpy()[chosen]
    seen = Logits(model, layers.output)
    found = class_elasticity(seen, inputs, labels, loss=loss, steps_per_class=ELASTIC_STEPS)
    numbers: Numbers = {name: found[name].values.tolist() for name in ("elasticity", "pull")}
    return numbers | {name: float(found[name]) for name in ("intra", "inter")}


def skip_costs(model: nn.Module, probe: Probe, layers: Layers, features: Features, how: str, limit: int) -> Numbers:
    """What the last load and the loss rise by where one layer after the other is skipped, one pass of the probe each.

    A layer can prepare what later ones make use of, so that its own increment does not show what it is good for. Only
    layers whose output has the shape of their input can be skipped, as blocks of a residual stream; NaN for others.
    skip_cost and skip_cost_interval: of the load, (layer,) and (layer, bound), 95 % from the probe's bootstrap.
    skip_loss: (layer,), of the loss, with the readout as it is.

    >>> from dynascope.monitor.features import read_features
    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> probe = Probe.of((torch.tensor([[1.0, 0], [1, 1], [0, 0], [0, 1]]), [0, 0, 1, 1]), net)
    >>> found = find_layers(net, probe)
    >>> skip_costs(net, probe, found, read_features(net, probe, found), "pool", 4096)["skip_cost"][0]
    nan
    """
    task, unknown = layers.reading.task, (math.nan, math.nan, [math.nan, math.nan])
    found = [unknown] * (layers.input is not None)
    whole = loads_of(features.layers[-1:], task)
    for layer in layers.hidden:
        if layer.own is None:
            found.append(unknown)
            continue
        without = read_features(model, probe, layers, how, limit, skip=layer)
        pair = [*whole, *loads_of(without.layers[-1:], task)]
        drawn = resampled(pair, RESAMPLES, 0, groups=task.sample)
        bounds = np.quantile(drawn[:, 1] - drawn[:, 0], ENDS).tolist()
        lost = float(without.losses.mean() - features.losses.mean())
        found.append((pair[1].load - pair[0].load, lost, bounds))
    names = ("skip_cost", "skip_loss", "skip_cost_interval")
    return {name: [each[place] for each in found] for place, name in enumerate(names)}


def elasticity_passes(task: Task) -> float:
    """Cost of `elasticity` in passes of the whole probe, for a first guess of its time.

    >>> codes = np.arange(200) % 2
    >>> task = Task("classification", torch.as_tensor(codes), np.arange(2), codes, torch.empty(0), np.arange(200))
    >>> elasticity_passes(task)
    1.28
    """
    samples = sum(min(ELASTIC_SAMPLES, int(size)) for size in np.bincount(task.codes)) if len(task.codes) else 0
    return 4 * len(task.classes) * ELASTIC_STEPS * samples / len(task)
