"""GeoMNIST: the right shapes, from the seed alone, quickly."""

import time

import numpy as np
import pytest
from scipy import ndimage

from dynascope.data import geomnist


def _reference(kind, chance, fine=16):
    """Point-in-shape on a grid `fine` times finer, averaged, then scipy's Gaussian filter: another way to draw it."""
    angle, width, r, shift = np.deg2rad(176 * chance[0]), 0.9 + 0.2 * chance[1], 5 + 2 * chance[2], 2 * chance[3] - 1
    at = (np.arange(32 * fine) + 0.5) / fine - 0.5 - 16
    row, column = np.meshgrid(at, at, indexing="ij")
    u, v = np.cos(angle) * row + np.sin(angle) * column, np.cos(angle) * column - np.sin(angle) * row
    if kind == 0:
        inside = (u / r) ** 2 + (v / (2 * r)) ** 2 <= 1
    elif kind == 1:
        inside = (abs(u - shift) <= 4) & (abs(v - shift) <= 8)
    else:
        # apex at column −8√3, base from (−10, 8) to (10, 8)
        u, v = u - shift, v - shift
        inside = (v <= 8) & (abs(u) <= 10 * (v + 8 * np.sqrt(3)) / (8 + 8 * np.sqrt(3)))
    coarse = inside.reshape(32, fine, 32, fine).mean((1, 3))
    blur = {"sigma": width, "mode": "constant", "truncate": 8}
    return ndimage.gaussian_filter(coarse, **blur) / ndimage.gaussian_filter(np.ones_like(coarse), **blur)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_images_are_the_shapes_that_the_factors_say(kind):
    images, _ = geomnist(per_class=20, seed=3)
    factors = np.random.default_rng([3, kind]).random((20, 4))
    expected = np.stack([_reference(kind, row) for row in factors])
    found = images[20 * kind : 20 * kind + 20, 0]
    # where edges cross a pixel at an angle its share is not exact; the blur leaves a few hundredths of that
    assert np.abs(found - expected).max() < 0.03
    assert np.abs(found - expected).mean() < 0.001


def test_areas():
    images, labels = geomnist(per_class=2000)
    areas = [images[labels == k].sum((1, 2, 3)).mean() for k in range(3)]
    r = np.random.default_rng([0, 0]).random((2000, 4))[:, 2] * 2 + 5
    assert areas[0] == pytest.approx(2 * np.pi * np.mean(r**2), rel=0.005)
    assert areas[1] == pytest.approx(8 * 16, rel=0.005)
    assert areas[2] == pytest.approx(10 * (8 + 8 * np.sqrt(3)), rel=0.005)


def test_contract_and_seed():
    images, labels = geomnist(per_class=7, seed=1)
    assert images.shape == (21, 1, 32, 32)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    assert 0 <= images.min() < images.max() <= 1
    more = geomnist(per_class=9, seed=1)[0].reshape(3, 9, 1, 32, 32)[:, :7]
    np.testing.assert_array_equal(more.reshape(images.shape), images)
    assert not np.array_equal(geomnist(per_class=7, seed=2)[0], images)


def test_another_size_is_the_same_picture():
    large = geomnist(per_class=3, size=64)[0].reshape(9, 32, 2, 32, 2).mean((2, 4))
    assert np.abs(large - geomnist(per_class=3)[0][:, 0]).max() < 0.06


def test_six_thousand_images_in_two_seconds():
    geomnist(1)
    begun = time.process_time()
    geomnist(2000)
    assert time.process_time() - begun < 2 * 2  # of processor time, on up to two cores


@pytest.mark.parametrize("bad", [{"per_class": 0}, {"per_class": 1.5}, {"seed": -1}, {"size": 0}])
def test_bad_input(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        geomnist(**bad)
