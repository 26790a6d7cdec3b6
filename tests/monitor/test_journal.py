"""What is written survives: torn lines, full disks, other writers, signal 9."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dynascope.monitor import journal
from dynascope.monitor.journal import NAME, Journal, read


def entry(step, **numbers):
    return {"kind": "measure", "step": step, "time": 0.5, "numbers": numbers}


def test_cut_at_any_byte_every_whole_entry_is_read_and_the_run_goes_on(tmp_path):
    entries = [entry(step, load=[0.1 * step, float("inf")], name="é\n") for step in range(3)]
    with Journal(tmp_path / "whole") as whole:
        for each in entries:
            whole.append(each)
    content = (tmp_path / "whole" / NAME).read_bytes()
    ends = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    folder = tmp_path / "cut"
    folder.mkdir()
    for size in range(len(content) + 1):
        (folder / NAME).write_bytes(content[:size])
        finished = sum(end <= size for end in ends)
        assert read(folder) == entries[:finished]
        with Journal(folder) as again:
            assert again.entries == entries[:finished]
            again.append(entry(99))
        assert read(folder) == [*entries[:finished], entry(99)]


def test_damage_in_the_middle_is_counted_and_costs_that_entry_alone(tmp_path):
    with Journal(tmp_path) as file:
        for step in range(3):
            file.append(entry(step))
    content = bytearray((tmp_path / NAME).read_bytes())
    content[content.index(b'"step":1') + 7] = ord("7")
    (tmp_path / NAME).write_bytes(bytes(content))
    assert read(tmp_path) == [{"kind": "damaged", "lines": 1}, entry(0), entry(2)]


def test_a_disk_that_fills_up_loses_only_the_measurement_under_way(tmp_path, monkeypatch):
    write = os.write
    with Journal(tmp_path) as file:
        file.append(entry(0))
        monkeypatch.setattr(journal.os, "write", lambda to, line: write(to, line[:5]))
        with pytest.raises(OSError, match="only 5 of"):
            file.append(entry(1))
        monkeypatch.undo()
        file.append(entry(2))
    assert read(tmp_path) == [entry(0), entry(2)]


def test_two_live_runs_never_share_a_file(tmp_path):
    with Journal(tmp_path), pytest.raises(ValueError, match="another live run writes to"):
        Journal(tmp_path)
    Journal(tmp_path).close()  # free again


def test_a_lock_that_is_about_to_go_is_waited_for(tmp_path):
    held = Journal(tmp_path)
    threading.Timer(0.2, held.close).start()
    Journal(tmp_path).close()


def test_a_forked_worker_does_not_keep_the_lock(tmp_path):
    code = """
import os, signal, sys, time
from dynascope.monitor.journal import Journal
if (process := os.fork()) == 0:
    held = Journal(sys.argv[1])
    if os.fork() == 0:
        time.sleep(5)  # a data loader's worker that outlives its parent
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(process, 0)
Journal(sys.argv[1]).close()
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)  # no pipe: the worker would keep it
    assert done.returncode == 0


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null/run"])
def test_folders_that_cannot_be_written_to_are_named(folder):
    with pytest.raises(ValueError, match="out must be a folder that can be written to"):
        Journal(folder)


@pytest.mark.ci
def test_kill_nine_at_random_moments(tmp_path):
    program = Path(__file__).with_name("killed_runs.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), str(tmp_path / "run"), "20"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout)
    assert len(held) == 20
    assert held == sorted(held)  # each start continued what was there
    assert held[-1] > held[0]  # and went on
