"""`dynascope forecast`: the rest of a training run."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import xarray as xr
from rich.table import Table

import dynascope
from dynascope import plots
from dynascope.cli.options import AsJson
from dynascope.cli.terminal import plain_console
from dynascope.forecasting.forecasts import quantity_of
from dynascope.records import Json, check_writable, save, to_json

app = typer.Typer(add_completion=False)
_ROWS = 8
_LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)
_WEIGHTY = 0.05  # candidates below it are not named


@app.command()
def forecast(
    run: Annotated[Path, typer.Argument(help="A watched run, a record, a .csv, .json or .jsonl log, or event files.")],
    until: Annotated[float | None, typer.Option(help="Last step; twice the last one seen if not given.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Future learning rates: constant, cosine, linear, wsd:START, or a table's file.")
    ] = None,
    quantity: Annotated[str | None, typer.Option(help="What is forecast, the loss by default.")] = None,
    like: Annotated[Path | None, typer.Option(help="Folder of earlier runs that show how this one may go on.")] = None,
    reach: Annotated[float | None, typer.Option(help="A value: how likely it is reached, and when.")] = None,
    seen: Annotated[
        float | None, typer.Option(help="Share of a finished run to look at; its end is forecast and judged.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for record and pictures.")] = Path("results/forecast"),
    as_json: AsJson = False,
) -> None:
    """Forecast a quantity of a training run: quantiles over future steps, or why there is no forecast."""
    files = {"record": out / "forecast.nc", "picture": out / "forecast.png"}
    for path in files.values():
        check_writable(path)
    result = dynascope.forecast(
        run, until=until, schedule=schedule, quantity=quantity, like=like, reach=reach, seen=seen
    )
    save(result, files["record"])
    figure = plots.plot_forecast(result, later=None if seen is None else run)
    for suffix in (".png", ".svg"):
        plots.save_figure(figure, files["picture"].with_suffix(suffix))
    if as_json:
        print(to_json(_described(result) | {"files": {name: str(path) for name, path in files.items()}}))
        return
    _print(result)
    for name, path in files.items():
        print(f"{name}: {path}")


def _described(result: xr.Dataset) -> dict[str, Json]:
    name = quantity_of(result)
    content = {"sentence": result.attrs["sentence"], "refused": result.attrs["refused"]}
    shown = ("step", "quantile", name, *(each for each in ("reached",) if each in result))
    return content | {each: result[each].values.tolist() for each in shown} | {"weights": _weights(result)}


def _weights(result: xr.Dataset) -> dict[str, float]:
    """Candidates that count at the end, the heaviest first; of several trials their mean."""
    end = result["weight"].isel(step=-1)
    mean = end.values if "trial" not in end.dims else end.transpose("trial", "candidate").values.mean(0)
    order = np.argsort(-np.nan_to_num(mean))
    return {str(end["candidate"].values[at]): float(mean[at]) for at in order if mean[at] > _WEIGHTY}


def _print(result: xr.Dataset) -> None:
    console = plain_console()
    console.print(_table(result))
    console.print(result.attrs["sentence"], highlight=False, soft_wrap=True)
    if weights := _weights(result):
        told = ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items())
        console.print(f"by: {told}", highlight=False, soft_wrap=True)


def _table(result: xr.Dataset) -> Table:
    """Some of the future steps; of several trials, the last step of each."""
    along = "trial" if "trial" in result.dims else "step"
    values = result[quantity_of(result)].sel(quantile=list(_LEVELS))
    chances = result.get("reached")
    if along == "trial":
        values, chances = values.isel(step=-1), None if chances is None else chances.isel(step=-1)
    size = result.sizes[along]
    places = np.arange(size) if along == "trial" else np.unique(np.linspace(0, size - 1, _ROWS).round().astype(int))
    shown = Table(box=None, pad_edge=False)
    heads = [f"{level:.1%}".replace(".0%", "%") for level in _LEVELS] + (["reached"] if chances is not None else [])
    for title in (along, *heads):
        shown.add_column(title, justify="right", no_wrap=True)
    for place in places:
        label = f"{place if along == 'trial' else float(result['step'][place]):.12g}"
        row = [f"{each:.5g}" for each in values.isel({along: place}).values]
        shown.add_row(label, *row, *([] if chances is None else [f"{float(chances[place]):.0%}"]))
    return shown
