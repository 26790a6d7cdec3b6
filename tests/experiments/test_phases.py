"""Phase diagrams of networks: training is what it says, can be swept, and its claims can fail."""

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments import registry
from dynascope.experiments.phases import chain, curves, diagrams, load_curves, much_data
from dynascope.experiments.phases.shapes import curvature, straightness
from dynascope.measure import data_separation
from dynascope.sweep import sweep

TINY = {"data": "digits", "size": 0, "samples": 12, "tested": 6, "epochs": 2, "depth": 3, "width": 8, "batch_size": 16}


def _failed(claims):
    return {claim.id for claim in claims if claim.verdict == "not reproduced"}


def test_a_run_does_not_depend_on_its_pack():
    base = load_curves.DEFAULTS | TINY
    pack = [base | {"slope": 0.0, "seed": 3}, base | {"slope": 0.5, "dropout": 0.2, "seed": 3}, base | {"seed": 1}]
    together = load_curves.train(pack)
    for each, record in zip(pack, together, strict=True):
        xr.testing.assert_allclose(load_curves.train([each])[0], record, rtol=1e-4)
    assert not np.allclose(together[0]["load"], together[1]["load"])


def test_a_sweep_is_what_the_experiment_runs(tmp_path):
    grid = {"slope": [0.0, 1.0], "dropout": [0.0, 0.2]}
    swept = sweep(load_curves.phase_training, grid, tmp_path, seeds=2, fixed=TINY, scheduler="here", progress=False)
    here = load_curves.run_grid(grid, seeds=2, fixed=TINY)
    assert here["load"].dims == ("slope", "dropout", "trial", "probe", "layer")
    np.testing.assert_allclose(swept["load"].transpose(*here["load"].dims), here["load"], rtol=1e-4)


def test_load_of_the_inputs_is_their_separation():
    """Layer 0 without batch norm is the data itself."""
    record = load_curves.train([load_curves.DEFAULTS | TINY | {"normalisation": "constant"}])[0]
    x, y, _, _ = load_curves.data_set("digits", 0, 12, 6)
    expected = [float(data_separation(x.reshape(len(x), -1), y, kind=kind)) for kind in ("trace", "pinv")]
    found = [float(record[name].sel(probe="train")[0]) for name in ("load", "load_pinv")]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="normalisation must be one of batch, constant"):
        load_curves.train([load_curves.DEFAULTS | TINY | {"normalisation": "layer"}])
    with pytest.raises(ValueError, match="name must be one of"):
        load_curves.train([load_curves.DEFAULTS | TINY | {"data": "svhn"}])


def test_shapes():
    layers = np.arange(8.0)
    assert curvature(-(layers**2)) == pytest.approx(2.0)
    assert curvature(layers**2) == pytest.approx(-2.0)
    assert straightness(3 - 2 * layers) == pytest.approx(1.0)
    assert straightness(-(layers**2)) < 0.97


def _diagram(bend, straight_gain=0.0):
    """A made-up record: curvature falls with noise and slope by `bend`, accuracy is best where curves are straight."""
    layers, random = np.arange(8), np.random.default_rng(0)
    slopes, values = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.1, 0.2, 0.3])
    bends = 0.02 - bend * (slopes[:, None] / 25 + values / 7.5)  # (slope, noise)
    load = 1 - layers / 2 - bends[..., None, None, None] * layers**2 / 2 + 0.0004 * random.normal(size=(3, 4, 5, 2, 8))
    accuracy = 0.97 - np.abs(bends)[..., None, None] + straight_gain * np.abs(bends)[..., None, None] * np.ones((5, 2))
    accuracy = accuracy + 0.0002 * random.normal(size=(3, 4, 5, 2))
    dims = ("slope", "dropout", "trial", "probe", "layer")
    pinv = np.where((slopes < 1)[:, None, None, None, None], load, 0.1 * load)
    record = xr.Dataset(
        {"load": (dims, load), "load_pinv": (dims, pinv), "accuracy": (dims[:-1], accuracy)},
        coords={"slope": slopes, "dropout": values, "probe": ["train", "test"]},
    )
    settings = {"figure": "FIG. 1(c)", "noise": "dropout", "thorough": True, "first_layer": 0, "best": "straight"}
    return diagrams.with_provenance(
        record, "PhaseDiagram", settings, options={}, seed=0, precision="float64", wall_time=0.0, device="cpu"
    )


def test_a_diagram_as_the_paper_draws_it_passes_every_claim():
    assert _failed(diagrams.check(_diagram(1.0))) == set()


def test_a_diagram_turned_round_fails():
    assert {"fig-1c-convex", "fig-1c-noise", "fig-1c-nonlinearity", "fig-1c-pinv"} <= _failed(
        diagrams.check(_diagram(-1.0))
    )


def test_accuracy_that_is_best_elsewhere_is_caught():
    assert "fig-1c-accuracy" in _failed(diagrams.check(_diagram(1.0, straight_gain=2.0)))


@pytest.mark.parametrize("claim", ["test", "pinv-linear"])
def test_a_spoilt_measure_is_caught(claim):
    record = _diagram(1.0)
    if claim == "test":  # test curves that have nothing to do with training curves
        record["load"][..., 1, :] = np.random.default_rng(1).normal(size=record["load"][..., 1, :].shape)
    else:  # both definitions the same
        record["load_pinv"] = record["load"]
    assert f"fig-1c-{claim}" in _failed(diagrams.check(record))


def test_accuracy_elsewhere_is_caught():
    """Where the best network has a convex curve, or the straightest curve the worst accuracy."""
    record = _diagram(4.0)
    settings = json.loads(record.attrs["parameters"]) | {"best": "concave"}
    record["accuracy"][:] = 0.5
    record["accuracy"][-1, -1] = 0.9
    record.attrs["parameters"] = json.dumps(settings)
    assert "fig-1c-accuracy" in _failed(diagrams.check(record))
    record["accuracy"][-1, -1], record["accuracy"][0, 0] = 0.5, 0.9
    record["load"] = record["load"] - 0.1 * np.arange(8) ** 2
    assert "fig-1c-accuracy" not in _failed(diagrams.check(record))

    layers, bends = np.arange(8), np.array([0.0, 0.1, 0.2])
    load = np.broadcast_to((-layers - bends[:, None] * layers**2)[None, :, None], (2, 3, 4, 8))
    score = np.broadcast_to(np.array([0.5, 0.9, 0.9])[None, :, None], (2, 3, 4)) + 1e-3 * np.arange(4)
    dims = ("kind", "setting", "trial")
    spoilt = xr.Dataset({"load": ((*dims, "layer"), load), "score": (dims, score)})
    assert _failed(much_data.check(spoilt)) == {"fig-s12a-accuracy", "fig-s12b-accuracy"}
    assert not _failed(much_data.check(spoilt.assign(score=1 - spoilt["score"])))


def test_networks_that_do_not_train_are_caught():
    """At a learning rate of nearly 0 there is no load curve to bend."""
    config = dataclasses.replace(registry.find("phases/dropout").config("smoke"), epochs=1, learning_rate=1e-7, seeds=3)
    assert {"fig-1c-noise", "fig-1c-concave"} & _failed(diagrams.check(diagrams.run(config)))


@pytest.mark.parametrize(
    ("name", "spoil", "expected"),
    [
        ("chain", {"dropout": (0.25, 0.1, 0.0), "learning_rate": (0.003, 0.001, 0.0003)}, "fig-4"),
        ("raised_dropout", {"schedules": ((0.0, 0.0, 0.0),) * 2}, "fig-6"),
        ("convolutional", {"schedules": ((0.4,), (0.1,), (0.0,))}, "fig-5c"),
    ],
)
def test_settings_without_the_effect_are_caught(name, spoil, expected, monkeypatch):
    small = {"seeds": 3, "epochs": 2, "samples": 20, "times": 7}
    if name == "chain":  # the fit is tested elsewhere
        fitted = xr.Dataset({name + end: 0.0 for name in chain.FITTED for end in ("", "_low", "_high")})
        fitted = fitted.assign(residual=1.0, simulation_gap=0.0, ok=True)
        monkeypatch.setattr(
            chain,
            "estimate_chain",
            lambda load, times: fitted.assign(fitted_load=(("time", "layer"), load.mean(axis=0))),
        )
    experiment = registry.find(f"phases/{name}")
    config = dataclasses.replace(experiment.config("smoke"), **small, **spoil)
    failed = _failed(experiment.check(experiment.run(config)))
    assert [claim for claim in failed if claim.startswith(expected)]


def test_constants_keep_the_variance_of_features():
    from dynascope.networks.mlp_variants import ConstantMLP  # noqa: PLC0415 (torch)

    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = ConstantMLP(200, 2, width=200, depth=6, slope=0.3).eval()
    features = network.features(torch.randn(500, 200))
    sizes = [float((each.detach() ** 2).mean()) for each in features.values()]
    np.testing.assert_allclose(sizes[1:-1], 1.0, rtol=0.35)


def test_records_of_curves_are_labelled():
    config = dataclasses.replace(registry.find("phases/regression").config("smoke"), epochs=1, seeds=2, samples=10)
    record = curves.run_regression(config)
    assert record["load"].dims == ("kind", "setting", "trial", "layer")
    assert record["kind"].values.tolist() == list(curves.KINDS)
