"""`dynascope estimate FAMILY FILE`: read a model off measured paths."""

from pathlib import Path
from typing import Annotated

import typer
import xarray as xr
from rich.table import Table

from dynascope.cli.options import AsJson, Place
from dynascope.cli.output import check_place, write
from dynascope.cli.terminal import plain_console
from dynascope.models.elastic.recorded import estimate_recorded, load_class_means
from dynascope.models.spring_block.estimate import estimate_chain
from dynascope.records import digest, load

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def estimate() -> None:
    """Estimate a model from measured paths."""


@app.command("elastic")
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
    as_json: AsJson = False,
) -> None:
    """Read the strengths of local elasticity, within and between classes, off measured class means.

    Exit status 1 if they are not ok.
    """
    check_place(out, "elastic-strengths")
    options = {"geometry": geometry, "method": method, "reference_time": reference_time, "window": window}
    found = estimate_recorded(load_class_means(file), **options)
    write(found, out or Path("results") / f"elastic-strengths-{digest(found)[:12]}.nc", as_json=as_json)
    if not as_json:
        _print_strengths(found)
    if not bool(found["ok"]):
        raise typer.Exit(1)


@app.command("spring-block")
def estimate_spring_block(
    file: Annotated[Path, typer.Argument(help="A record with load over time, layer (trial): simulated or measured.")],
    time_scale: Annotated[float | None, typer.Option(help="Model time per unit of time; fitted if not given.")] = None,
    target: Annotated[float | None, typer.Option(help="Distance to the target from layer 0; else fitted.")] = None,
    dt: Annotated[float, typer.Option(help="Window of the noise, in model time.")] = 0.01,
    out: Place = None,
    as_json: AsJson = False,
) -> None:
    """Fit the friction and noise of the spring-block chain to measured load curves. Exit status 1 if not ok."""
    check_place(out, "chain-fit")
    record = load(file)
    if "load" not in record:
        raise ValueError(f"{file} must hold load over time and layer, it holds {', '.join(map(str, record)) or 'none'}")
    found = estimate_chain(record["load"], time_scale=time_scale, target=target, dt=dt)
    write(found, out or Path("results") / f"chain-fit-{digest(found)[:12]}.nc", as_json=as_json)
    if not as_json:
        _print_chain(found)
    if not bool(found["ok"]):
        raise typer.Exit(1)


def _print_chain(found: xr.Dataset) -> None:
    table = Table("parameter", "value", "95 % interval", box=None, pad_edge=False)
    for name in ("friction_right", "friction_left", "noise", "friction_difference", "time_scale", "target"):
        low, high = (float(found[f"{name}_{end}"]) for end in ("low", "high"))
        table.add_row(found[name].attrs["long_name"], f"{float(found[name]):.4g}", f"{low:.4g} … {high:.4g}")
    console = plain_console()
    console.print(table)
    verdict = "ok" if bool(found["ok"]) else f"not ok: {found.attrs['reason']}"
    console.print(f"residual {float(found['residual']):.3g}; {verdict}", highlight=False, soft_wrap=True)


def _print_strengths(found: xr.Dataset) -> None:
    table = Table("strength", "integrated to the end", "95 % interval", "tail index", box=None, pad_edge=False)
    last = found.isel(time=-1)
    for name, title in (("intra", "within a class (α)"), ("inter", "between classes (β)"), ("gap", "difference")):
        key = f"integrated_{name}"
        interval = [float(last[f"{key}_{end}"]) for end in ("low", "high") if f"{key}_{end}" in last]
        span = f"{interval[0]:.4g} … {interval[1]:.4g}" if interval else ""
        tail = f"tail_index_{name}"
        table.add_row(title, f"{float(last[key]):.4g}", span, f"{float(found[tail]):.3g}" if tail in found else "")
    console = plain_console()
    console.print(table)
    verdict = "ok" if bool(found["ok"]) else f"not ok: {found.attrs['reason']}"
    console.print(f"from time {float(found['reference_time']):g} on; {verdict}", highlight=False, soft_wrap=True)
