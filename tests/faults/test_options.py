"""Options that cannot work, or have no effect, are refused before any work is done."""

import numpy as np
import pytest
import xarray as xr

from dynascope import DeepLinear, LocallyElastic, ScalarNetwork, SpringBlock, estimate_strengths, imitate, save
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("simulate spring-block --damping 1.0", "damping must be left out for the overdamped dynamics"),
        ("simulate deep-linear --isotropic-noise 1.0", "isotropic_noise must be left out for sgd"),
        ("simulate elastic --batch-size 1", "batch_size must be left out unless discrete is True"),
        ("simulate elastic --method euler --batch-size 4", "batch_size must be left out unless discrete is True"),
        ("simulate elastic --dt 0.01", "dt must be left out for the exact method"),
        (
            "simulate scalar-network --first 1,2 --second 1,2 --width 9",
            "width must be left out where weights are",
        ),
        (
            "estimate elastic m.npz --method published --reference-time 1",
            "reference_time must be left out for the",
        ),
        ("reproduce --list --scale paper", "--scale must be left out with --list"),
        ("reproduce --list spring_block/phase_diagram", "name must be left out with --list"),
        ("show a.nc --follow --json", "--json must be left out with --follow"),
        ("show a.nc --follow --out b.png", "--out must be left out with --follow"),
        ("report a.nc --out b.png", "out must end in .html"),
        ("sweep mode --grid depth=2 --scheduler here --workers 2", "--workers must be left out where this process"),
        ("sweep mode --grid depth=2 --scheduler here --timeout 2", "--timeout must be left out where this process"),
        ("sweep mode --grid depth=2 --trust-network", "--trust-network must be left out without the address"),
        ("sweep mode --grid depth=2 --scale paper", "--scale must be left out for what has no config"),
        ("sweep mode --grid depth=2 --pack-seconds 3", "--pack-seconds must be left out for what is not packed"),
    ],
)
def test_options_without_effect_are_errors(command, tmp_path, options, message):
    np.savez(tmp_path / "m.npz", times=np.arange(9.0), class_means=np.random.default_rng(0).normal(size=(9, 3, 3)))
    save(xr.Dataset({"a": 1.0}), tmp_path / "a.nc")
    code, out, err = command(*options.split())
    assert code == 2, out
    assert message in " ".join(err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.nc", "m.npz"]


def test_options_with_effect_are_taken():
    assert SpringBlock().simulate(1.0, trials=1, dynamics="inertial", damping=0.5).sizes["trial"] == 1
    assert DeepLinear(width=4).simulate(0.1, 1, method="isotropic", isotropic_noise=0.5).sizes["trial"] == 1
    assert LocallyElastic().simulate(0.1, 0.05, 2, 1, discrete=True, batch_size=2).sizes["trial"] == 1
    assert ScalarNetwork([1.0, 2.0], [1.0, 0.0]).width == 2


def test_imaginary_parts_are_not_dropped():
    means = np.random.default_rng(0).normal(size=(6, 30, 3, 3))
    labels = {"dims": ("trial", "time", "class", "feature"), "coords": {"time": np.arange(30.0)}}
    with pytest.raises(ValueError, match="class means of a run must be real numbers, got the type complex128"):
        imitate(xr.DataArray(means + 1j, **labels), "logits")
    with pytest.raises(ValueError, match="times of a run must be real numbers"):
        imitate(xr.DataArray(means, **labels).assign_coords(time=np.arange(30.0) + 0j), "logits")
    with pytest.raises(ValueError, match="class_means must be a real number or an array of real numbers"):
        estimate_strengths(np.arange(30.0), means + 1j)
