"""`dynascope reproduce` and `dynascope verify`: experiments and their claims."""

import json

import pytest

from dynascope.experiments.experiment import Experiment
from dynascope.experiments.registry import find


@pytest.fixture
def runs(smoke, monkeypatch):
    """Experiments at the smallest scale are run once for all tests; gives their names as they are asked for."""
    asked, usual = [], Experiment.at

    def at(self, scale):
        assert scale == "smoke"
        asked.append(self.name)
        with monkeypatch.context() as now:
            now.setattr(Experiment, "at", usual)
            return smoke(self.name)[0]

    monkeypatch.setattr(Experiment, "at", at)
    return asked


def test_reproduce_lists_and_runs(command, runs, tmp_path):
    _, out, _ = command("reproduce", "--list")
    assert "spring_block/phase_diagram" in out
    status, out, _ = command("reproduce", "spring_block/left_friction", "--scale", "smoke")
    assert status == 0
    assert "figure.png" in out
    assert (tmp_path / "results/spring_block/left_friction/smoke/report.html").exists()
    status, out, _ = command("reproduce", "spring_block/left_friction", "--scale", "smoke", "--json", "--out", "other")
    assert {claim["verdict"] for claim in json.loads(out)["claims"]} == {"reproduced"}
    assert runs == ["spring_block/left_friction"] * 2


def test_verify_lists_every_claim(command, runs, tmp_path):
    status, out, _ = command("verify", "features", "--scale", "smoke", "--no-figures", "--json", "--out", "claims.json")
    claims = json.loads(out)
    assert status == 0
    assert json.loads((tmp_path / "claims.json").read_text()) == claims
    verdicts = {claim["id"]: claim["verdict"] for claim in claims}
    assert verdicts["eq-2.9-minimal"] == "reproduced"
    assert verdicts["eq-2.5-utilization"] == "erratum"
    assert verdicts["fig-2.2-single-feature"] == "not run"
    assert runs == ["features/definitions"]


def test_a_claim_that_fails_gives_exit_status_1(command, monkeypatch):
    silent = type(find("spring_block/left_friction").config)(noise=(0.0, 0.0), trials=16)
    monkeypatch.setattr(Experiment, "settings", lambda self, scale: silent)
    status, out, _ = command("reproduce", "spring_block/left_friction", "--scale", "smoke")
    assert status == 1
    assert "not reproduced" in out
