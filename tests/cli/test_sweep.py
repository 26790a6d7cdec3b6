"""The commands `dynascope sweep`: what they print, where they write, how they refuse."""

import functools
import json
import re
import signal
import subprocess
import sys
import time

import pytest

from dynascope import load
from dynascope.sweep import status

MODULE = """
def half(x, seed=0, name="a"):
    if x == 4:
        raise ValueError("four")
    return {"y": x / 2 + seed}


def slow(x, seed=0):
    import time
    time.sleep(0.05)
    return {"y": x}
"""


@pytest.fixture
def sweep(command, tmp_path):
    """A function that runs `dynascope sweep` beside a module with experiments."""
    (tmp_path / "experiments_for_cli.py").write_text(MODULE)
    return functools.partial(command, "sweep")


def test_run_status_retry_gather(sweep, tmp_path):
    own = ["experiments_for_cli:half", "--grid", "x=2:6:3", "--grid", "name=a,b", "--seeds", "2", "--scheduler", "here"]
    status, out, err = sweep(*own)
    assert status == 1, err
    assert "8 of 12 tasks finished" in out
    assert "4 tasks failed: `dynascope sweep status sweeps/experiments_for_cli-half` says why" in err
    folder = "sweeps/experiments_for_cli-half"
    table = load(f"{folder}/table.nc")
    assert table["y"].sel(x=6, name="b", seed=1).item() == 4.0
    status, out, _ = sweep("status", folder)
    assert status == 0
    assert "half: 8 finished, 4 failed, 0 missing of 12; not running" in out
    assert "ValueError: four" in out
    _, out, _ = sweep("status", folder, "--json")
    assert 'raise ValueError("four")' in json.loads(out)["failures"][0]["traceback"]
    source = tmp_path / "experiments_for_cli.py"
    source.write_text(source.read_text().replace("x == 4", "x == 5"))
    sys.modules.pop("experiments_for_cli")
    status, out, err = sweep("retry", folder, "experiments_for_cli:half", "--scheduler", "here")
    assert status == 0, err
    assert "12 of 12 tasks finished" in out
    status, out, _ = sweep("gather", folder, "--out", "all.nc", "--json")
    assert status == 0
    assert json.loads(out)["variables"]["y"]["dimensions"] == {"x": 3, "name": 2, "seed": 2}
    assert load("all.nc")["y"].sel(x=4, name="a", seed=0).item() == 2.0


@pytest.mark.ci
def test_families_and_experiments_of_the_registry(sweep):
    quick = ["--set", "trials=2", "--scheduler", "here", "--json"]
    status, out, err = sweep("run", "mode", "--grid", "label-noise=0,0.3", "--set", "duration=1", *quick)
    assert status == 0, err
    assert json.loads(out)["variables"]["amplitude"]["dimensions"]["label_noise"] == 2
    status, out, err = sweep(
        "spring_block/trajectories", "--grid", "seed=1,2", "--scale", "smoke", "--scheduler", "here"
    )
    assert status == 0, err
    assert "2 of 2 tasks finished\nrecord: sweeps/spring_block-trajectories/table.nc" in out


@pytest.mark.ci
def test_an_interrupted_command_says_that_it_can_go_on(sweep, tmp_path):
    asked = ["sweep", "experiments_for_cli:slow", "--grid", "x=1:400:400", "--workers", "1", "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dynascope", *asked], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/results/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    # the first line: a file that was being opened at that moment may complain behind it
    assert re.fullmatch(r"stopped: \d+ of 400 finished; the same command goes on", err.splitlines()[0]), err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--grid", "x=1"], "experiment must be one of spring-block"),
        (["nothing:at_all", "--grid", "x=1"], "experiment must be module:function that can be imported"),
        (["experiments_for_cli:other", "--grid", "x=1"], "has no attribute 'other'"),
        (["experiments_for_cli:half", "--grid", "z=1"], "grid must name parameters of half: x, seed, name; got 'z'"),
        (["experiments_for_cli:half", "--grid", "x"], "--grid must be written as name=values, got 'x'"),
        (["experiments_for_cli:half", "--grid", "x=1:2"], "x must be a number, a list a,b,c or a range"),
        (["experiments_for_cli:half", "--grid", "x=1", "--seeds", "few"], "seeds must be a whole number"),
        (["experiments_for_cli:half", "--grid", "x=1", "--set", "y=2"], "fixed must name parameters of half"),
        (["experiments_for_cli:half"], "Missing option"),
        (["experiments_for_cli:half", "--grid", "x=1", "--out", "/proc/no"], "cannot be written"),
        (
            ["experiments_for_cli:half", "--grid", "x=1", "--scheduler", "tcp://10.0.0.1:8786"],
            "must be reached by tls://",
        ),
        (["experiments_for_cli:half", "--grid", "x=1", "--grid", "x=2"], "--grid must name x once, got '1' and '2'"),
        (["experiments_for_cli:half", "--grid", "x=1", "--seeds", "1000000000000"], "at most 1000000 tasks"),
        (
            ["experiments_for_cli:half", "--grid", "x=1", "--scheduler", "here", "--workers", "2"],
            "workers must be left",
        ),
        (["spring_block/phase_diagram", "--grid", "trials=1", "--scale", "huge"], "scale must be one of"),
        (["status", "nowhere"], "out must be the folder of a sweep"),
        (["retry", "nowhere"], "out must be the folder of a sweep"),
        (["gather", "nowhere"], "out must be the folder of a sweep"),
    ],
)
def test_bad_use_is_one_sentence_and_exit_status_2(sweep, arguments, message):
    status, _, err = sweep(*arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_watch_says_a_line_when_something_came_in_and_the_price_before_the_start(sweep, monkeypatch):
    own = ["experiments_for_cli:half", "--grid", "x=1,2", "--scheduler", "here", "--out", "out", "--price", "0.5"]
    assert sweep(*own)[0] == 0
    _, _, err = sweep(*own, "--seeds", "2")
    assert re.fullmatch(r"2 tasks: about [\d.]+ s of work on one core, cost about [\d.e-]+\n", err)
    _, out, _ = sweep("status", "out", "--watch")
    assert out == "half: 4 finished, 0 failed, 0 missing of 4; not running\n"
    seen = [
        status("out") | {"finished": 4 - missing, "missing": missing, "running": True, "left_seconds": left}
        for missing, left in ((3, None), (3, None), (2, 150.0), (0, 0.0))
    ]
    monkeypatch.setattr("dynascope.cli.sweep.watch_status", lambda out, pause: iter(seen))
    _, out, _ = sweep("status", "out", "--watch")
    first, second, last = out.splitlines()
    assert re.match(r"half: 1 finished, 0 failed, 3 missing of 4; running, about 0.0 s of work on one core left", first)
    assert second == "half: 2 finished, 0 failed, 2 missing of 4; running, about 2.5 min left"
    assert last == "half: 4 finished, 0 failed, 0 missing of 4; running"
    code, _, err = sweep("status", "out", "--watch", "--json")
    assert code == 2
    assert "--json must be left out with --watch" in " ".join(err.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "2"], "--jobs must be left out without --scheduler slurm, where it has no effect"),
        (["--partition", "short", "--scheduler", "here"], "--partition must be left out without --scheduler slurm"),
        (["--walltime", "10", "--scheduler", "ssh", "--hosts", "a"], "--walltime must be left out without"),
        (["--memory", "1GB"], "--memory must be left out without --scheduler slurm"),
        (["--gpu"], "--gpu must be left out without --scheduler slurm"),
        (["--hosts", "a", "--scheduler", "slurm", "--jobs", "1"], "--hosts must be left out without --scheduler ssh"),
        (["--ssh", "ssh -p 1"], "--ssh must be left out without --scheduler ssh"),
        (["--listen", "127.0.0.1"], "--listen must be left out where workers are not started by slurm or ssh"),
        (["--scheduler", "slurm"], "--jobs must be given with --scheduler slurm"),
        (["--scheduler", "ssh"], "--hosts must be given with --scheduler ssh"),
        (["--scheduler", "ssh", "--hosts", "a", "--timeout", "3"], "--timeout must be left out where the sweep has a"),
        (["--scheduler", "slurm", "--jobs", "0"], "jobs must be"),
        (["--scheduler", "ssh", "--hosts", "a,,b"], "hosts must be a word without spaces"),
    ],
)
def test_options_of_slurm_and_ssh_without_effect_are_refused(sweep, options, message):
    status, _, err = sweep("experiments_for_cli:half", "--grid", "x=1", *options)
    assert status == 2
    assert message in " ".join(err.split())
