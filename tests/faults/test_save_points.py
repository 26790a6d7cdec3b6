"""The exact method samples other paths of the same law where other times are saved, and says so."""

import numpy as np
import pytest

from dynascope import LocallyElastic

START = np.array([[1.0, 0.0, 0.2], [0.0, 0.8, 0.1], [0.3, 0.0, 1.3]])
TRIALS = 4000
TIMES = ([2.0], [1.0, 2.0], np.linspace(0.0, 2.0, 9))


def test_the_docstring_says_what_a_path_depends_on():
    said = " ".join((LocallyElastic.simulate.__doc__ or "").split())
    assert "its path depends on which times are saved (its law does not)" in said
    assert "equals the same model alone to rounding" in said


@pytest.mark.parametrize("saved", TIMES, ids=("end", "two", "nine"))
def test_the_law_is_the_same_whichever_times_are_saved(saved):
    model = LocallyElastic(noise=0.4)
    run = model.simulate(2.0, samples=2, trials=TRIALS, save_points=saved, start=START, seed=5)
    found = run["class_mean"].isel(time=-1).values.reshape(TRIALS, 9)
    exact, mean = model.covariance([2.0], 2)[0], model.mean_path([2.0], START)[0].ravel()
    spread = np.sqrt(np.diag(exact))
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4 * spread / np.sqrt(TRIALS))
    error = np.sqrt((exact**2 + np.outer(spread**2, spread**2)) / TRIALS)  # of a Gaussian sample covariance
    assert np.all(np.abs(np.cov(found.T) - exact) < 4.5 * error)


def test_the_law_between_two_times_is_the_same_too():
    """Covariance of the path with itself at another time, saved with or without a time between."""
    model = LocallyElastic(noise=0.4)
    across = []
    for saved in ([0.5, 2.0], [0.5, 1.1, 2.0]):
        run = model.simulate(2.0, samples=2, trials=TRIALS, save_points=saved, start=START, seed=6)
        early, late = (run["class_mean"].isel(time=at).values.reshape(TRIALS, 9) for at in (0, -1))
        across.append(np.cov(early.T, late.T)[:9, 9:])
    early, late = (np.sqrt(np.diag(model.covariance([at], 2)[0])) for at in (0.5, 2.0))
    assert np.all(np.abs(across[0] - across[1]) < 4.5 * np.sqrt(2 * 2 / TRIALS) * np.outer(early, late))


def test_a_point_of_a_grid_is_the_model_alone_to_rounding():
    options = {"duration": 2.0, "samples": 3, "trials": 4, "save_points": 5}
    whole = LocallyElastic(noise=[0.1, 0.3]).simulate(**options)["point"].isel(grid_0=1)
    alone = LocallyElastic(noise=0.3).simulate(**options)["point"]
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-14)


def test_stepped_class_means_do_not_depend_on_the_saved_times():
    options = {"duration": 1.0, "dt": 0.1, "samples": 2, "trials": 2, "method": "heun"}
    few, many = (LocallyElastic().simulate(save_points=saved, **options) for saved in (2, 11))
    np.testing.assert_array_equal(few["class_mean"].isel(time=-1), many["class_mean"].isel(time=-1))
