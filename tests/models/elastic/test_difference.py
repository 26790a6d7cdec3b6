"""Relative differences between paths: none between equal ones, at most 2, blind to what the geometry does not see."""

import numpy as np
import pytest

from dynascope.models.elastic.difference import relative_difference
from dynascope.models.elastic.geometry import margin_directions

TIMES = np.linspace(0.0, 20.0, 201)


def test_relative_difference():
    path = np.exp(TIMES / 20)[:, None, None] * (margin_directions(3, 3) + 0.1)
    assert np.all(relative_difference(path, path) == 0)
    assert relative_difference(path, -path, "isotropic").max() == pytest.approx(2.0)
    aside = path + np.array([1.0, 1.0, 1.0])  # along 1, to which the margin directions are orthogonal
    np.testing.assert_allclose(relative_difference(path, aside), 0, atol=1e-12)
    assert relative_difference(path, aside, "isotropic").min() > 0.01
    with pytest.raises(ValueError, match="imitated must have the shape"):
        relative_difference(path, path[:, :2])
