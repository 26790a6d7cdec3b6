"""Signals end a command with one sentence and the status that belongs to them; nothing is left behind."""

import errno
import gc
import os
import signal
import subprocess
import sys
import time

import pytest

from dynascope.cli import commands
from dynascope.records import write_whole
from dynascope.sweep import gather
from dynascope.sweep.batches import NAME

MINE = "import time\ndef slow(x):\n    time.sleep(0.5)\n    return {'y': x}\n"
SWEEP = ("sweep", "mine:slow", "--grid", "x=0:29:30", "--workers", "2", "--out", "out")


def begin(folder, *arguments):
    (folder / "mine.py").write_text(MINE)
    code = "import sys; from dynascope.cli import main; sys.argv[0] = 'dynascope'; main()"
    room = folder / "tmp"
    room.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(room)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(folder):
    again = begin(folder, *SWEEP)
    again.communicate(timeout=120)
    return again.returncode


def scratch(folder):
    return [name for name in os.listdir(folder / "tmp") if "dynascope-sweep" in name]


def wait_for(found, seconds=90):
    until = time.monotonic() + seconds
    while not found() and time.monotonic() < until:
        time.sleep(0.05)
    assert found()


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_sweep_on_dask_that_is_stopped_leaves_nothing_and_goes_on(tmp_path, number):
    running = begin(tmp_path, *SWEEP)
    wait_for(lambda: list(tmp_path.glob("out/results/*")))
    running.send_signal(number)
    _, err = running.communicate(timeout=90)
    assert running.returncode == 128 + number
    assert "of 30 finished; the same command goes on" in err
    assert "Traceback" not in err
    assert not scratch(tmp_path)
    before = (tmp_path / "out" / "results" / NAME).read_bytes()
    assert end(tmp_path) == 0
    assert gather(tmp_path / "out")["outcome"].values.tolist() == ["finished"] * 30
    assert (tmp_path / "out" / "results" / NAME).read_bytes().startswith(before)


@pytest.mark.ci
def test_what_a_killed_sweep_leaves_is_removed_by_the_next(tmp_path):
    running = begin(tmp_path, *SWEEP)
    wait_for(lambda: list(tmp_path.glob("out/results/*")))
    running.kill()
    running.communicate()
    assert scratch(tmp_path)
    assert end(tmp_path) == 0
    assert not scratch(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_any_command_says_what_stopped_it(command, monkeypatch, number):
    monkeypatch.setattr("dynascope.cli.simulate.write", lambda *_, **__: os.kill(os.getpid(), number) or time.sleep(5))
    code, _, err = command("simulate", "mode", "--trials", "1", "--duration", "0.1")
    assert code == 128 + number
    assert err.strip() == f"stopped by {number.name}: what is finished is kept, and the same command goes on"
    assert signal.getsignal(number) is not commands._stop


def test_a_signal_during_garbage_collection_is_not_lost(command, monkeypatch):
    def during(phase, _):
        if phase == "start":
            gc.callbacks.remove(during)
            os.kill(os.getpid(), signal.SIGTERM)

    def collect(*_, **__):
        gc.callbacks.append(during)
        gc.collect()
        time.sleep(5)

    monkeypatch.setattr("dynascope.cli.simulate.write", collect)
    assert command("simulate", "mode", "--trials", "1", "--duration", "0.1")[0] == 128 + signal.SIGTERM


def test_a_full_disk_is_named(tmp_path):
    def full(_place):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device, while writing: '.*run\.nc'"):
        write_whole(tmp_path / "run.nc", full)
