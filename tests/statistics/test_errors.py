"""Mean and standard error: the textbook formula to the bit, along the axis of the repetitions."""

import numpy as np
import xarray as xr

from dynascope.statistics.errors import over_trials

VALUES = np.random.default_rng(0).normal(size=(3, 4, 10))


def test_arrays_are_reduced_over_the_last_axis_or_the_named_one():
    mean, error = over_trials(VALUES)
    np.testing.assert_array_equal(mean, VALUES.mean(axis=-1))
    np.testing.assert_array_equal(error, VALUES.std(axis=-1, ddof=1) / np.sqrt(10))
    np.testing.assert_array_equal(over_trials(VALUES, axis=0).error, VALUES.std(axis=0, ddof=1) / np.sqrt(3))


def test_labelled_arrays_are_reduced_over_trials_wherever_they_stand():
    labelled = xr.DataArray(VALUES, dims=("noise", "trial", "layer"))
    mean, error = over_trials(labelled)
    np.testing.assert_array_equal(mean, VALUES.mean(axis=1))
    np.testing.assert_array_equal(error, VALUES.std(axis=1, ddof=1) / np.sqrt(4))


def test_what_is_not_known_stays_unknown():
    holed = xr.DataArray(VALUES, dims=("noise", "layer", "trial")).copy()
    holed[0, 0, 0] = np.nan
    for each in over_trials(holed):
        np.testing.assert_array_equal(np.isnan(each), np.arange(12).reshape(3, 4) == 0)


def test_too_few_trials_are_not_known_and_raise_no_warning():
    for values in (VALUES[..., :0], xr.DataArray(VALUES[..., :0], dims=("mode", "case", "trial"))):
        none = over_trials(values)
        assert none.runs == 0
        assert np.isnan(none.mean).all()
        assert np.isnan(none.error).all()
    one = over_trials(VALUES[..., :1])
    assert one.mean.tolist() == VALUES[..., 0].tolist()
    assert np.isnan(one.error).all()
