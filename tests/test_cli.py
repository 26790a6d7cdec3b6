"""The command line: what it prints, where it writes, how it refuses."""

import json
import subprocess
import sys

import numpy as np
import pytest

from dynascope import cli, load
from dynascope.experiments.spring_block import left_friction

QUICK = ["--duration", "1", "--trials", "2", "--save-points", "3"]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["dynascope", *arguments])
        with pytest.raises(SystemExit) as done:
            cli.main()
        captured = capsys.readouterr()
        return done.value.code or 0, captured.out, captured.err

    return call


def test_simulate_writes_a_record(run):
    status, out, _ = run("simulate", "spring-block", "--noise", "0:0.02:3", "--friction-right", "0,0.1", *QUICK)
    assert status == 0
    record = load(out.removeprefix("record: ").strip())
    assert record["energy"].sizes == {"friction_right": 2, "noise": 3, "trial": 2, "time": 3}


def test_simulate_draws_and_speaks_json(run, tmp_path):
    status, out, _ = run("simulate", "spring-block", *QUICK, "--shared-noise", "--out", "a.svg", "--json")
    assert status == 0
    answer = json.loads(out)
    assert answer["provenance"]["options"]["shared_noise"] is True
    assert (tmp_path / "a.svg").exists()
    assert (tmp_path / answer["record"]).exists()


def test_simulate_a_mode(run, tmp_path):
    status, out, _ = run(
        "simulate", "mode", "--depth", "3", "--label-noise", "0,0.3", "--start", "0.1", *QUICK, "--out", "mode.png"
    )
    assert status == 0, out
    assert load("mode.nc")["amplitude"].sizes == {"label_noise": 2, "trial": 2, "time": 3}
    assert (tmp_path / "mode.png").exists()


def test_the_scalar_network_is_trained_and_drawn(run, tmp_path):
    status, _, err = run(
        "simulate", "scalar-network", "--target", "0.5,2", "--width", "4", "--batch", "2", *QUICK, "--out", "a.png"
    )
    assert status == 0, err
    record = load(tmp_path / "a.nc")
    assert record["output"].sizes == {"target": 2, "trial": 2, "time": 3}
    assert (tmp_path / "a.png").exists()


def test_simulate_multilinear_writes_and_draws(run, tmp_path):
    status, out, _ = run(
        "simulate", "multilinear", "--exponent", "0.3,0.6", "--steps", "20", "--trials", "2", "--track", "1,3",
        "--linear", "--out", "a.png",
    )  # fmt: skip
    assert status == 0, out
    record = load(tmp_path / "a.nc")
    assert record["strength"].sizes == {"exponent": 2, "trial": 2, "time": 21, "skill": 2}
    assert (tmp_path / "a.png").exists()


def test_deep_linear_networks_are_trained_and_drawn(run, tmp_path):
    status, _, err = run("simulate", "deep-linear", "--depth", "2", *QUICK, "--out", "a.png")
    assert status == 0, err
    assert load(tmp_path / "a.nc").sizes["mode"] == 3
    assert (tmp_path / "a.png").exists()


def test_show_describes_and_draws(run, tmp_path):
    run("simulate", "spring-block", *QUICK, "--out", "a.nc")
    status, out, _ = run("show", "a.nc", "--out", "a.html")
    assert status == 0
    assert "SpringBlock" in out
    assert "friction_right" in out
    assert "<img" in (tmp_path / "a.html").read_text()
    _, out, _ = run("show", "a.nc", "--json")
    assert json.loads(out)["variables"]["load"]["dimensions"] == {"trial": 2, "time": 3, "layer": 8}


def test_simulate_and_estimate_local_elasticity(run, tmp_path):
    start = "1,0.2,0;0,1.4,0.1;0.1,0,0.7"
    status, out, err = run(
        "simulate", "elastic", "--intra", "1/(1+t)^0.5", "--inter", "-0.1", "--geometry", "logits", "--noise", "0.02",
        "--start", start, "--duration", "20", "--samples", "5", "--trials", "12", "--out", "run.svg",
    )  # fmt: skip
    assert status == 0, err
    status, out, err = run("estimate", "elastic", "run.nc", "--out", "strengths.png")
    assert status == 0, err
    assert "within a class" in out
    assert "; ok" in out
    found = load(tmp_path / "strengths.nc")
    exact = 2 * (21**0.5 - (1 + float(found["reference_time"])) ** 0.5)
    assert float(found["integrated_intra_low"][-1]) < exact < float(found["integrated_intra_high"][-1])
    record = load("run.nc")
    np.savez("own.npz", times=record["time"], class_means=record["class_mean"])
    _, out, _ = run("estimate", "elastic", "own.npz", "--json")
    assert json.loads(out)["provenance"]["model"] == "estimate_strengths"


def test_fit_a_chain_to_recorded_loads(run, tmp_path):
    given = ("--friction-right", "0.05", "--friction-left", "0.1", "--noise", "0.005")
    run("simulate", "spring-block", *given, "--trials", "6", "--save-points", "31", "--out", "run.nc")
    status, out, err = run("estimate", "spring-block", "run.nc", "--target", "1", "--out", "fit.nc")
    assert status == 0, err
    assert "; ok" in out
    found = load(tmp_path / "fit.nc")
    assert float(found["friction_left_low"]) < 0.1 < float(found["friction_left_high"])
    _, out, _ = run("estimate", "spring-block", "fit.nc", "--json")
    assert json.loads(out)["provenance"]["model"] == "estimate_chain"


def test_json_holds_no_nan(run):
    _, out, _ = run("simulate", "spring-block", *QUICK, "--stop-tolerance", "1e-12", "--json")
    assert "NaN" not in out
    assert json.loads(out)["variables"]["stop_time"]["mean"] is None


def test_show_draws_a_record_with_text_labels(run, tmp_path):
    run("reproduce", "spring_block/trajectories", "--scale", "smoke")
    status, out, _ = run("show", "results/spring_block/trajectories/smoke/record.nc", "--out", "a.png")
    assert status == 0, out
    assert (tmp_path / "a.png").exists()


def test_reproduce_lists_and_runs(run, tmp_path):
    _, out, _ = run("reproduce", "--list")
    assert "spring_block/phase_diagram" in out
    status, out, _ = run("reproduce", "spring_block/left_friction", "--scale", "smoke")
    assert status == 0
    assert "figure.png" in out
    assert (tmp_path / "results/spring_block/left_friction/smoke/report.html").exists()
    status, out, _ = run("reproduce", "spring_block/left_friction", "--scale", "smoke", "--json", "--out", "other")
    assert {claim["verdict"] for claim in json.loads(out)["claims"]} == {"reproduced"}


def test_verify_lists_every_claim(run, tmp_path):
    status, out, _ = run("verify", "features", "--scale", "smoke", "--no-figures", "--json", "--out", "claims.json")
    claims = json.loads(out)
    assert status == 0
    assert json.loads((tmp_path / "claims.json").read_text()) == claims
    verdicts = {claim["id"]: claim["verdict"] for claim in claims}
    assert verdicts["eq-2.9-minimal"] == "reproduced"
    assert verdicts["eq-2.5-utilization"] == "erratum"
    assert verdicts["fig-2.2-single-feature"] == "not run"


def test_a_claim_that_fails_gives_exit_status_1(run, monkeypatch):
    experiment = left_friction.EXPERIMENT
    silent = type(experiment.scales["smoke"])(noise=(0.0, 0.0), trials=16)
    monkeypatch.setitem(experiment.scales, "smoke", silent)
    status, out, _ = run("reproduce", "spring_block/left_friction", "--scale", "smoke")
    assert status == 1
    assert "not reproduced" in out


def test_cite(run):
    _, out, _ = run("cite")
    assert "@article{shi2025spring" in out
    _, out, _ = run("cite", "--json")
    assert set(json.loads(out)) == {
        "corlouer2026stochastic",
        "dynascope",
        "nam2024inductive",
        "shi2025spring",
        "zhang2021imitating",
    }


def test_version(run):
    assert run("--version")[1].strip() == "0.1.0"


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
def test_bad_use_is_one_sentence_and_exit_status_2(run, arguments, message):
    status, _, err = run(*arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_the_installed_command_works():
    done = subprocess.run([sys.executable, "-m", "dynascope", "cite"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "@software{dynascope" in done.stdout
