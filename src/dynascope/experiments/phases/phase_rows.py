"""Cells of a phase diagram that lie close, with more runs than all its cells can have.

Which cells they are was read off the diagram. The networks are others: none of them led to the choice.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.phases import phase_judges as judges
from dynascope.experiments.phases.load_curves import phase_training
from dynascope.experiments.phases.phase_diagrams import ALWAYS, DIGITS, Config, run, shown
from dynascope.experiments.sources import spring_block

_UNSEEN = 1000  # beyond the seeds of every diagram


def _draw_curves(record: xr.Dataset, ax: Axes) -> None:
    """Mean load curves on training data, one for each noise."""
    seen = judges.read(record)
    noise, row = seen[settings(record).noise], seen["load"].isel(slope=0).sel(probe="train").mean("trial")
    for index, value in enumerate(noise.values):
        ax.plot(row["layer"], row[index], "-o", color=plots.PALETTE[index], label=shown(value))
    title = f"{settings(record).data}, slope {float(seen['slope'][0]):g}"
    ax.set(xlabel="layer", ylabel="log(tr Σw / tr Σb), mean over networks", title=title)
    ax.legend(frameon=False, fontsize="small", title=noise.attrs["long_name"])


def draw_change(record: xr.Dataset, ax: Axes) -> None:
    """What the strongest noise changes in the curvature of each network."""
    bends = judges.read(record)["bend"].isel(slope=0).values  # (noise, trial)
    change = np.sort(bends[-1] - bends[0])
    ax.plot(np.arange(1, change.size + 1), change, "k.")
    ax.axhline(0.0, color="grey", linewidth=0.8)
    ax.axhline(change.mean(), color="#C1272D", label=f"mean {change.mean():.4f}")
    ax.set(xlabel="network, the most changed first", ylabel="curvature with the noise less that without")
    ax.legend(frameon=False, fontsize="small")


def phase_row(
    config: Config, *, claims: tuple[Claim, ...], draw: Callable[[xr.Dataset, Axes], object], adapted: str
) -> Experiment:
    """Some cells at one slope of a phase diagram; `config` is its paper scale.

    draw: the second panel, beside mean load curves
    adapted: which cells these are, and why the others do not matter
    """
    return Experiment(
        spring_block(figure=config.figure.removeprefix("FIG. ")),
        replace(config, begin=_UNSEEN),
        run,
        claims=claims,
        picture=Panels(_draw_curves, draw, width=5.5, height=4.2),
        read=judges.read,
        smoke={**DIGITS, "depth": 7, "epochs": 8, "seeds": 4},
        laptop={**DIGITS, "seeds": 12},
        model="PhaseDiagram",
        precision="float32",
        needs=("torch", "sklearn"),
        adapted=f"{ALWAYS}; {adapted}",
        sweep=phase_training,
    )
