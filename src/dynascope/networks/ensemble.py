"""Train a network many times at once and get one labelled record."""

import copy
import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypedDict

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, count, flag, one_of
from dynascope.deprecation import renamed, renamed_arguments
from dynascope.networks import arguments
from dynascope.networks.arguments import Pair
from dynascope.networks.network import Network
from dynascope.networks.recording import Course, Steers
from dynascope.networks.settings import LOSSES, OPTIMIZERS, PRODUCTS, SAMPLINGS, TRAINED, Settings
from dynascope.networks.training import Trainer
from dynascope.networks.ways import possible
from dynascope.records import with_provenance

_ON_PROBES = {  # after (trial, step), and (probe) where probes have names
    "class_mean": ("class", "logit"),
    "loss": (),
    "accuracy": (),
    "output": ("sample", "logit"),
    "load": ("layer",),
    "load_pinv": ("layer",),
    "kappa": (),
    "effective_dimension": (),
}
_OTHERS = {
    "train_loss": ("trial", "step"),
    "drawn_output": ("trial", "update", "draw", "logit"),
    "drawn_label": ("trial", "update", "draw"),
    "diverged_at": ("trial",),
}


class _Whose(TypedDict):
    """Whose labels they are, and what they are used for."""

    trials: int
    loss: str


class Ensemble:
    """A network that is trained several times side by side, each trial with its own start, batches and settings.

    network: one of `dynascope.networks`; its own weights are not used
    trials: how many, or a list of their numbers; trial i is the same in every list, and may come again
    learning_rate: of all trials, or one for each
    batch_size: samples in a step
    seed: trial i starts from, and draws its batches and noise from, (seed, i) alone
    optimizer: sgd, adam or adamw (β = 0.9, 0.999)
    momentum: of sgd; one or one each
    weight_decay: weight_decay·w is added to the gradient, under adamw learning_rate·weight_decay·w is subtracted from w
    label_noise: share of each batch's labels that is drawn anew from all classes; one or one each
    input_noise: Gaussian noise on each batch, in units of the inputs' deviation; one or one each
    vary: settings of the network that differ between trials, such as {"slope": [0, 0.5], "dropout": [0, 0.1]}
    loss: cross_entropy, or mse: half the mean square of outputs − target_scale·(one-hot label, or target)
    sampling: replacement draws each sample independently; shuffled permutes them each epoch
    trained: all layers, or the last linear one only
    precision: float32 or float64
    products: how exact they are in training: usual (as PyTorch is set), full, tf32, bfloat16
    way: to step trials: stacked, unfolded, in turn, compiled; auto finds the fastest on a GPU
    device: cpu, cuda, cuda:1, …; a GPU if there is one

    Fails where memory does not suffice. More: docs/networks.md.

    >>> from dynascope.data import geomnist
    >>> from dynascope.networks import LeNet
    >>> x, y = geomnist(per_class=20)
    >>> run = Ensemble(LeNet(classes=3), trials=2).train(x, y, steps=4, record_every=2)
    >>> dict(run["class_mean"].sizes)
    {'trial': 2, 'step': 3, 'class': 3, 'logit': 3}
    """

    @renamed_arguments(copies="trials")
    def __init__(
        self,
        network: Network,
        *,
        trials: int | Sequence[int] | np.ndarray = 16,
        learning_rate: ArrayLike = 0.005,
        batch_size: int = 1,
        seed: int = 0,
        optimizer: str = "sgd",
        momentum: ArrayLike = 0.0,
        weight_decay: ArrayLike = 0.0,
        label_noise: ArrayLike = 0.0,
        input_noise: ArrayLike = 0.0,
        vary: Mapping[str, ArrayLike] | None = None,
        loss: str = "cross_entropy",
        sampling: str = "replacement",
        trained: str = "all",
        precision: str = "float32",
        products: str = "usual",
        way: str = "auto",
        device: str | torch.device | None = None,
    ) -> None:
        if not isinstance(network, Network):
            raise ValueError(f"network must be one of dynascope.networks, got {type(network).__name__}")
        numbers = arguments.trial_numbers(trials)
        each = partial(arguments.one_per_trial, trials=len(numbers))
        self.network = network
        self.trainer: Trainer | None = None
        self.start: dict[str, Tensor] = {}  # weights that are given, not drawn, and after which stage they end
        self.cut_after: str | None = None
        self.settings = Settings(
            trials=numbers,
            learning_rate=each("learning_rate", learning_rate),
            momentum=each("momentum", momentum),
            weight_decay=each("weight_decay", weight_decay),
            label_noise=each("label_noise", label_noise),
            input_noise=each("input_noise", input_noise),
            batch_size=count("batch_size", batch_size, at_least=2 if arguments.has_batch_norm(network) else 1),
            seed=count("seed", seed, at_least=0),
            optimizer=one_of("optimizer", optimizer, OPTIMIZERS),
            vary=arguments.vary(network, vary, len(numbers)),
            loss=one_of("loss", loss, LOSSES),
            sampling=one_of("sampling", sampling, SAMPLINGS),
            trained=one_of("trained", trained, TRAINED),
            precision=one_of("precision", precision, ("float32", "float64")),
            products=one_of("products", products, PRODUCTS if precision == "float32" else PRODUCTS[:2]),
            way=one_of("way", way, ("auto", *possible(precision, arguments.device(device)))),
            device=arguments.device(device),
        )

    def train(
        self,
        x: ArrayLike,
        y: ArrayLike,
        steps: int = 4000,
        *,
        probe: Pair | Mapping[str, Pair] | None = None,
        record_every: int | Sequence[int] | np.ndarray = 20,
        measures: str | Sequence[str] = (),
        later: Mapping[int, Mapping[str, ArrayLike]] | None = None,
        steer: Steers | None = None,
        keep_outputs: bool = False,
        keep_drawn: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Train all networks from the start and record what they do on the probe samples.

        x: inputs (sample, *shape of the network)
        y: labels (sample,), or (trial, sample) where each network has its own; for regression (loss="mse") targets
            (sample, output) or (trial, sample, output), as floats
        steps: updates of each network; `step` in the record counts them, 0 is before the first
        probe: (inputs, labels) to measure on, the training samples if not given; or several by name, such as
            {"train": (x, y), "test": (xt, yt)}: what is measured then has a dimension `probe`
        record_every: measure after as many steps, at start and end; or a list of steps
        measures: of features, taken on the way: load, load_pinv, kappa, effective_dimension
        later: settings that change, such as {2000: {"dropout": 0.3}}: from the update after step 2000 on
        steer: a `dynascope.steering.Helm`: trials turn a setting by their own load curves
        keep_outputs: also record `output` (trial, step, sample, logit) of each probe sample
        keep_drawn: also record `drawn_output` of the drawn samples before each update, and `drawn_label`
        checkpoint: .npz file: saved on the way, continued bit for bit (on a CPU) if there
        checkpoint_every: save after as many steps; every 30 seconds if not given

        Returns class_mean (trial, step, class, logit), loss and accuracy on the probe, train_loss of the batches since
        the step recorded before, diverged_at (−1: never), measures, what was steered; more: docs/networks.md. A network
        whose loss stops being finite is named in a warning, the others go on.

        >>> from dynascope.data import geomnist
        >>> from dynascope.networks import MLP
        >>> x, y = geomnist(per_class=20)
        >>> net = MLP((1, 32, 32), 3, width=8, depth=2)
        >>> run = Ensemble(net, trials=2, learning_rate=[0.1, 0.2]).train(x, y, steps=5, record_every=[0, 1, 5])
        >>> run["step"].values.tolist(), run["learning_rate"].values.tolist()
        ([0, 1, 5], [0.1, 0.2])
        """
        begun = time.perf_counter()
        settings = self.settings
        whose: _Whose = {"trials": len(settings.trials), "loss": settings.loss}
        x, y = arguments.pair("train", (x, y), self.network, **whose)
        if settings.batch_size > len(x):
            raise ValueError(f"batch_size must be at most {len(x)}, the samples in x, got {settings.batch_size}")
        if y.dtype.kind == "f" and settings.label_noise.any():
            raise ValueError("label_noise must be 0 for regression, which has no labels; use input_noise")
        probes = self._probes(probe, x, y, whose)
        course = Course(
            probes=probes,
            record_at=arguments.record_steps(count("steps", steps), record_every),
            measures=arguments.measures(measures, self.network, probes),
            keep_outputs=_kept(keep_outputs, probes),
            checkpoint=None if checkpoint is None else arguments.npz(checkpoint),
            checkpoint_every=None if checkpoint_every is None else count("checkpoint_every", checkpoint_every),
            progress=progress,
            steer=arguments.steer(steer, later, checkpoint),
        )
        self._check_room(course, keep_drawn=flag("keep_drawn", keep_drawn))
        settings = replace(settings, later=arguments.later(self.network, later, len(settings.trials), steps))
        course.fingerprint = self._fingerprint(x, y, course, settings=settings, keep_drawn=keep_drawn)
        self.trainer = Trainer(self.network, settings, x, y, keep_drawn=keep_drawn, start=self.start, planned=steps)
        arrays = course.run(self.trainer)
        if keep_drawn and y.dtype.kind != "f":
            drawn = self.trainer.batches(0, self.trainer.steps_done).cpu().numpy().swapaxes(0, 1)
            own = np.broadcast_to(y, (len(settings.trials), y.shape[1]))
            arrays["drawn_label"] = np.stack([row[picked] for row, picked in zip(own, drawn, strict=True)])
        self._warn(arrays["diverged_at"])
        return self._label(arrays, course, settings, time.perf_counter() - begun)

    fit = renamed("fit", train)

    def trained(self, index: int) -> Network:
        """Return the network of one trial (by its place in the list) after `train`, in evaluation mode.

        >>> import torch
        >>> from dynascope.data import geomnist
        >>> from dynascope.networks import LeNet
        >>> ensemble = Ensemble(LeNet(), trials=2)
        >>> _ = ensemble.train(*geomnist(per_class=4), steps=2)
        >>> ensemble.trained(1).features(torch.zeros(1, 1, 32, 32))["act_4"].shape
        torch.Size([1, 84])
        """
        if self.trainer is None:
            raise ValueError("the trials have not been trained: call train first")
        if count("index", index, at_least=0) >= self.trainer.size:
            raise ValueError(f"index must be below {self.trainer.size}, the number of trials, got {index}")
        return self.trainer.network_of(index)

    def cut(self, stage: str, *, trained: str = "all") -> "Ensemble":
        """Return an ensemble that starts where `train` ended: the networks up to a stage, and a new linear layer.

        stage: name of a stage before the last linear layer, such as act_3; it is kept
        trained: all layers; or the new one only, then the features stay as they are (batch norm and dropout as in
            evaluation)

        Trials, seeds and all other settings are those of this ensemble; moments of the optimizer begin at 0. The new
        layer of trial i is drawn from (seed, i) alone. Source: spring-block supplement; pruning of dead layers.

        >>> from dynascope.data import geomnist
        >>> from dynascope.networks import MLP
        >>> x, y = geomnist(per_class=4)
        >>> whole = Ensemble(MLP((1, 32, 32), 3, width=8, depth=4), trials=2)
        >>> _ = whole.train(x, y, steps=2)
        >>> part = whole.cut("act_2", trained="last")
        >>> part.train(x, y, steps=2, measures="load")["layer"].values.tolist()
        ['flat', 'act_1', 'act_2']
        """
        if self.trainer is None:
            raise ValueError("the trials have not been trained: call train first")
        network = self.network.cut(stage)
        found = copy.copy(self)
        found.network, found.trainer, found.cut_after = network, None, stage
        vary = {name: values for name, values in self.settings.vary.items() if name in network.adjustable}
        found.settings = replace(self.settings, trained=one_of("trained", trained, TRAINED), vary=vary)
        ended = {**self.trainer.parameters, **self.trainer.buffers}
        new = f"stages.{network.readout}."
        kept = [name for name in network.state_dict() if not name.startswith(new)]
        found.start = {name: ended[name].detach().clone() for name in kept}
        return found

    def features(self, x: ArrayLike, at: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Return values of all trials after `train`, in evaluation mode, by stage: (trial, sample, …), and `logits`.

        x: inputs (sample, *shape of the network)
        at: names of stages, or none; the one that the last linear layer reads if not given

        >>> from dynascope.data import geomnist
        >>> from dynascope.networks import LeNet
        >>> x, y = geomnist(per_class=4)
        >>> ensemble = Ensemble(LeNet(), trials=2)
        >>> _ = ensemble.train(x, y, steps=2)
        >>> {name: values.shape for name, values in ensemble.features(x).items()}
        {'act_4': (2, 12, 84), 'logits': (2, 12, 3)}
        """
        if self.trainer is None:
            raise ValueError("the trials have not been trained: call train first")
        known = [name for name, _ in self.network.stages.named_children()]
        stages = tuple(one_of("at", name, known) for name in ([self.network.last] if at is None else at))
        inputs = self.trainer.inputs(arguments.inputs("x", x, self.network))
        if not stages:
            return {"logits": self.trainer.outputs(inputs).cpu().numpy()}
        parts = [found for _, found in self.trainer.features(inputs, stages)]
        return {name: np.concatenate([part[name].cpu().numpy() for part in parts]) for name in parts[0]}

    def _check_room(self, course: Course, *, keep_drawn: bool) -> None:
        """Refuse what the device has no memory for, or what would take a processor more than a week."""
        given, classes, device = self.settings, self.network.classes, torch.device(self.settings.device)
        weights = sum(each.numel() for each in self.network.parameters())
        trials, steps, saves = len(given.trials), int(course.record_at[-1]), len(course.record_at)
        shown = sum(len(x) for x, _ in course.probes.values()) if course.keep_outputs else len(course.probes)
        drawn = steps * given.batch_size * classes if keep_drawn else 0
        require_room(
            {"trials": trials, "weights of a network": weights, "steps": steps, "recorded steps": saves},
            trials * (2 * weights + saves * shown * classes**2 + drawn),
            updates=trials * weights * steps if device.type == "cpu" else 0,
            precision=given.precision,
            free=torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None,
        )

    def _probes(
        self, probe: object, x: np.ndarray, y: np.ndarray, whose: _Whose
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        if probe is None and len(y) > 1:
            raise ValueError("probe must be given where trials have labels of their own")
        if probe is None:
            return {"": (x, y)}
        if not isinstance(probe, Mapping):
            return {"": arguments.pair("probe", probe, self.network, **whose)}
        if not probe or not all(isinstance(name, str) and name for name in probe):
            raise ValueError(f"probe must be (inputs, labels), or several of them by name, got names {list(probe)!r}")
        return {name: arguments.pair(f"probe {name!r}", given, self.network, **whose) for name, given in probe.items()}

    def _facts(self, settings: Settings) -> dict[str, object]:
        facts = {name: value for name, value in vars(settings).items() if name not in ("device", "seed", "way")}
        facts["vary"] = dict(facts["vary"])
        if settings.products == "usual":  # as records and checkpoints have it that knew nothing else
            del facts["products"]
        cut = {} if self.cut_after is None else {"cut_after": self.cut_after}
        return {"network": type(self.network).__name__, **cut, **facts}

    def _fingerprint(
        self, x: np.ndarray, y: np.ndarray, course: Course, *, settings: Settings, keep_drawn: bool
    ) -> str:
        sha = hashlib.sha256()
        facts = self._facts(settings) | {"seed": settings.seed, "network": repr(self.network)}
        facts |= {"keep": [course.keep_outputs, keep_drawn, course.measures], "shapes": [x.shape, y.shape]}
        facts["copies"] = facts.pop("trials")  # as checkpoints of version 0.1.0 have it
        facts["probes"] = {name: [each.shape for each in pair] for name, pair in course.probes.items()}
        facts["buffers"] = {name: buffer.tolist() for name, buffer in self.network.named_buffers()}
        sha.update(json.dumps(facts, default=lambda value: value.tolist(), sort_keys=True).encode())
        started = (tensor.cpu().numpy() for tensor in self.start.values())
        for array in (x, y, *started, *(each for pair in course.probes.values() for each in pair)):
            sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def _warn(self, diverged_at: np.ndarray) -> None:
        lost = np.flatnonzero(diverged_at >= 0)
        if lost.size:
            named = ", ".join(f"trial {self.settings.trials[i]} at step {diverged_at[i]}" for i in lost)
            warnings.warn(
                f"the loss of {named} was not finite; the other {len(diverged_at) - lost.size} trials went on",
                RuntimeWarning,
                stacklevel=3,
            )

    def _label(self, arrays: Mapping[str, np.ndarray], course: Course, given: Settings, wall_time: float) -> xr.Dataset:
        steps, named = course.record_at, "" not in course.probes
        varied = {name: getattr(given, name) for name in ("learning_rate", "momentum", "weight_decay")}
        varied |= {"label_noise": given.label_noise, "input_noise": given.input_noise, **given.vary}
        differing = {name: v for name, v in varied.items() if len(set(v.tolist())) > 1 and name not in arrays}
        coords: dict[str, object] = {name: ("trial", v) for name, v in differing.items()}
        coords |= {"trial": given.trials, "step": ("step", np.array(steps), {"units": "updates"})}
        if named:
            coords["probe"] = list(course.probes)
        if {"load", "load_pinv"} & set(course.measures):
            coords["layer"] = list(self.network.probes)
        common = ("trial", "step", *(["probe"] if named else []))
        dims = _OTHERS | {name: (*common, *own) for name, own in _ON_PROBES.items()}
        over_time = ("trial", "step")  # what was turned on the way
        run = xr.Dataset({name: (dims.get(name, over_time), values) for name, values in arrays.items()}, coords=coords)
        return with_provenance(
            run,
            "Ensemble",
            self._facts(given),
            options={"steps": int(steps[-1]), "record_steps": len(steps), "measures": list(course.measures)},
            seed=given.seed,
            precision=given.precision,
            wall_time=wall_time,
            device=arguments.device_name(given.device),
        ).assign_attrs({name: json.dumps(value) for name, value in self.trainer.how().items()} if self.trainer else {})


def _kept(keep_outputs: bool, probes: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> bool:
    if flag("keep_outputs", keep_outputs) and len({len(x) for x, _ in probes.values()}) > 1:
        raise ValueError("keep_outputs must be False where probes have different numbers of samples")
    return bool(keep_outputs)
