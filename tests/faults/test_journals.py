"""A journal with damage: what is whole is kept, what is not is counted, and nothing is lost by going on."""

import json
import platform
import random
import shutil
import uuid
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dynascope import watch
from dynascope.monitor import journal, open_run
from dynascope.monitor.resuming import apart

STEPS = 25


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a run with 26 measurements."""
    tmp_path = tmp_path_factory.mktemp("made")
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.arange(60) % 3
    with watch(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), probe=(x, y), every=1, out=tmp_path / "w"
    ) as w:
        for _ in range(STEPS):
            w.step(loss=1.0)
    (tmp_path / "w" / "record.nc").unlink()
    return tmp_path / "w"


@pytest.fixture
def run(made, tmp_path):
    """A copy of it to spoil."""
    return Path(shutil.copytree(made, tmp_path / "w"))


def flip(path, line, at=40):
    lines = path.read_bytes().splitlines(keepends=True)
    spoiled = bytearray(lines[line])
    spoiled[at] ^= 4
    path.write_bytes(b"".join([*lines[:line], bytes(spoiled), *lines[line + 1 :]]))


def test_one_flipped_bit_costs_one_measurement(run, command):
    flip(run / journal.NAME, 5)
    assert open_run(run)["step"].values.tolist() == [step for step in range(STEPS + 1) if step != 4]
    code, out, _ = command("show", run)
    assert code == 0
    assert "1 of its journal's lines are damaged and left out" in " ".join(out.split())


def test_going_on_keeps_what_lies_behind_the_damage(run):
    path = run / journal.NAME
    flip(path, 5)
    before = path.read_bytes()
    with journal.Journal(run) as writing:
        writing.append({"kind": "measure", "step": 99, "time": 1.0, "numbers": {"load": [2.0, 1.0]}})
    assert path.read_bytes().startswith(before)
    assert open_run(run)["step"].values.tolist()[-1] == 99


def test_a_new_start_removes_what_a_killed_run_was_writing(tmp_path):
    (tmp_path / f".record.{platform.node()}-99999999-{uuid.uuid4().hex}.nc").touch()
    with journal.Journal(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [journal.NAME]


@pytest.mark.ci
def test_any_flipped_bit_leaves_a_readable_run(run):
    path = run / journal.NAME
    whole, draw = path.read_bytes(), random.Random(3)
    for _ in range(150):
        spoiled = bytearray(whole)
        spoiled[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(spoiled))
        try:
            found = open_run(run)["step"].values
        except ValueError as error:
            assert "holds no beginning" in str(error)  # noqa: PT017 (only the damage of the first line may end here)
        else:
            assert len(found) >= STEPS - 1
            assert (np.diff(found) > 0).all()


@pytest.mark.ci
@pytest.mark.parametrize(
    "entry",
    [
        [],
        {"kind": "measure", "step": "x", "time": 0.0, "numbers": {}},
        {"kind": "measure", "step": 10**400, "time": 0.0, "numbers": {}},
        {"kind": "measure", "step": 30, "time": 0.0, "numbers": {"load": "none"}},
        {"kind": "measure", "step": 30, "time": 0.0, "numbers": {"load": [[1.0], [2.0, 3.0]]}},
        {"kind": "measure", "step": 30, "time": 0.0, "numbers": {"load": [1.0, 2.0, 3.0, 4.0]}},
        {"kind": "start", "layers": 3},
        {"kind": ["start"]},
        "[/bold]",
    ],
)
def test_right_checksums_over_something_else(run, command, entry):
    text = json.dumps(entry).encode()
    with (run / journal.NAME).open("ab") as stream:
        stream.write(b"%08x %s\n" % (zlib.crc32(text), text))
    for name in ("show", "report", "runs"):
        code, out, err = command(name, run)
        assert code in (0, 2)
        assert "Traceback" not in out + err
        assert code == 0 or "journal" in err


def rewrite(run, place, change):
    """Change one entry of a journal, with the right checksum."""
    path = run / journal.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    text = json.dumps(change(json.loads(lines[place].split(b" ", 1)[1]))).encode()
    path.write_bytes(b"".join([*lines[:place], b"%08x %s\n" % (zlib.crc32(text), text), *lines[place + 1 :]]))


@pytest.mark.parametrize(
    "change",
    [
        {"layers": ["[/bold]", "[red]", "x"]},
        {"skipped": None},
        {"notes": 3},
        {"weights": 3},
        {"class_names": {}},
        {"settings": {"answers": 10**400}},
        {"settings": {"answers": [1]}},
        {"settings": {"loss_of_the_mean": 10**400}},
        {"settings": {"samples": "x"}},
    ],
)
def test_beginnings_that_hold_something_else(run, command, change):
    rewrite(run, 0, lambda entry: entry | change)
    for name in ("show", "report", "runs"):
        code, _, err = command(name, run)
        assert code in (0, 2)
        assert code == 0 or "w/journal.jsonl' holds" in " ".join(err.split())


def test_measurements_with_other_axes_are_named(run, command):
    rewrite(run, 3, lambda entry: entry | {"numbers": entry["numbers"] | {"probe_loss": [1.0]}})
    code, _, err = command("show", run)
    words = " ".join(err.split())
    assert code == 2
    assert "journal.jsonl' holds measurements that do not fit together: probe_loss must have as many axes" in words


def test_a_journal_whose_numbers_are_text_is_another_run():
    assert apart({"load": ["", 1.0]}, {"load": [1.0, 1.0]}) == float("inf")
