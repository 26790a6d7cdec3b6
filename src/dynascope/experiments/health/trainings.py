"""One training run that is watched: a recipe drawn from sane ranges, and one fault put into it, or none."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
import xarray as xr
from torch import nn

from dynascope.experiments.health.architectures import INPUTS, Block, Encoder, Shape, build
from dynascope.experiments.health.tasks import Task, draw_task
from dynascope.monitor import watch
from dynascope.monitor.findings import VARIABLES
from dynascope.sweep.workload import Configuration

_MEASUREMENTS = 20
_PROBE, _UNSEEN = 200, 1000


@dataclass(frozen=True)
class Recipe:
    """What a person would choose. noise, augmentation: deviation of what is added to inputs."""

    shape: Shape
    noise: float
    samples: int
    batch: int
    steps: int
    optimizer: str
    learning_rate: float
    weight_decay: float
    schedule: str
    label_noise: float
    augmentation: float
    clipped: bool
    zero_readout: bool
    input_scale: float = 1.0


_RATES = {"sgd": (0.1, 0.3), "momentum": (0.015, 0.05), "adam": (1.5e-3, 5e-3), "adamw": (1.5e-3, 5e-3)}
_NOISE = {"vectors": (0.7, 1.1), "images": (0.6, 1.0), "sequences": (0.4, 0.7)}


def sane(architecture: str, random: np.random.Generator) -> Recipe:
    """Draw a recipe of which nothing is wrong."""
    optimizer = str(random.choice(list(_RATES)))
    norm = architecture in ("residual", "transformer") or bool(random.random() < 0.5)
    shape = Shape(
        architecture,
        classes=int(random.integers(3, 6)),
        width=int(random.choice([32, 48, 64])),
        depth=int(random.integers(2, 4)),
        activation=str(random.choice(["relu", "relu", "gelu", "tanh"])),
        norm=norm,
        dropout=float(random.choice([0.0, 0.0, 0.1, 0.2])),
    )
    return Recipe(
        shape,
        noise=float(random.uniform(*_NOISE[INPUTS[architecture]])),
        samples=int(random.integers(800, 2400)),
        batch=int(random.choice([16, 24, 32])),
        steps=200,
        optimizer=optimizer,
        learning_rate=float(np.exp(random.uniform(*np.log(_RATES[optimizer])))),
        weight_decay=float(random.choice([0.0, 1e-4, 1e-3])),
        schedule=str(random.choice(["constant", "cosine", "warmup"])),
        label_noise=float(random.choice([0.0, 0.0, 0.05, 0.1])),
        augmentation=float(random.choice([0.0, 0.1, 0.3])),
        clipped=bool(random.random() < 0.25),
        zero_readout=bool(random.random() < 0.2),
    )


@dataclass(frozen=True)
class Fault:
    """What goes wrong: in the recipe, in the data, in the network at the start, or in the loop."""

    recipe: Callable[[Recipe, np.random.Generator], Recipe] = lambda recipe, random: recipe
    data: Callable[[Task, np.random.Generator], Task] = lambda task, random: task
    network: Callable[[nn.Module, np.random.Generator], nn.Module] = lambda model, random: model
    trained: Callable[[nn.Module, np.random.Generator], Sequence[nn.Parameter]] = lambda model, random: list(
        model.parameters()
    )
    sign: float = 1.0
    clears: bool = True
    in_order: bool = False


def _long(random: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(random.uniform(math.log(low), math.log(high))))


def _rate(low: float, high: float) -> Callable[[Recipe, np.random.Generator], Recipe]:
    return lambda recipe, random: replace(recipe, learning_rate=recipe.learning_rate * _long(random, low, high))


def _with(**changes: object) -> Callable[[Recipe, np.random.Generator], Recipe]:
    """Other parts of the shape."""
    return lambda recipe, random: replace(recipe, shape=replace(recipe.shape, **changes))  # type: ignore[arg-type]


def _plain(recipe: Recipe, random: np.random.Generator) -> Recipe:
    """Without what would hide the fault."""
    return replace(recipe, clipped=False, zero_readout=False)


def _amplifying(recipe: Recipe, random: np.random.Generator) -> Recipe:
    return _plain(_with(stack=_STACK, stack_activation="relu")(recipe, random), random)


def _memorising(samples: tuple[int, int], noise: tuple[float, float]) -> Callable[..., Recipe]:
    """Few samples, so often seen that the network can learn them by heart."""

    def change(recipe: Recipe, random: np.random.Generator) -> Recipe:
        return replace(
            recipe,
            shape=replace(recipe.shape, dropout=0.0, width=64),
            noise=1.6 * recipe.noise,
            samples=int(random.integers(*samples)),
            batch=32,
            optimizer="adam",
            learning_rate=_long(random, 3e-3, 6e-3),
            weight_decay=0.0,
            schedule="constant",
            label_noise=float(random.uniform(*noise)),
            augmentation=0.0,
            clipped=False,
        )

    return change


def _decayed(recipe: Recipe, random: np.random.Generator) -> Recipe:
    rate = _long(random, *_RATES["adamw"])
    return replace(recipe, optimizer="adamw", learning_rate=rate, weight_decay=float(random.uniform(0.1, 0.5)) / rate)


@torch.no_grad()
def _zeroed(model: nn.Module, random: np.random.Generator) -> nn.Module:
    for name, weight in model.named_parameters():
        if weight.ndim >= 2 or name.endswith("bias"):
            weight.zero_()
    return model


def _scaled(low: float, high: float, *, last: bool) -> Callable[[nn.Module, np.random.Generator], nn.Module]:
    """Matrices and norms many times larger, the last matrix too or without it."""

    @torch.no_grad()
    def change(model: nn.Module, random: np.random.Generator) -> nn.Module:
        by = _long(random, low, high)
        larger = [weight for name, weight in model.named_parameters() if name.endswith("weight")]
        for weight in larger if last else larger[:-1]:
            weight.mul_(by)
        return model

    return change


@torch.no_grad()
def _biased(model: nn.Module, random: np.random.Generator) -> nn.Module:
    """Biases so low that no ReLU after them is ever positive: of a norm where one stands before the ReLU."""
    by = float(random.uniform(8, 30))
    before = [first for first, second in pairwise(model.children()) if isinstance(second, nn.ReLU)]
    for each in model.modules():
        if isinstance(each, Encoder):
            before.append(each.linear1)
        elif isinstance(each, Block):
            before += [each.norm1, each.norm2]
    for each in before:
        next(weight for name, weight in each.named_parameters() if name == "bias").sub_(by)
    return model


@torch.no_grad()
def _amplified(model: nn.Module, random: np.random.Generator) -> nn.Module:
    """A stack of layers, each of which makes the signal larger."""
    gain = float(random.uniform(2.5, 4.0))
    for each in list(model.children())[-2 - 2 * _STACK : -2]:
        if isinstance(each, nn.Linear):
            nn.init.kaiming_normal_(each.weight).mul_(gain)
    return model


def _left_out(model: nn.Module, random: np.random.Generator) -> Sequence[nn.Parameter]:
    """All but the first one to all layers below the last one: an optimiser made before they were put in."""
    parts = [each for each in model.children() if any(weight.ndim >= 2 for weight in each.parameters())]
    forgotten = parts[: int(random.integers(1, len(parts)))]
    known = {id(weight) for each in forgotten for weight in each.parameters()}
    return [weight for weight in model.parameters() if id(weight) not in known]


def _shuffled(task: Task, random: np.random.Generator) -> Task:
    return replace(task, labels=task.labels[torch.as_tensor(random.permutation(len(task.labels)))])


def _leaked(task: Task, random: np.random.Generator) -> Task:
    share = int(random.uniform(0.3, 1.0) * len(task.probe_inputs))
    inputs = torch.cat([task.inputs, task.probe_inputs[:share]])
    return replace(task, inputs=inputs, labels=torch.cat([task.labels, task.probe_labels[:share]]))


_STACK = 8
FAULTS: Mapping[str, Fault] = {
    "none": Fault(),
    "rate too high": Fault(_rate(100, 1000)),
    "rate too low": Fault(_rate(1e-6, 1e-4)),
    "zero weights": Fault(network=_zeroed),
    "huge weights": Fault(_plain, network=_scaled(10, 50, last=True)),
    "saturated": Fault(_with(activation="tanh"), network=_scaled(20, 50, last=False)),
    "dead units": Fault(_with(activation="relu"), network=_biased),
    "vanishing": Fault(_with(stack=_STACK)),
    "exploding": Fault(_amplifying, network=_amplified),
    "gradients kept": Fault(_plain, clears=False),
    "layers left out": Fault(trained=_left_out),
    "noisy labels": Fault(_memorising((100, 200), (0.4, 0.7))),
    "shuffled labels": Fault(_memorising((100, 200), (0.0, 0.0)), data=_shuffled),
    "softmax twice": Fault(network=lambda model, random: nn.Sequential(*model.children(), nn.Softmax(dim=1))),
    "raw inputs": Fault(lambda recipe, random: replace(recipe, input_scale=_long(random, 100, 1000))),
    "leak": Fault(data=_leaked),
    "few samples": Fault(_memorising((20, 50), (0.0, 0.0))),
    "dropout": Fault(_with(dropout=0.95)),
    "wrong sign": Fault(sign=-1.0),
    "weight decay": Fault(_decayed),
    "sorted batches": Fault(in_order=True),
}


def train(pack: list[Configuration]) -> list[xr.Dataset]:
    """Train one network after another; each result is what was recorded about the health of its run, as text.

    learnt: how far its accuracy went from chance, 0, to certainty, 1, on samples that neither training nor the record
        has seen

    >>> made = train([{"architecture": "mlp", "fault": "none", "seed": 0, "steps": 20}])[0]
    >>> record_of(str(made["run"].values))["loss_mean"].dims
    ('step',)
    """
    return [_run(**each) for each in pack]


def _text(record: xr.Dataset) -> str:
    """Of records whose layers differ no table can be made."""
    kept = [name for name in (*VARIABLES, "probe_loss", "probe_accuracy") if name in record]
    return json.dumps(record[kept].to_dict())


def record_of(text: str) -> xr.Dataset:
    """Read the record of a run from its text."""
    return xr.Dataset.from_dict(json.loads(text))


def _run(architecture: str, fault: str, seed: int, steps: int) -> xr.Dataset:
    random = np.random.default_rng([seed, list(INPUTS).index(architecture), list(FAULTS).index(fault)])
    wrong = FAULTS[fault]
    recipe = wrong.recipe(replace(sane(architecture, random), steps=steps), random)
    torch.manual_seed(int(random.integers(2**31)))
    task = draw_task(
        INPUTS[architecture],
        samples=recipe.samples,
        probe=_PROBE,
        unseen=_UNSEEN,
        classes=recipe.shape.classes,
        noise=recipe.noise,
        random=torch.default_generator,
    )
    mistaken = torch.rand(recipe.samples) < recipe.label_noise
    labels = torch.where(mistaken, torch.randint(recipe.shape.classes, (recipe.samples,)), task.labels)
    task = wrong.data(replace(task, labels=labels), random)
    parts = ("inputs", "probe_inputs", "unseen_inputs")
    task = replace(task, **{name: recipe.input_scale * getattr(task, name) for name in parts})
    model = build(recipe.shape)
    if recipe.zero_readout:
        nn.init.zeros_(list(model.parameters())[-2])
    model = wrong.network(model, random)
    record = _watched(model, task, recipe, wrong, _optimizer(recipe, wrong.trained(model, random)))
    return xr.Dataset({"run": _text(record), "learnt": _learnt(model, task)})


@torch.no_grad()
def _learnt(model: nn.Module, task: Task) -> float:
    right = model.eval()(task.unseen_inputs).argmax(dim=1) == task.unseen_labels
    return 1 - float((~right).float().mean()) / (1 - 1 / task.classes)


def _watched(
    model: nn.Module, task: Task, recipe: Recipe, wrong: Fault, optimizer: torch.optim.Optimizer
) -> xr.Dataset:
    """The loop, as many people write it."""
    factor = _schedule(recipe)
    order = torch.argsort(task.labels, stable=True)
    every = max(1, recipe.steps // _MEASUREMENTS)
    probe = task.probe_inputs, task.probe_labels
    with watch(model, probe, every, slow=0, training=task.inputs) as run:
        for step in range(recipe.steps):
            place = torch.arange(step * recipe.batch, (step + 1) * recipe.batch) % len(order)
            chosen = order[place] if wrong.in_order else torch.randint(len(order), (recipe.batch,))
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * factor(step / recipe.steps)
            inputs = task.inputs[chosen]
            inputs = inputs + recipe.augmentation * recipe.input_scale * torch.randn_like(inputs)
            loss = wrong.sign * nn.functional.cross_entropy(model(inputs), task.labels[chosen])
            if wrong.clears:
                optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if recipe.clipped:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            run.step(loss=loss)
    return run.record


def _optimizer(recipe: Recipe, trained: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = recipe.learning_rate, recipe.weight_decay
    if recipe.optimizer in ("sgd", "momentum"):
        return torch.optim.SGD(trained, rate, momentum=0.9 * (recipe.optimizer == "momentum"), weight_decay=decay)
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return kind(trained, rate, weight_decay=decay)


def _schedule(recipe: Recipe) -> Callable[[float], float]:
    """Factor of the learning rate over the share of training that is done."""
    return {
        "constant": lambda done: 1.0,
        "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
        "warmup": lambda done: min(1.0, 0.02 + 10 * done),
    }[recipe.schedule]
