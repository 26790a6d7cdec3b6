"""All commands: how they cite, tell their version and refuse."""

import json
import subprocess
import sys

import pytest

QUICK = ["--duration", "1", "--trials", "2", "--save-points", "3"]


def test_cite(command):
    _, out, _ = command("cite")
    assert "@article{shi2025spring" in out
    _, out, _ = command("cite", "--json")
    assert set(json.loads(out)) == {
        "corlouer2026stochastic",
        "dynascope",
        "nam2024inductive",
        "shi2025spring",
        "zhang2021imitating",
    }


def test_version(command):
    assert command("--version")[1].strip() == "0.2.0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "spring-block", "--noise", "-1"], "noise must be at least 0"),
        (["simulate", "spring-block", "--noise", "a:b"], "first:last:count"),
        (["simulate", "spring-block", "--dt", "5"], "dt must be at most"),
        (["simulate", "mode", "--ito", "stratonovich"], "ito must be one of derived, published"),
        (["simulate", "spring-block", *QUICK, "--out", "a.pdf"], "out must end in .png, .svg or .html"),
        (["simulate", "spring-block", *QUICK, "--out", "/proc/no/a.nc"], "cannot be written"),
        (["simulate", "spring-block", "--save-points", "inf"], "save_points must be finite"),
        (["simulate", "spring-block", "--noise", "0:1:1000000000"], "noise must be a number"),
        (["verify", "--out", "/proc/no/claims.json"], "cannot be written"),
        (["reproduce", "spring_block/phase_diagram", "--out", "/proc/no"], "cannot be written"),
        (["simulate", "spring-block", "--nois", "1"], "No such option"),
        (["show", "missing.nc"], "there is no file 'missing.nc'"),
        (["simulate", "elastic", "--geometry", "round"], "geometry must be one of isotropic, logits"),
        (["simulate", "elastic", "--intra", "strong"], "intra must be a number, a PowerLaw"),
        (["simulate", "elastic", "--sampling", "0.5,0.5,0.5"], "sampling must sum to 1"),
        (["estimate", "elastic", "missing.npz"], "there is no file 'missing.npz'"),
        (["estimate", "elastic", "missing.nc"], "there is no file 'missing.nc'"),
        (["estimate", "spring-block", "missing.nc"], "there is no file 'missing.nc'"),
        (["verify", "nothing"], "family must be one of"),
        (["reproduce", "nothing"], "name must be one of"),
        (["reproduce"], "name must be given"),
        (["reproduce", "spring_block/phase_diagram", "--scale", "huge"], "scale must be one of"),
    ],
)
def test_bad_use_is_one_sentence_and_exit_status_2(command, arguments, message):
    status, _, err = command(*arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "runs/typo"],
        ["imitate", "missing.nc", "--out", "results/imitation"],
        ["show", "missing.nc", "--out", "pictures/a.png"],
        ["reproduce", "nothing", "--out", "results"],
    ],
)
def test_what_is_refused_leaves_no_folder_behind(command, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(*arguments)[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_the_installed_command_works():
    done = subprocess.run([sys.executable, "-m", "dynascope", "cite"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "@software{dynascope" in done.stdout
