"""Claims on the spring–block chain fail where a closed form is wrong, and for the right reason."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

from dynascope import SpringBlock, grid
from dynascope.experiments.registry import find
from dynascope.experiments.spring_block.stationary_curvature import LEVELS

REST, PATH, SETTLED, DIAGRAM = (
    f"spring_block/{name}" for name in ("equilibrium", "mean_path", "stationary_curvature", "phase_diagram")
)


def test_blocks_that_stick_are_not_where_the_printed_form_puts_them(smoke, failed):
    record, _ = smoke(REST)
    assert not failed(REST, record)
    record["equilibrium"] = record["printed"]
    assert failed(REST, record) == {"eq6-sticking"}


@pytest.fixture(scope="module")
def simulated():
    """A few of the chains whose mean path is judged."""
    experiment = find(PATH)
    few = {"frictions": (0.0, 0.05, 0.1), "noises": (0.006, 0.02), "trials": 100}
    return experiment.record(dataclasses.replace(experiment.settings("smoke"), **few))


def test_wrong_paths_are_caught(simulated, failed):
    assert not failed(PATH, simulated)
    assert failed(PATH, simulated.assign(mean_path=1.05 * simulated["mean_path"])) == {"mean-path"}
    axes = grid(friction_right=simulated["friction_right"], noise=1.2 * simulated["noise"])
    noisier = SpringBlock(friction_left=0.2, **axes).mean_path(simulated["time"].values, 0.01)
    noisier = simulated["mean_path"].copy(data=noisier)
    assert failed(PATH, simulated.assign(mean_path=noisier)) == {"mean-path"}


def test_a_wrong_force_law_is_caught(simulated, failed):
    assert failed(PATH, simulated.assign(mean_drift=1.1 * simulated["mean_drift"])) == {"g-law"}


def test_a_wrong_curvature_is_caught(smoke, failed, monkeypatch):
    record, _ = smoke(SETTLED)
    assert not failed(SETTLED, record)
    right = SpringBlock.stationary_curvature
    monkeypatch.setattr(SpringBlock, "stationary_curvature", lambda self, *a: right(self, *a) - 0.02)
    assert failed(SETTLED, record) == {"eq7-overdamped", "eq7-inertial", "eq7-langevin"}


def test_a_wrong_bound_is_caught(smoke, failed):
    """A closed form too low, or too high, would start chains where this record has those of the other side."""
    record, _ = smoke(SETTLED)
    assert failed(SETTLED, record.assign(above=record["below"])) == {"eq7-bounded-falls"}
    assert failed(SETTLED, record.assign(below=record["above"])) == {"eq7-bounded-holds"}
    assert failed(SETTLED, record.assign(bounded_path=record["bounded_path"] - 0.02)) == {"eq7-bounded"}


def test_a_curvature_outside_of_the_interval_is_caught(smoke, failed):
    record, _ = smoke(SETTLED)
    record["bounded"] = record["bounded"] + np.array([0.1, 0.0, 0.0, 0.0])[:, None]
    assert failed(SETTLED, record) >= {"eq7-interval", "eq7-bounded"}


def test_a_spread_that_hides_where_curvatures_lie_is_caught(smoke, failed):
    """Curvatures far outside of the interval, which their errors hide."""
    record, _ = smoke(SETTLED)
    random = np.random.default_rng(0)
    vague = {n: record[n].copy(data=random.normal(-0.2, 1.0, record[n].shape)) for n in (*LEVELS, "bounded")}
    assert "eq7-interval" in failed(SETTLED, record.assign(vague))


def test_energies_without_a_valley_are_caught(smoke, failed):
    """Energies of springs bent at random, of chains that noise only bends, and of chains that are never straight."""
    record, _ = smoke(DIAGRAM)
    assert not failed(DIAGRAM, record)
    random = record["energy"].copy(data=np.random.default_rng(0).chisquare(7, record["energy"].shape))
    assert failed(DIAGRAM, record.assign(energy=random)) == {"fig-3-energy"}
    rising = xr.zeros_like(record["energy"]) + record["noise"]
    assert failed(DIAGRAM, record.assign(energy=rising)) == {"fig-3-energy"}
    never = record.assign(curvature=record["curvature"] + 0.2)
    assert failed(DIAGRAM, never) == {"fig-3-convex", "fig-3-energy"}


def bent(slopes, spread, size=2000):
    """Springs between fixed ends, bent by some slope at each noise and shaken by some spread, for four frictions."""
    random, place = np.random.default_rng(0), np.linspace(-1.0, 1.0, 8)
    springs = 1 / 8 + np.reshape(slopes, (-1, 1, 1)) * place
    springs = springs + np.reshape(spread, (-1, 1, 1)) * random.standard_normal((4, len(slopes), size, 8))
    springs += (1 - springs.sum(axis=-1, keepdims=True)) / 8
    load = np.flip(np.cumsum(np.flip(springs, axis=-1), axis=-1), axis=-1)
    curvature = np.polyfit(np.arange(8), springs.reshape(-1, 8).T, 1)[0].reshape(springs.shape[:-1])
    axes = ("time", "friction_right", "noise", "trial")
    return {
        "load": ((*axes, "layer"), load[None]),
        "energy": (axes, (springs**2).sum(axis=-1)[None] / 2),
        "curvature": (axes, curvature[None]),
    }


# slopes and spreads at eight noises, and whether their energies then have the valley
SHAPES = {
    "bent back while noise grows": (np.linspace(0.1, -0.1, 8), np.linspace(0.0, 0.01, 8), True),
    "bent at random": (np.random.default_rng(3).uniform(-0.1, 0.1, 8), np.linspace(0.0, 0.01, 8), False),
    "bent back without growing noise": (np.linspace(0.1, -0.1, 8), np.full(8, 0.02), False),
    "shaken more than bent": (np.linspace(0.1, -0.1, 8), np.linspace(0.0, 0.3, 8), False),
}


@pytest.mark.parametrize("case", SHAPES)
def test_bent_springs_alone_are_no_valley(case, smoke):
    slopes, spread, holds = SHAPES[case]
    config = smoke(DIAGRAM)[0].attrs
    axes = {"friction_right": np.linspace(0.0, 0.15, 4), "noise": np.arange(8)}
    record = xr.Dataset(bent(slopes, spread), coords=axes, attrs=config)
    (found,) = (each for each in find(DIAGRAM).judge(record) if each.id == "fig-3-energy")
    assert (found.verdict == "reproduced") == holds


def test_curvature_that_noise_does_not_lower_is_caught(smoke, failed):
    """A step up in every trial, which a noisy last cell must not excuse; and no change at all."""
    record, _ = smoke(DIAGRAM)
    random = np.random.default_rng(0)
    rise = record["curvature"].copy()
    rise[{"noise": slice(2, None)}] += 0.03
    rise[{"noise": -1}] += random.normal(-0.03, 0.5, rise[{"noise": -1}].shape)
    assert "fig-3-noise" in failed(DIAGRAM, record.assign(curvature=rise))
    none = record["curvature"].copy(data=random.normal(0.0, 0.3, record["curvature"].shape))
    assert "fig-3-noise" in failed(DIAGRAM, record.assign(curvature=none))
    assert "fig-3-noise" in failed(DIAGRAM, record.assign(curvature=0 * record["curvature"]))


def test_classes_that_count_alike_are_caught(smoke, failed):
    record, _ = smoke("spring_block/data_separation")
    assert not failed("spring_block/data_separation", record)
    alike = record.assign(measured=record["unweighted"])
    assert failed("spring_block/data_separation", alike) == {"eq2-weights", "eq3-limit"}
    other = record.assign(weighted=record["weighted"] + 1e-6)
    assert failed("spring_block/data_separation", other) == {"eq2-weights"}
