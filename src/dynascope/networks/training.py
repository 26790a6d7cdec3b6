"""A network trained many times at once: stacked parameters, one step of all trials per call.

The forward pass of all trials is one of `dynascope.networks.ways`; the sum of the trials' losses is differentiated by
ordinary autograd, since no trial's loss depends on another's parameters. Under plain SGD linear layers are updated by
the factors of their gradients. benchmarks/ensemble.py times this beside vmap of the gradient.
Needs only PyTorch and NumPy.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from dynascope.data.folder import data_folder
from dynascope.networks import draws
from dynascope.networks.adam import adam_of, over
from dynascope.networks.capture import TRIED, captured, timed
from dynascope.networks.choice import fastest
from dynascope.networks.network import Dropout, Linear, Network
from dynascope.networks.products import exact_as, of_bfloat16, said
from dynascope.networks.settings import Settings, initial_state
from dynascope.networks.ways import WAYS, Pass, worth_trying

_BLOCK_STEPS, _BLOCK_DRAWS = 512, 1 << 21  # batch orders are made for some steps at a time
_HELD = {"cuda": 1 << 29}  # numbers of features that are held at a time; 1 << 24 elsewhere


class Trainer:
    """The state of an ensemble in training, on one device.

    x: inputs (sample, *shape), float or, for tokens, int64
    y: labels (sample,), or (trial, sample) where trials have their own; or targets (1 or trial, sample, output)
    keep_drawn: also keep the outputs of the drawn samples, before each update
    start: parameters and buffers (trial, …) by name that are not drawn but given; with trained="last" they are features
        of a network that stays as it is, in evaluation mode
    planned: steps that will be taken, as far as known: what a search for the fastest way may cost

    >>> from dynascope.networks import LeNet
    >>> settings = Settings(trials=np.arange(2), learning_rate=np.full(2, 0.1))
    >>> trainer = Trainer(LeNet(), settings, np.zeros((4, 1, 32, 32)), np.arange(4) % 3)
    >>> trainer.advance(3)
    >>> trainer.steps_done, trainer.outputs(np.zeros((5, 1, 32, 32))).shape
    (3, torch.Size([2, 5, 3]))
    """

    def __init__(
        self,
        network: Network,
        settings: Settings,
        x: np.ndarray,
        y: np.ndarray,
        *,
        keep_drawn: bool = False,
        start: Mapping[str, Tensor] | None = None,
        planned: int = 0,
    ) -> None:
        self.network, self.settings = copy.deepcopy(network), settings
        self.device, self.dtype = torch.device(settings.device), getattr(torch, settings.precision)
        self.size, self.keep_drawn, self.planned = len(settings.trials), keep_drawn, planned
        self.parameters, self.buffers = initial_state(network, settings)
        for name, given in (start or {}).items():
            (self.parameters if name in self.parameters else self.buffers)[name].copy_(given)
        self.learns = not (start and settings.trained == "last")
        trained = f"stages.{network.readout}." if settings.trained == "last" else ""
        self.trained = {name: p.requires_grad_() for name, p in self.parameters.items() if name.startswith(trained)}
        self.x, self.y = self.inputs(x), self.inputs(np.atleast_2d(y))
        noise = [settings.input_noise, *(each.get("input_noise", 0.0) for each in settings.later.values())]
        self.input_spread = float(np.std(x)) if any(map(np.any, noise)) else 0.0
        self.turned: dict[str, np.ndarray] = {}
        self._per_trial()
        self.steps_done, self.changes = 0, 0
        no_choice = settings.way == "auto" and self.device.type != "cuda"  # auto is a question on a GPU only
        self.asked = "stacked" if no_choice else settings.way
        self.way: str | None = None  # in which steps are taken, once one was
        self.mutable = self._fresh_state()
        self.drawn: list[np.ndarray] = []

    def inputs(self, x: np.ndarray) -> Tensor:
        """Move inputs to the device; whole numbers stay whole."""
        tensor = torch.as_tensor(x).to(self.device)
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def labels(self, y: np.ndarray) -> Tensor:
        """Move labels (sample,) or targets (1, sample, output), or those of each trial, to the device: (trial, …)."""
        moved = self.inputs(np.atleast_2d(y))
        return moved.expand(self.size, *moved.shape[1:])

    def _per_trial(self) -> None:
        """Settings as tensors over the trials, and the keys of their random numbers."""
        given = self.settings

        def tensor(values: np.ndarray) -> Tensor:
            return torch.as_tensor(np.broadcast_to(values, (self.size,)).copy()).to(self.device, self.dtype)

        self.rate, self.momentum = tensor(given.learning_rate), tensor(given.momentum)
        self.decay, self.input_noise = tensor(given.weight_decay), tensor(given.input_noise * self.input_spread)
        self.noisy_inputs = bool(np.any(given.input_noise))
        self.decays = "weight_decay" in self.turned or bool(np.any(given.weight_decay))
        for name in self.turned:
            self._set_turned(name)
        own_rows = torch.arange(self.size, device=self.device) * self.x.shape[0]
        self.rows = (own_rows if self.y.shape[0] > 1 else own_rows * 0)[:, None]  # where a trial's labels begin
        spoiled = (np.broadcast_to(given.label_noise, (self.size,)) * given.batch_size).astype(int)
        self.spoiled = torch.as_tensor(spoiled).to(self.device) if spoiled.any() else None
        numbers = torch.as_tensor(given.trials).to(self.device)
        own = draws.keys(torch.full_like(numbers, given.seed), numbers)
        self.order_keys, self.noise_keys = (
            draws.keys(own, draws.ORDER),
            draws.keys(own, draws.NOISE),
        )
        layers = {n: layer for n, layer in self.network.named_modules() if isinstance(layer, Dropout)}
        self.drops = "dropout" in self.turned or any(bool(self.buffers[f"{name}.dropout"].any()) for name in layers)
        self.dropouts = list(layers.values())
        self.key_numbers = {f"{name}.key": draws.DROPOUT + n for n, name in enumerate(layers) if self.drops}
        self.noisy = bool(self.key_numbers) or self.spoiled is not None or self.noisy_inputs
        self.plain = given.optimizer == "sgd" and not any(given.momentum)
        self.at_once = self._layers_at_once() if self.plain else {}
        self._pass: Pass | None = None  # both are made by the first step
        self._graph: torch.cuda.CUDAGraph | None = None

    def _layers_at_once(self) -> dict[str, tuple[str, str]]:
        """Weights that plain SGD can update by the product of two factors: (stage that the layer reads, bias).

        A gradient as large as the weights is then never written, which is what takes the time in small batches.
        """
        names = [name for name, _ in self.network.stages.named_children()]
        layers = [
            (before, f"stages.{name}")
            for before, name in pairwise(names)
            if isinstance(self.network.stages.get_submodule(name), Linear)
        ]
        return {f"{name}.weight": (at, f"{name}.bias") for at, name in layers if f"{name}.weight" in self.trained}

    def _fresh_state(self) -> dict[str, Tensor]:
        """All that a step changes, by name; changed in place, so that a captured graph sees it."""
        zeros = {name: torch.zeros_like(p, requires_grad=False) for name, p in self.trained.items()}
        state = {f"parameter/{name}": p for name, p in self.parameters.items()}
        state |= {f"buffer/{name}": b for name, b in self.buffers.items()}
        if not self.plain:
            state |= {f"first_moment/{name}": z.clone() for name, z in zeros.items()}
        if self.settings.optimizer != "sgd":
            state |= {f"second_moment/{name}": z for name, z in zeros.items()}
        numbers = self.size * self.settings.batch_size
        block = max(TRIED, min(_BLOCK_STEPS, _BLOCK_DRAWS // numbers))
        self.order = self._whole((block, self.size, self.settings.batch_size))
        if self.keep_drawn:
            shape = (*self.order.shape, self.network.classes)
            self.drawn_now = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self.position = self._whole((1,))  # of the step within the block
        return state | {
            "step": self._whole((1,)),
            "loss_sum": torch.zeros(self.size, dtype=self.dtype, device=self.device),
            "diverged_at": self._whole((self.size,)) - 1,
        }

    def _whole(self, shape: tuple[int, ...]) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=self.device)

    # --- one step -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Draw a batch for each trial, follow the gradient once. Works on tensors only, so that CUDA can capture it."""
        pick = self.order.index_select(0, self.position)[0]  # (trial, draw)
        x, y = self.x[pick], self.y.flatten(0, 1)[pick + self.rows]
        step = self.mutable["step"]
        if self.noisy:
            keys = draws.keys(self.noise_keys, step)
            x, y = self._spoil(x, y, keys)
        held = self._held()
        assert self._pass is not None
        own = {name: draws.keys(keys, number) for name, number in self.key_numbers.items()}
        seen = self._pass(held, {**self.buffers, **own}, x)
        outputs = seen["logits"]
        losses = self._losses(outputs, y).mean(1)
        # plain SGD: the learning rates go in here, which saves a pass over all gradients
        total = (losses * self.rate).sum() if self.plain else losses.sum()
        wanted = [name for name in self.trained if name not in self.at_once]
        gradients = dict(zip(wanted, torch.autograd.grad(total, [held[name] for name in wanted]), strict=True))
        with torch.no_grad():
            self._update(gradients, seen)
            self.mutable["loss_sum"] += losses
            worst = self.mutable["diverged_at"]
            worst.copy_(torch.where((worst < 0) & ~torch.isfinite(losses), step, worst))
            if self.keep_drawn:
                self.drawn_now.index_copy_(0, self.position, outputs[None])
            step += 1
            self.position += 1

    def _held(self) -> dict[str, Tensor]:
        """Parameters as the forward pass gets them: where weights are updated at once, each sample has its own bias.

        The gradient by these biases, (trial, draw, out), and what the layer reads are the factors of the weights'.
        """
        held = dict(self.parameters)
        for weight, (_, bias) in self.at_once.items():
            own = held[bias].detach()[:, None].expand(-1, self.settings.batch_size, -1)
            held |= {weight: held[weight].detach(), bias: own.requires_grad_()}
        return held

    @torch.no_grad()
    def _look(self, x: Tensor, at: Sequence[str], trials: slice | Tensor) -> Any:
        """Outputs of some trials on the same inputs (sample, …), or with `at` features by name, in evaluation mode."""

        def one(held: dict[str, Tensor]) -> Any:
            return functional_call(self.network, held, (x, at))

        self.network.eval()
        return vmap(one)({name: tensor[trials] for name, tensor in {**self.parameters, **self.buffers}.items()})

    def _spoil(self, x: Tensor, y: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Noise drawn anew for every batch. A batch is in random order: its first labels are as good as any."""
        if self.spoiled is not None:
            shape, classes = y.shape[1:], self.network.classes
            drawn = vmap(lambda key: draws.uniform(key, shape, torch.float64))(draws.keys(keys, draws.LABELS))
            first = torch.arange(y.shape[1], device=self.device) < self.spoiled[:, None]
            y = torch.where(first, (drawn * classes).long(), y)
        if self.noisy_inputs:
            noise = vmap(lambda key: draws.normal(key, x.shape[1:], self.dtype))(draws.keys(keys, draws.INPUTS))
            x = x + over(self.input_noise, x) * noise
        return x, y

    def _losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(trial, sample)."""
        if self.settings.loss == "cross_entropy":
            flat = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none")
            return flat.view(y.shape)
        targets = y
        if not y.is_floating_point():
            targets = (y[..., None] == torch.arange(self.network.classes, device=self.device)).to(self.dtype)
        if "target_scale" in self.buffers:
            targets = targets * over(self.buffers["target_scale"], targets)
        return 0.5 * ((outputs - targets) ** 2).mean(-1)

    def _update(self, gradients: dict[str, Tensor], seen: Mapping[str, Tensor]) -> None:
        """SGD with momentum, Adam, or AdamW; weight decay adds to the gradient, under AdamW it shrinks the weights."""
        for name, parameter in self.trained.items():
            if self.decays and (self.plain or self.settings.optimizer == "adamw"):
                parameter.mul_(1 - over(self.rate * self.decay, parameter))
            if name in self.at_once:
                stage, bias = self.at_once[name]
                parameter.baddbmm_(gradients[bias].mT, seen[stage], alpha=-1)
                gradients[bias] = gradients[bias].sum(1)
                continue
            if self.plain:
                parameter.sub_(gradients[name])
                continue
            if self.decays and self.settings.optimizer != "adamw":
                gradients[name] = torch.addcmul(gradients[name], parameter, over(self.decay, parameter))
            if self.settings.optimizer == "sgd":
                mean = self.mutable[f"first_moment/{name}"]
                mean.mul_(over(self.momentum, mean)).add_(gradients[name])
                parameter.addcmul_(mean, over(self.rate, parameter), value=-1)
        if self.settings.optimizer != "sgd":
            kinds = ("first", "second")
            means, squares = ([self.mutable[f"{kind}_moment/{name}"] for name in self.trained] for kind in kinds)
            given = [gradients[name] for name in self.trained]
            self._adam(list(self.trained.values()), given, means, squares, self.rate, self.mutable["step"])

    # --- many steps -----------------------------------------------------------------------------------------------

    def batches(self, first: int, count: int) -> Tensor:
        """Which samples each trial draws at the steps first, first + 1, …: (step, trial, draw)."""
        given = self.settings
        sizes = {"samples": self.x.shape[0], "batch": given.batch_size}
        return draws.batches(self.order_keys, first, count, **sizes, shuffled=given.sampling == "shuffled")

    def advance(self, steps: int) -> None:
        """Take some steps; on a GPU by replaying a captured graph."""
        while steps:
            ahead = [at - self.steps_done for at in self.settings.later if at > self.steps_done]
            count = min(steps, len(self.order), *ahead)
            if self.changes < len(self.settings.later) - len(ahead):
                self._change(len(self.settings.later) - len(ahead))
            self.network.train(self.learns)
            for layer in self.dropouts:
                layer.train(self.drops and self.learns)  # without any dropout nothing is drawn
            self.order[:count] = self.batches(self.steps_done, count)
            self.position.zero_()
            if self._pass is None:
                self._begin()
            with exact_as(self.settings.products):
                for _ in range(count):
                    self._step() if self._graph is None else self._graph.replay()
            if self.keep_drawn:
                self.drawn.append(self.drawn_now[:count].cpu().numpy().swapaxes(0, 1).copy())
            self.steps_done += count
            steps -= count

    def _begin(self) -> None:
        """Find the way to step all trials, in the mode that the network is in, once, and take it."""
        way = self.way or (self._fastest() if self.asked == "auto" else self.asked)
        if way != self.way or self._pass is None:
            self._take(way)

    def _fastest(self) -> str:
        given = self.settings
        facts = {
            "network": repr(self.network),
            "batch": [self.size, given.batch_size, *self.network.shape],
            "step": [given.optimizer, given.precision, given.products, given.trained, self.drops, self.noisy_inputs],
            "on": [torch.cuda.get_device_name(self.device), torch.__version__],
        }
        ways = worth_trying(self.network, self.size, given.precision)
        steps = self.planned - self.steps_done
        return fastest(ways, self._attempt, steps=steps, facts=facts, folder=data_folder())

    def how(self) -> dict[str, str]:
        """What a record says of how steps were taken, or would be, where none was left: it changes rounding only."""
        return {"way": self.way or self.asked, "products": said(self.settings.products, self.device)}

    def _take(self, way: str, products: str | None = None) -> None:
        """Step in this way from now on; on a GPU a step is captured, with products as set or as given."""
        products = products or self.settings.products
        stages = tuple(stage for stage, _ in self.at_once.values())
        self._graph, self._pass, self.way = None, WAYS[way](self.network, stages), None
        self._adam = adam_of(way)
        if products == "bfloat16":
            self._pass = of_bfloat16(self._pass, self.device)
        if self.device.type == "cuda":
            with exact_as(products):
                self._graph = captured(self._step, self.device, self._changed())
        self.way = way if products == self.settings.products else None  # with others it is none to go on with

    def _attempt(self, way: str, products: str | None = None) -> tuple[float, Tensor]:
        """Seconds of a step in this way, and how it moves the weights, or their moments, which follow the gradient."""
        self._take(way, products)
        assert self._graph is not None
        moved = [p if self.plain else self.mutable[f"first_moment/{name}"] for name, p in self.trained.items()]
        return timed(self._graph, self.device, self._changed(), moved)

    def _changed(self) -> list[Tensor]:
        """All that a step changes."""
        return [*self.mutable.values(), self.position]

    @torch.no_grad()
    def _change(self, changes: int) -> None:
        """Let the first of the later settings hold; of a captured graph only learning rates can change."""
        coming = sorted(self.settings.later)
        new: dict[str, Any] = {name: v for at in coming[:changes] for name, v in self.settings.later[at].items()}
        changed = {name for at in coming[self.changes : changes] for name in self.settings.later[at]}
        known = {each.name for each in fields(Settings)}
        self.settings = replace(self.settings, **{name: value for name, value in new.items() if name in known})
        self.changes = changes
        if changed == {"learning_rate"}:
            self.rate.copy_(torch.as_tensor(self.settings.learning_rate))
            for name in self.turned:
                self._set_turned(name)
            return
        for name, buffer in self.buffers.items():
            if (last := name.rpartition(".")[2]) in new:
                buffer.copy_(torch.as_tensor(new[last]))
        self._per_trial()

    def turn(self, name: str, values: np.ndarray) -> None:
        """Set dropout, weight_decay, or learning_rate by a factor on it, of each trial, from the next step on.

        The first call lets it take part in every step, even where it is 0; a captured graph then sees what others set.
        """
        new, self.turned[name] = name not in self.turned, values
        if new:
            self._per_trial()
        self._set_turned(name)

    @torch.no_grad()
    def _set_turned(self, name: str) -> None:
        values = self.turned[name]
        if name == "dropout":
            held = [buffer for each, buffer in self.buffers.items() if each.endswith(".dropout")]
        else:
            held = [self.rate if name == "learning_rate" else self.decay]
        for tensor in held:
            tensor.copy_(torch.as_tensor(values * self.settings.learning_rate if tensor is self.rate else values))

    def outputs(self, x: np.ndarray | Tensor) -> Tensor:
        """Outputs of all trials on the same inputs, in evaluation mode: (trial, sample, class), on the device."""
        moved = x if isinstance(x, Tensor) else self.inputs(x)
        pieces = max(1, (1 << (16 if self.device.type == "cuda" else 12)) // self.size)  # bounds the memory
        return torch.cat([self._look(piece, (), slice(None)) for piece in torch.split(moved, pieces)], dim=1)

    def features(
        self, x: Tensor, at: Sequence[str], among: Tensor | None = None
    ) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """Values after the stages `at`, and logits, (trial, sample, …), as many trials at a time as memory allows.

        among: places of the trials to look at, of which slices are then given; all if not given
        """
        sizes = self._look(x[:1], at, slice(1))
        own = len(x) * sum(each.numel() for each in sizes.values())
        pieces = max(1, _HELD.get(self.device.type, 1 << 24) // own)
        for first in range(0, self.size if among is None else len(among), pieces):
            trials = slice(first, first + pieces)
            yield trials, self._look(x, at, trials if among is None else among[trials])

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean loss of each trial on outputs (trial, sample, class) with labels (trial, sample), or targets."""
        return self._losses(outputs, y).mean(1)

    def state(self) -> dict[str, np.ndarray]:
        """All that a later `restore` needs to go on bit for bit."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.mutable.items()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go back to a state."""
        for name, tensor in self.mutable.items():
            tensor.copy_(torch.as_tensor(state[name]))
        self.steps_done = int(state["step"][0])

    def network_of(self, index: int) -> Network:
        """One of the trained networks, as a module of its own."""
        own = copy.deepcopy(self.network).to(self.device, self.dtype)
        held = {**self.parameters, **self.buffers}
        own.load_state_dict({name: tensor[index].detach() for name, tensor in held.items()})
        return own.eval()
