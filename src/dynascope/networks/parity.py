"""Two-layer networks on multitask sparse parity: many at once, on samples that are made where they are used.

A sample is a function of (seed, trial, number): fresh data counts the numbers up, a training set of D samples draws
them from 0 … D − 1. Nothing is stored, and the training sets of a trial lie within each other.
Needs only PyTorch and NumPy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dynascope.data.parity import SparseParity
from dynascope.deprecation import renamed_arguments
from dynascope.networks import draws
from dynascope.networks.capture import captured
from dynascope.progress import progress_bar

_SAMPLES, _SKILL, _TEST = 3, 4, 5  # streams beside those of `draws`
_BETAS, _TINY = (0.9, 0.999), 1e-8  # Adam's, as in its paper
_PIECE = 200  # steps between two looks at the clock


@renamed_arguments(batch="batch_size")
@dataclass(frozen=True)
class ParitySettings:
    """What is trained, and how.

    trials: independent repetitions. widths: hidden units of the networks of each trial, which see the same samples.
    data: sizes of training sets, each for networks of their own; without them every batch is fresh.
    target: S, the targets are ±S. initial: standard deviation of all weights and biases at the start.
    full_batch: every step sees the whole training set, whatever its size, instead of batch_size samples of it.
    optimizer: sgd or adam; weight_decay is added to the gradient as weight_decay·w.
    decay, decay_every: the learning rate is multiplied by decay whenever as many steps are done.
    device: a GPU if there is one.
    """

    task: SparseParity
    trials: int = 10
    widths: tuple[int, ...] = (1000,)
    data: tuple[int, ...] = ()
    batch_size: int = 4000
    full_batch: bool = False
    learning_rate: float = 0.05
    decay: float = 1.0
    decay_every: int = 1
    optimizer: str = "sgd"
    weight_decay: float = 0.0
    target: float = 5.0
    initial: float = 0.01
    seed: int = 0
    precision: str = "float32"
    device: str = field(default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu")


class ParityTrainer:
    """The state of all networks, f(x) = Σ_h v_h relu(w_h·x + b_h) + c, in training by half the mean squared error.

    Copies are (data size, trial); the hidden units of all networks of a copy stand side by side, and `owner` (unit,
    network) says whose they are. Gradients are written out: with 1 in the inputs for the biases,
    ∂w = v·Σ x·error·[unit active] and ∂v = Σ active·error.

    >>> trainer = ParityTrainer(ParitySettings(SparseParity(2, 8), trials=3, widths=(4, 5), batch_size=10))
    >>> trainer.advance(2)
    >>> tuple(trainer.strengths(16).shape)
    (3, 2, 2)
    """

    def __init__(self, settings: ParitySettings) -> None:
        self.settings, self.task = settings, settings.task
        self.device, self.dtype = torch.device(settings.device), getattr(torch, settings.precision)
        sizes = max(len(settings.data), 1)
        own = draws.keys(torch.full((settings.trials,), settings.seed), torch.arange(settings.trials))
        self.keys = own.repeat(sizes).to(self.device)[:, None]  # (copy, 1); a trial is the same at every size
        self.sizes = torch.tensor(settings.data).repeat_interleave(settings.trials).to(self.device)[:, None]
        self.bounds = torch.as_tensor(np.array([0.0, *np.cumsum(self.task.frequency)[:-1], 1.0])).to(self.device)
        if settings.full_batch and not settings.data:
            raise ValueError("full_batch needs training sets: give their sizes as data")
        batch = max(settings.data) if settings.full_batch else settings.batch_size
        self.place = torch.arange(batch, device=self.device)
        known = (self.place < self.sizes).double() / self.sizes  # (copy, sample); no copies where samples are fresh
        share = known if settings.full_batch else torch.full((1, 1), 1 / batch, dtype=torch.float64)
        self.share = share.to(self.device, self.dtype)[..., None]  # of a sample in the mean
        owner = torch.repeat_interleave(torch.eye(len(settings.widths)), torch.tensor(settings.widths), dim=0)
        self.owner = owner.to(self.device, self.dtype)
        self.state = {name: start.repeat(sizes, *[1] * (start.ndim - 1)) for name, start in self._start(own).items()}
        self.state = {name: start.to(self.device, self.dtype) for name, start in self.state.items()}
        self.moments = [{n: torch.zeros_like(p) for n, p in self.state.items()} for _ in _BETAS]
        self.step = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.loss = torch.zeros_like(self.state["offset"])
        self.graph: torch.cuda.CUDAGraph | None = None

    def _start(self, keys: Tensor) -> dict[str, Tensor]:
        """Gaussian weights and biases; those of a network depend on (seed, trial, width) alone."""
        inputs = self.task.skills + self.task.bits + 1
        parts: dict[str, list[Tensor]] = {"hidden": [], "readout": [], "offset": []}
        for width in self.settings.widths:
            shape = ((inputs + 1) * width + 1,)
            drawn = [draws.normal(draws.keys(key, draws.START, width), shape, torch.float64) for key in keys]
            hidden, readout, offset = torch.stack(drawn).tensor_split((inputs * width, (inputs + 1) * width), dim=1)
            for name, part in zip(parts, (hidden.view(-1, inputs, width), readout, offset), strict=True):
                parts[name].append(self.settings.initial * part)
        return {name: torch.cat(part, dim=-1) for name, part in parts.items()}

    # --- samples --------------------------------------------------------------------------------------------------

    def inputs(self, number: Tensor, *, skill: int | None = None) -> tuple[Tensor, Tensor]:
        """Samples by their numbers (copy, sample): inputs (copy, sample, skills + bits + 1) and signs (copy, sample).

        With a skill (from 0), all samples are of it, and its relevant bits run through all patterns beside the same
        other bits: a mean over the samples is exact in the former, and random only in the latter.
        """
        task = self.task
        patterns = 0 if skill is None else task.relevant  # as many lowest bits of the number say the relevant bits
        word = draws.keys(self.keys, _SAMPLES if skill is None else _TEST + skill, number >> patterns)
        bits = (word[..., None] >> torch.arange(task.bits, device=self.device)) & 1
        if skill is None:
            level = _uniform(draws.keys(word, _SKILL))[..., None]
            control = (level >= self.bounds[:-1]) & (level < self.bounds[1:])
        else:
            control = torch.arange(task.skills, device=self.device).eq(skill).expand(*number.shape, -1)
            first, pattern = skill * task.relevant, torch.arange(task.relevant, device=self.device)
            bits[..., first : first + task.relevant] = (number[..., None] >> pattern) & 1
        used = bits[..., : task.skills * task.relevant].reshape(*number.shape, task.skills, task.relevant)
        sign = ((1 - 2 * (used.sum(-1) & 1)) * control).sum(-1)
        ones = torch.ones_like(bits[..., :1])
        return torch.cat([control, bits, ones], dim=-1).to(self.dtype), sign.to(self.dtype)

    def _numbers(self) -> Tensor:
        """Which samples the next batch holds: (copy, sample)."""
        if self.settings.full_batch:
            return self.place.expand(len(self.keys), -1)
        if not self.settings.data:
            return (self.step * self.settings.batch_size + self.place).expand(len(self.keys), -1)
        drawn = draws.keys(draws.keys(self.keys, draws.ORDER, self.step), self.place)
        return (_uniform(drawn) * self.sizes).long()

    # --- training -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """One batch, one update. Works on tensors only, so that CUDA can capture it."""
        state = self.state
        x, sign = self.inputs(self._numbers())
        active = torch.relu_(x @ state["hidden"])  # (copy, sample, unit)
        error = active @ (state["readout"][..., None] * self.owner) + state["offset"][:, None, :]
        error -= self.settings.target * sign[..., None]  # (copy, sample, network)
        self.loss.add_((error.square() * self.share).sum(1), alpha=0.5)
        error *= self.share
        gradients = {"offset": error.sum(1), "readout": ((active.mT @ error) * self.owner).sum(-1)}
        on, alone = active.sign_(), self.owner.shape[1] == 1
        # one error for all units: weigh the few inputs instead of the many units
        through = (x * error).mT @ on if alone else x.mT @ on.mul_(error @ self.owner.mT)
        gradients["hidden"] = through * state["readout"][:, None, :]
        self._update(gradients)
        self.step += 1

    def _update(self, gradients: dict[str, Tensor]) -> None:
        """SGD, or Adam; weight decay is added to the gradient, as PyTorch does."""
        given, taken = self.settings, (self.step + 1).to(self.dtype)
        rate = given.learning_rate * torch.pow(given.decay, (self.step // given.decay_every).to(self.dtype))
        for name, parameter in self.state.items():
            gradient = gradients[name].add_(parameter, alpha=given.weight_decay)
            if given.optimizer == "sgd":
                parameter.sub_(rate * gradient)
                continue
            mean, square = (held[name] for held in self.moments)
            mean.lerp_(gradient, 1 - _BETAS[0])
            square.lerp_(gradient.square(), 1 - _BETAS[1])
            first, second = (1 - torch.pow(torch.full_like(taken, beta), taken) for beta in _BETAS)
            parameter.sub_(rate / first * mean / ((square / second).sqrt_() + _TINY))

    @torch.no_grad()
    def advance(self, steps: int) -> None:
        """Take some steps; on a GPU by replaying a captured graph."""
        if self.device.type == "cuda" and self.graph is None:
            self.graph = captured(self._step, self.device, self._mutable())
        for _ in range(steps):
            if self.graph is None:
                self._step()
            else:
                self.graph.replay()

    def _mutable(self) -> list[Tensor]:
        return [*self.state.values(), *(m for held in self.moments for m in held.values()), self.step, self.loss]

    # --- measuring ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """f(x) of all networks: (copy, sample, network)."""
        readout = self.state["readout"][..., None] * self.owner
        return torch.relu_(x @ self.state["hidden"]) @ readout + self.state["offset"][:, None, :]

    @torch.no_grad()
    def strengths(self, samples: int) -> Tensor:
        """R_k/S = E[g_k f]/S (4.7) over as many samples of each skill: (copy, network, skill).
        Source: layerwise (4.7).
        """
        number = torch.arange(samples, device=self.device).expand(len(self.keys), -1)
        found = []
        for skill in range(self.task.skills):
            x, sign = self.inputs(number, skill=skill)
            found.append((self.outputs(x) * sign[..., None]).mean(1))
        return torch.stack(found, dim=-1) / self.settings.target


def _uniform(key: Tensor) -> Tensor:
    """Numbers in [0, 1), one from each key."""
    return ((key >> 11) & ((1 << 53) - 1)) * 2.0**-53


def train_parity(
    settings: ParitySettings, record_at: Sequence[int], *, samples: int = 4096, progress: bool | None = None
) -> dict[str, np.ndarray]:
    """Train to the last of the steps and measure at each of them.

    Returns strength R/S (data, trial, width, step, skill) and train_loss (data, trial, width, step), the mean loss of
    the batches since the step recorded before; without training sets the first axis has the length 1.

    >>> settings = ParitySettings(SparseParity(2, 8), trials=3, widths=(4, 5), batch_size=10)
    >>> train_parity(settings, [0, 4], samples=16)["strength"].shape
    (1, 3, 2, 2, 2)
    """
    trainer = ParityTrainer(settings)
    strengths, losses, done_steps = [], [], 0
    with progress_bar("training on parity", max(record_at), progress) as done:
        for at in record_at:
            since = at - done_steps
            while done_steps < at:
                piece = min(_PIECE, at - done_steps)
                trainer.advance(piece)
                done_steps += piece
                done(done_steps)
            strengths.append(trainer.strengths(samples))
            losses.append(trainer.loss / since if since else trainer.loss + torch.nan)
            trainer.loss.zero_()
            if not bool(torch.isfinite(strengths[-1]).all()):
                raise FloatingPointError(f"networks left the finite numbers before step {at}; lower learning_rate")
    shape = (max(len(settings.data), 1), settings.trials)
    arrays = {"strength": torch.stack(strengths, 2), "train_loss": torch.stack(losses, 2)}
    return {name: values.reshape(*shape, *values.shape[1:]).cpu().numpy() for name, values in arrays.items()}
