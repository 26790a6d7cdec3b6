import numpy as np
import pytest
import xarray as xr

from dynascope.checks import as_float, flag
from dynascope.models.parameters import broadcast, grid

FREE = {"a": (), "b": ()}


def test_positional_axes_are_matched_from_the_right():
    aligned, axes = broadcast({"a": np.zeros((3, 1)), "b": np.zeros(2)}, core=FREE, reserved=())
    assert (axes.dims, axes.shape, axes.size) == (("grid_0", "grid_1"), (3, 2), 6)
    assert aligned["a"].shape == (3, 1)
    assert aligned["b"].shape == (1, 2)
    assert axes.coordinates["a"][0] == ("grid_0",)
    assert axes.coordinates["b"][0] == ("grid_1",)


def test_names_come_first_and_mix_with_positions():
    named = xr.DataArray([1.0, 2.0], dims="panel", coords={"panel": ["x", "y"]})
    aligned, axes = broadcast({"a": named, "b": [1.0, 2.0, 3.0]}, core=FREE, reserved=())
    assert (axes.dims, axes.shape) == (("panel", "grid_0"), (2, 3))
    assert aligned["a"].shape == (2, 1)
    assert list(axes.coordinates["panel"][1]) == ["x", "y"]


def test_core_dimensions_do_not_broadcast():
    core = {"teacher": ("mode",), "noise": ()}
    aligned, axes = broadcast({"teacher": np.ones((4, 3)), "noise": np.zeros(4)}, core=core, reserved=())
    assert (axes.dims, axes.shape) == (("grid_0",), (4,))
    assert aligned["teacher"].shape == (4, 3)
    assert aligned["noise"].shape == (4,)
    named = xr.DataArray(np.ones((3, 5)), dims=("mode", "depth"))
    aligned, axes = broadcast({"teacher": named, "noise": 0.0}, core=core, reserved=())
    assert aligned["teacher"].shape == (5, 3)
    assert axes.dims == ("depth",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]}, r"b does not broadcast against a: 3 and 2 values"),
        ({"a": [1.0, np.nan], "b": 0.0}, "a must be finite everywhere, got nan"),
        ({"a": "much", "b": 0.0}, "a must be a real number or an array of real numbers, got 'much'"),
        ({"a": [], "b": 0.0}, "a must hold at least one number"),
        ({"a": xr.DataArray([1.0, 2.0], dims="time"), "b": 0.0}, "'time' is taken by the result"),
        ({"a": xr.DataArray([1.0, 2.0], dims="b"), "b": [1.0, 2.0]}, "'b' is also the name of a dimension"),
    ],
)
def test_what_cannot_be_aligned(values, message):
    with pytest.raises(ValueError, match=message):
        broadcast(values, core=FREE, reserved=("time",))


def test_core_dimensions_must_be_there():
    with pytest.raises(ValueError, match="teacher must have at least"):
        broadcast({"teacher": 1.0}, core={"teacher": ("mode",)}, reserved=())
    with pytest.raises(ValueError, match="teacher must have the dimension 'mode'"):
        broadcast({"teacher": xr.DataArray([1.0], dims="x")}, core={"teacher": ("mode",)}, reserved=())


def test_grid_wants_lists():
    with pytest.raises(ValueError, match="noise must be a list"):
        grid(noise=1.0)


@pytest.mark.parametrize("value", ["1", None, True, 1j, [1.0, "x"], [[1.0], [1.0, 2.0]], object()])
def test_only_real_numbers_are_numbers(value):
    with pytest.raises(ValueError, match="noise must be a real number or an array of real numbers"):
        as_float("noise", value)


@pytest.mark.parametrize("value", ["no", 1, None, float("nan")])
def test_only_true_and_false_are_flags(value):
    with pytest.raises(ValueError, match="shared_noise must be True or False"):
        flag("shared_noise", value)
