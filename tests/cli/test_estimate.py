"""`dynascope estimate`: parameters from records of our own and of others."""

import json

import numpy as np
import pytest

from dynascope import load


@pytest.mark.ci
def test_simulate_and_estimate_local_elasticity(command, tmp_path):
    start = "1,0.2,0;0,1.4,0.1;0.1,0,0.7"
    status, out, err = command(
        *("simulate", "elastic", "--intra", "1/(1+t)^0.5", "--inter", -0.1, "--geometry", "logits", "--noise", 0.02),
        *("--start", start, "--duration", 20, "--samples", 5, "--trials", 12, "--out", "run.svg"),
    )
    assert status == 0, err
    status, out, err = command("estimate", "elastic", "run.nc", "--out", "strengths.png")
    assert status == 0, err
    assert "within a class" in out
    assert "; ok" in out
    found = load(tmp_path / "strengths.nc")
    exact = 2 * (21**0.5 - (1 + float(found["reference_time"])) ** 0.5)
    assert float(found["integrated_intra_low"][-1]) < exact < float(found["integrated_intra_high"][-1])
    record = load("run.nc")
    np.savez("own.npz", times=record["time"], class_means=record["class_mean"])
    _, out, _ = command("estimate", "elastic", "own.npz", "--json")
    assert json.loads(out)["provenance"]["model"] == "estimate_strengths"


@pytest.mark.ci
def test_fit_a_chain_to_recorded_loads(command, tmp_path):
    given = ("--friction-right", "0.05", "--friction-left", "0.1", "--noise", "0.005")
    command("simulate", "spring-block", *given, "--trials", "6", "--save-points", "31", "--out", "run.nc")
    status, out, err = command("estimate", "spring-block", "run.nc", "--target", "1", "--out", "fit.nc")
    assert status == 0, err
    assert "; ok" in out
    found = load(tmp_path / "fit.nc")
    assert float(found["friction_left_low"]) < 0.1 < float(found["friction_left_high"])
    _, out, _ = command("estimate", "spring-block", "fit.nc", "--target", 1, "--json")
    assert json.loads(out)["provenance"]["model"] == "estimate_chain"
