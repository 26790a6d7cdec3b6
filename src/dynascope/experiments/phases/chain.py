"""FIG. 4, both sides: paths of load curves of three networks, and the spring-block chain fitted to each."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.phases.load_curves import data_set
from dynascope.experiments.registry import Experiment
from dynascope.measure.separation import curvature, straightness
from dynascope.models.spring_block.estimate import estimate_chain
from dynascope.networks import MLP, Ensemble
from dynascope.networks.arguments import device, device_name
from dynascope.records import attribute, with_provenance
from dynascope.statistics.errors import over_trials

PANELS = ("b", "c", "d")
FITTED = ("friction_right", "friction_left", "noise", "friction_difference", "time_scale", "target")


@dataclass(frozen=True)
class Config:
    """The three settings of the supplement, S3, from little to much noise; the number of epochs is ours."""

    learning_rate: tuple[float, ...] = (0.0001, 0.001, 0.003)
    batch_size: tuple[int, ...] = (200, 100, 50)
    dropout: tuple[float, ...] = (0.0, 0.1, 0.2)
    data: str = "mnist"
    size: int = 10
    samples: int = 256
    epochs: int = 100
    width: int = 100
    depth: int = 7
    seeds: int = 10
    times: int = 41


def run(config: Config) -> xr.Dataset:
    """Train ReLU networks in each setting, follow their load curves, and fit a chain to the paths of all runs."""
    begun = time.perf_counter()
    panels = [_panel(config, index) for index in range(len(PANELS))]
    record = xr.concat(panels, xr.DataArray(list(PANELS), dims="panel", name="panel"))
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record, "ChainAndNetwork", vars(config), options={}, seed=0, precision="float32", wall_time=wall_time,
        device=device_name(device(None)),
    )  # fmt: skip


def _panel(config: Config, index: int) -> xr.Dataset:
    x, y, xt, yt = data_set(config.data, config.size, config.samples)
    batch = min(config.batch_size[index], len(x))
    steps = len(x) // batch * config.epochs
    ensemble = Ensemble(
        MLP(x.shape[1:], int(y.max()) + 1, width=config.width, depth=config.depth, batch_norm=True),
        trials=config.seeds,
        learning_rate=config.learning_rate[index],
        batch_size=batch,
        optimizer="adam",
        vary={"dropout": config.dropout[index]},
        sampling="shuffled",
    )
    share = np.linspace(0, 1, config.times)
    recorded = (share * steps).round().astype(int).tolist()
    path = ensemble.train(
        x,
        y,
        steps,
        probe={"train": (x, y), "test": (xt, yt)},
        record_every=recorded,
        measures=("load",),
        progress=False,
    )
    load = path["load"].sel(probe="train").values  # (trial, step, layer)
    # batch norm's running means start from nothing: the second save is the first that shows the network
    found = estimate_chain(load[:, 1:], share[1:])
    kept = [*FITTED, *(f"{name}_{end}" for name in FITTED for end in ("low", "high")), "residual", "simulation_gap"]
    fit = found[kept].assign(ok=found["ok"].astype(int))
    values = {
        "load": (("trial", "time", "layer"), load[:, 1:]),
        "fitted_load": (("time", "layer"), found["fitted_load"].values),
        "loss": (("trial", "time"), path["loss"].sel(probe="train").values[:, 1:]),
        "accuracy": ("trial", path["accuracy"].sel(probe="test").values[:, -1]),
    }
    coords = {"time": ("time", share[1:], {"long_name": "share of the training"}), "layer": np.arange(load.shape[-1])}
    return fit.drop_attrs(deep=False).merge(xr.Dataset(values, coords=coords))


CLAIMS = {
    "concave": Claim("fig-4b-network", "spring-block FIG. 4(b)", "little noise: the network's load curve ends concave"),
    "straight": Claim(
        "fig-4c-network", "spring-block FIG. 4(c)", "in between: it ends straighter (R²) than in (b) and (d)"
    ),
    "convex": Claim("fig-4d-network", "spring-block FIG. 4(d)", "much noise: it ends convex"),
    "follows": Claim(
        "fig-4-chain-follows",
        "spring-block FIG. 4",
        "a chain follows each path: root mean square distance below a tenth of the final separation",
    ),
    "friction": Claim(
        "fig-4-chain-friction",
        "spring-block FIG. 4, (7)",
        "the chain fitted to the concave path (b) has a larger μ→ − μ← than the one fitted to the convex path (d)",
    ),
}


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the ends of the paths run by run, and the fits by their residuals and intervals."""
    last = record["load"].isel(time=-1).transpose("panel", "trial", "layer").values
    bend, bend_error = over_trials(curvature(last))
    straight = straightness(last)
    gain, gain_error = over_trials(straight[[1, 1]] - straight[[0, 2]])
    extent = (last[..., 0] - last[..., -1]).mean(axis=-1)
    friction = record["friction_difference"].values
    error = (record["friction_difference_high"] - record["friction_difference_low"]).values / 4  # two errors each way
    return (
        CLAIMS["concave"].exceeds(bend[0], 0.0, three_errors(bend_error[0]), note="curvature at the end"),
        CLAIMS["straight"].exceeds(gain, 0.0, three_errors(gain_error), note="R² beyond that of (b), of (d)"),
        CLAIMS["convex"].falls_below(bend[2], 0.0, three_errors(bend_error[2]), note="curvature at the end"),
        CLAIMS["follows"].falls_below(record["residual"].values / extent, 0.1, 0.0),
        CLAIMS["friction"].exceeds(friction[0] - friction[2], 0.0, three_errors(np.hypot(error[0], error[2]))),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw load curves at the end, and the paths of the mean load with the fitted chain, for each setting."""
    from dynascope.plots import new_figure, plot_fit  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=4, width=4.8, height=4.2)
    for panel, shade in zip(PANELS, ("#C1272D", "#0000A7", "#008176"), strict=True):
        curves = record["load"].sel(panel=panel).isel(time=-1)
        axes[0, 0].errorbar(
            record["layer"], curves.mean("trial"), curves.std("trial"), marker="o", markersize=4, color=shade,
            label=f"network ({panel})",
        )  # fmt: skip
        axes[0, 0].plot(
            record["layer"], record["fitted_load"].sel(panel=panel).isel(time=-1), "--", color=shade, label="chain"
        )
    axes[0, 0].set_xlabel("layer")
    axes[0, 0].set_ylabel("load D (natural logarithm)")
    axes[0, 0].legend(frameon=False, fontsize="small")
    axes[0, 0].set_title("(a) at the end")
    settings = attribute(record, "parameters")
    for index, panel in enumerate(PANELS):
        chosen = record.sel(panel=panel)
        ax = plot_fit(chosen.assign(load=chosen["load"].mean("trial")), axes[0, index + 1])
        difference = float(chosen["friction_difference"])
        ax.set_title(
            f"({panel}) learning rate {settings['learning_rate'][index]:g}, dropout {settings['dropout'][index]:g}: "
            f"μ→ − μ← = {difference:.2g}",
            fontsize="small",
        )
    return figure


LAPTOP = Config(
    learning_rate=(0.0005, 0.001, 0.003),
    batch_size=(128, 64, 32),
    dropout=(0.0, 0.08, 0.25),
    data="digits",
    size=0,
    samples=0,
    width=64,
    epochs=30,
    seeds=6,
)
EXPERIMENT = Experiment(
    title="Chain against network: paths of load curves",
    source="spring-block FIG. 4",
    kind="figure",
    claims=tuple(CLAIMS.values()),
    scales={
        "smoke": replace(LAPTOP, samples=40, epochs=15, seeds=5, times=16, batch_size=(32, 25, 12)),
        "laptop": LAPTOP,
        "paper": Config(),
    },
    run=run,
    check=check,
    plot=plot,
)
