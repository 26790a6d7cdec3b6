"""The model as users meet it: shapes, labels, options and refusals."""

import numpy as np
import pytest
import xarray as xr

from dynascope import SpringBlock, grid

QUICK = {"duration": 1.0, "trials": 2, "save_points": 3}


def test_shapes_and_derived_quantities():
    run = SpringBlock(**grid(friction_right=[0.0, 0.1], noise=[0.0, 0.01, 0.02])).simulate(**QUICK)
    assert run["position"].dims == ("friction_right", "noise", "trial", "time", "block")
    assert run["load"].dims == ("friction_right", "noise", "trial", "time", "layer")
    assert (
        run["energy"].dims == run["force"].dims == run["curvature"].dims == ("friction_right", "noise", "trial", "time")
    )
    np.testing.assert_array_equal(run["block"], np.arange(1, 8))
    np.testing.assert_array_equal(run["layer"], np.arange(8))
    x = np.concatenate([np.zeros((2, 3, 2, 3, 1)), run["position"], np.ones((2, 3, 2, 3, 1))], axis=-1)
    np.testing.assert_allclose(run["load"], 1 - x[..., :-1], atol=1e-15)
    np.testing.assert_allclose(run["energy"], 0.5 * (np.diff(x) ** 2).sum(-1), atol=1e-15)
    np.testing.assert_allclose(run["force"], x[..., -1] - x[..., -2], atol=1e-15)
    np.testing.assert_allclose(run["curvature"], np.diff(x, 2).mean(-1), atol=1e-15)


def test_time_zero_is_the_start():
    start = np.linspace(0.1, 0.7, 7)
    run = SpringBlock(noise=[0.0, 0.5]).simulate(start=start, **QUICK)
    np.testing.assert_array_equal(run["position"].isel(time=0), np.broadcast_to(start, (2, 2, 7)))
    each = np.stack([start, 2 * start])
    run = SpringBlock(noise=[0.0, 0.5]).simulate(start=each, **QUICK)
    np.testing.assert_array_equal(run["position"].isel(time=0, trial=0), each)
    np.testing.assert_array_equal(SpringBlock().mean_path([0.0], start=start), start[None])


def test_start_may_name_its_dimensions():
    levels, places = np.linspace(0.0, 0.6, 7), np.linspace(0.1, 0.7, 7)
    given = xr.DataArray(np.outer(places, 1 + levels), dims=("block", "noise"))
    run = SpringBlock(**grid(noise=levels)).simulate(start=given, **QUICK)
    np.testing.assert_array_equal(run["position"].isel(time=0, trial=0), given.transpose("noise", "block"))
    with pytest.raises(ValueError, match="start must have dimensions among"):
        SpringBlock().simulate(start=given, **QUICK)


def test_labels_must_agree_and_names_of_results_are_taken():
    one, other = (xr.DataArray([0.1, 0.2], dims="p", coords={"p": list(labels)}) for labels in ("ab", "cd"))
    with pytest.raises(ValueError, match="labels along 'p' must be the same"):
        SpringBlock(noise=one, friction_left=other)
    with pytest.raises(ValueError, match="'energy' is taken by the result"):
        SpringBlock(noise=xr.DataArray([0.1, 0.2], dims="energy"))
    with pytest.raises(ValueError, match="named by text"):
        SpringBlock(noise=xr.DataArray([0.1, 0.2], dims=[0]))


def test_requested_times_are_saved():
    run = SpringBlock().simulate(duration=1.0, dt=0.01, trials=1, save_points=[0.25, 0.5, 0.98])
    np.testing.assert_allclose(run["time"], [0.25, 0.5, 0.98])
    assert run["time"].attrs["units"] == "model time"


def test_durations_are_rounded_up_to_whole_steps():
    run = SpringBlock().simulate(duration=1.0, dt=0.35, trials=1)
    np.testing.assert_allclose(run["time"], [0.0, 0.35, 0.7, 1.05])  # every step, where there are fewer than asked for
    assert SpringBlock().simulate(duration=0.1, dt=0.01, trials=1).sizes["time"] == 11


@pytest.mark.ci
def test_three_grid_dimensions_and_labels():
    panel = xr.DataArray([0.1, 0.2], dims="panel", coords={"panel": ["left", "right"]})
    chain = SpringBlock(friction_left=panel, **grid(noise=[0.0, 0.1], stiffness=[1.0, 2.0, 3.0]))
    run = chain.simulate(**QUICK)
    assert run["energy"].shape == (3, 2, 2, 2, 3)
    assert run["friction_left"].dims == ("panel",)
    assert run.sel(panel="right", noise=0.1, stiffness=2.0)["position"].shape == (2, 3, 7)
    assert chain.equilibrium().shape == (3, 2, 2, 7)
    assert chain.mean_path([1.0, 2.0]).shape == (3, 2, 2, 2, 7)
    assert chain.effective_friction([0.0, 0.1, 0.2, 0.3, 0.4]).shape == (3, 2, 2, 5)
    assert chain.stationary_curvature().shape == (3, 2, 2)


def test_shared_noise_moves_blocks_alike():
    chain = SpringBlock(stiffness=1e-9, friction_right=0.0, friction_left=0.0, noise=0.1)
    together = chain.simulate(shared_noise=True, **QUICK)["position"].isel(time=-1)
    apart = chain.simulate(**QUICK)["position"].isel(time=-1)
    np.testing.assert_allclose(together, together.isel(block=[0] * 7), atol=1e-7)
    assert float(apart.std("block").min()) > 1e-3


def test_truncated_noise_is_bounded():
    chain = SpringBlock(stiffness=1e-9, friction_right=0.0, friction_left=0.0, noise=1.0)
    run = chain.simulate(duration=1.0, dt=0.01, trials=50, truncate=0.7)
    steps = run["position"].diff("time").values
    assert np.abs(steps).max() <= 0.7 * 0.1 + 1e-9
    assert np.abs(steps).max() > 0.65 * 0.1


def test_stopping_rule_holds_trials_and_says_when():
    chain = SpringBlock(noise=[0.0, 0.002])
    free = chain.simulate(duration=100.0, trials=8, save_points=101)
    run = chain.simulate(duration=100.0, trials=8, save_points=101, stop_tolerance=1e-3)
    stop = run["stop_time"]
    assert stop.dims == ("grid_0", "trial")
    assert np.isfinite(stop.isel(grid_0=0)).all()
    for point in range(2):
        for trial in range(8):
            when = float(stop[point, trial])
            path = run["position"][point, trial]
            until = path.sel(time=slice(None, when if np.isfinite(when) else None))
            np.testing.assert_array_equal(until, free["position"][point, trial].sel(time=until["time"]))
            moved = np.abs(until.diff("time")).max("block")
            assert np.all(moved[:-1] > 1e-3)
            if np.isfinite(when):
                assert moved[-1] <= 1e-3
                held = path.sel(time=slice(when, None))
                assert np.all(held == held.isel(time=0))


def test_stopping_rule_ends_the_run_early():
    run = SpringBlock(noise=0.0).simulate(duration=400.0, trials=2, stop_tolerance=1e-6)
    assert float(run["stop_time"].max()) < 400
    np.testing.assert_allclose(run["position"].isel(time=-1, trial=0), SpringBlock(noise=0.0).equilibrium(), atol=1e-4)
    assert np.isfinite(run["energy"]).all()


def test_float32_follows_float64():
    options = {"duration": 5.0, "trials": 200, "save_points": 2}
    exact, quick = (SpringBlock().simulate(precision=p, **options)["position"] for p in ("float64", "float32"))
    assert quick.dtype == np.float32
    gap = np.abs(exact.isel(time=-1).mean("trial") - quick.isel(time=-1).mean("trial"))
    # the two draw different noise from the same bits
    assert np.all(gap < 3 * np.sqrt(2) * exact.isel(time=-1).std("trial") / np.sqrt(200) + 1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stiffness": -1.0}, r"stiffness must be above 0, got -1\.0"),
        ({"stiffness": 0.0}, r"stiffness must be above 0, got 0\.0"),
        ({"friction_right": [-0.1, 0.1]}, r"friction_right must be at least 0, got -0\.1"),
        ({"friction_left": -0.1}, "friction_left must be at least 0"),
        ({"noise": -0.1}, "noise must be at least 0"),
        ({"noise": float("nan")}, "noise must be finite everywhere, got nan"),
        ({"target": float("inf")}, "target must be finite everywhere, got inf"),
        ({"target": "far"}, "target must be a real number"),
        ({"noise": "0.1"}, "noise must be a real number"),
        ({"noise": True}, "noise must be a real number"),
        ({"blocks": 0}, "blocks must be a whole number of at least 1, got 0"),
        ({"noise": [0.1, 0.2], "target": [1.0, 2.0, 3.0]}, "target does not broadcast against noise"),
    ],
)
def test_parameters_that_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        SpringBlock(**fields)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"duration": 0.0}, r"duration must be above 0\.0, got 0\.0"),
        ({"duration": -1.0}, "duration must be above 0"),
        ({"dt": 0.0}, "dt must be above 0"),
        ({"dt": 0.6}, r"dt must be at most 1/\(2·stiffness\).*: here at most 0\.5, got 0\.6"),
        (
            {"dt": 0.9, "dynamics": "inertial"},
            r"dt must keep damping·dt \+ 2·stiffness·dt² below 2.*: here at most 0\.780776, got 0\.9",
        ),
        ({"dt": float("nan")}, "dt must be finite"),
        ({"trials": 0}, "trials must be a whole number of at least 1"),
        ({"seed": -1}, "seed must be an integer"),
        ({"save_points": 1}, "save_points must be at least 2"),
        ({"truncate": True}, "truncate must be a real number"),
        ({"trials": 10**12}, "trials must stay below"),
        ({"dynamics": "quantum"}, "dynamics must be one of overdamped, inertial, langevin, got 'quantum'"),
        ({"dynamics": "inertial", "damping": -1.0}, "damping must be at least 0"),
        ({"noise_decay": -1.0}, "noise_decay must be at least 0"),
        ({"truncate": 0.0}, "truncate must be above 0"),
        ({"stop_tolerance": 0.0}, "stop_tolerance must be above 0"),
        ({"start": [0.0, 1.0]}, r"start must broadcast to \(…grid, block\) = \(7,\), got shape \(2,\)"),
        ({"start": [float("nan")] * 7}, "start must be finite"),
        ({"precision": "float16"}, "precision must be one of float64, float32"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SpringBlock().simulate(**options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.mean_path([1.0, 0.5]), "times must be an increasing list"),
        (lambda c: c.mean_path([-1.0, 0.5]), "times must be an increasing list"),
        (lambda c: c.mean_path([]), "times must be an increasing list"),
        (lambda c: c.mean_drift(float("nan")), "force must be finite"),
        (lambda c: c.mean_drift(0.1, dt=0.0), "dt must be above 0"),
        (lambda c: c.effective_friction("x"), "curvature must be a real number"),
        (lambda c: c.stationary_curvature(truncate=-1.0), "truncate must be above 0"),
    ],
)
def test_closed_forms_refuse_nonsense(call, message):
    with pytest.raises(ValueError, match=message):
        call(SpringBlock())


def test_unknown_options_and_fields_are_refused():
    with pytest.raises(ValueError, match=r"sed=1 is not an option; there are .*\. Did you mean seed\?"):
        SpringBlock().simulate(sed=1)
    with pytest.raises(TypeError, match="mass"):
        SpringBlock(mass=1.0)


def test_overflow_is_reported_with_its_place():
    with pytest.raises(FloatingPointError, match=r"step 1 \(time 0\.01\) in trial 0 with stiffness=1, .*noise=1e\+308"):
        SpringBlock(noise=[0.0, 1e308]).simulate(**QUICK)
