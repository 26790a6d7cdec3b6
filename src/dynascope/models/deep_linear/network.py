"""The deep linear network as users meet it: teacher and optimiser in, labelled results out."""

import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, SavePoints, count, flag, left_out, one_of, require, scalar
from dynascope.deprecation import once_first, renamed
from dynascope.models import stepping
from dynascope.models.deep_linear import exact
from dynascope.models.deep_linear.at_weights import LinearNetwork, Weights
from dynascope.models.deep_linear.descent import DivergenceError, Point, Saved, run_networks
from dynascope.models.deep_linear.equations import STEPS, elements
from dynascope.models.deep_linear.labels import lay_out
from dynascope.models.deep_linear.teacher import (
    balanced_weights,
    draw_data,
    gaussian_weights,
    read_covariance,
    read_teacher,
    read_widths,
    square_root,
)
from dynascope.models.noise import seed_key
from dynascope.models.parameters import ParameterValue, with_hints
from dynascope.models.stepping import Array

CITE = "corlouer2026stochastic"

_DIVERGED = 1e6  # weights of the size of the teacher learn it: such ones are on their way to infinity
_STARTS = ("gaussian", "balanced", "aligned")


class DeepLinear(LinearNetwork):
    """A deep linear network y = W_L ⋯ W_1 x that learns a linear teacher y = M x + q from whitened Gaussian inputs.

    dθ = −∇ E|y − W x|²/2 dt + √(η Σ_b(θ)) dB (1), followed along the modes w_α = u_αᵀ W_L ⋯ W_1 v_α of M = U S Vᵀ.

    depth: number L of layers.
    width: of all layers, or depth + 1 of them: inputs, hidden layers, outputs.
    teacher: singular values (random orthogonal bases), or a matrix (outputs, inputs).
    learning_rate: η > 0; the step of gd and sgd, the noise level of the Langevin methods.
    batch_size: samples b of a batch; gradient noise has the temperature η/b.
    label_noise: standard deviation σ_q ≥ 0 of independent noise on every output.
    label_noise_covariance: a full covariance (outputs, outputs), added to that of label_noise.
    init_exponent: γ; initial weights have the variance min(d_l, d_{l−1})^(−γ).
    initialisation: gaussian; balanced, the same end-to-end map with W_{l+1}ᵀ W_{l+1} = W_l W_lᵀ; or aligned, also
        diagonal in the teacher's basis.
    data_size: samples of a fixed data set; fresh samples at every step if not given.
    whitened: whether inputs of the data set have ⟨x xᵀ⟩ = 1 exactly, as the population has.
    network_seed: fixes teacher, initial weights of every trial and data set, whatever method and seed train them.

    learning_rate, batch_size and label_noise may be arrays that broadcast, or DataArrays: a grid.
    Time is gradient-flow time, steps × step size. Source: deep-linear Section 2, Section 3, Section 4, Section G,
    Section H.

    >>> net = DeepLinear(depth=2, width=4, teacher=(1.0, 0.5), init_exponent=1.0)
    >>> run = net.simulate(duration=20.0, trials=1, method="gd")
    >>> bool(abs(run["amplitude"][0, -1] - run["singular_value"]).max() < 1e-3)
    True
    """

    def __init__(
        self,
        depth: int = 4,
        width: ArrayLike = 12,
        teacher: ArrayLike = (1.0, 0.7, 0.4),
        learning_rate: ParameterValue = 0.005,
        batch_size: ParameterValue = 1,
        label_noise: ParameterValue = 0.0,
        label_noise_covariance: ArrayLike | None = None,
        init_exponent: float = 2.0,
        initialisation: str = "gaussian",
        data_size: int | None = None,
        network_seed: int = 0,
        whitened: bool = False,
    ):
        self._align({"learning_rate": learning_rate, "batch_size": batch_size, "label_noise": label_noise})
        batches = self.batch_size
        require("batch_size", batches, (batches >= 1) & (batches == np.rint(batches)), "be whole numbers from 1")
        seed_key(network_seed)
        self.network_seed = int(network_seed)
        self.widths = read_widths(width, count("depth", depth))
        self.left, self.singular_values, self.right = read_teacher(teacher, self.widths, self.network_seed)
        outputs = self.widths[-1]
        covariance = np.zeros((outputs, outputs)) if label_noise_covariance is None else label_noise_covariance
        self.label_noise_covariance = read_covariance(covariance, outputs)
        self.init_exponent = scalar("init_exponent", init_exponent)
        self.initialisation = one_of("initialisation", initialisation, _STARTS)
        self.data_size = None if data_size is None else count("data_size", data_size, at_least=2)
        if self.data_size is not None:
            require("batch_size", batches, batches <= self.data_size, f"be at most data_size = {data_size}")
        self.whitened = flag("whitened", whitened)
        if self.whitened and (self.data_size or 0) < self.widths[0]:
            raise ValueError(f"whitened needs data_size of at least the {self.widths[0]} inputs, got {data_size}")

    def initial_weights(self, trials: int = 1) -> list[Float[np.ndarray, "trial out in"]]:
        """The weights from which every method and seed begins, one array (trial, d_l, d_{l−1}) for each layer.

        An aligned start has the amplitude that is typical for Gaussian weights in every mode,
        Π_l min(d_l, d_{l−1})^(−γ/2) times the square root of every hidden width. Source: deep-linear Section H.2.

        >>> [w.shape for w in DeepLinear(depth=2, width=[3, 5, 4]).initial_weights(2)]
        [(2, 5, 3), (2, 4, 5)]
        """
        trials = count("trials", trials)
        require_room({"trials": trials, "width": max(self.widths)}, trials * self._size)
        if self.initialisation == "aligned":
            narrow = np.minimum(self.widths[1:], self.widths[:-1]).astype(float)
            size = np.prod(narrow ** (-self.init_exponent / 2)) * np.prod(np.sqrt(self.widths[1:-1]))
            weights = self.aligned_weights(np.full(self.singular_values.size, size))
            return [np.repeat(w[None], trials, axis=0) for w in weights]
        drawn = [gaussian_weights(self.widths, self.init_exponent, self.network_seed, k) for k in range(trials)]
        if self.initialisation == "balanced":
            drawn = [balanced_weights(weights, self.network_seed) for weights in drawn]
        return [np.stack(layer) for layer in zip(*drawn, strict=True)]

    @once_first("method")
    @with_hints
    def simulate(
        self,
        duration: float = 30.0,
        trials: int = 32,
        *,
        method: str = "sgd",
        dt: float | None = None,
        seed: int = 0,
        save_points: SavePoints = 300,
        reduction: str = "sum",
        isotropic_noise: float | None = None,
        rank_threshold: float = 0.1,
        tangent_kernel: bool = False,
        keep_weights: bool = False,
        start: Weights | None = None,
        precision: str = "float64",
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Train every point of the grid and return losses, modes, diffusion, balance and rank over time.

        method: gd, sgd, langevin (1) with SGD's exact state-dependent noise, or isotropic, the same noise in all
            weights.
        duration: gradient-flow time to train, rounded up to whole steps.
        trials: independent networks at every grid point.
        dt: step of the Langevin methods, a fifth of the least learning rate if not given; gd and sgd step by
            learning_rate.
        seed: integer that fixes batches and noise; initial weights are fixed by network_seed.
        save_points: how many evenly spaced times to save, or the times themselves.
        reduction: sum, half the squared error as in theory; or mean, as torch's MSELoss.
        isotropic_noise: σ of the isotropic method, 1 if not given: a variance of σ² η/b per weight and time.
        rank_threshold: share of the teacher's largest singular value above which one of W counts as rank.
        tangent_kernel, keep_weights: whether to record the modes' tangent kernel, and the weights.
        start: initial weights, one array (d_l, d_{l−1}) or (trial, d_l, d_{l−1}) for each layer.
        precision: float64 or float32.
        progress: whether to draw a bar; by default on terminals, after two seconds.

        Returns over (…grid, trial, time) loss, amplitude, exact and predicted diffusion (7), drifts, balance (33),
        weight_norm and rank; docs/deep-linear.md has the list. Trial i begins at the same weights whatever trains it,
        and sees the same noise at every grid point. Needs steps below 2/(L s_1^{2−2/L}); a run that diverges raises
        `DivergenceError`, with what came before as `record`.

        >>> net = DeepLinear(depth=2, width=4, label_noise=[0.1, 0.2])
        >>> run = net.simulate(1.0, 3, method="langevin", save_points=5)
        >>> run["amplitude"].dims, run["balance"].shape
        (('grid_0', 'trial', 'time', 'mode'), (2, 3, 5, 1))
        """
        begun = time.perf_counter()
        options: dict[str, Any] = {
            "method": one_of("method", method, list(STEPS)),
            "duration": scalar("duration", duration, above=0.0),
            "trials": count("trials", trials),
            "dt": self._step(method, dt),
            "reduction": one_of("reduction", reduction, ["sum", "mean"]),
            "isotropic_noise": self._isotropic_noise(method, isotropic_noise),
            "rank_threshold": scalar("rank_threshold", rank_threshold, above=0.0),
            "tangent_kernel": flag("tangent_kernel", tangent_kernel),
            "keep_weights": flag("keep_weights", keep_weights),
            "precision": one_of("precision", precision, ["float64", "float32"]),
        }
        seed_key(seed)
        self._check_stability(options)
        coarse = options["dt"] or float(self.learning_rate.max())
        times = stepping.save_steps(options["duration"], coarse, save_points) * coarse
        self._check_room(options, times)
        points = [self._point(index, options, times) for index in range(self.grid.size)]
        most = 2**32 // max(point.stride for point in points)
        if options["trials"] >= most:
            raise ValueError(f"trials must stay below {most} here, got {trials}")
        weights = [w.astype(precision) for w in self._start(start, options["trials"])]
        finished = run_networks(points, weights, seed=seed, progress=progress)
        saved = min(len(seen) for seen, _ in finished)
        if saved == 0:
            raise self._divergence(finished, None)
        run = lay_out(
            [seen[:saved] for seen, _ in finished], times[:saved], grid=self.grid, values=self.singular_values
        )
        recorded = options | ({} if start is None else {"start": [w.tolist() for w in weights]})
        wall_time = time.perf_counter() - begun
        record = self._signed(run, recorded, seed=int(seed), precision=precision, wall_time=wall_time)
        if any(failure is not None for _, failure in finished):
            raise self._divergence(finished, record)
        return record

    train = renamed("train", simulate)

    def _facts(self) -> dict[str, Any]:
        names = ["widths", "singular_values", "label_noise_covariance", "init_exponent", "initialisation", "data_size"]
        if self.whitened:  # left out where it changes nothing, so that records of before keep their digest
            names.append("whitened")
        return self._plain_parameters() | {name: getattr(self, name) for name in (*names, "network_seed")}

    def _step(self, method: str, dt: float | None) -> float | None:
        if method in ("gd", "sgd"):
            if dt is not None:
                raise ValueError(f"dt must not be given for {method}, which steps by learning_rate; got {dt!r}")
            return None
        return float(self.learning_rate.min()) / 5 if dt is None else scalar("dt", dt, above=0.0)

    def _isotropic_noise(self, method: str, noise: float | None) -> float:
        if method != "isotropic":
            left_out("isotropic_noise", noise, where=f"for {method}")
        return 1.0 if noise is None else scalar("isotropic_noise", noise, at_least=0.0)

    @property
    def _size(self) -> int:
        """How many weights a network has."""
        return sum(a * b for a, b in pairwise(self.widths))

    def _loss_scale(self, reduction: str) -> float:
        return 1.0 if reduction == "sum" else 2 / self.widths[-1]

    def _check_stability(self, options: dict[str, Any]) -> None:
        """The flattest minimum has the curvature L s^{2−2/L}: a longer step leaves every minimum."""
        curvature = self.depth * self.singular_values.max() ** (2 - 2 / self.depth)
        limit = 2 / (curvature * self._loss_scale(options["reduction"]))
        name = "learning_rate" if options["dt"] is None else "dt"
        steps = self.learning_rate if options["dt"] is None else np.array(options["dt"])
        rule = (
            f"be below 2/(depth·s^(2−2/depth)) = {limit:.4g}, s the largest singular value: no minimum is stable above"
        )
        require(name, steps, steps < limit, rule)

    def _check_room(self, options: dict[str, Any], times: np.ndarray) -> None:
        modes, layers = self.singular_values.size, self.depth
        weights = self._size
        saved = 2 * modes**2 + 6 * modes + 3 * layers + 3
        saved += layers * modes**2 * options["tangent_kernel"] + weights * options["keep_weights"]
        steps = int(times[-1] / (options["dt"] or float(self.learning_rate.min())))
        precision, width = options["precision"], max(self.widths)
        self._require_room(
            options["trials"], len(times), saved=saved, state=weights, steps=steps, precision=precision, width=width
        )

    def _start(self, start: Weights | None, trials: int) -> list[np.ndarray]:
        if start is None:
            return self.initial_weights(trials)
        layers, lead = self._weights(start, "start")
        if lead not in ((), (1,), (trials,)):
            raise ValueError(f"start must hold one matrix or {trials} (trials) for each layer, got leading axes {lead}")
        return [np.repeat(w, trials, axis=0) if len(w) == 1 else w for w in layers]

    def _point(self, index: int, options: dict[str, Any], times: np.ndarray) -> Point:
        """What the steps of one grid point need."""
        at = {name: float(values[index]) for name, values in self._points().items()}
        temperature = float(self._flat(self.temperature())[index])
        covariance, dtype = self._label_covariances()[index], np.dtype(options["precision"])
        step, scale = options["dt"] or at["learning_rate"], self._loss_scale(options["reduction"])
        p: dict[str, Any] = {
            "teacher": self.teacher,
            "dt": step,
            "loss_scale": scale,
            "temperature": temperature,
            "isotropic_noise": options["isotropic_noise"],
        }
        if np.any(covariance):
            p["label_root"] = square_root(covariance)
        if self.data_size is not None:
            p |= self._data(square_root(covariance))
        p = {name: np.asarray(value, dtype) for name, value in p.items()}
        task = exact.Task(*(np.asarray(each, dtype) for each in self._task(covariance)))
        observe = partial(_observe, task=task, values=self.singular_values.astype(dtype), p=p, options=options)
        saves = np.rint(times / step).astype(np.int64)
        needed = elements(options["method"], p, batch_size=int(at["batch_size"]), weights=self._size)
        limit = _DIVERGED * max(1.0, float(self.singular_values.max()))
        return Point(options["method"], p, saves, needed, limit, observe)

    def _data(self, label_root: np.ndarray) -> dict[str, np.ndarray]:
        """The data set and its second moments."""
        inputs, noise = draw_data(self.data_size or 0, self.widths, self.network_seed, whitened=self.whitened)
        errors = noise @ label_root
        return {
            "inputs": inputs,
            "labels": inputs @ self.teacher.T + errors,
            "input_covariance": inputs.T @ inputs / len(inputs),
            "label_input": errors.T @ inputs / len(inputs),
        }

    def _divergence(self, finished: Sequence[Saved], record: xr.Dataset | None) -> DivergenceError:
        """The earliest failure, with the parameters of its grid point."""
        failures = [(failure, index) for index, (_, failure) in enumerate(finished) if failure is not None]
        first, index = min(failures, key=lambda each: each[0].time)
        at = ", ".join(f"{name}={values[index]:g}" for name, values in self._points().items())
        return DivergenceError(
            f"the weights diverged at {first} with {at}; use a smaller learning_rate or dt, or larger "
            "batches. The error's `record` holds what came before",
            step=first.step,
            time=first.time,
            trial=first.trial,
            record=record,
        )


def _observe(
    weights: Sequence[Array], *, task: exact.Task, values: np.ndarray, p: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """What is recorded of a chunk of networks."""
    scale = p["loss_scale"]
    seen: dict[str, Any] = exact.observe_many(
        weights,
        task,
        values,
        temperature=p["temperature"] * scale**2,
        kernel=options["tangent_kernel"],
    )
    # by NumPy: LAPACK calls inside two programs that run side by side can wait for each other forever
    singular = np.linalg.svd(np.asarray(seen.pop("end_to_end")), compute_uv=False)
    seen["rank"] = np.sum(singular > options["rank_threshold"] * values.max(), axis=-1)
    seen["gradient_drift"] = scale * seen["gradient_drift"]
    if options["method"] == "isotropic":
        kernel = exact.kernel_many(weights, task).sum(1)
        spread = jnp.diagonal(kernel, axis1=-2, axis2=-1)
        seen["isotropic_diffusion"] = p["temperature"] * p["isotropic_noise"] ** 2 * spread
    if "inputs" in p:
        seen["train_loss"] = exact.data_loss_many(weights, p["inputs"], p["labels"])
    if options["keep_weights"]:
        seen |= {f"weight_{layer + 1}": w for layer, w in enumerate(weights)}
    return seen
