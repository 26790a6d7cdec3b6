"""Image sets: files as they come, real data where it is, one sentence where it is not."""

import gzip
import os
import struct

import numpy as np
import pytest

from dynascope.data import images
from dynascope.data.folder import data_folder
from dynascope.data.images import read_idx, shrink

REAL = pytest.mark.skipif("DYNASCOPE_DATA" not in os.environ, reason="no real data: DYNASCOPE_DATA is not set")


def _idx(values):
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("packed", [True, False])
def test_idx_compressed_or_not(folder, packed):
    rng = np.random.default_rng(0)
    written = {}
    for split, n in (("train", 30), ("t10k", 20)):
        x, y = rng.integers(0, 256, (n, 28, 28), np.uint8), (np.arange(n) % 10).astype(np.uint8)
        for kind, values in (("images-idx3", x), ("labels-idx1", y)):
            path = folder / f"mnist-{split}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(_idx(values)) if packed else _idx(values))
        written[split] = x, y
    x, y, xt, yt = images("mnist")
    np.testing.assert_array_equal((x[:, 0] * 255).round().astype(np.uint8), written["train"][0])
    np.testing.assert_array_equal(y, written["train"][1])
    assert xt.shape == (20, 1, 28, 28)
    assert (x.dtype, y.dtype, yt.dtype) == (np.float32, np.int64, np.int64)


def test_official_cifar_batches(folder):
    rng = np.random.default_rng(0)
    batches = folder / "cifar-10-batches-bin"
    batches.mkdir()
    rows = {}
    for name in [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]:
        rows[name] = np.concatenate([np.arange(10)[:, None], rng.integers(0, 256, (10, 3072))], 1).astype(np.uint8)
        rows[name].tofile(batches / name)
    _, y, xt, yt = images("cifar10", classes=[7, 2])
    assert y.tolist() == [1, 0] * 5  # class 2 comes first in the file and is called 1
    assert yt.tolist() == [1, 0]
    red, green = xt[1, 0] * 255, xt[1, 1] * 255
    np.testing.assert_allclose(red.ravel(), rows["test_batch.bin"][7, 1:1025], atol=1e-4)
    np.testing.assert_allclose(green.ravel(), rows["test_batch.bin"][7, 1025:2049], atol=1e-4)


def test_missing_data_says_where_to_put_it(folder):
    for name, file in (("mnist", "mnist-train-images-idx3-ubyte.gz"), ("cifar10", "cifar-10-batches-bin")):
        with pytest.raises(FileNotFoundError) as told:
            images(name)
        sentence = str(told.value)
        assert file in sentence
        assert str(folder) in sentence
        assert f"dynascope data fetch {name}" in sentence
        assert "\n" not in sentence


def test_damaged_files_are_named(folder):
    for content, message in (
        (b"\x1f\x8b\x08broken", "damaged or cut short"),
        (b"nothing of the kind", "not an IDX file"),
        (_idx(np.zeros((5, 28, 28), np.uint8))[:-1], "must hold 3920 bytes of data, got 3919"),
    ):
        path = folder / "file"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_idx(path)


def test_shrink_keeps_the_mean_and_refuses_to_grow():
    x = np.random.default_rng(0).random((4, 2, 28, 28))
    np.testing.assert_allclose(shrink(x, 10).mean((2, 3)), x.mean((2, 3)), rtol=1e-6)
    np.testing.assert_allclose(shrink(x, 14), x.reshape(4, 2, 14, 2, 14, 2).mean((3, 5)), rtol=1e-6)
    with pytest.raises(ValueError, match="size must be at most 28"):
        shrink(x, 29)


def test_digits_need_no_download():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    x, _, xt, yt = images("digits", classes=4, per_class=(50, 10), seed=3)
    assert x.shape == (200, 1, 8, 8)
    assert np.bincount(yt).tolist() == [10] * 4
    everything = images("digits", seed=3)
    assert len(everything[1]) + len(everything[3]) == 1797
    train = {image.tobytes() for image in x}
    assert not train & {image.tobytes() for image in xt}


@REAL
@pytest.mark.parametrize(("name", "train"), [("mnist", 60_000), ("fashion", 10_000)])
def test_real_images(name, train):
    x, y, xt, yt = images(name)
    assert len(x) >= train
    assert xt.shape == (10_000, 1, 28, 28)
    assert np.unique(y).tolist() == np.unique(yt).tolist() == list(range(10))
    if name == "mnist":  # published: mean .1307, deviation .3081, first labels 5 0 4 1 9
        assert (x.mean(), x.std()) == (pytest.approx(0.1307, abs=1e-4), pytest.approx(0.3081, abs=1e-4))
        assert y[:5].tolist() == [5, 0, 4, 1, 9]


@REAL
def test_real_cifar_shrunk_here_is_the_one_shrunk_elsewhere():
    small = np.load(data_folder() / "cifar10_10x10.npz", allow_pickle=False)
    _, _, xt, yt = images("cifar10", classes=3, size=10)
    for own in range(3):
        expected = small["x_test"][small["y_test"] == own][:500].transpose(0, 3, 1, 2)
        assert np.abs(xt[yt == own] * 255 - expected).max() < 0.501  # half a grey level: it was rounded
    x, *_ = images("cifar10", size=10, per_class=20)
    assert x.shape == (200, 3, 10, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "mist"}, "name must be one of mnist, fashion, cifar10, digits"),
        ({"name": "digits", "classes": 1}, "classes"),
        ({"name": "digits", "classes": [3, 3]}, "different classes"),
        ({"name": "digits", "classes": [3, 10]}, "among"),
        ({"name": "digits", "per_class": 10_000}, "per_class must be at most"),
        ({"name": "digits", "per_class": (1, 2, 3)}, "one number or"),
        ({"name": "digits", "size": 9}, "size must be at most 8"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        images(**options)
