"""A sweep's folder is data: nothing in it runs, what is damaged is computed again, nobody else gives work."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import distributed
import numpy as np
import psutil
import pytest

from dynascope import load, save
from dynascope.locks import held_lock
from dynascope.sweep import gather, status, sweep
from dynascope.sweep.batches import scan
from dynascope.sweep.cluster import connected
from dynascope.sweep.folder import SweepFolder

GRID = {"x": [1.0, 2.0, 3.0]}
MODULE = "import pathlib\npathlib.Path('ran').touch()\ndef half(x, seed=0):\n    return {'y': x / 2}\n"


def half(x, seed=0):
    return {"y": x / 2 + seed}


def results(folder):
    return sorted((folder / "results").iterdir())


@pytest.mark.parametrize("name", ["os:system", "evil:half"])
def test_a_folder_does_not_say_what_runs(command, tmp_path, name):
    sweep(half, GRID, tmp_path / "out", scheduler="here")
    for place in (tmp_path, tmp_path / "out"):
        (place / "evil.py").write_text(MODULE)
    plan = tmp_path / "out" / "sweep.json"
    content = json.loads(plan.read_text())
    plan.write_text(json.dumps(content | {"reference": {"name": name}}))
    results(tmp_path / "out")[0].unlink()
    code, _, err = command("sweep", "retry", "out", "--scheduler", "here")
    assert code == 2
    assert f"experiment must be named here, since this sweep runs code of your own, '{name}'" in " ".join(err.split())
    assert not list(tmp_path.rglob("ran"))
    code, _, err = command("sweep", "retry", "out", "other:half", "--scheduler", "here")
    assert code == 2
    assert "experiment must be the one that this sweep runs" in " ".join(err.split())


def each_in_a_batch_of_its_own(monkeypatch):
    monkeypatch.setattr("dynascope.sweep.pack_runner.BATCH_SECONDS", 0.0)


@pytest.mark.parametrize(("damage", "said"), [("body", "1 results"), ("head", "1 batches"), ("mark", "1 batches")])
@pytest.mark.parametrize("victim", range(3))
def test_a_damaged_batch_is_set_aside_and_computed_again(tmp_path, monkeypatch, damage, said, victim):
    each_in_a_batch_of_its_own(monkeypatch)
    before = sweep(half, GRID, tmp_path, scheduler="here")
    file = SweepFolder(tmp_path).batches
    batch = list(scan(file))[victim]
    content = bytearray(file.read_bytes())
    content[{"body": batch.end - 1, "head": batch.start + 60, "mark": batch.start}[damage]] ^= 16
    file.write_bytes(content)
    with pytest.warns(RuntimeWarning, match=f"{said} are damaged and count as missing"):
        assert gather(tmp_path)["outcome"].values.tolist().count("missing") == 1
    with pytest.warns(RuntimeWarning, match=f"{said} were damaged: they lie in"):
        after = sweep(half, GRID, tmp_path, scheduler="here")
    np.testing.assert_array_equal(before["y"], after["y"])
    (aside,) = (tmp_path / "damaged").iterdir()
    assert aside.read_bytes() == content[batch.start : batch.end]
    assert gather(tmp_path)["outcome"].values.tolist() == ["finished"] * 3


def test_a_file_that_is_cut_at_any_place_keeps_its_whole_batches_and_the_rest_is_computed_again(tmp_path, monkeypatch):
    each_in_a_batch_of_its_own(monkeypatch)
    sweep(half, GRID, tmp_path, scheduler="here")
    file = SweepFolder(tmp_path).batches
    content, ends = file.read_bytes(), [0, *(batch.end for batch in scan(file))]
    for length in range(0, len(content), 7):
        file.write_bytes(content[:length])
        whole = sum(end <= length for end in ends) - 1
        if length in ends:  # nothing says that there was more
            assert status(tmp_path)["finished"] == whole
            continue
        with pytest.warns(RuntimeWarning, match=r"1 batches are damaged .* was cut short"):
            assert gather(tmp_path)["outcome"].values.tolist().count("finished") == whole
    assert sweep(half, GRID, tmp_path, scheduler="here")["y"].values.tolist() == [0.5, 1.0, 1.5]
    assert not (tmp_path / "damaged").exists(), "what a kill leaves is no damage"


@pytest.fixture
def old(tmp_path):
    """A sweep of version 0.1.0, which kept a file for each result."""
    sweep(half, GRID, tmp_path, scheduler="here")
    for key, record in list(SweepFolder(tmp_path).records()):
        save(record, tmp_path / "results" / f"{key}.nc")
    SweepFolder(tmp_path).batches.unlink()
    return tmp_path


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "copied", "foreign"])
def test_a_damaged_result_of_version_0_1_0_is_set_aside_and_computed_again(old, damage):
    victim, other, _ = results(old)
    whole = bytearray(victim.read_bytes())
    if damage == "copied":
        shutil.copy(other, victim)
    elif damage == "foreign":
        victim.write_text("not a record")
    else:
        whole[whole.index(np.float64(load(victim)["y"]).tobytes())] ^= 16
        victim.write_bytes({"truncated": whole[: len(whole) // 2], "flipped": whole, "empty": b""}[damage])
    with pytest.warns(RuntimeWarning, match="1 results are damaged and count as missing"):
        assert gather(old)["outcome"].values.tolist().count("missing") == 1
    with pytest.warns(RuntimeWarning, match="1 results were damaged: they lie in"):
        after = sweep(half, GRID, old, scheduler="here")
    assert after["y"].values.tolist() == [0.5, 1.0, 1.5]
    assert [file.name for file in (old / "damaged").iterdir()] == [victim.name]
    assert gather(old)["outcome"].values.tolist() == ["finished"] * 3


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"format": 1}',
        '{"format": "x"}',
        "\x00",
        "[" * 100_000,
        '{"format": 1' + "0" * 5000 + "}",
        None,
    ],
)
def test_a_plan_that_holds_something_else_is_refused_in_one_sentence(command, tmp_path, content):
    sweep(half, GRID, tmp_path / "out", scheduler="here")
    plan = tmp_path / "out" / "sweep.json"
    stored = json.loads(plan.read_text())
    stored["tasks"][0]["key"] = "../../etc"
    plan.write_text(json.dumps(stored) if content is None else content)
    for name in ("status", "gather", "retry"):
        code, _, err = command("sweep", name, "out")
        assert code == 2
        assert "sweep.json" in err
        assert "Traceback" not in err
    assert sweep(half, GRID, tmp_path / "out", scheduler="here")["outcome"].values.tolist() == ["finished"] * 3


def test_links_are_not_followed(tmp_path):
    sweep(half, GRID, tmp_path / "out", scheduler="here")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.nc").write_text("years")
    (tmp_path / "out" / ".lock").unlink()
    (tmp_path / "out" / ".lock").symlink_to(precious / "thesis.nc")
    with pytest.raises(ValueError, match="must be a file that can be written, not a link"):
        sweep(half, GRID, tmp_path / "out", scheduler="here")
    (tmp_path / "out" / ".lock").unlink()
    (tmp_path / "out" / "packs").mkdir()
    (tmp_path / "out" / "packs" / "whole").symlink_to(precious)
    with pytest.raises(ValueError, match="must not be reached by a link"):
        sweep(half, GRID, tmp_path / "out", scheduler="here")
    (tmp_path / "out" / "packs" / "whole").unlink()
    (tmp_path / "out" / "results" / "batches.bin").unlink()
    (tmp_path / "out" / "results" / "batches.bin").symlink_to(precious / "thesis.nc")
    with pytest.raises(ValueError, match="must not be reached by a link"):
        sweep(half, GRID, tmp_path / "out", scheduler="here")
    assert (precious / "thesis.nc").read_text() == "years"


def test_who_only_looks_does_not_keep_a_sweep_out(tmp_path):
    sweep(half, GRID, tmp_path, scheduler="here")
    looking, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            looking.append(status(tmp_path)["finished"])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(20):
            sweep(half, GRID, tmp_path, scheduler="here")
    finally:
        stop.set()
        thread.join()
    assert set(looking) == {3}
    with held_lock(tmp_path / ".lock"), pytest.raises(ValueError, match="where no sweep is running"):
        sweep(half, GRID, tmp_path, scheduler="here")


def test_what_a_killed_program_leaves_is_removed_by_the_next(tmp_path):
    code = (
        "import os, sys, pathlib; from dynascope.records import write_whole\n"
        "write_whole(pathlib.Path(sys.argv[1]) / 'table.nc', lambda p: (p.write_text('x'), os.kill(os.getpid(), 9)))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    sweep(half, GRID, tmp_path, scheduler="here")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".table")]


def test_results_that_contradict_the_grid_are_refused(tmp_path):
    with pytest.raises(ValueError, match="results must not have a dimension or variable 'x'"):
        sweep(lambda x: {"x": x + 1}, {"x": [1.0]}, tmp_path, scheduler="here")


@pytest.mark.ci
def test_the_default_cluster_takes_work_from_nobody_else(tmp_path):
    with connected(None, workers=1, timeout=10, trust_network=False) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        plain = address.replace("tls://", "tcp://")
        intruder = (
            "import sys, distributed, pathlib\n"
            "for address in sys.argv[1:3]:\n"
            "    security = distributed.Security.temporary() if address.startswith('tls') else None\n"
            "    try:\n"
            "        client = distributed.Client(address, timeout=3, security=security)\n"
            "        client.submit(lambda: pathlib.Path(sys.argv[3]).touch()).result(timeout=3)\n"
            "    except Exception as error:\n"
            "        print(type(error).__name__)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", intruder, plain, address, tmp_path / "ran"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert len(done.stdout.splitlines()) == 2, done.stderr
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3
    assert not (tmp_path / "ran").exists()


@pytest.mark.ci
@pytest.mark.parametrize("delay", [0.0, 0.4, 1.0, 2.0])
def test_workers_killed_while_the_cluster_starts_do_not_end_the_sweep(tmp_path, delay):
    killed = []

    def kill_first_worker():
        own = psutil.Process()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not killed:
            for child in own.children(recursive=True):
                if "spawn_main" in " ".join(child.cmdline()):
                    time.sleep(delay)
                    child.kill()
                    killed.append(child.pid)
                    return
            time.sleep(0.005)

    thread = threading.Thread(target=kill_first_worker)
    thread.start()
    table = sweep(half, GRID, tmp_path, workers=2)
    thread.join()
    assert killed
    assert table["outcome"].values.tolist() == ["finished"] * 3


@pytest.mark.ci
def test_the_cluster_says_so_where_workers_never_start(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "SpecCluster", fail)
    with pytest.raises(ConnectionError, match="workers could not be started on this machine, 5 times"):
        sweep(half, GRID, tmp_path)
    assert not Path(tmp_path / "results").exists()


@pytest.mark.parametrize("place", ["name", "digit"])
def test_damage_in_the_sum_itself_or_in_its_name_is_damage(command, tmp_path, place):
    sweep(half, GRID, tmp_path / "out", scheduler="here")
    plan = tmp_path / "out" / "sweep.json"
    text = plan.read_text().replace("2.0", "2.5")
    at = text.index('"sum": "') + (1 if place == "name" else 10)
    plan.write_text(f"{text[:at]}r{text[at + 1 :]}")
    code, _, err = command("sweep", "status", "out")
    assert code == 2
    assert "does not match the sum at its end" in " ".join(err.split())


def test_a_result_that_cannot_be_read_once_is_not_set_aside(old, monkeypatch):
    """As when a signal comes while a library reads it."""
    failures = iter([True])

    def disturbed(path):
        if next(failures, False):
            raise ValueError(f"{str(path)!r} is damaged")
        return load(path)

    monkeypatch.setattr("dynascope.sweep.folder.load", disturbed)
    table = sweep(half, GRID, old, scheduler="here")
    assert (table["outcome"] == "finished").all()
    assert not (old / "damaged").exists()
