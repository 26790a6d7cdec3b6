"""deep-linear Figure 4, Figure 5, Figure 12: The end of training, of a network and of one mode.

The distribution at the end of training, and how the step length changes it. Figures 4(b) and 12 are about (1) on the
network, without label noise; the one-mode equation says what to expect of them.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.deep_linear.drawing import error_bars
from dynascope.experiments.deep_linear.mode_networks import train_chains
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.mode_equation import ModeEquation
from dynascope.models.mode_equation.stationary import window_moments
from dynascope.statistics.errors import Estimate, over_trials

DEPTH, RATE, START = 4, 0.005, 0.02  # of the network and its learning rate, as in the source; s = 1
LABEL = float(np.sqrt(0.1))  # figure 5: label noise of variance 0.1
STEPS = (0.2, 0.1, 0.05, 0.025)  # Δt of figure 12, up to 0.8/κ
SETTLE, EVERY = 5.0, 0.4
SAMPLES = 21  # of the window at the end of a network's training
VISIBLE = 1e-3**2  # mean square distance from s = 1 below which a histogram of the figure shows a point
FLOOR = 0.05  # deviation of noise that does not vanish with the error, as a covariance with FLOOR² on its diagonal has
_RELAXATION = float(DEPTH)  # κ at s = 1
_NOISY = ModeEquation(depth=DEPTH, label_noise=LABEL)


@dataclass(frozen=True)
class Config:
    """Trials of every kind of noise until the mode is learned, and a window with label noise for every step length.

    Networks have depth 4 and width 12, are watched over the last `network_window` of their training and take the steps
    `network_steps` under (1), the coarsest first.
    """

    trials: int = 1000
    duration: float = 30.0
    window: float = 100.0
    networks: int = 64
    init_exponent: float = 2.0
    network_duration: float = 100.0
    network_window: float = 20.0
    network_steps: tuple[float, ...] = (0.02, 0.01, 0.005, 0.0025)
    seed: int = 23


def _squares(config: Config) -> xr.Dataset:
    """Mean square distance of a network's first mode from s at the end of training, for every trial and method.

    With label noise also how fast the gradient brings the mode back, and its diffusion, at the weights of the end.
    """
    saves = np.linspace(config.network_duration - config.network_window, config.network_duration, SAMPLES)
    common: dict[str, Any] = {"seed": config.seed, "save_points": saves}

    def at_the_end(
        method: str, dt: float | None = None, label_noise: float = 0.0, floor: float | None = None
    ) -> xr.Dataset:
        net = DeepLinear(DEPTH, init_exponent=config.init_exponent, learning_rate=RATE, label_noise=label_noise)
        options = common | {"isotropic_noise": floor}
        run = net.simulate(config.network_duration, config.networks, method=method, dt=dt, **options)
        mode = run[["amplitude", "gradient_drift", "diffusion"]].isel(mode=0, drop=True)
        distance = mode["amplitude"] - 1.0
        squares = (distance**2).mean("time")
        pull = -(mode["gradient_drift"] * distance).mean("time") / squares
        own = xr.Dataset({"square": squares, "relaxation": pull, "diffusion": mode["diffusion"].mean("time")})
        return own.reset_coords(drop=True).rename(trial="network").drop_vars("network")

    labelled = at_the_end("sgd", label_noise=LABEL)
    stepped = xr.concat([at_the_end("langevin", dt)["square"] for dt in config.network_steps], "network_step")
    finest = config.network_steps[-1]
    return xr.Dataset(
        {
            "network_sgd": at_the_end("sgd")["square"],
            "network_label": labelled["square"],
            "network_relaxation": labelled["relaxation"],
            "network_diffusion": labelled["diffusion"],
            "network_isotropic": at_the_end("isotropic", finest)["square"],
            "network_floor": at_the_end("isotropic", finest, floor=FLOOR)["square"],
            "network_langevin": stepped,
        },
        {"network_step": list(config.network_steps)},
    )


def run(config: Config) -> xr.Dataset:
    """Train chains and step the mode equation without label noise, then with it."""
    saves = [round(config.duration / RATE)]
    train = partial(train_chains, DEPTH, RATE, START, saves, trials=config.trials, seed=config.seed)
    trained = {"sgd": train(), "sgd_label": train(label_noise=LABEL), "isotropic": train(isotropic=RATE)}
    record = xr.Dataset({name: ("trial", values[:, 0]) for name, values in trained.items()})
    times = np.arange(0.0, SETTLE + config.window + EVERY / 2, EVERY)
    silent, moments = [], []
    for dt in STEPS:
        quiet, noisy = (
            partial(mode.simulate, dt=dt, trials=config.trials, scheme="euler", seed=config.seed)
            for mode in (ModeEquation(depth=DEPTH), _NOISY)
        )
        ends = quiet(config.duration, start=START, save_points=2)
        window = noisy(times[-1], start=1.0, save_points=times)
        silent.append(ends["amplitude"].isel(time=-1).values)
        moments.append([float(value) for value in window_moments(window["amplitude"], SETTLE)["variance"]])
    record["euler"] = (("step", "trial"), silent)
    record["variance"], record["variance_error"] = (("step", values) for values in np.transpose(moments))
    return record.merge(_squares(config)).assign_coords(
        step=("step", list(STEPS), {"long_name": "step Δt", "units": "time"})
    )


def _stepped_variance(step: np.ndarray) -> np.ndarray:
    """Euler's variance over that of the equation."""
    left = 1 - _RELAXATION * RATE
    return left / (left - _RELAXATION * step / 2)


def _isotropic(record: xr.Dataset) -> Judgement:
    variance = record["isotropic"].var(ddof=1).values
    euler = float(record["euler"].var("trial", ddof=1).max())
    return above(Estimate(variance, variance * _relative_error(record)), euler, note="variances")


def _relative_error(record: xr.Dataset) -> np.ndarray:
    """Relative standard error of a Gaussian variance."""
    return np.sqrt(2 / (np.asarray(record.sizes["trial"]) - 1))


def _labelled(record: xr.Dataset) -> Judgement:
    ratio = record["sgd_label"].var(ddof=1).values / float(_NOISY.stationary_moments("published").variance)
    bound = 3 * _RELAXATION * RATE / 2
    return equal(Estimate(ratio, _relative_error(record)), 1.0, bound, note="over (18); next order: 3 κ η/2")


def _gaussian(record: xr.Dataset) -> Judgement:
    centred = record["sgd_label"] - record["sgd_label"].mean()
    skewness = ((centred**3).mean() / (centred**2).mean() ** 1.5).values
    error = np.sqrt(6 / np.asarray(record.sizes["trial"]))
    note = "0.1: what counts as Gaussian; rival: half the skewness of an exponential law"
    return equal(Estimate(skewness, error), 0.0, 0.1, rival=1.0, note=note)


def _finer(record: xr.Dataset) -> Judgement:
    variance, error = recorded(record, "variance")
    drop = Estimate(-np.diff(variance), np.hypot(error[1:], error[:-1]))
    return above(drop, 0.0, note=f"drop from one to the next Δt of {STEPS}")


def _stepped(record: xr.Dataset) -> Judgement:
    ratio = recorded(record, "variance").scaled(1 / float(_NOISY.stationary_moments().variance))
    expected = _stepped_variance(np.array(STEPS))
    bound = _RELAXATION * RATE * (expected - 1)
    return equal(ratio, expected, bound, rival=np.ones(len(STEPS)), note="rival: no effect of Δt")


def _networks(values: xr.DataArray) -> Estimate:
    return over_trials(values.rename(network="trial"))


def _spread(record: xr.Dataset) -> Judgement:
    excess = record["network_langevin"] - record["network_sgd"]
    steps = record["network_step"].values.tolist()
    note = (
        f"mean square distance to s under (1), Δt = {steps}, less that under SGD; to be seen it must exceed {VISIBLE:g}"
    )
    return above(_networks(excess), VISIBLE, note=note)


def _network_finer(record: xr.Dataset) -> Judgement:
    drop = -record["network_langevin"].diff("network_step")
    steps = record["network_step"].values.tolist()
    note = f"drop of the mean square distance to s from one to the next Δt of {steps}; to be seen, above {VISIBLE:g}"
    return above(_networks(drop), VISIBLE, note=note)


def _floor(record: xr.Dataset) -> Judgement:
    """Noise c in every weight: D = η c² κ and the drift −κ (w − s) leave η c²/2, by Euler 1/(1 − κ Δt/2) times that."""
    dt = float(record["network_step"][-1])
    expected = 1 / (1 - _RELAXATION * dt / 2)
    ratio = _networks(record["network_floor"]).scaled(2 / (RATE * FLOOR**2))
    note = (
        f"over η c²/2, c = {FLOOR:g}; 5 % for weights that such noise spreads along the minimum. Rival: none. To be "
        f"seen, c² must exceed {2 * VISIBLE / RATE:.0e}"
    )
    return equal(ratio, expected, 0.05, rival=0.0, note=note)


def _network_isotropic(record: xr.Dataset) -> Judgement:
    excess = record["network_isotropic"] - record["network_langevin"].isel(network_step=-1)
    return above(_networks(excess), 0.0, note="mean square distance to s, less that under (1) with the same Δt")


def _network_labelled(record: xr.Dataset) -> Judgement:
    ratio = _networks(record["network_label"]).scaled(1 / float(_NOISY.stationary_moments("published").variance))
    note = "mean square distance to s over (18); next order: 3 κ η/2. Rival: none"
    return equal(ratio, 1.0, 3 * _RELAXATION * RATE / 2, rival=0.0, note=note)


def _unbalanced(record: xr.Dataset) -> Judgement:
    pull = _networks(record["network_relaxation"]).scaled(1 / _RELAXATION)
    return above(pull, 1.0, note="over κ = L s^(2−2/L) of balanced weights, by the gradient at the end of training")


def _of_weights(record: xr.Dataset) -> Judgement:
    """The variance of an Ornstein–Uhlenbeck process with the diffusion and relaxation that the weights have."""
    label, pull, noise = (record[f"network_{name}"] for name in ("label", "relaxation", "diffusion"))
    variance = float(noise.mean() / (2 * pull.mean()))
    each = label / label.mean() + pull / pull.mean() - noise / noise.mean()  # of mean 1, with the error of the ratio
    ratio = _networks(float(label.mean()) / variance * each)
    published = float(_NOISY.stationary_moments("published").variance) / variance
    note = f"mean square distance to s over D/(2κ) at the networks' own weights; rival: (18), {published:.3f}"
    return equal(ratio, 1.0, 3 * _RELAXATION * RATE / 2, rival=published, note=note)


def _histogram(ax: Axes, kinds: dict[str, xr.DataArray], title: str) -> None:
    bins = np.linspace(0.8, 1.2, 61).tolist()
    for colour, (label, values) in zip(plots.PALETTE, kinds.items(), strict=False):
        ax.hist(values.values, bins, color=colour, alpha=0.6, density=True, label=label)
    ax.set(xlabel="mode amplitude w at the end", ylabel="probability density (1/amplitude)", title=title)


def _draw_quiet(record: xr.Dataset, ax: Axes) -> None:
    euler = record["euler"].isel(step=-1)
    kinds = {"SGD": record["sgd"], "state-dependent noise": euler, "isotropic noise": record["isotropic"]}
    _histogram(ax, kinds, "figure 4: no label noise")
    ax.set_yscale("log")


def _draw_labelled(record: xr.Dataset, ax: Axes) -> None:
    _histogram(ax, {"SGD": record["sgd_label"]}, "figure 5: label noise of variance 0.1")
    fine = np.linspace(0.8, 1.2, 300)
    ax.plot(fine, _NOISY.stationary_density(fine), color="black", label="(16)")


def _draw_steps(record: xr.Dataset, ax: Axes) -> None:
    error_bars(ax, STEPS, recorded(record, "variance"), plots.PALETTE[0], "Euler–Maruyama")
    steps = np.linspace(0, max(STEPS), 100)
    exact = _NOISY.stationary_moments().variance
    ax.plot(steps, exact * _stepped_variance(steps), color="black", label="closed form")
    ax.set(xlabel="step Δt (time)", ylabel="variance (amplitude²)", title="figure 12, with label noise")


EXPERIMENT = Experiment(
    deep_linear(figure="4, 5, 12"),
    Config(),
    run,
    claims=(
        Claim(
            "mode-fig4a",
            "without label noise SGD on a chain ends at s: distance to s at the end",
            lambda record: below(np.abs(record["sgd"] - 1).max(), 1e-6, note="largest over trials"),
            deep_linear(figure="4(a)"),
            kind="derived",
        ),
        Claim(
            "mode-fig4a-network",
            "without label noise SGD on the network concentrates on s: within 1 %",
            lambda record: below(_networks(record["network_sgd"] ** 0.5), 0.01, note="root mean square distance to s"),
            deep_linear(figure="4(a)"),
            settles_at="laptop",
        ),
        Claim(
            "mode-fig4b",
            "without label noise (1) on the network, stepped by Euler–Maruyama, ends less sharply peaked than SGD",
            _spread,
            deep_linear(figure="4(b)"),
            settles_at="laptop",
            why=(
                "mode-fig4b-network, the noise of (1) vanishes at s for every Δt",
                "mode-fig4b-floor, a spread takes noise that does not",
            ),
        ),
        Claim(
            "mode-fig4b-network",
            "without label noise (1) on the network concentrates on s as SGD does, for every Δt: within 1 %",
            lambda record: below(_networks(record["network_langevin"] ** 0.5), 0.01, note="root mean square distance"),
            deep_linear(theorem="Proposition 5.2", figure="4(b)", place="part (i)"),
            kind="derived",
        ),
        Claim(
            "mode-fig4b-euler",
            "without label noise the stepped mode equation ends at s for every Δt: "
            "discretisation does not spread figure 4(b)",
            lambda record: below(np.abs(record["euler"] - 1).max("trial"), 1e-6, note=f"Δt = {STEPS}, largest"),
            deep_linear(theorem="Proposition 5.2", section="K", place="part (i)"),
            kind="derived",
        ),
        Claim(
            "mode-fig4b-floor",
            "noise of variance η c² that does not vanish at s leaves the network's mode with the variance η c²/2: a "
            "histogram as in figure 4(b) takes a covariance with a floor",
            _floor,
            deep_linear(figure="4(b)", section="H.3"),
            kind="own",
        ),
        Claim(
            "mode-fig4c",
            "in one mode isotropic noise ends with more variance than state-dependent noise",
            _isotropic,
            deep_linear(figure="4(c)"),
            kind="derived",
        ),
        Claim(
            "mode-fig4c-network",
            "on the network, too, isotropic noise ends farther from s than (1)",
            _network_isotropic,
            deep_linear(figure="4(c)"),
        ),
        Claim(
            "mode-fig5",
            "with label noise SGD on a chain ends with the variance of (18)",
            _labelled,
            deep_linear(figure="5"),
            kind="derived",
        ),
        Claim(
            "mode-fig5-gaussian",
            "and a nearly Gaussian distribution: skewness near 0",
            _gaussian,
            deep_linear(figure="5"),
        ),
        Claim(
            "mode-fig5-network",
            "with label noise SGD on the network ends with the variance of (18)",
            _network_labelled,
            deep_linear(equation="18", figure="5"),
            kind="derived",  # the figure states that the variance is greater, and shows it
            settles_at="laptop",
            why=(
                "mode-fig5-unbalanced, weights are not balanced as (18) assumes",
                "mode-fig5-weights, it is that alone",
            ),
        ),
        Claim(
            "mode-fig5-unbalanced",
            "label noise unbalances the layers in the long run: the mode is brought back faster than balanced weights "
            "would",
            _unbalanced,
            deep_linear(equation="18", figure="5"),
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "mode-fig5-weights",
            "with the diffusion and relaxation of the weights that networks end with, their variance is D/(2κ)",
            _of_weights,
            deep_linear(equation="18", figure="5"),
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "mode-fig12",
            "without label noise the spread that (1) leaves in the network falls as Δt becomes finer",
            _network_finer,
            deep_linear(figure="12"),
            settles_at="laptop",
            why=(
                "mode-fig4b-network, there is no spread to fall",
                "mode-fig12-law, Δt multiplies one that label noise makes",
            ),
        ),
        Claim(
            "mode-fig12-labelled",
            "with label noise the mode equation's variance falls as Δt becomes finer",
            _finer,
            deep_linear(figure="12"),
            kind="derived",
        ),
        Claim(
            "mode-fig12-law",
            "Euler's variance over that of the equation is (1 − κ β)/(1 − κ β − κ Δt/2), κ = L s^(2−2/L)",
            _stepped,
            deep_linear(figure="12"),
            kind="derived",
        ),
    ),
    picture=Panels(_draw_quiet, _draw_labelled, _draw_steps),
    smoke={
        "trials": 300,
        "window": 60.0,
        "networks": 16,
        "init_exponent": 1.6,
        "network_duration": 40.0,
        "network_window": 10.0,
        "network_steps": (0.02, 0.01),
    },
    paper={
        "trials": 10_000,
        "window": 200.0,
        "networks": 256,
        "init_exponent": 3.0,
        "network_duration": 800.0,
    },
    model="ModeEquation",
    adapted="step lengths: in Figure 4(b) the source has 1e-4, for Figure 12 it leaves them out",
)
