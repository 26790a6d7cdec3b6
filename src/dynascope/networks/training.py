"""A network trained many times at once: stacked parameters, one step of all trials per call.

The forward pass is `torch.func.vmap` over the trials; the sum of the trials' losses is differentiated by ordinary
autograd, since no trial's loss depends on another's parameters. Under plain SGD linear layers are updated by the
factors of their gradients. benchmarks/ensemble.py times this beside vmap of the gradient and beside unfolded
convolutions (vmap itself makes grouped ones).
Needs only PyTorch and NumPy.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from dynascope.networks import draws
from dynascope.networks.capture import can_compile, captured
from dynascope.networks.network import Dropout, Linear, Network
from dynascope.networks.settings import Settings, initial_state

_BETAS, _TINY = (0.9, 0.999), 1e-8  # Adam's, as in its paper
_BLOCK_STEPS, _BLOCK_DRAWS = 512, 1 << 21  # batch orders are made for some steps at a time
_COMPILED = 1 << 15  # samples in a step of all trials from which compiling, half a minute, pays
_HELD = {"cuda": 1 << 29}  # numbers of features that are held at a time; 1 << 24 elsewhere


class Trainer:
    """The state of an ensemble in training, on one device.

    x: inputs (sample, *shape), float or, for tokens, int64
    y: labels (sample,), or (trial, sample) where trials have their own; or targets (1 or trial, sample, output)
    keep_drawn: also keep the outputs of the drawn samples, before each update
    start: parameters and buffers (trial, …) by name that are not drawn but given; with trained="last" they are features
        of a network that stays as it is, in evaluation mode

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
    ) -> None:
        self.network, self.settings = copy.deepcopy(network), settings
        self.device, self.dtype = torch.device(settings.device), getattr(torch, settings.precision)
        self.size, self.keep_drawn = len(settings.trials), keep_drawn
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
        self.mutable = self._fresh_state()
        self.drawn: list[np.ndarray] = []
        self._graph: torch.cuda.CUDAGraph | None = None

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
        self.key_names = [f"{name}.key" for name in layers if self.drops]
        self.noisy = bool(self.key_names) or self.spoiled is not None or self.noisy_inputs
        self.plain = given.optimizer == "sgd" and not any(given.momentum)
        self.at_once = self._layers_at_once() if self.plain else {}
        self._pass = self._over_trials()

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
        block = max(1, min(_BLOCK_STEPS, _BLOCK_DRAWS // numbers))
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
        seen = self._forward(held, x, dict.fromkeys(self.key_names, keys) if self.key_names else {})
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

    def _forward(self, held: dict[str, Tensor], x: Tensor, keys: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Outputs `logits` (trial, draw, class) of inputs (trial, draw, …), and what layers read that need it."""
        return self._pass(held, {**self.buffers, **keys}, x)

    def _over_trials(self) -> Callable[..., dict[str, Tensor]]:
        """The forward pass of all trials; compiled where large convolutional networks need few passes over memory."""
        at = tuple(stage for stage, _ in self.at_once.values())

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Any:
            found = functional_call(self.network, (parameters, buffers), (x, at))
            return found if at else {"logits": found}

        large = self.size * self.settings.batch_size >= _COMPILED and self.device.type == "cuda"
        convolves = any(isinstance(layer, torch.nn.Conv2d) for layer in self.network.modules())
        return torch.compile(vmap(one)) if large and convolves and can_compile() else vmap(one)

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
            x = x + _over(self.input_noise, x) * noise
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
            targets = targets * _over(self.buffers["target_scale"], targets)
        return 0.5 * ((outputs - targets) ** 2).mean(-1)

    def _update(self, gradients: dict[str, Tensor], seen: Mapping[str, Tensor]) -> None:
        """SGD with momentum, Adam, or AdamW; weight decay adds to the gradient, under AdamW it shrinks the weights."""
        for name, parameter in self.trained.items():
            if self.decays and (self.plain or self.settings.optimizer == "adamw"):
                parameter.mul_(1 - _over(self.rate * self.decay, parameter))
            if name in self.at_once:
                stage, bias = self.at_once[name]
                parameter.baddbmm_(gradients[bias].mT, seen[stage], alpha=-1)
                gradients[bias] = gradients[bias].sum(1)
                continue
            if self.plain:
                parameter.sub_(gradients[name])
                continue
            if self.decays and self.settings.optimizer != "adamw":
                gradients[name] = torch.addcmul(gradients[name], parameter, _over(self.decay, parameter))
            if self.settings.optimizer == "sgd":
                mean = self.mutable[f"first_moment/{name}"]
                mean.mul_(_over(self.momentum, mean)).add_(gradients[name])
                parameter.addcmul_(mean, _over(self.rate, parameter), value=-1)
        if self.settings.optimizer != "sgd":
            self._adam([gradients[name] for name in self.trained])

    def _adam(self, gradients: list[Tensor]) -> None:
        """One step of Adam; PyTorch's operations on lists are one kernel for all parameters on a GPU."""
        means, squares = (
            [self.mutable[f"{kind}_moment/{name}"] for name in self.trained] for kind in ("first", "second")
        )
        count = self.mutable["step"].to(self.dtype) + 1
        first, second = (1 - torch.pow(torch.full_like(count, beta), count) for beta in _BETAS)
        torch._foreach_lerp_(means, gradients, 1 - _BETAS[0])
        torch._foreach_mul_(squares, _BETAS[1])
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - _BETAS[1])
        scales = torch._foreach_div(squares, second[0])
        torch._foreach_sqrt_(scales)
        torch._foreach_add_(scales, _TINY)
        steps = torch._foreach_div(means, scales)
        for parameter, step in zip(self.trained.values(), steps, strict=True):
            parameter.addcmul_(step, _over(self.rate / first, parameter), value=-1)

    # --- many steps -----------------------------------------------------------------------------------------------

    def batches(self, first: int, count: int) -> Tensor:
        """Which samples each trial draws at the steps first, first + 1, …: (step, trial, draw).

        With replacement each draw is independent; shuffled, each epoch is a permutation of the samples, of which those
        that do not fill a batch are left out.
        """
        samples, batch = self.x.shape[0], self.settings.batch_size
        if self.settings.sampling == "replacement":
            steps = torch.arange(first, first + count, device=self.device)
            own = draws.keys(self.order_keys[None, :].expand(count, -1), steps[:, None])
            drawn = vmap(vmap(lambda key: draws.uniform(key, (batch,), torch.float64)))(own)
            return (drawn * samples).long()
        length = samples // batch
        epochs = []
        for epoch in range(first // length, (first + count - 1) // length + 1):
            drawn = vmap(lambda key: draws.uniform(key, (samples,), torch.float64))(draws.keys(self.order_keys, epoch))
            order = drawn.argsort(1)[:, : length * batch]
            epochs.append(order.view(self.size, length, batch).transpose(0, 1))
        start = first % length
        return torch.cat(epochs)[start : start + count]

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
            if self.device.type == "cuda" and self._graph is None:
                self._graph = captured(self._step, self.device, [*self.mutable.values(), self.position])
            for _ in range(count):
                if self._graph is None:
                    self._step()
                else:
                    self._graph.replay()
            if self.keep_drawn:
                self.drawn.append(self.drawn_now[:count].cpu().numpy().swapaxes(0, 1).copy())
            self.steps_done += count
            steps -= count

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
        self._graph = None

    def turn(self, name: str, values: np.ndarray) -> None:
        """Set dropout, weight_decay, or learning_rate by a factor on it, of each trial, from the next step on.

        The first call lets it take part in every step, even where it is 0; a captured graph then sees what others set.
        """
        new, self.turned[name] = name not in self.turned, values
        if new:
            self._per_trial()
            self._graph = None
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


def _over(values: Tensor, like: Tensor) -> Tensor:
    """(trial,) → (trial, 1, …) to multiply a tensor over the trials."""
    return values.view(-1, *[1] * (like.ndim - 1))
