"""The commands `dynascope sweep`: run an experiment over a grid, see how far it is, run failures again, gather."""

import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr
from rich.table import Table
from typer.core import TyperGroup

from dynascope.cli.commands import Stopped
from dynascope.cli.options import AsJson, refuse_given
from dynascope.cli.output import describe
from dynascope.cli.simulate import FAMILIES, parse_numbers
from dynascope.cli.terminal import plain_console
from dynascope.experiments.registry import find, names
from dynascope.progress import duration, progress_bar
from dynascope.records import Json, save, to_json
from dynascope.sweep import Slurm, Ssh, asked, gather, status
from dynascope.sweep import sweep as run_sweep
from dynascope.sweep.running import HERE, watch_status
from dynascope.sweep.workload import Workload, as_workload

_PAUSE = 1.0  # seconds between two looks at a sweep that goes on
Word = bool | int | float | str | None  # what a user can type as a value
# where things have gone that the folders of older sweeps name
_MOVED = {"dynascope.experiments.phases.training": "dynascope.experiments.phases.load_curves"}


class _RunByDefault(TyperGroup):
    """`sweep EXPERIMENT …` is `sweep run EXPERIMENT …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(add_completion=False, no_args_is_help=True, cls=_RunByDefault)
Folder = Annotated[Path, typer.Argument(help="The folder of the sweep.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="here, slurm, ssh, a Dask scheduler's address (tls://host:8786) or .json file; else a worker on each core."
    ),
]
Workers = Annotated[int | None, typer.Option(help="Number of workers on this machine, in each job, or on each host.")]
Jobs = Annotated[
    int | None, typer.Option(help="slurm: number of jobs at a time; one that ends is followed by another.")
]
Partition = Annotated[str | None, typer.Option(help="slurm: where the jobs go.")]
Walltime = Annotated[str | None, typer.Option(help="slurm: time of a job, hours:minutes:seconds; 30 minutes.")]
Memory = Annotated[str | None, typer.Option(help="slurm: memory of a job, such as 4GB.")]
Gpu = Annotated[bool, typer.Option("--gpu", help="slurm: each job gets a GPU.")]
Hosts = Annotated[str | None, typer.Option(help="ssh: machines with a worker each, a,b,c; twice means two.")]
SshCommand = Annotated[str, typer.Option("--ssh", help="ssh: the program with its options, 'ssh -F config -p 2222'.")]
Listen = Annotated[str | None, typer.Option(help="slurm, ssh: address of this machine that workers can reach.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for the scheduler's answer.")]
Trust = Annotated[
    bool, typer.Option("--trust-network", help="Accept a scheduler without TLS, to which anyone can give work.")
]


@app.callback()
def sweep() -> None:
    """Run an experiment over a grid of parameters; stop and go on at will."""


@app.command()
def run(
    context: typer.Context,
    experiment: Annotated[
        str, typer.Argument(help="An experiment (`reproduce --list`), a model family, or your own as module:function.")
    ],
    grid: Annotated[list[str], typer.Option(help="name=a,b,c or name=first:last:count; all combinations of several.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results; sweeps/EXPERIMENT if not given.")] = None,
    seeds: Annotated[str | None, typer.Option(help="How many, from 0; or a list a,b,c.")] = None,
    fixed: Annotated[list[str] | None, typer.Option("--set", help="name=value of a parameter not in the grid.")] = None,
    scale: Annotated[str, typer.Option(help="Whose config gives an experiment's other parameters.")] = "laptop",
    scheduler: Scheduler = None,
    workers: Workers = None,
    jobs: Jobs = None,
    partition: Partition = None,
    walltime: Walltime = None,
    memory: Memory = None,
    gpu: Gpu = False,
    hosts: Hosts = None,
    ssh: SshCommand = "ssh",
    listen: Listen = None,
    pack_seconds: Annotated[
        float | None, typer.Option(help="Length of a packed task on one core; 30, with a GPU 3000.")
    ] = None,
    timeout: Timeout = 10.0,
    trust_network: Trust = False,
    price: Annotated[
        float | None, typer.Option(help="Of one worker for an hour; what the sweep will take and cost is then said.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run what is not yet finished. `dynascope sweep EXPERIMENT …` does the same. Exit status 1 if a task failed."""
    place = out or Path("sweeps") / experiment.replace("/", "-").replace(":", "-")
    workload = _find(experiment, scale)
    _refuse_idle(context, scheduler)
    if experiment not in names():
        refuse_given(context, ["scale"], "for what has no config")
    if workload.seconds is None:
        refuse_given(context, ["pack_seconds"], "for what is not packed")
    with _in_one_sentence(place):
        table = run_sweep(
            workload,
            {name: parse_values(name, text) for name, text in _named("grid", grid)},
            place,
            seeds=_seeds(seeds),
            fixed={name: _value(text) for name, text in _named("set", fixed or [])},
            **_where(context),
            pack_seconds=pack_seconds,
            timeout=timeout,
            trust_network=trust_network,
            price=price,
            reference={"name": experiment, "scale": scale},
        )
    _finish(table, place, as_json=as_json)


@app.command("status")
def show_status(
    context: typer.Context,
    out: Folder,
    watch: Annotated[bool, typer.Option("--watch", help="Look again until the sweep ends.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say how many tasks are finished, failed and missing, how long the rest takes, and why tasks failed."""
    if watch:
        refuse_given(context, ["as_json"], "with --watch")
    found = _watched(out) if watch else status(out)
    if as_json:
        print(to_json(found))
        return
    print(_line(found))
    if found["failures"]:
        table = Table("configuration", "error", box=None, pad_edge=False)
        for each in found["failures"]:
            table.add_row(json.dumps(each["configuration"]), each["error"])
        plain_console().print(table)
        print(f"tracebacks: {out / 'failures'}")


def _watched(out: Path) -> dict[str, Json]:
    """Show how far a sweep is until it ends: a bar on a terminal, elsewhere a line when it has moved."""
    last: dict[str, Json] = {}
    terminal = sys.stderr.isatty()
    with ExitStack() as stack:
        report = None
        for found in watch_status(out, _PAUSE):
            if terminal:
                report = report or stack.enter_context(progress_bar("sweep", found["tasks"], show=True))
                report(found["tasks"] - found["missing"], partial(_line, found))
            elif last and found["missing"] != last["missing"]:
                print(_line(last), flush=True)
            last = found
    return last


def _line(found: dict[str, Json]) -> str:
    counts = ", ".join(f"{found[kind]} {kind}" for kind in ("finished", "failed", "missing"))
    line = f"{found['experiment']}: {counts} of {found['tasks']}; {'running' if found['running'] else 'not running'}"
    if not found["missing"]:
        return line
    if found["running"] and found["left_seconds"] is not None:
        return f"{line}, about {duration(found['left_seconds'])} left"
    if found["left_work_seconds"] is not None:
        return f"{line}, about {duration(found['left_work_seconds'])} of work on one core left"
    return line


@app.command()
def retry(
    context: typer.Context,
    out: Folder,
    experiment: Annotated[
        str | None, typer.Argument(help="For code of your own: the module:function that the sweep runs.")
    ] = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    jobs: Jobs = None,
    partition: Partition = None,
    walltime: Walltime = None,
    memory: Memory = None,
    gpu: Gpu = False,
    hosts: Hosts = None,
    ssh: SshCommand = "ssh",
    listen: Listen = None,
    timeout: Timeout = 10.0,
    trust_network: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Run again what failed, and what is missing, with the code as it is now; what is finished stays."""
    request = asked(out)
    reference = request.pop("reference")
    if reference is None:
        raise ValueError("this sweep was started from a script: add retry=True there and run it again")
    recorded, scale = reference.get("name", ""), reference.get("scale", "laptop")
    if experiment is None and recorded not in (*names(), *FAMILIES):  # a folder holds data, no code
        raise ValueError(
            f"experiment must be named here, since this sweep runs code of your own, {recorded!r}, and a folder is not "
            f"trusted to say which: dynascope sweep retry {out} module:function"
        )
    if experiment is not None and experiment != recorded:
        raise ValueError(f"experiment must be the one that this sweep runs, {recorded!r}, got {experiment!r}")
    workload = _find(recorded, scale)
    _refuse_idle(context, scheduler)
    with _in_one_sentence(out):
        table = run_sweep(
            workload,
            request["grid"],
            out,
            seeds=request["seeds"],
            fixed=request["fixed"],
            **_where(context),
            timeout=timeout,
            trust_network=trust_network,
            retry=True,
            reference=reference,
        )
    _finish(table, out, as_json=as_json)


@app.command("gather")
def gather_results(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="The record to write; table.nc in the folder if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write what is finished as one record over the grid."""
    _write(gather(folder), out or folder / "table.nc", as_json=as_json)


_SLURM, _SSH = "slurm", "ssh"
_STARTED = {_SLURM: ("jobs", "partition", "walltime", "memory", "gpu"), _SSH: ("hosts", "ssh")}  # options of each


def _refuse_idle(context: typer.Context, scheduler: str | None) -> None:
    """Options about workers and schedulers are for those that there are."""
    for name, options in _STARTED.items():
        if scheduler != name:
            refuse_given(context, options, f"without --scheduler {name}")
    if scheduler in _STARTED:
        refuse_given(context, ("timeout", "trust_network"), "where the sweep has a scheduler of its own")
        return
    refuse_given(context, ["listen"], "where workers are not started by slurm or ssh")
    if scheduler == HERE:
        refuse_given(context, ("workers", "timeout", "trust_network"), "where this process works itself")
    elif scheduler is None:
        refuse_given(context, ["trust_network"], "without the address of a scheduler")


def _where(context: typer.Context) -> dict[str, Any]:
    """Arguments of `sweep` about who works, from the options of a command."""
    given = context.params
    scheduler, workers = given["scheduler"], given["workers"]
    if scheduler not in _STARTED:
        return {"scheduler": scheduler, "workers": workers}
    each = {"workers": 1 if workers is None else workers, "listen": given["listen"]}
    if scheduler == _SSH:
        hosts = [host.strip() for host in _required("hosts", given, scheduler).split(",")]
        return {"scheduler": Ssh(hosts, command=given["ssh"], **each)}
    _required("jobs", given, scheduler)
    return {"scheduler": Slurm(**{name: given[name] for name in _STARTED[_SLURM]}, **each)}


def _required(name: str, given: dict[str, Any], scheduler: str) -> Any:
    if given[name] is None:
        raise ValueError(f"--{name} must be given with --scheduler {scheduler}")
    return given[name]


@contextmanager
def _in_one_sentence(out: Path) -> Iterator[None]:
    """Say what an interruption leaves; what failed is said at the end, not by a warning."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks failed", category=RuntimeWarning)
            yield
    except (KeyboardInterrupt, Stopped) as stop:
        try:
            found = status(out)
            done = f"{found['finished']} of {found['tasks']} finished"
        except ValueError:  # there is no plan yet
            done = "nothing was begun"
        print(f"stopped: {done}; the same command goes on", file=sys.stderr)
        raise typer.Exit(stop.status if isinstance(stop, Stopped) else 130) from None


def _finish(table: xr.Dataset, out: Path, *, as_json: bool) -> None:
    _write(table, out / "table.nc", as_json=as_json)
    failed = int((table["outcome"] == "failed").sum())
    if failed:
        print(f"{failed} tasks failed: `dynascope sweep status {out}` says why", file=sys.stderr)
        raise typer.Exit(1)


def _write(table: xr.Dataset, path: Path, *, as_json: bool) -> None:
    save(table, path)
    if as_json:
        print(to_json({"record": str(path), **describe(table)}))
    else:
        finished = int((table["outcome"] == "finished").sum())
        print(f"{finished} of {table['outcome'].size} tasks finished\nrecord: {path}")


def _find(name: str, scale: str) -> Workload:
    """Look an experiment up in the registry, among the model families, or by module:function."""
    if name in names():
        return as_workload(find(name), scale)
    if name in FAMILIES:
        return as_workload(FAMILIES[name])
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(
            f"experiment must be one of {', '.join([*FAMILIES, *names()])}, or your own as module:function, "
            f"got {name!r}"
        )
    if "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as python -m does
    try:
        return as_workload(getattr(importlib.import_module(_MOVED.get(module, module)), attribute))
    except Exception as error:  # a module may raise anything while it is imported
        raise ValueError(
            f"experiment must be module:function that can be imported from here, got {name!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _named(option: str, texts: list[str]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not (name and sign and values):
            raise ValueError(f"--{option} must be written as name=values, got {text!r}")
        name = name.strip().replace("-", "_")
        if name in found:
            raise ValueError(f"--{option} must name {name} once, got {found[name]!r} and {values!r}")
        found[name] = values
    return list(found.items())


def parse_values(name: str, text: str) -> list[Word]:
    """Read "a,b,c" or a range "first:last:count" of numbers; words stay words.

    >>> parse_values("width", "8:24:3"), parse_values("data", "digits,mnist"), parse_values("dropout", "0,0.1")
    ([8, 16, 24], ['digits', 'mnist'], [0, 0.1])
    """
    if ":" not in text:
        return [_value(part) for part in text.split(",")]
    values = [float(each) for each in parse_numbers(name, text)]  # type: ignore[union-attr]
    whole = "." not in text and all(each.is_integer() for each in values)
    return [int(each) if whole else each for each in values]


def _value(text: str) -> Word:
    """A number, true, false or none as such; else the words themselves."""
    text = text.strip()
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _seeds(text: str | None) -> Json:
    if text is None:
        return None
    values = [_value(part) for part in text.split(",")]
    return values if "," in text else values[0]
