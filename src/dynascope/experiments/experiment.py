"""An experiment: a declaration of what to run, which claims its record judges, and how to draw it.

The harness here does what all have in common: scales, time, provenance, judging, figures with panels.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

from dynascope import networks, plots
from dynascope.experiments.claims import SCALES, Claim, Finding, Judgement, not_run
from dynascope.experiments.sources import Source
from dynascope.optional import require
from dynascope.records import attribute, with_provenance
from dynascope.statistics.errors import Estimate
from dynascope.sweep.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # running an experiment never imports plotting
    Axes = Figure = Any


@dataclass(frozen=True)
class Experiment:
    """One figure or set of equations: how to run it, judge it and draw it.

    source: what it is about; claims that name no source of their own have this one
    config: a frozen dataclass; `smoke`, `laptop` and `paper` say which of its fields a scale changes
    run: takes a config and returns a record; time and provenance are added to it
    claims: each with its judge
    picture: makes a figure of the record, `Panels` for instance
    read: what judges look at, if that is not the record itself: what several claims need is computed once
    model: what was simulated or trained, where the record does not say so already
    precision: of the numbers in the record, where it does not say so already
    kind: equation or figure; by default a figure if the source names a figure or table
    needs: packages that it cannot run without, beyond the base installation
    adapted: how its largest scale differs from what the paper did, if it does
    sweep: what `dynascope sweep` runs where that is more than `run` with other fields of the config
    name, title: filled in by `registry.find`
    """

    source: Source
    config: Any
    run: Callable[[Any], xr.Dataset]
    claims: tuple[Claim, ...]
    picture: Callable[[xr.Dataset], Figure]
    read: Callable[[xr.Dataset], Any] | None = None
    smoke: Mapping[str, Any] = field(default_factory=dict)
    laptop: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    precision: str = "float64"
    kind: Literal["equation", "figure", None] = None
    needs: tuple[str, ...] = ()
    adapted: str = ""
    sweep: Workload | None = None
    name: str = ""
    title: str = ""

    @property
    def is_figure(self) -> bool:
        """Whether it is a figure of the paper, rather than equations."""
        return bool(self.source.figure or self.source.table) if self.kind is None else self.kind == "figure"

    def settings(self, scale: str) -> Any:
        """Return the config of a scale.

        >>> from dynascope.experiments.registry import find
        >>> find("spring_block/phase_diagram").settings("laptop").duration
        100.0
        """
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
        return replace(self.config, **getattr(self, scale))

    def adapted_at(self, scale: str) -> str:
        """How a scale differs from what the paper did: the fields that differ from its largest scale, or `adapted`.

        >>> from dynascope.experiments.registry import find
        >>> find("spring_block/equilibrium").adapted_at("smoke")
        'chains'
        """
        here, paper = asdict(self.settings(scale)), asdict(self.settings("paper"))
        differing = [name for name, value in here.items() if value != paper[name]]
        return "; ".join(part for part in (", ".join(differing), self.adapted) if part)

    def record(self, config: Any) -> xr.Dataset:
        """Run with a config; the record says what made it, and how long that took.

        >>> from dynascope.experiments.registry import find
        >>> experiment = find("spring_block/left_friction")
        >>> settings(experiment.record(experiment.settings("smoke"))).trials
        64
        """
        for package in self.needs:
            require(package, self.name)
        begun = time.perf_counter()
        record = self.run(config)
        wall_time = time.perf_counter() - begun
        if "model" not in record.attrs:
            device = networks.device_name(networks.device(None)) if "torch" in self.needs else None
            record = with_provenance(
                record,
                self.model,
                seed=getattr(config, "seed", None),
                precision=self.precision,
                wall_time=wall_time,
                device=device,
            )
        stamps = {"experiment": self.name, "config": asdict(config), "wall_time": round(wall_time, 4)}
        return record.assign_attrs({key: json.dumps(value) for key, value in stamps.items()})

    def at(self, scale: str) -> xr.Dataset:
        """Run at a scale.

        >>> from dynascope.experiments.registry import find
        >>> attribute(find("spring_block/left_friction").at("smoke"), "scale")
        'smoke'
        """
        return self.record(self.settings(scale)).assign_attrs(scale=json.dumps(scale))

    def judge(self, record: xr.Dataset) -> tuple[Finding, ...]:
        """Judge every claim by a record."""
        seen = record if self.read is None else self.read(record)
        return tuple(self.finding(claim, claim.judge(seen)) for claim in self.claims)

    def finding(self, claim: Claim, judgement: Judgement) -> Finding:
        """Join a claim with what was found; where it fails, with what shows why."""
        if claim.why and judgement.verdict == "not reproduced":
            because = f"Why: {'; '.join(claim.why)}"
            judgement = replace(judgement, note=". ".join(filter(None, (judgement.note, because))))
        return Finding(
            claim.id,
            str(claim.source or self.source),
            claim.statement,
            kind=claim.kind,
            settles_at=claim.settles_at,
            **vars(judgement),
        )

    def unjudged(self, reason: str = "") -> tuple[Finding, ...]:
        """Return the claims as not run."""
        return tuple(self.finding(claim, not_run(reason)) for claim in self.claims)

    def evaluate(self, scale: str) -> tuple[xr.Dataset, tuple[Finding, ...]]:
        """Run at a scale and judge.

        >>> from dynascope.experiments.registry import find
        >>> record, findings = find("spring_block/equilibrium").evaluate("smoke")
        >>> {finding.verdict for finding in findings} <= {"reproduced", "erratum"}
        True
        """
        record = self.at(scale)
        return record, self.judge(record)


def settings(record: xr.Dataset) -> SimpleNamespace:
    """Return the fields of the config that a record was made with; tuples have become lists.

    >>> settings(xr.Dataset(attrs={"config": '{"trials": 3}'})).trials
    3
    """
    return SimpleNamespace(**attribute(record, "config"))


def recorded(record: xr.Dataset, name: str) -> Estimate:
    """Return a quantity and its standard error, which the record holds under `name` and `name_error`.

    >>> recorded(xr.Dataset({"rate": 2.0, "rate_error": 0.1}), "rate")
    Estimate(mean=array(2.), error=array(0.1), runs=inf)
    """
    return Estimate(record[name].values, record[f"{name}_error"].values)


class Panels:
    """A picture of panels in rows, each drawn by a function of the record and axes.

    draw: functions `draw(record, axes)`; None leaves a place empty
    columns: panels in a row; all in one row if not given
    width, height: of one panel, in inches

    Each panel whose curves have labels gets a legend, unless it has one.
    """

    def __init__(
        self,
        *draw: Callable[[xr.Dataset, Axes], object] | None,
        columns: int | None = None,
        width: float = 4.2,
        height: float = 3.4,
    ):
        self.draw, self.columns = draw, columns or len(draw)
        self.width, self.height = width, height

    def __call__(self, record: xr.Dataset) -> Figure:
        """Draw all panels."""
        rows = -(-len(self.draw) // self.columns)
        figure, axes = plots.new_figure(self.columns, rows, width=self.width, height=self.height)
        for ax, draw in zip(axes.ravel(), (*self.draw, *[None] * (axes.size - len(self.draw))), strict=True):
            if draw is None:
                ax.remove()
                continue
            draw(record, ax)
            if ax.get_legend() is None and ax.get_legend_handles_labels()[0]:
                ax.legend(frameon=False, fontsize="small")
        return figure
