"""Options that cannot work, or have no effect, are refused before any work is done."""

import pytest

from dynascope.locks import held_lock


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--geometry", "nonsense"], "geometry must be one of"),
        (["--procedure", "magic"], "procedure must be one of"),
        (["--reference-time", "nan"], "reference_time must be"),
        (["--geometry", "logits,logits"], "geometry must be different names"),
        (["run.nc", "--trials", "3"], "--trials must be left out where runs are given"),
        (["run.nc", "--learning-rate", "0.1"], "--learning-rate must be left out"),
    ],
)
def test_imitation_refuses_before_it_trains(command, monkeypatch, options, message):
    def never(*_):
        raise AssertionError("trained before it refused")

    monkeypatch.setattr("dynascope.cli.imitate.train", never)
    code, out, err = command("imitate", *options)
    assert code == 2
    assert message in " ".join(err.split())
    assert "training" not in out


def test_two_imitations_do_not_share_a_folder(command, tmp_path):
    (tmp_path / "results" / "imitation").mkdir(parents=True)
    with held_lock(tmp_path / "results" / "imitation" / ".lock"):
        code, _, err = command("imitate")
    assert code == 2
    assert "where no imitation is running" in " ".join(err.split())
