"""`dynascope show`: what it says about a record, and its picture."""

import json

import pytest

from dynascope import save

QUICK = ["--duration", "1", "--trials", "2", "--save-points", "3"]


def test_show_describes_and_draws(command, tmp_path):
    command("simulate", "spring-block", *QUICK, "--out", "a.nc")
    status, out, _ = command("show", "a.nc", "--out", "a.html")
    assert status == 0
    assert "SpringBlock" in out
    assert "friction_right" in out
    assert "<img" in (tmp_path / "a.html").read_text()
    _, out, _ = command("show", "a.nc", "--json")
    assert json.loads(out)["variables"]["load"]["dimensions"] == {"trial": 2, "time": 3, "layer": 8}


@pytest.mark.ci
def test_show_draws_a_record_with_text_labels(command, smoke, tmp_path):
    save(smoke("spring_block/trajectories")[0], tmp_path / "a.nc")
    status, out, _ = command("show", "a.nc", "--out", "a.png")
    assert status == 0, out
    assert (tmp_path / "a.png").exists()
