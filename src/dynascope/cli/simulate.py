"""`dynascope simulate FAMILY`: one command for each model, made from its signature."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer

from dynascope.budget import unlimited
from dynascope.checks import ArrayLike
from dynascope.cli.options import AsJson, NoLimit, Place
from dynascope.cli.output import check_place, write
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.elastic import LocallyElastic
from dynascope.models.linear_modes import ScalarNetwork
from dynascope.models.mode_equation import ModeEquation
from dynascope.models.multilinear import Multilinear
from dynascope.models.parameters import ParameterValue, grid
from dynascope.models.spring_block import SpringBlock
from dynascope.records import digest

FAMILIES: dict[str, type[Any]] = {
    "spring-block": SpringBlock,
    "elastic": LocallyElastic,
    "deep-linear": DeepLinear,
    "mode": ModeEquation,
    "scalar-network": ScalarNetwork,
    "multilinear": Multilinear,
}
app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def simulate() -> None:
    """Simulate a model family and write its record."""


def parse_numbers(name: str, text: str) -> float | np.ndarray:
    """Read one number, a list "0,0.1,0.2" or a range "first:last:count".

    >>> parse_numbers("noise", "0:0.1:3")
    array([0.  , 0.05, 0.1 ])
    """
    try:
        if ":" in text:
            first, last, count = text.split(":")
            if not 1 <= int(count) <= 10_000:
                raise ValueError("a range has from 1 to 10,000 values")
            return np.linspace(float(first), float(last), int(count))
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{name} must be a number, a list a,b,c or a range first:last:count, got {text!r}") from error
    return np.array(values) if "," in text else values[0]


def simulate_command(family: str, model: type[Any]) -> Callable[..., None]:
    """Build the command of a family: one flag for each parameter of the model and of its simulation.

    >>> "friction_right" in inspect.signature(simulate_command("spring-block", SpringBlock)).parameters
    True
    """
    makes = dict(inspect.signature(model).parameters)
    hidden = ("self", "progress")
    runs = {k: v for k, v in inspect.signature(model.simulate).parameters.items() if k not in hidden}

    def command(**given: Any) -> None:
        out, as_json, no_limit = given.pop("out"), given.pop("as_json"), given.pop("no_limit")
        check_place(out, family)
        values = {name: _value(name, given[name], makes[name]) for name in makes}
        varied = {
            name: value
            for name, value in values.items()
            if isinstance(value, np.ndarray) and makes[name].annotation == ParameterValue
        }
        with unlimited(no_limit):
            run = model(**{**values, **grid(**varied)}).simulate(
                **{name: _value(name, given[name], runs[name]) for name in runs}
            )
        write(run, out or Path("results") / f"{family}-{digest(run)[:12]}.nc", as_json=as_json)

    help_texts = _help_texts(model)
    flags = [_flag(name, parameter, help_texts.get(name, "")) for name, parameter in (makes | runs).items()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    flags += [
        inspect.Parameter("out", keyword, default=None, annotation=Place),
        inspect.Parameter("no_limit", keyword, default=False, annotation=NoLimit),
        inspect.Parameter("as_json", keyword, default=False, annotation=AsJson),
    ]
    command.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    command.__doc__ = (inspect.getdoc(model) or "").partition("\n")[0]
    return command


def _takes_text(parameter: inspect.Parameter) -> bool:
    """Whether a flag's text is read here: typer reads what is one number, one word or a switch."""
    plain = {int, float, bool, str, type(None)}
    return not {*(get_args(parameter.annotation) or (parameter.annotation,))} <= plain


def _value(name: str, given: object, parameter: inspect.Parameter) -> object:
    """Numbers as numbers, "a,b;c,d" as a matrix; words are left to a parameter that takes more than numbers."""
    if not _takes_text(parameter) or not isinstance(given, str):
        return given
    if isinstance(parameter.default, int) and given.strip().isdigit():
        return int(given)
    try:
        rows = [parse_numbers(name, row) for row in given.split(";")]
        if len({np.shape(row) for row in rows}) > 1:
            raise ValueError(f"{name} must have rows of one length, got {given!r}")
        return rows[0] if len(rows) == 1 else np.array(rows)
    except ValueError:
        if parameter.annotation == ParameterValue:
            raise
        return given


def _flag(name: str, parameter: inspect.Parameter, text: str) -> inspect.Parameter:
    text_given = _takes_text(parameter)
    kind = (str | None) if text_given else parameter.annotation
    default = _as_text(parameter.default) if text_given else parameter.default
    note = " One number, a,b,c or first:last:count." if parameter.annotation == ParameterValue else ""
    option = typer.Option(f"--{name.replace('_', '-')}", help=text + note)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _as_text(default: ArrayLike | None) -> str | None:
    """A default as a user would type it."""
    return default if default is None else ",".join(map(str, np.ravel(default).tolist()))


def _help_texts(model: type[Any]) -> dict[str, str]:
    """Read "name: text" lines, and their indented continuations, from the docstrings."""
    text = (inspect.getdoc(model) or "") + "\n" + (inspect.getdoc(model.simulate) or "")
    found = re.findall(r"^(\w+): (.+(?:\n    .+)*)", text, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", words) for name, words in found}


for _family, _model in FAMILIES.items():
    app.command(_family)(simulate_command(_family, _model))
