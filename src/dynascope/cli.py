"""The command `dynascope`. Every command only calls public functions and prints what they return."""

import inspect
import json
import re
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
import xarray as xr
from rich.console import Console
from rich.table import Table

from dynascope import __version__
from dynascope.cli_data import data_app
from dynascope.experiments.registry import find, names
from dynascope.models.elastic import LocallyElastic
from dynascope.models.parameters import ParameterValue, grid
from dynascope.models.spring_block import SpringBlock
from dynascope.records import attribute, check_writable, digest, load, save, to_json, write_text

FAMILIES: dict[str, type[Any]] = {"spring-block": SpringBlock, "elastic": LocallyElastic}
_COLOURS = {"reproduced": "green", "erratum": "yellow", "not reproduced": "bold red", "not run": "dim"}

app = typer.Typer(
    help="See, model and forecast how neural networks learn.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
simulate_app = typer.Typer(help="Simulate a model family and write its record.", no_args_is_help=True)
app.add_typer(simulate_app, name="simulate")
estimate_app = typer.Typer(help="Estimate a model from measured paths.", no_args_is_help=True)
app.add_typer(estimate_app, name="estimate")
app.add_typer(data_app, name="data")

Place = Annotated[
    Path | None, typer.Option(help="Write the record (.nc), or also a picture (.png, .svg, .html), here.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def main() -> None:
    """Run the command line; errors of use are one sentence and exit status 2."""
    try:
        app()
    except (ValueError, FloatingPointError, OSError) as error:
        _complain(str(error))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        _complain(f"the run does not fit into memory; ask for fewer trials, grid points or saved times ({error})")


def _complain(sentence: str) -> None:
    line = " ".join(sentence.split())
    Console(stderr=True).print(f"[bold red]error:[/] {_escape(line)}", soft_wrap=True, highlight=False)
    sys.exit(2)


def _escape(text: str) -> str:
    return text.replace("[", r"\[")


def _say(line: str) -> None:
    """What is going on, for a person at a terminal."""
    console = Console(stderr=True)
    if console.is_terminal:
        console.print(line, style="dim", highlight=False)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def verify(
    family: Annotated[
        str | None, typer.Argument(help="A model family, such as spring_block; all if not given.")
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke, laptop or paper.")] = "laptop",
    figures: Annotated[
        bool, typer.Option(help="Also run the figures; else their claims are listed as not run.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="Write the claims to this JSON file.")] = None,
    as_json: Json = False,
) -> None:
    """Hold published equations and figures against simulation. Exit status 1 if a claim is not reproduced."""
    from dynascope.report import claims_json  # noqa: PLC0415 (imports matplotlib)
    from dynascope.report import verify as run_claims  # noqa: PLC0415

    if out is not None:
        check_writable(out)
    claims: list[Any] = []
    for name, judged in run_claims(family and family.replace("-", "_"), scale, figures=figures):
        _say(f"{name}: {', '.join(sorted({claim.verdict for claim in judged}))}")
        claims += judged
    if as_json:
        print(claims_json(claims))
    else:
        _print_claims(claims)
    if out is not None:
        write_text(out, claims_json(claims))
    _exit_by_verdict(claims)


def _print_claims(claims: Any) -> None:
    from dynascope.report import summary  # noqa: PLC0415 (imports matplotlib)

    table = Table(box=None, pad_edge=False)
    for title in ("verdict", "claim", "source", "measured against expected"):
        table.add_column(title, overflow="fold")
    for claim in claims:
        table.add_row(f"[{_COLOURS[claim.verdict]}]{claim.verdict}[/]", claim.id, claim.source, summary(claim))
    Console().print(table)


def _exit_by_verdict(claims: Any) -> None:
    if any(claim.verdict == "not reproduced" for claim in claims):
        raise typer.Exit(1)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, such as spring_block/phase_diagram.")] = None,
    scale: Annotated[str, typer.Option(help="smoke, laptop or paper.")] = "laptop",
    out: Annotated[Path, typer.Option(help="Folder below which the files are written.")] = Path("results"),
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    as_json: Json = False,
) -> None:
    """Run one figure or equation: record, picture, claims and report. Exit status 1 if a claim is not reproduced."""
    from dynascope.report import reproduce as run_experiment  # noqa: PLC0415 (imports matplotlib)

    if list_all:
        entries = [{"name": each, "source": find(each).source, "title": find(each).title} for each in names()]
        if as_json:
            print(to_json(entries))
        else:
            table = Table(box=None, pad_edge=False)
            for column in ("name", "source", "title"):
                table.add_column(column, no_wrap=column == "name")
            for entry in entries:
                table.add_row(*entry.values())
            Console().print(table)
        return
    if name is None:
        raise ValueError("name must be given; `dynascope reproduce --list` shows what there is")
    _say(f"running {name} at scale {scale} …")
    result = run_experiment(name, scale, out)
    files = {key: str(path) for key, path in result.files.items()}
    if as_json:
        claims = [claim.to_json() for claim in result.claims]
        print(to_json({"name": name, "scale": scale, "claims": claims, "files": files}))
    else:
        _print_claims(result.claims)
        for key in ("picture", "report"):
            print(f"{key}: {files[key]}")
    _exit_by_verdict(result.claims)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A record written by dynascope.")],
    out: Annotated[Path | None, typer.Option(help="Also draw it to this .png, .svg or .html file.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a record holds and where it comes from."""
    if out is not None:
        _check_picture(out)
    record = load(file)
    content = _describe(record)
    if out is not None:
        _draw(record, out)
    if as_json:
        print(to_json(content))
        return
    console = Console()
    console.print(
        f"[bold]{content['provenance'].get('model', 'record')}[/]  digest {content['digest'][:12]}",
        highlight=False,
    )
    for key, value in content["provenance"].items():
        console.print(f"  {key}: {_escape(json.dumps(value, ensure_ascii=False))}", highlight=False, soft_wrap=True)
    table = Table("variable", "dimensions", "least", "mean", "greatest", box=None, pad_edge=False)
    for name, entry in content["variables"].items():
        dims = ", ".join(f"{dim} {size}" for dim, size in entry["dimensions"].items())
        table.add_row(name, dims, *(f"{entry[k]:.4g}" if k in entry else "" for k in ("least", "mean", "greatest")))
    console.print(table)


def _describe(record: xr.Dataset) -> dict[str, Any]:
    return {
        "digest": digest(record),
        "provenance": {str(name): attribute(record, str(name)) for name in record.attrs},
        "variables": {
            str(name): {"dimensions": {str(dim): size for dim, size in array.sizes.items()}} | _range(array)
            for name, array in record.data_vars.items()
        },
    }


def _range(array: xr.DataArray) -> dict[str, float]:
    if array.dtype.kind not in "biuf" or array.size == 0:
        return {}
    return {"least": float(array.min()), "mean": float(array.mean()), "greatest": float(array.max())}


def _check_picture(path: Path) -> None:
    if path.suffix not in (".png", ".svg", ".html"):
        raise ValueError(f"out must end in .png, .svg or .html for a picture, got {path.name!r}")
    check_writable(path)


def _draw(record: xr.Dataset, out: Path) -> None:
    from dynascope.plots import plot_run, save_figure  # noqa: PLC0415 (imports matplotlib)
    from dynascope.report import html_report  # noqa: PLC0415

    if out.suffix == ".html":
        write_text(out, html_report(str(attribute(record, "model")), record, figure=plot_run(record)))
    else:
        save_figure(plot_run(record), out)


@app.command()
def cite(
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Write the BibTeX to this file.")] = None,
) -> None:
    """Print BibTeX entries for dynascope and for the papers behind its models."""
    text = resources.files("dynascope").joinpath("references.bib").read_text(encoding="utf-8")
    if out is not None:
        write_text(out, text)
    if as_json:
        entries = re.split(r"\n(?=@)", text.strip())
        keyed = {re.match(r"@\w+\{([^,]+),", entry)[1]: entry.strip() for entry in entries}  # type: ignore[index]
        print(to_json(keyed))
    else:
        print(text.strip())


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
    hidden = ("self", "progress", "unknown")
    runs = {k: v for k, v in inspect.signature(model.simulate).parameters.items() if k not in hidden}

    def command(**given: Any) -> None:
        out, as_json = given.pop("out"), given.pop("as_json")
        _check_place(out, family)
        values = {name: _value(name, given[name], makes[name]) for name in makes}
        varied = {
            name: value
            for name, value in values.items()
            if isinstance(value, np.ndarray) and makes[name].annotation == ParameterValue
        }
        run = model(**{**values, **grid(**varied)}).simulate(
            **{name: _value(name, given[name], runs[name]) for name in runs}
        )
        _write(run, out or Path("results") / f"{family}-{digest(run)[:12]}.nc", as_json=as_json)

    help_texts = _help_texts(model)
    flags = [_flag(name, parameter, help_texts.get(name, "")) for name, parameter in (makes | runs).items()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    flags += [
        inspect.Parameter("out", keyword, default=None, annotation=Place),
        inspect.Parameter("as_json", keyword, default=False, annotation=Json),
    ]
    command.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    command.__doc__ = (inspect.getdoc(model) or "").partition("\n")[0]
    return command


def _takes_text(parameter: inspect.Parameter) -> bool:
    return parameter.annotation in (ParameterValue, Any)


def _value(name: str, given: Any, parameter: inspect.Parameter) -> Any:
    """Numbers as numbers, "a,b;c,d" as a matrix; words are left to a parameter that takes more than numbers."""
    if not _takes_text(parameter) or given is None:
        return given
    if isinstance(parameter.default, int) and given.strip().isdigit():
        return int(given)
    try:
        rows = [parse_numbers(name, row) for row in given.split(";")]
        return rows[0] if len(rows) == 1 else np.array(rows)
    except ValueError:
        if parameter.annotation == ParameterValue:
            raise
        return given


def _flag(name: str, parameter: inspect.Parameter, text: str) -> inspect.Parameter:
    text_given = _takes_text(parameter)
    kind = (str | None) if text_given else parameter.annotation
    default = str(parameter.default) if text_given and parameter.default is not None else parameter.default
    note = " One number, a,b,c or first:last:count." if parameter.annotation == ParameterValue else ""
    option = typer.Option(f"--{name.replace('_', '-')}", help=text + note)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _help_texts(model: type[Any]) -> dict[str, str]:
    """Read "name: text" lines, and their indented continuations, from the docstrings."""
    text = (inspect.getdoc(model) or "") + "\n" + (inspect.getdoc(model.simulate) or "")
    found = re.findall(r"^(\w+): (.+(?:\n    .+)*)", text, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", words) for name, words in found}


def _check_place(out: Path | None, name: str) -> None:
    """Refuse, before any work, a file that cannot be written or drawn."""
    if out is not None and out.suffix != ".nc":
        _check_picture(out)
    check_writable(out or Path("results") / f"{name}.nc")


def _write(run: xr.Dataset, path: Path, *, as_json: bool) -> None:
    """Write the record, and a picture where the name asks for one; say where."""
    record = path if path.suffix == ".nc" else path.with_suffix(".nc")
    save(run, record)
    if path != record:
        _draw(run, path)
    if as_json:
        print(to_json({"record": str(record), **_describe(run)}))
    else:
        print(f"record: {record}" + (f"\npicture: {path}" if path != record else ""))


@estimate_app.command("elastic")
def estimate_elastic(
    file: Annotated[
        Path,
        typer.Argument(help="A record with class_mean over time, class, feature (trial); or .npz: times, class_means."),
    ],
    geometry: Annotated[str, typer.Option(help="logits or isotropic.")] = "logits",
    method: Annotated[str, typer.Option(help="exact or published.")] = "exact",
    reference_time: Annotated[float | None, typer.Option(help="Where estimates begin; found if not given.")] = None,
    window: Annotated[int | None, typer.Option(help="Points of the derivative's window; found if not given.")] = None,
    out: Place = None,
    as_json: Json = False,
) -> None:
    """Read the strengths of local elasticity, within and between classes, off measured class means."""
    from dynascope.models.elastic.recorded import estimate_recorded, load_class_means  # noqa: PLC0415 (scipy.signal)

    _check_place(out, "elastic-strengths")
    options = {"geometry": geometry, "method": method, "reference_time": reference_time, "window": window}
    found = estimate_recorded(load_class_means(file), **options)
    _write(found, out or Path("results") / f"elastic-strengths-{digest(found)[:12]}.nc", as_json=as_json)
    if not as_json:
        _print_strengths(found)


def _print_strengths(found: xr.Dataset) -> None:
    table = Table("strength", "integrated to the end", "95 % interval", "tail index", box=None, pad_edge=False)
    last = found.isel(time=-1)
    for name, title in (("intra", "within a class (α)"), ("inter", "between classes (β)"), ("gap", "difference")):
        key = f"integrated_{name}"
        interval = [float(last[f"{key}_{end}"]) for end in ("low", "high") if f"{key}_{end}" in last]
        span = f"{interval[0]:.4g} … {interval[1]:.4g}" if interval else ""
        tail = f"tail_index_{name}"
        table.add_row(title, f"{float(last[key]):.4g}", span, f"{float(found[tail]):.3g}" if tail in found else "")
    console = Console()
    console.print(table)
    verdict = "ok" if bool(found["ok"]) else f"not ok: {found.attrs['reason']}"
    console.print(f"from time {float(found['reference_time']):g} on; {verdict}", highlight=False, soft_wrap=True)


for _family, _model in FAMILIES.items():
    simulate_app.command(_family)(simulate_command(_family, _model))
