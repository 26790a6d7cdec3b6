"""Packs come in whole or not at all, whenever the program dies, and whatever the disk does."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from small_experiments import PACKED, digests, no_record, walk

from dynascope import save
from dynascope.sweep import folder as folder_module
from dynascope.sweep import gather, pack_runner, status, sweep
from dynascope.sweep.batches import Batch, as_batch, scan
from dynascope.sweep.folder import FAILURES, INCOMING, RESULTS, SweepFolder
from dynascope.sweep.plan import Task
from dynascope.sweep.stacks import Failure, Gathering


def batch_of(*outcomes):
    """A batch of tasks with the addresses 0, 1, 2, …"""
    found = Gathering("code")
    for number, outcome in enumerate(outcomes):
        found.add(Task({"x": number}, f"{number}"), outcome)
    return as_batch(found, 0.5)


def dies(*_, **__):
    raise KeyboardInterrupt


def test_failures_of_a_batch_that_came_in_are_written_later(tmp_path, monkeypatch):
    folder = SweepFolder(tmp_path)
    with monkeypatch.context() as patched:  # between the batch and the files of its failures
        patched.setattr(folder_module, "write_text", dies)
        with folder.locked(), pytest.raises(KeyboardInterrupt):
            folder.take_in(*batch_of(xr.Dataset({"x": 0.0}), Failure("it broke", "here"), xr.Dataset({"x": 2.0})))
    assert (folder.keys(RESULTS), folder.keys(FAILURES)) == ({"0", "2"}, set())
    with folder.locked():
        assert folder.keys(FAILURES) == {"1"}
    assert folder.failure("1") == Failure("it broke", "here")
    with monkeypatch.context() as patched, folder.locked():  # a failure that is mended
        patched.setattr(Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            folder.take_in(*batch_of(xr.Dataset({"x": 0.0}), xr.Dataset({"x": 1.0})))
    with folder.locked():
        assert folder.keys(FAILURES) == set()
    assert {key: record["x"].item() for key, record in folder.records()} == {"0": 0.0, "1": 1.0, "2": 2.0}


def test_packs_that_version_0_1_0_left_on_their_way_come_in_and_halves_are_dropped(tmp_path):
    own = {"address": "a1", "code": "", "configuration": {"x": 1}}
    save(xr.Dataset({"y": 2.0}, attrs={"sweep": json.dumps(own)}), tmp_path / INCOMING / "whole" / "a1.nc")
    (tmp_path / INCOMING / "half.part").mkdir()
    (tmp_path / INCOMING / "half.part" / "c.nc").touch()
    with SweepFolder(tmp_path).locked():
        ((key, record),) = SweepFolder(tmp_path).records()
    assert (key, record["y"].item()) == ("a1", 2.0)
    assert os.listdir(tmp_path / INCOMING) == []


@pytest.mark.ci
def test_a_program_killed_at_any_moment_leaves_whole_packs_and_goes_on(tmp_path):
    """Signal 9, some times; each time results of whole packs, and at the end the bits of an undisturbed run."""
    program = Path(__file__).with_name("killed_sweeps.py")
    done = subprocess.run(
        [sys.executable, program, str(tmp_path / "killed"), "8"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout)
    assert held == sorted(held)
    assert len(set(held) - {0, 36}) > 0, f"killed too early or too late every time: {held}"
    sweep(PACKED, {"drift": np.linspace(0, 1, 9)}, tmp_path / "calm", seeds=4, scheduler="here")
    assert digests(tmp_path / "killed") == digests(tmp_path / "calm")


def test_a_second_program_in_the_same_folder_is_refused(tmp_path):
    with SweepFolder(tmp_path).locked():
        assert SweepFolder(tmp_path).is_locked()
        with pytest.raises(ValueError, match="out must be a folder where no sweep is running"):
            sweep(walk, {"drift": [0.0]}, tmp_path, scheduler="here")
    assert not SweepFolder(tmp_path).is_locked()
    assert not SweepFolder(tmp_path / "nowhere").is_locked()


def test_a_full_disk_stops_the_sweep_and_keeps_what_is_finished(tmp_path, monkeypatch):
    write, calls = os.write, []

    def full(file, content):
        calls.append(1)
        if len(calls) > 2:
            write(file, content[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        patched.setattr(pack_runner, "BATCH_SECONDS", 0.0)
        with pytest.raises(OSError, match=r"a result cannot be written.*2 finished results are kept: make room"):
            sweep(walk, {"drift": [0.0, 1.0, 2.0, 3.0]}, tmp_path, scheduler="here")
    assert status(tmp_path)["finished"] == 2
    assert all(isinstance(part, Batch) for part in scan(SweepFolder(tmp_path).batches)), "no half batch is left"
    sweep(walk, {"drift": [0.0, 1.0, 2.0, 3.0]}, tmp_path, scheduler="here")
    assert status(tmp_path)["finished"] == 4


def test_a_disk_that_is_really_full(tmp_path, environment):
    """Files of this process may not grow beyond 20 kB: the second batch does not fit."""
    code = (
        "import resource, sys;"
        "from dynascope.sweep import pack_runner, sweep; from small_experiments import walk;"
        "pack_runner.BATCH_SECONDS = 0.0;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000));"
        "sweep(walk, [{'steps': 5}, {'steps': 50_000}], sys.argv[1], scheduler='here')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("OSError: a result cannot be written"), done.stderr
    assert "1 finished results are kept" in last
    assert status(tmp_path)["finished"] == 1
    sweep(walk, [{"steps": 5}, {"steps": 50_000}], tmp_path, scheduler="here")
    assert status(tmp_path)["finished"] == 2


def test_what_a_record_cannot_hold_is_a_failure_of_its_task(tmp_path):
    with pytest.warns(RuntimeWarning, match="2 of 2 tasks failed"):
        sweep(no_record, {"x": [1, 2]}, tmp_path, scheduler="here")
    assert "variable 'z' has the type complex128" in status(tmp_path)["failures"][0]["error"]


def test_folders_that_are_not_sweeps_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"out must be the folder of a sweep, got .*, which has no sweep.json"):
        status(tmp_path)
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(ValueError, match=r"is damaged, or dynascope did not write it: .*; run the sweep again"):
        gather(tmp_path)
    (tmp_path / "sweep.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="is of a newer version; update dynascope"):
        gather(tmp_path)
    with pytest.raises(ValueError, match="cannot be written"):
        sweep(walk, {"drift": [0.0]}, "/proc/nowhere", scheduler="here")
