"""`dynascope imitate`: networks, a model that imitates them, and how well it does."""

from pathlib import Path
from typing import Annotated

import typer
import xarray as xr
from rich.table import Table

import dynascope
from dynascope import plots
from dynascope.budget import unlimited
from dynascope.cli.options import AsJson, NoLimit, refuse_given
from dynascope.cli.terminal import plain_console, say
from dynascope.imitation.pipeline import Training, imitate_to, train
from dynascope.imitation.procedure import Options, check_options
from dynascope.imitation.runs import Recorded, class_means
from dynascope.imitation.summary import EXPLAINED, HEAD, sentences, table
from dynascope.locks import held_lock
from dynascope.records import check_writable, digest, to_json, write_text
from dynascope.schema import content_of

app = typer.Typer(add_completion=False)
Runs = Annotated[
    list[Path] | None,
    typer.Argument(help="Records of Ensemble.train or watched runs; if not given, networks are trained."),
]


@app.command()
def imitate(
    context: typer.Context,
    run: Runs = None,
    data: Annotated[str, typer.Option(help="Train on geomnist, mnist, fashion, cifar10 or digits.")] = "geomnist",
    trials: Annotated[int, typer.Option(help="Networks to train.")] = 16,
    steps: Annotated[int, typer.Option(help="Training steps of each network, one image a step.")] = 4000,
    per_class: Annotated[int, typer.Option(help="Training images in each of three classes.")] = 500,
    learning_rate: Annotated[float, typer.Option(help="Of plain SGD.")] = 0.005,
    geometry: Annotated[
        str, typer.Option(help="isotropic, logits, mixture, softmax, general, kernel; several as a,b; or all.")
    ] = "all",
    procedure: Annotated[str, typer.Option(help="followed, or published (Euler, one scalar).")] = "followed",
    reference_time: Annotated[float | None, typer.Option(help="Where imitation begins; found if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Of networks, splits, bootstrap and SDE.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for records, pictures and report.")] = Path("results/imitation"),
    no_limit: NoLimit = False,
    as_json: AsJson = False,
) -> None:
    """Train networks (or take recorded ones), estimate a locally elastic model and show how well it imitates them.

    An interrupted command goes on where it stopped when it is called again; what is finished is not done again.
    """
    check_writable(out / "report.html")
    names = geometry.split(",") if "," in geometry else geometry
    options: Options = {"procedure": procedure, "reference_time": reference_time, "seed": seed}
    check_options(names, **options)
    training = Training(data, trials, steps, per_class, learning_rate, seed)
    if run:
        refuse_given(context, ("data", "trials", "steps", "per_class", "learning_rate"), "where runs are given")
        class_means(run)  # what cannot be read is refused before a folder is made
    out.mkdir(parents=True, exist_ok=True)
    with held_lock(out / ".lock") as held, unlimited(no_limit):
        if not held:
            raise ValueError(f"--out must be a folder where no imitation is running, got {str(out)!r}, where one is")
        recorded: Recorded | None = run
        if not recorded:
            say(f"training {trials} networks on {data} for {steps} steps …")
            recorded = train(training, out)
        say("imitating …")
        result, _ = imitate_to(out, recorded, names, **options)
        with content_of(str(out / "imitation.nc")):  # which may have been there
            files = _draw(result, out)
            _tell(result, files, as_json=as_json)


def _tell(result: xr.Dataset, files: dict[str, Path], *, as_json: bool) -> None:
    if as_json:
        rows = [dict(zip(HEAD, row, strict=True)) for row in table(result)]
        print(to_json({"table": rows, "findings": sentences(result), "files": {k: str(v) for k, v in files.items()}}))
        return
    _print(result)
    for name, path in files.items():
        print(f"{name}: {path}")


def _draw(result: xr.Dataset, out: Path) -> dict[str, Path]:
    """Pictures and report, which is written last and names its result; those of the same result are kept."""
    files = {"picture": out / "imitation.png", "report": out / "report.html"}
    if not files["report"].is_file() or digest(result) not in files["report"].read_text("utf-8", "replace"):
        figure = plots.plot_imitation(result)
        plots.save_figure(figure, files["picture"])
        plots.save_figure(figure, files["picture"].with_suffix(".svg"))
        write_text(files["report"], dynascope.report.imitation_report(result, figure=files["picture"]))
    networks = {"networks": out / "networks.nc"} if (out / "networks.nc").is_file() else {}
    return {**networks, "record": out / "imitation.nc", **files}


def _print(result: xr.Dataset) -> None:
    console = plain_console()
    begin, ahead = float(result["reference_time"]), float(result["forecast_time"])
    console.print(f"{EXPLAINED} From step {begin:g} on; forecasts from step {ahead:g} on.", highlight=False)
    shown = Table(box=None, pad_edge=False)
    for title in HEAD:
        shown.add_column(title, justify="left" if title in HEAD[:2] else "right", no_wrap=title in HEAD[:2])
    for row in table(result):
        shown.add_row(*row)
    console.print(shown)
    for each in sentences(result):
        console.print(f"- {each}", highlight=False, soft_wrap=True)
