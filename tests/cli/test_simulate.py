"""`dynascope simulate`: the record and the picture that it leaves."""

import json

import pytest

from dynascope import load

QUICK = ["--duration", "1", "--trials", "2", "--save-points", "3"]


def test_simulate_writes_a_record(command):
    status, out, _ = command("simulate", "spring-block", "--noise", "0:0.02:3", "--friction-right", "0,0.1", *QUICK)
    assert status == 0
    record = load(out.removeprefix("record: ").strip())
    assert record["energy"].sizes == {"friction_right": 2, "noise": 3, "trial": 2, "time": 3}


def test_simulate_draws_and_speaks_json(command, tmp_path):
    status, out, _ = command("simulate", "spring-block", *QUICK, "--shared-noise", "--out", "a.svg", "--json")
    assert status == 0
    answer = json.loads(out)
    assert answer["provenance"]["options"]["shared_noise"] is True
    assert (tmp_path / "a.svg").exists()
    assert (tmp_path / answer["record"]).exists()


def test_simulate_a_mode(command, tmp_path):
    status, out, _ = command(
        "simulate", "mode", "--depth", "3", "--label-noise", "0,0.3", "--start", "0.1", *QUICK, "--out", "mode.png"
    )
    assert status == 0, out
    assert load("mode.nc")["amplitude"].sizes == {"label_noise": 2, "trial": 2, "time": 3}
    assert (tmp_path / "mode.png").exists()


def test_the_scalar_network_is_trained_and_drawn(command, tmp_path):
    status, _, err = command(
        "simulate", "scalar-network", "--target", "0.5,2", "--width", "4", "--batch-size", "2", *QUICK, "--out", "a.png"
    )
    assert status == 0, err
    record = load(tmp_path / "a.nc")
    assert record["output"].sizes == {"target": 2, "trial": 2, "time": 3}
    assert (tmp_path / "a.png").exists()


def test_simulate_multilinear_writes_and_draws(command, tmp_path):
    status, out, _ = command(
        *("simulate", "multilinear", "--skill-exponent", "0.3,0.6", "--steps", 20, "--trials", 2, "--track", "1,3"),
        *("--linear", "--out", "a.png"),
    )
    assert status == 0, out
    record = load(tmp_path / "a.nc")
    assert record["strength"].sizes == {"skill_exponent": 2, "trial": 2, "time": 21, "skill": 2}
    assert (tmp_path / "a.png").exists()


@pytest.mark.ci
def test_deep_linear_networks_are_trained_and_drawn(command, tmp_path):
    status, _, err = command("simulate", "deep-linear", "--depth", "2", *QUICK, "--out", "a.png")
    assert status == 0, err
    assert load(tmp_path / "a.nc").sizes["mode"] == 3
    assert (tmp_path / "a.png").exists()


def test_json_holds_no_nan(command):
    _, out, _ = command("simulate", "spring-block", *QUICK, "--stop-tolerance", "1e-12", "--json")
    assert "NaN" not in out
    assert json.loads(out)["variables"]["stop_time"]["mean"] is None
