"""What can be run: experiments by name, each with three scales, claims and a picture."""

import importlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.sweep.sweepable import Sweepable

SCALES = ("smoke", "laptop", "paper")

# name -> where it is defined; looked up when asked for, so that listing imports nothing heavy
EXPERIMENTS = {
    "deep_linear/exact_objects": "deep_linear.exact_objects:EXPERIMENT",
    "deep_linear/aligned_modes": "deep_linear.aligned_modes:EXPERIMENT",
    "deep_linear/gradient_flow": "deep_linear.gradient_flow:EXPERIMENT",
    "deep_linear/finite_population": "deep_linear.finite_population:EXPERIMENT",
    "deep_linear/label_noise": "deep_linear.label_noise:EXPERIMENT",
    "deep_linear/diffusion_peaks": "deep_linear.diffusion_peaks:PEAKS",
    "deep_linear/saddles": "deep_linear.saddles:EXPERIMENT",
    "deep_linear/timescales": "deep_linear.timescales:EXPERIMENT",
    "deep_linear/assumptions": "deep_linear.assumptions:EXPERIMENT",
    "deep_linear/scaling": "deep_linear.scaling:EXPERIMENT",
    "deep_linear/hidden_width": "deep_linear.diffusion_peaks:WIDE",
    "deep_linear/data_set": "deep_linear.diffusion_peaks:DATA_SET",
    "multilinear/strengths": "multilinear.strengths:EXPERIMENT",
    "multilinear/scaling_laws": "multilinear.scaling_laws:EXPERIMENT",
    "multilinear/finite_size": "multilinear.finite_size:EXPERIMENT",
    "multilinear/optimal_compute": "multilinear.optimal_compute:EXPERIMENT",
    "multilinear/emergence": "multilinear.emergence:EXPERIMENT",
    "multilinear/data_emergence": "multilinear.data_emergence:EXPERIMENT",
    "multilinear/toy_network": "multilinear.toy_network:EXPERIMENT",
    "multilinear/networks": "multilinear.networks:EXPERIMENT",
    "spring_block/equilibrium": "spring_block.equilibrium:EXPERIMENT",
    "spring_block/stationary_curvature": "spring_block.stationary_curvature:EXPERIMENT",
    "spring_block/relaxation": "spring_block.relaxation:EXPERIMENT",
    "spring_block/mean_path": "spring_block.mean_path:EXPERIMENT",
    "spring_block/effective_friction": "spring_block.effective_friction:EXPERIMENT",
    "spring_block/phase_diagram": "spring_block.phase_diagrams:OVERDAMPED",
    "spring_block/trajectories": "spring_block.trajectories:EXPERIMENT",
    "spring_block/left_friction": "spring_block.left_friction:EXPERIMENT",
    "spring_block/inertial_phase_diagram": "spring_block.phase_diagrams:INERTIAL",
    "spring_block/langevin_phase_diagram": "spring_block.phase_diagrams:LANGEVIN",
    "phases/dropout": "phases.diagrams:DROPOUT",
    "phases/data_noise": "phases.diagrams:DATA_NOISE",
    "phases/learning_rate": "phases.diagrams:LEARNING_RATE",
    "phases/batch_size": "phases.diagrams:BATCH_SIZE",
    "phases/shallow": "phases.diagrams:SHALLOW",
    "phases/deep": "phases.diagrams:DEEP",
    "phases/wide": "phases.diagrams:WIDE",
    "phases/widest": "phases.diagrams:WIDEST",
    "phases/fashion": "phases.diagrams:FASHION",
    "phases/sgd": "phases.diagrams:SGD",
    "phases/cifar": "phases.diagrams:CIFAR",
    "phases/cifar_rates": "phases.diagrams:CIFAR_RATES",
    "phases/cifar_deep": "phases.diagrams:CIFAR_DEEP",
    "phases/whole_set": "phases.diagrams:WHOLE",
    "phases/much_data": "phases.much_data:EXPERIMENT",
    "phases/chain": "phases.chain:EXPERIMENT",
    "phases/depth": "phases.depth:EXPERIMENT",
    "phases/regression": "phases.curves:REGRESSION",
    "phases/normalisation": "phases.curves:NORMALISATION",
    "phases/convolutional": "phases.convolutional:CONVOLUTIONAL",
    "phases/raised_dropout": "phases.convolutional:RAISED",
    "phases/linear_networks": "phases.linear_networks:EXPERIMENT",
    "elastic/binary_separation": "elastic.binary_separation:EXPERIMENT",
    "elastic/tail_index": "elastic.tail_index:EXPERIMENT",
    "elastic/discrete_limit": "elastic.discrete_limit:EXPERIMENT",
    "elastic/linearisation": "elastic.linearisation:EXPERIMENT",
    "elastic/estimators": "elastic.estimators:EXPERIMENT",
    "elastic/mean_path": "elastic.mean_path:EXPERIMENT",
    "elastic/drift": "elastic.drift:EXPERIMENT",
    "elastic/collapse": "elastic.collapse:EXPERIMENT",
    "elastic/direction": "elastic.direction:EXPERIMENT",
    "elastic/network_course": "elastic.network_course:GEOMNIST",
    "elastic/network_course_cifar": "elastic.network_course:CIFAR",
    "elastic/network_corruption": "elastic.network_corruption:EXPERIMENT",
    "elastic/network_samples": "elastic.network_cases:SAMPLE_SIZES",
    "elastic/network_classes": "elastic.network_cases:CLASS_NUMBERS",
    "deep_linear/mode_coefficients": "deep_linear.mode_coefficients:EXPERIMENT",
    "deep_linear/mode_peak": "deep_linear.mode_peak:EXPERIMENT",
    "deep_linear/mode_density": "deep_linear.mode_density:EXPERIMENT",
    "deep_linear/mode_stationary": "deep_linear.mode_stationary:EXPERIMENT",
    "deep_linear/mode_end_of_training": "deep_linear.mode_end_of_training:EXPERIMENT",
    "linear_modes/eigenmodes": "linear_modes.eigenmodes:EXPERIMENT",
    "linear_modes/learnability": "linear_modes.learnability:EXPERIMENT",
    "linear_modes/diagonal": "linear_modes.diagonal:EXPERIMENT",
    "linear_modes/two_layer": "linear_modes.two_layer:EXPERIMENT",
    "linear_modes/theorem_1": "linear_modes.theorem_1:EXPERIMENT",
    "linear_modes/inductive_bias": "linear_modes.inductive_bias:EXPERIMENT",
    "linear_modes/overfitting": "linear_modes.overfitting:EXPERIMENT",
    "linear_modes/noise_fitting": "linear_modes.noise_fitting:EXPERIMENT",
    "linear_modes/modes": "linear_modes.stages:MODES",
    "linear_modes/stages": "linear_modes.stages:STAGES",
    "linear_modes/neural_collapse": "linear_modes.neural_collapse:EXPERIMENT",
    "linear_modes/lazy_rich": "linear_modes.lazy_rich:EXPERIMENT",
    "linear_modes/levers": "linear_modes.levers:EXPERIMENT",
    "features/heaviside": "features.heaviside:EXPERIMENT",
    "features/definitions": "features.definitions:EXPERIMENT",
    "regimes/grokking": "regimes.grokking:EXPERIMENT",
    "regimes/modular_division": "regimes.modular_division:EXPERIMENT",
    "regimes/data_size": "regimes.settings:DATA_SIZE",
    "regimes/learning_rate": "regimes.settings:LEARNING_RATE",
    "regimes/architecture": "regimes.settings:ARCHITECTURE",
    "regimes/labels": "regimes.minimal_features:LABELS",
    "regimes/regression": "regimes.minimal_features:REGRESSIONS",
    "regimes/lazy": "regimes.minimal_features:LAZY",
    "regimes/last_layer": "regimes.minimal_features:LAST_LAYER",
    "regimes/classes": "regimes.minimal_features:CLASSES",
}


@dataclass(frozen=True)
class Experiment:
    """One figure or set of equations: how to run it, judge it and draw it.

    `run(config)` returns a record, `check(record)` the claims with verdicts, `plot(record)` a figure. `scales`
    maps smoke, laptop and paper to configs (frozen dataclasses). `sweep` is what `dynascope sweep` runs where that is
    more than `run` with other fields of the config.
    """

    title: str
    source: str
    kind: Literal["equation", "figure"]
    claims: tuple[Claim, ...]
    scales: Mapping[str, Any]
    run: Callable[[Any], xr.Dataset]
    check: Callable[[xr.Dataset], tuple[Claim, ...]]
    plot: Callable[[xr.Dataset], Any]
    sweep: Sweepable | None = None

    def config(self, scale: str) -> Any:
        """Return the settings of a scale.

        >>> find("spring_block/phase_diagram").config("laptop").duration
        100.0
        """
        if scale not in self.scales:
            raise ValueError(f"scale must be one of {', '.join(self.scales)}, got {scale!r}")
        return self.scales[scale]

    def evaluate(self, scale: str) -> tuple[xr.Dataset, tuple[Claim, ...]]:
        """Run at a scale and judge; every declared claim comes back with a verdict.

        >>> record, claims = find("spring_block/effective_friction").evaluate("smoke")
        >>> {claim.verdict for claim in claims} <= {"reproduced", "erratum"}
        True
        """
        begun = time.perf_counter()
        record = self.run(self.config(scale))
        record = record.assign_attrs(wall_time=json.dumps(round(time.perf_counter() - begun, 4)))
        claims = self.check(record)
        missing = {claim.id for claim in self.claims} ^ {claim.id for claim in claims}
        if missing:
            raise RuntimeError(f"claims declared and checked differ: {sorted(missing)}")
        return record, claims

    def settings(self, scale: str) -> dict[str, Any]:
        """Return the config as plain values, for reports.

        >>> find("spring_block/phase_diagram").settings("smoke")["dynamics"]
        'overdamped'
        """
        return asdict(self.config(scale))


def find(name: str) -> Experiment:
    """Look an experiment up by name.

    >>> find("spring_block/phase_diagram").source
    'spring-block FIG. 3'
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"name must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    module, attribute = EXPERIMENTS[name].split(":")
    experiment = getattr(importlib.import_module(f"dynascope.experiments.{module}"), attribute)
    assert isinstance(experiment, Experiment)
    return experiment


def names(family: str | None = None) -> list[str]:
    """List the experiments, of one family if given.

    >>> names("spring_block")[0]
    'spring_block/equilibrium'
    """
    families = sorted({name.split("/")[0] for name in EXPERIMENTS})
    if family is not None and family not in families:
        raise ValueError(f"family must be one of {', '.join(families)}, got {family!r}")
    return [name for name in EXPERIMENTS if family is None or name.startswith(f"{family}/")]


def headline(name: str) -> tuple[str, str]:
    """Source and title of an experiment.

    >>> headline("spring_block/phase_diagram")[0]
    'spring-block FIG. 3'
    """
    experiment = find(name)
    return experiment.source, experiment.title


def output_folder(root: Path, name: str, scale: str) -> Path:
    """Where the files of a run belong.

    >>> output_folder(Path("results"), "spring_block/phase_diagram", "smoke").as_posix()
    'results/spring_block/phase_diagram/smoke'
    """
    return root / name / scale
