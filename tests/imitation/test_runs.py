"""What can be imitated, and what is refused with which words."""

import numpy as np
import pytest
import xarray as xr

from dynascope import LocallyElastic, imitate, save
from dynascope.imitation import class_means
from dynascope.monitor.reading import assemble

STEPS = np.arange(0, 400, 10)


def growing(trials=4, classes=3):
    random = np.random.default_rng(0)
    means = np.linspace(0.1, 2.0, len(STEPS))[:, None, None] * (np.eye(classes) - 1 / classes)
    return means + 0.05 * random.standard_normal((trials, *means.shape))


def ensemble(means=None):
    means = growing() if means is None else means
    coords = {"trial": np.arange(len(means)) + 5, "step": ("step", STEPS, {"units": "updates"})}
    return xr.Dataset({"class_mean": (("trial", "step", "class", "logit"), means)}, coords=coords)


def watched(path):
    start = {"kind": "start", "layers": ["input", "fc"], "classes": [0, 1, 2], "settings": {}, "device": "cpu"}
    measures = [
        {"kind": "measure", "step": int(step), "time": 0.1 * step, "numbers": {"class_logits": each.tolist()}}
        for step, each in zip(STEPS, path, strict=True)
    ]
    return assemble([start, *measures])


def test_all_kinds_of_runs_give_the_same_class_means(tmp_path):
    means = growing()
    np.savez(tmp_path / "run.npz", times=STEPS.astype(float), class_means=means)
    runs = [ensemble(means), save(ensemble(means), tmp_path / "run.nc"), str(tmp_path / "run.npz")]
    runs.append([watched(each) for each in means])  # one watched run for each trial
    for run in runs:
        found = class_means(run)
        assert found.dims == ("trial", "time", "class", "feature")
        np.testing.assert_array_equal(found.values, means)
        np.testing.assert_array_equal(found["time"], STEPS)


def test_class_means_by_the_labels_that_are_drawn_and_by_shuffled_ones():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, (40, 60, 2))  # of networks, updates and draws
    labels[:, 7] = np.where(labels[:, 7] == 2, 1, labels[:, 7])  # nobody draws class 2: it is what it was
    growth = np.arange(1.0, 61.0)
    logits = growth[None, :, None, None] * np.eye(3)[labels]
    dims = ("trial", "update", "draw")
    run = xr.Dataset({"drawn_output": ((*dims, "logit"), logits), "drawn_label": (dims, labels)})
    found = class_means(run, by="drawn label")
    expected = growth[:, None, None] * np.eye(3)
    expected[7, 2] = expected[6, 2]
    assert found.dims == ("trial", "time", "class", "feature")
    np.testing.assert_allclose(found.values, expected[None])
    np.testing.assert_array_equal(found["time"], np.arange(60))
    chance = class_means(run, by="shuffled label").values[0] / growth[:, None, None]
    assert np.abs(chance.mean(axis=0) - chance.mean(axis=(0, 1))).max() < 0.05
    np.testing.assert_allclose(class_means([run, run], by="drawn label").values, np.stack([expected] * 2))


def drawn(*, labels=3):
    random = np.random.default_rng(1)
    picked = random.integers(0, labels, (20, 40, 1))
    dims = ("trial", "update", "draw")
    logits = np.eye(3)[picked]
    return xr.Dataset({"drawn_output": ((*dims, "logit"), logits), "drawn_label": (dims, picked)})


def test_networks_that_diverged_are_left_out_of_the_drawn_samples():
    run = drawn()
    spoilt = run.copy(deep=True)
    spoilt["drawn_output"][3, 20:] = np.nan
    with pytest.warns(RuntimeWarning, match="left out: trial 3$"):
        found = class_means(spoilt, by="drawn label")
    np.testing.assert_array_equal(found, class_means(run.drop_isel(trial=3), by="drawn label"))
    with pytest.raises(ValueError, match="a trial whose drawn outputs are finite"):
        class_means(run.assign(drawn_output=np.nan * run["drawn_output"]), by="drawn label")


def test_what_cannot_be_grouped_is_refused():
    with pytest.raises(ValueError, match="every class must be drawn by some network, but class 2 is not"):
        class_means(drawn(labels=2), by="drawn label")
    with pytest.raises(ValueError, match="'run' holds something that cannot be used"):
        class_means(drawn().rename(update="step"), by="shuffled label")
    with pytest.raises(ValueError, match="by must be one of class, drawn label, shuffled label, got 'probe'"):
        class_means(ensemble(growing()), by="probe")
    with pytest.raises(ValueError, match=r"run must hold drawn_output and drawn_label.*holds class_mean"):
        class_means(ensemble(growing()), by="drawn label")
    with pytest.raises(ValueError, match=r"run must be a record of Ensemble\.train where by is 'shuffled label'"):
        class_means(ensemble(growing())["class_mean"], by="shuffled label")


def test_a_single_watched_run_is_imitated_and_forecast_but_has_no_other_half():
    result = imitate(watched(growing()[0]), ["isotropic", "logits"])
    for name in ("relative_difference", "noise_floor", "intra_low", "network_spread"):
        assert np.isnan(result[name]).all(), name
    assert np.isfinite(result["forecast_difference"].isel(time=slice(-10, None))).all()
    assert np.isfinite(result["fitted_difference"].isel(time=-1)).all()


def test_copies_that_diverged_are_named_and_left_out():
    means = growing(trials=6)
    means[2, 7:] = np.nan
    with pytest.warns(RuntimeWarning, match="trial 7 at 70"):
        found = class_means(ensemble(means))
    assert found["trial"].values.tolist() == [5, 6, 8, 9, 10]
    means[:, -1] = np.nan
    with pytest.raises(ValueError, match="a trial with finite class means"):
        class_means(ensemble(means))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (3.0, "run must be a record of Ensemble.train, watch or simulate, or a path to one, got float"),
        ([], "at least one run"),
        (xr.Dataset({"loss": ("step", np.ones(40))}), "class_logits=True.* this record holds loss"),
        (ensemble(growing(classes=3)[:, :, :1]), "at least 2 classes, got 1"),
        (ensemble().isel(step=slice(0, 12)), "20 or more increasing times, got 12; record them more often"),
        (ensemble().drop_vars("step"), "at which times"),
        (ensemble().expand_dims(rate=2), "choose one of rate"),
        ([ensemble(), ensemble().isel(step=slice(0, 30))], "the same times"),
    ],
)
def test_bad_runs_are_refused(run, words):
    with pytest.raises(ValueError, match=words):
        class_means(run)


def test_a_watched_run_without_class_logits_is_named_with_what_to_do(tmp_path):
    save(xr.Dataset({"loads": ("step", np.ones(40))}), tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"watch\(…, class_logits=True\) does, but '.*run.nc' holds loads"):
        class_means(tmp_path / "run.nc")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing here"):
        class_means(tmp_path / "nothing here")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"geometry": "round"}, "geometry must be one of isotropic, logits, .* got 'round'"),
        ({"geometry": ["logits", "logits"]}, "different names"),
        ({"geometry": "kernel", "procedure": "published"}, "one of isotropic, logits, got 'kernel'"),
        ({"procedure": "quick"}, "procedure must be one of followed, published, got 'quick'"),
        ({"reference_time": 1e9}, "reference_time must be at most 300"),
        ({"splits": 0}, "splits must be a whole number"),
        ({"resamples": 3}, "resamples must be a whole number of at least 20"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        imitate(ensemble(), **options)


def test_features_fewer_than_classes_have_no_margins_but_are_imitated_isotropically():
    means = growing()[..., :2] + np.linspace(1, 2, len(STEPS))[:, None, None]
    result = imitate(ensemble(means), "isotropic", resamples=20)
    assert np.isnan(result["relative_difference"].sel(norm="H")).all()
    assert np.isfinite(result["relative_difference"].sel(norm="plain").isel(time=-1)).all()
    with pytest.raises(ValueError, match="features must be at least classes"):
        imitate(ensemble(means), "logits")


@pytest.mark.ci
def test_the_model_with_as_many_functions_as_the_data_is_named_saturated():
    result = imitate(ensemble(), "all", resamples=20)
    named = {
        str(each): bool(result["saturated"].sel(geometry=each, norm="plain")) for each in result["geometry"].values
    }
    assert [name for name, saturated in named.items() if saturated] == ["general"]
    assert int(result["functions_fitted"].sel(geometry="kernel")) == 6
    two = LocallyElastic(2, 2, noise=0.01).simulate(10.0, samples=3, trials=4, start=[[1.0, 0], [0, 0.7]])
    assert imitate(two, "logits", resamples=20)["saturated"].values.tolist() == [True, False]  # along margins


def test_published_procedure_aligns_one_logit_by_hand_and_makes_no_forecast():
    run = ensemble(growing() + 0.3 * np.arange(9).reshape(3, 3) / 9)
    result = imitate(run, ["logits", "isotropic"], procedure="published")
    imitated = result["imitated_mean"].sel(equation="ode")
    late = (imitated["time"] >= imitated["time"][-1] - 1000) & imitated.notnull().all(["geometry", "class", "feature"])
    genuine, simulated = (
        each.isel({"class": 0, "feature": 0}).sel(time=late) for each in (result["network_mean"], imitated)
    )
    np.testing.assert_allclose(simulated.mean("time"), float(genuine.mean()))
    assert np.isnan(result["forecast_difference"]).all()
    assert np.isnan(result["intra_low"]).all()
