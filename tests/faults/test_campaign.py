"""A short version of benchmarks/faults.py: few kills of each command, the same code."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).parents[2] / "benchmarks" / "faults.py"
COMMANDS = [
    "save,cite,train,watch,watch resumed",
    "sweep,sweep retry,sweep gather,data fetch,data fetch archive",
    "simulate,estimate,show,report,results",
    "reproduce,verify,imitate",
    "sweep on workers,workers at start,workers at tasks,workers at close",
    "record,journal,plan of a sweep,gathered result of a sweep,result of a sweep run again",
    "failure in a sweep,result of an experiment,checkpoint,class means,images",
]


def campaign(folder, commands, kills):
    return [sys.executable, CAMPAIGN, "--folder", folder, "--kills", str(kills), "--commands", commands]


@pytest.mark.ci
@pytest.mark.parametrize("commands", COMMANDS)
def test_nothing_is_lost_or_wrong(tmp_path, commands):
    done = subprocess.run(campaign(tmp_path, commands, 4), capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    table = (tmp_path / "report.md").read_text()
    assert all(re.search(rf"^\| {name} \|", table, re.MULTILINE) for name in commands.split(",")), table


@pytest.mark.ci
def test_a_campaign_that_is_killed_goes_on(tmp_path):
    state = tmp_path / "state.jsonl"
    first = subprocess.Popen(campaign(tmp_path, "save", 30), stdout=subprocess.DEVNULL)
    late = time.monotonic() + 300
    while not (state.exists() and state.read_bytes().count(b"\n") > 5):
        assert time.monotonic() < late
        time.sleep(0.05)
    first.kill()
    first.wait()
    before = state.read_text()
    state.write_text(before + '\n{"seed": 0, "tab')  # cut short
    done = subprocess.run(campaign(tmp_path, "save", 30), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert state.read_text().startswith(before)
    assert int(re.search(r"^\| save \| (\d+)", done.stdout, re.MULTILINE)[1]) >= 60
