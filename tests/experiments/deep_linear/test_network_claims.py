"""The claims on deep linear networks can fail, and fail for the right reason."""

import json

import numpy as np
import pytest
import xarray as xr

from dynascope import DeepLinear
from dynascope.experiments.deep_linear import gradient_flow, saddles
from dynascope.experiments.deep_linear.assumptions import RUNS
from dynascope.experiments.registry import find

ALIGNED, FLOW, PEAKS = (f"deep_linear/{name}" for name in ("aligned_modes", "gradient_flow", "diffusion_peaks"))
ASSUMPTIONS = "deep_linear/assumptions"


def _spoil(monkeypatch, name, factor):
    right = getattr(DeepLinear, name)

    def spoilt(self, *a, **k):
        values = right(self, *a, **k)
        return [factor * each for each in values] if isinstance(values, list) else factor * values

    monkeypatch.setattr(DeepLinear, name, spoilt)


def test_wrong_objects_are_caught(monkeypatch):
    """Every exact object spoilt by 20 % at once: each claim about it must notice."""
    for name in ("gradient", "noise_covariance", "mode_diffusion", "mode_hessian", "ito_drift", "tangent_kernel"):
        _spoil(monkeypatch, name, 1.2)
    _, findings = find("deep_linear/exact_objects").evaluate("smoke")
    assert {finding.id for finding in findings if finding.fails("smoke")} == {
        "prop-3.1-gradient",
        "prop-3.2-covariance",
        "prop-3.2-factors",
        "prop-3.3-diffusion",
        "prop-3.3-ntk",
        "prop-3.4-hessian",
        "prop-3.4-ito",
        "a2-martingale",
        "isotropic-diffusion",
    }


def test_a_wrong_drift_is_caught(smoke, failed, monkeypatch):
    record, _ = smoke(ALIGNED)
    assert not failed(ALIGNED, record)
    _spoil(monkeypatch, "aligned_ito_drift", 1.2)
    assert failed(ALIGNED, record) == {"eq6-ito", "eq4-independent"}


def test_a_wrong_diffusion_is_caught(smoke, failed, monkeypatch):
    record, _ = smoke(ALIGNED)
    _spoil(monkeypatch, "predicted_diffusion", 1.1)
    assert failed(ALIGNED, record) == {"eq7-diffusion"}


def test_a_wrong_curve_is_caught(smoke, failed, monkeypatch):
    record, _ = smoke(FLOW)
    right = gradient_flow.logistic
    monkeypatch.setattr(gradient_flow, "logistic", lambda t, s, w: right(1.05 * t, s, w))
    assert "eq3-logistic" in failed(FLOW, record)


def test_wrong_figures_are_caught(smoke, failed):
    record, _ = smoke(PEAKS)
    assert not failed(PEAKS, record)
    higher = record.assign(predicted_diffusion=4 * record["predicted_diffusion"])
    assert failed(PEAKS, higher) == {"fig-1-height"}
    late = record.assign(diffusion=record["diffusion"].roll(time=80))
    assert {"fig-1-time", "fig-1-precedes"} <= failed(PEAKS, late)
    swapped = record.isel(mode=[2, 1, 0]).assign_coords(mode=record["mode"])
    assert "fig-1-order" in failed(PEAKS, swapped)


def test_other_times_are_caught(failed):
    learned = np.random.default_rng(0).normal(1.0, 0.01, (4, 32, 3)) * np.array([8.0, 13.0, 26.0])
    slower = {"gd": 1.0, "sgd": 1.0, "langevin": 1.0, "sgd, mean loss": 6.0}

    def judged(sharp=0.8, smaller=0.5, **changed):
        factors = np.array(list((slower | changed).values()))[:, None, None]
        values = (("optimiser", "trial", "mode"), learned * factors)
        found = {"learned": values, "peak": (values[0], 0.9 * values[1])}
        found["width"] = values[0], learned * np.array([1.0, sharp, 1.0, 1.0])[:, None, None]
        found["smaller_learned"] = values[0][1:], 3 * learned[0]
        found["smaller_width"] = values[0][1:], 3 * smaller * learned[0]
        record = xr.Dataset(found, {"optimiser": list(slower)})
        return failed("deep_linear/timescales", record.assign_attrs(config=json.dumps({"width": 12})))

    assert judged() == set()
    assert judged(sgd=1.1) == {"fig-3-same-time", "fig-3-modes"}
    assert judged(**{"sgd, mean loss": 5.0}) == {"fig-3-mean-loss"}
    assert judged(sharp=1.0) == {"fig-3-abrupt"}
    assert judged(smaller=1.0) == {"fig-3-start"}


SADDLES, SCALING, ENDS = (f"deep_linear/{name}" for name in ("saddles", "scaling", "mode_end_of_training"))


@pytest.fixture(scope="module")
def staged():
    """Modes that are learned one after another, with the loss and rank that follow from them."""
    times, sizes = np.linspace(0, 60, 601), np.array([1.0, 0.6, 0.3])
    random = np.random.default_rng(1)
    half = np.array([8.0, 22.0, 44.0]) + random.normal(0, 0.3, (4, 16, 3))
    shares = 1 / (1 + np.exp(-3 * (times[:, None] - half[..., None, :])))  # (optimiser, trial, time, mode)
    amplitude = sizes * shares
    rank = (amplitude > 0.1).sum(axis=-1)
    dims = ("optimiser", "trial", "time")
    values = {
        "amplitude": ((*dims, "mode"), amplitude),
        "loss": (dims, ((sizes - amplitude) ** 2).sum(axis=-1) / 2 + 1e-6),
        "rank": (dims, np.where(np.arange(4)[:, None, None] == 3, 8, rank)),  # isotropic noise raises it at once
        "half": (("optimiser", "trial", "mode"), half),
        "learned": (("optimiser", "trial", "mode"), half + 1.0),
        "mean_learned": (("slow_trial", "mode"), 6.0 * (half[0, : saddles.SLOW] + 1.0)),
        "slower": 6.0,
    }
    return xr.Dataset(values, {"time": times, "optimiser": list(saddles.METHODS)})


def test_other_stages_are_caught(staged, failed):
    assert failed(SADDLES, staged) == {"fig-2-longer"}  # gd and SGD take as long
    slower = staged["learned"] * xr.DataArray([1.0, 1.2, 1.0, 1.0], dims="optimiser")
    assert failed(SADDLES, staged.assign(learned=slower)) == set()
    quick = staged.assign(mean_learned=staged["mean_learned"] / 6)
    assert failed(SADDLES, quick) == {"fig-2-longer", "fig-2-mean-loss"}
    noisy = staged["rank"].isel(optimiser=[0, 3, 2, 3]).assign_coords(optimiser=staged["optimiser"])
    assert failed(SADDLES, staged.assign(rank=noisy)) == {"fig-2-rank", "fig-2-longer", "fig-2-isotropic"}
    ahead = staged["rank"].shift(time=-160, fill_value=3)
    assert "fig-2-rank" in failed(SADDLES, staged.assign(rank=ahead))
    peaks = xr.where((staged["rank"].diff("time", label="upper") > 0).reindex_like(staged["rank"]), staged["rank"], 1)
    assert "fig-2-rank" in failed(SADDLES, staged.assign(rank=peaks))  # it falls back at once
    assert "fig-2-rank" in failed(SADDLES, staged.assign(rank=xr.where(staged["time"] > 55, 12, staged["rank"])))
    smooth = xr.zeros_like(staged["loss"]) + np.exp(-staged["time"] / 10)
    assert failed(SADDLES, staged.assign(loss=smooth)) == {"fig-2-plateaus", "fig-2-retained", "fig-2-longer"}


def test_modes_that_are_not_learned_in_time_count_as_learned_at_the_end(staged, failed):
    late = staged.copy(deep=True)
    for name in ("half", "learned"):
        late[name][1:3, 0, 2] = np.nan
    assert failed(SADDLES, late) == {"fig-2-longer"}
    found = {each.id: each.note for each in find(SADDLES).judge(late)}
    assert "1 modes are learned later" in found["fig-2-order"]
    late["learned"][1, :, 2] = np.nan  # never learned by any: at least a third longer than under gd
    late["learned"][1, :, :2] *= 1.2
    assert failed(SADDLES, late) == set()
    late["learned"][:, 0, 1:] = late["half"][:, 0, 1:] = np.nan  # of what is learned by none nothing is known
    late["half"][:, 1] = np.nan
    found = {each.id: each.verdict for each in find(SADDLES).judge(late)}
    unknown = ("fig-2-order", "fig-2-longer", "fig-2-plateaus", "fig-2-retained")
    assert {found[name] for name in unknown} == {"not determined"}


def test_other_increments_are_caught(smoke, failed):
    """Steps whose variance does not know the learning rate, or falls with the square of the batch."""
    record, _ = smoke(SCALING)
    assert not failed(SCALING, record)
    alike = record["largest_by_rate"] / record["learning_rate"]
    assert failed(SCALING, record.assign(largest_by_rate=alike)) == {"fig-9-linear"}
    summed = record["largest_by_batch"] / record["batch_size"]
    assert failed(SCALING, record.assign(largest_by_batch=summed)) == {"fig-10-linear"}


def test_other_ends_are_caught(smoke, failed):
    record, _ = smoke(ENDS)
    # a short training: nothing is spread, and balance not yet lost
    unbalanced = {"mode-fig5-unbalanced", "mode-fig5-weights"}
    missing = {"mode-fig4b", "mode-fig12"} | unbalanced
    assert failed(ENDS, record) == missing
    spread = record["network_langevin"] + xr.DataArray([4e-4, 2e-4], dims="network_step")  # as in the figures
    assert failed(ENDS, record.assign(network_langevin=spread)) == unbalanced | {"mode-fig4b-network"}
    assert failed(ENDS, record.assign(network_sgd=spread.isel(network_step=0))) == missing | {"mode-fig4a-network"}
    calm = record.assign(network_isotropic=record["network_sgd"])
    assert failed(ENDS, calm) == missing | {"mode-fig4c-network"}
    assert failed(ENDS, record.assign(network_floor=2 * record["network_floor"])) == missing | {"mode-fig4b-floor"}
    assert failed(ENDS, record.assign(network_label=2 * record["network_label"])) == missing | {"mode-fig5-network"}


def test_lost_balance_is_told_from_other_noise(smoke, failed):
    """Twice the relaxation and four times the diffusion leave twice the variance; the same from elsewhere is caught."""
    record, _ = smoke(ENDS)
    wide = record.assign(network_label=2 * record["network_label"])
    why = {"mode-fig5-unbalanced", "mode-fig5-weights"}
    faster = wide.assign(network_relaxation=2 * wide["network_relaxation"])
    assert not failed(ENDS, faster.assign(network_diffusion=4 * wide["network_diffusion"])) & why
    assert failed(ENDS, faster) & why == {"mode-fig5-weights"}
    louder = wide.assign(network_diffusion=2 * wide["network_diffusion"])
    assert failed(ENDS, louder) & why == {"mode-fig5-unbalanced"}


def test_other_batches_and_weights_are_caught(smoke, failed):
    record, _ = smoke("deep_linear/finite_population")
    assert not failed("deep_linear/finite_population", record)
    swapped = {"variance": record["online_variance"], "online_variance": record["variance"]}
    assert failed("deep_linear/finite_population", record.assign(swapped)) == {"g1-factor", "sec-2.2-batches"}
    moments, _ = smoke("deep_linear/weight_moments")
    assert not failed("deep_linear/weight_moments", moments)
    for factor in (0.5, 2.0):
        spoilt = moments.assign(noise=factor * moments["noise"])
        assert failed("deep_linear/weight_moments", spoilt) == {"prop-5.1-theta"}


@pytest.mark.parametrize(
    ("setting", "name", "broken"),
    [(0, "imbalance", {"fig-7-numerator"}), (1, "balance", {"fig-7-kept"}), (2, "imbalance", {"fig-7-noise"})],
)
def test_weights_that_lose_their_balance_are_caught(smoke, failed, setting, name, broken):
    """Growth by half of a numerator under SGD, of one under gradient descent, and a balanced start that is lost."""
    record, _ = smoke(ASSUMPTIONS)
    assert not failed(ASSUMPTIONS, record)
    values = record[name].transpose("setting", "trial", "save").values
    values[setting :: len(RUNS)] += (1.0 if name == "balance" else 0.5) * np.linspace(0, 1, record.sizes["save"])
    record[name] = (("setting", "trial", "save"), values)
    assert failed(ASSUMPTIONS, record) == broken
