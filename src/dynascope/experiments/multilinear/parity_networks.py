"""Two-layer networks on multitask sparse parity, with one skill and with several, and what is foreseen from the one."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from dynascope import networks
from dynascope.data.parity import SparseParity
from dynascope.experiments.multilinear.forecasts import FORMS, forecast

LABELS = {"time": "time T (training steps)", "data": "data D (samples)", "parameters": "hidden units N"}


@dataclass(frozen=True)
class Part:
    """One resource: where it is measured with all skills and with one alone, and how networks are trained."""

    x: tuple[int, ...]  # steps, sizes of training sets, or widths
    alone: tuple[int, ...]
    trials: int
    batch_size: int
    learning_rate: float = 0.05
    width: int = 0  # where x are not widths
    steps: int = 0  # where x are not steps
    alone_steps: int = 0
    initial: float = 0.0  # where it is not that of the config; likewise the next
    weight_decay: float = 0.0
    decay: float = 1.0
    decay_every: int = 1
    full_batch: bool = False


def narrow_by_code(alone: tuple[int, ...], trials: int, batch_size: int, alone_steps: int) -> Part:
    """Narrow networks on one skill as the authors' code trains them."""
    return Part(
        (),
        alone,
        trials,
        batch_size,
        alone_steps=alone_steps,
        initial=0.05,
        weight_decay=0.005,
        decay=0.995,
        decay_every=500,
    )


def data_by_code(alone: tuple[int, ...], steps: int, trials: int, width: int) -> Part:
    """Wide networks on training sets of one skill by the authors' code: a small start, whole sets, halved rates."""
    return Part(
        (),
        alone,
        trials,
        max(alone),
        width=width,
        alone_steps=steps,
        initial=0.001,
        decay=0.5,
        decay_every=steps // 3,
        full_batch=True,
    )


def doubled(first: int, count: int) -> tuple[int, ...]:
    """Numbers that double from the first on."""
    return tuple(first * 2**power for power in range(count))


def every(step: int, last: int) -> tuple[int, ...]:
    """0, and every so many steps up to the last."""
    return tuple(range(0, last + 1, step))


def up_to(last: int) -> tuple[int, ...]:
    """1, 2, … up to the last."""
    return tuple(range(1, last + 1))


@dataclass(frozen=True)
class Config:
    """Skills of m = 3 among n_b random bits, α = 0.6, S = 5; all weights start as Gaussians of deviation `initial`."""

    time: Part
    data: Part
    parameters: Part
    code: Part
    code_data: Part
    skills: int = 3
    bits: int = 16
    relevant: int = 3
    skill_exponent: float = 0.6
    target: float = 5.0
    initial: float = 0.01
    weight_decay: float = 5e-5  # of Adam, which trains the narrow networks; the others have plain SGD without
    samples: int = 1024  # inputs of each skill on which strengths are measured
    table_width: int = 10  # of Table 5.1
    as_printed: bool = False  # whether task and networks have the size in print
    seed: int = 51


def run(config: Config) -> xr.Dataset:
    """Train networks on one skill and on several, for each resource, and foresee the several from the one."""
    by_code = (_by_code(config, name, kind) for name, kind in (("code", "parameters"), ("code_data", "data")))
    record = xr.merge([*(_measure(config, kind) for kind in LABELS), *by_code])
    kept = ("skill_exponent", "target", "initial", "table_width", "as_printed")
    record = record.assign(
        {name: getattr(config, name) for name in kept} | {"learning_rate": config.time.learning_rate}
    )
    numbers: dict[str, xr.DataArray] = {}
    for form, name in (("parameters", "code"), ("data_printed", "code_data")):
        kind = FORMS[form]
        other = record.drop_dims(f"alone_{kind}").assign({f"{kind}_alone": record[f"{name}_alone"]})
        found = forecast(other.rename({f"alone_{name}": f"alone_{kind}"}), form)
        numbers |= {f"{name}_{each}": found[f"{form}_{each}"] for each in ("value", "standard_error")}
    forecasts = [forecast(record, form) for form in FORMS]
    return xr.merge([record.assign(numbers), *forecasts])


def _by_code(config: Config, name: str, kind: str) -> xr.Dataset:
    """Strengths R/S of one skill alone with the settings of the authors' code: `…_alone` (…_trial, alone_…)."""
    part: Part = getattr(config, name)
    own = replace(config, initial=part.initial, weight_decay=part.weight_decay)
    found = _strengths(own, part, kind, skills=1, x=part.alone, steps=part.alone_steps)
    alone = found.sel(skill=1, drop=True).rename({kind: f"alone_{name}", f"{kind}_trial": f"{name}_trial"})
    return xr.Dataset({f"{name}_alone": alone})


def _measure(config: Config, kind: str) -> xr.Dataset:
    """Strengths R/S of all skills, `…_strength` (trial, skill, x), and of one alone, `…_alone` (trial, x)."""
    part: Part = getattr(config, kind)
    several = _strengths(config, part, kind, skills=config.skills, x=part.x, steps=part.steps)
    one = _strengths(config, part, kind, skills=1, x=part.alone, steps=part.alone_steps)
    alone = one.sel(skill=1, drop=True).rename({kind: f"alone_{kind}"})
    return xr.Dataset({f"{kind}_strength": several.transpose(..., "skill", kind), f"{kind}_alone": alone})


def _strengths(config: Config, part: Part, kind: str, *, skills: int, x: tuple[int, ...], steps: int) -> xr.DataArray:
    """Train networks on some skills and give R/S (…_trial, x, skill) at the places x of a resource."""
    narrow = kind == "parameters"
    settings = networks.parity.ParitySettings(
        SparseParity(skills, config.bits, config.relevant, config.skill_exponent),
        trials=part.trials,
        batch_size=part.batch_size,
        learning_rate=part.learning_rate,
        target=config.target,
        initial=config.initial,
        seed=config.seed,
        widths=x if narrow else (part.width,),
        data=x if kind == "data" else (),
        optimizer="adam" if narrow else "sgd",
        weight_decay=config.weight_decay if narrow else 0.0,
        **{name: getattr(part, name) for name in ("decay", "decay_every", "full_batch")},
    )
    trained = networks.parity.train_parity(settings, x if kind == "time" else [steps], samples=config.samples)
    axes, labels = ("data", f"{kind}_trial", "parameters", "time", "skill"), np.arange(1, skills + 1)
    strength = xr.DataArray(trained["strength"], dims=axes, coords={"skill": labels, kind: list(x)})
    return strength.isel({axis: 0 for axis in ("data", "parameters", "time") if axis != kind})
