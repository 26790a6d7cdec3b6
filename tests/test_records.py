import inspect
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dynascope import SpringBlock, digest, load, save
from dynascope.records import attribute, write_whole


@pytest.fixture
def run():
    return SpringBlock().simulate(duration=1.0, trials=3, save_points=5)


@given(
    st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.bool_, np.uint8]).flatmap(
        lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, max_side=4))
    )
)
def test_any_array_round_trips_bit_for_bit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("record") / "record.nc"
    dims = [f"axis_{i}" for i in range(values.ndim)]
    record = xr.Dataset({"values": (dims, values)}, attrs={"note": json.dumps("ε ≠ μ")})
    back = load(save(record, path))
    assert back["values"].dtype == values.dtype
    assert back["values"].values.tobytes() == values.tobytes()
    assert back.identical(record)


def test_a_run_round_trips(run, tmp_path):
    assert load(save(run, tmp_path / "deep" / "er" / "run.nc")).identical(run)


def test_digest_ignores_when_and_where(run):
    other = run.assign_attrs(wall_time="9.0", host='"elsewhere"', date='"2000-01-01"')
    assert digest(run) == digest(other)
    assert digest(run) != digest(run.assign_attrs(seed="1"))
    changed = run.copy(deep=True)
    changed["energy"][0, 0] += 1e-16 + 1e-12
    assert digest(run) != digest(changed)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "nothing.nc")


def test_foreign_files(run, tmp_path):
    text = tmp_path / "text.nc"
    text.write_text("hello")
    with pytest.raises(ValueError, match="not a dynascope record"):
        load(text)
    foreign = tmp_path / "foreign.nc"
    run.to_netcdf(foreign, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"not one written by dynascope\.save"):
        load(foreign)


@pytest.mark.parametrize("keep", [0.05, 0.3, 0.7, 0.999])
def test_truncated_files(run, tmp_path, keep):
    whole = save(run, tmp_path / "run.nc").read_bytes()
    cut = tmp_path / "cut.nc"
    cut.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(ValueError, match=r"cut short|damaged"):
        load(cut)


def test_changed_content_is_noticed(run, tmp_path):
    path = save(run, tmp_path / "run.nc")
    content = path.read_bytes()
    needle = run["energy"].values.tobytes()[:32]
    assert content.count(needle) >= 1
    path.write_bytes(content.replace(needle, needle[:-1] + bytes([needle[-1] ^ 1]))[:-26])  # without the sum
    with pytest.raises(ValueError, match="digest"):
        load(path)


def test_newer_format_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr("dynascope.records.FORMAT", 99)
    path = save(run, tmp_path / "run.nc")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="update dynascope"):
        load(path)


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(place):
        place.write_text("half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_whole(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_killed_process_leaves_the_old_file(run, tmp_path):
    path = save(run, tmp_path / "run.nc")
    code = f"""
        import os
        from dynascope import load, save
        from pathlib import Path
        run = load({str(path)!r})
        os.replace = lambda *_: os._exit(9)  # dies after writing, before renaming
        save(run.isel(trial=[0]), {str(path)!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == 9
    assert load(path).identical(run)


def test_only_datasets_with_plain_types_are_saved(tmp_path):
    with pytest.raises(ValueError, match=r"xarray\.Dataset"):
        inspect.unwrap(save)({"a": 1}, tmp_path / "a.nc")  # without the type checks of the tests
    with pytest.raises(ValueError, match="cannot hold"):
        save(xr.Dataset({"a": ("x", np.array([object()]))}), tmp_path / "a.nc")


def test_text_labels_round_trip_whatever_their_width(tmp_path):
    panel = xr.DataArray([0.1, 0.2], dims="panel", coords={"panel": ["left", "right"]})
    run = SpringBlock(noise=panel).simulate(duration=1.0, trials=2, save_points=2)
    for part in (run, run.sel(panel="left"), run.isel(panel=[0])):
        assert load(save(part, tmp_path / "part.nc")).equals(part)


@pytest.mark.parametrize("value", [[1, 2], 1.5, None, True, {"a": 1}])
def test_attributes_must_be_text(run, tmp_path, value):
    with pytest.raises(ValueError, match="attribute 'levels' of the dataset must be text"):
        save(run.assign_attrs(levels=value), tmp_path / "a.nc")


def test_names_with_a_slash_round_trip(tmp_path):
    names = {"train/loss": 1.0, "train_loss": 2.0, "train_loss_": 3.0, "a/b/c": 4.0}
    record = xr.Dataset({name: ("time/step", [value]) for name, value in names.items()}, {"time/step": [0.5]})
    assert load(save(record, tmp_path / "run.nc")).identical(record)


def test_names_of_netcdf_are_refused(run, tmp_path):
    run["energy"].attrs["_FillValue"] = "0"
    with pytest.raises(ValueError, match="attribute '_FillValue' of variable 'energy'"):
        save(run, tmp_path / "a.nc")


def test_files_follow_the_umask(run, tmp_path):
    before = os.umask(0o077)
    try:
        path = save(run, tmp_path / "private.nc")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_attribute_that_is_not_there():
    with pytest.raises(ValueError, match="no attribute 'seed'"):
        attribute(xr.Dataset(), "seed")


def test_damage_is_seen_before_hdf5_reads_the_file(tmp_path, monkeypatch):
    """Some damage keeps HDF5 busy for good."""
    path = save(xr.Dataset({"a": ("x", [1.0, 2.0])}), tmp_path / "run.nc")
    whole, random = path.read_bytes(), np.random.default_rng(0)

    def trapped(name):
        raise AssertionError(f"{name} was asked for")

    monkeypatch.setattr("dynascope.records.import_module", trapped)
    for place in [*random.integers(64, 8 * len(whole), size=50), 8 * len(whole) - 3, 8 * len(whole) - 200]:
        spoiled = bytearray(whole)
        spoiled[place // 8] ^= 1 << (place % 8)
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match="its bytes do not match the sum at its end"):
            load(path)


def test_records_without_a_sum_at_their_end_are_read(tmp_path):
    path = save(xr.Dataset({"a": ("x", [1.0, 2.0])}), tmp_path / "run.nc")
    path.write_bytes(path.read_bytes()[:-26])
    assert load(path)["a"].values.tolist() == [1.0, 2.0]
