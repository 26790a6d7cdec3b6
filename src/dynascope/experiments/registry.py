"""What can be run: experiments by name. Listing them reads the first lines of their files and imports nothing heavy.

An experiment `family/name` is `EXPERIMENT` in `family/name.py`; the docstring of that file begins with its source and
title, and `NAMES` in the family's package lists its experiments in order.
"""

import ast
import importlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynascope.experiments.experiment import Experiment

FAMILIES = (
    "deep_linear",
    "multilinear",
    "spring_block",
    "phases",
    "elastic",
    "linear_modes",
    "features",
    "regimes",
    "health",
    "steering",
    "forecasts",
)
_HERE = Path(__file__).parent


def names(family: str | None = None) -> list[str]:
    """List the experiments, of one family if given.

    >>> names("spring_block")[0]
    'spring_block/equilibrium'
    """
    if family is not None and family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(sorted(FAMILIES))}, got {family!r}")
    chosen = FAMILIES if family is None else (family,)
    return [f"{each}/{name}" for each in chosen for name in importlib.import_module(f"{__package__}.{each}").NAMES]


def headline(name: str) -> tuple[str, str]:
    """Source and title of an experiment, from the first line of its file, which is not imported.

    >>> headline("spring_block/left_friction")
    ('spring-block Figure 5(b)', 'Friction to the left alone')
    """
    _check(name)
    text = ast.get_docstring(ast.parse((_HERE / f"{name}.py").read_text(encoding="utf-8"))) or ""
    source, _, title = text.split("\n\n")[0].replace("\n", " ").partition(": ")
    return source, title.removesuffix(".")


def find(name: str) -> "Experiment":
    """Look an experiment up by name.

    >>> str(find("spring_block/phase_diagram").source)
    'spring-block Figure 3'
    """
    _check(name)
    module = importlib.import_module(f"{__package__}.{name.replace('/', '.')}")
    declared: Experiment = module.EXPERIMENT
    return replace(declared, name=name, title=headline(name)[1])


def output_folder(root: Path, name: str, scale: str) -> Path:
    """Where the files of a run belong.

    >>> output_folder(Path("results"), "spring_block/phase_diagram", "smoke").as_posix()
    'results/spring_block/phase_diagram/smoke'
    """
    return root / name / scale


def _check(name: str) -> None:
    known = names()
    if name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}")
