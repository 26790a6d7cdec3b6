"""Watching a run: what is measured, what is stored, and that training goes on whatever happens."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dynascope import digest, estimate_strengths, load, watch
from dynascope.measure import class_elasticity, data_separation, load_curve, minimum_feature_distance, neural_collapse
from dynascope.monitor import open_run, running
from dynascope.monitor.probing import Logits
from networks import Cnn, Transformer, images, mlp, tokens, train, vectors


def test_numbers_are_those_of_the_measures():
    model, (x, y) = Cnn().train(), images()
    run = watch(model, probe=(x, y), every=1, class_logits=True)
    now = run.record.isel(step=0)
    with torch.no_grad():
        a = nn.functional.max_pool2d(model.conv1(x).relu(), 2)
        b = model.conv2(a).relu().flatten(1)
        c = model.fc1(b).relu()
        logits = model.fc2(c)
    layers = [x.flatten(1), a.flatten(1), b, c]
    curve = load_curve(layers, y)
    np.testing.assert_allclose(now["loads"], curve["load"], rtol=1e-6)
    for name in ("increment", "linearity", "curvature", "bend"):
        np.testing.assert_allclose(now[name], curve[name], rtol=1e-6, err_msg=name)
    assert str(now["shape"].values) == str(curve["shape"].values)
    signs = neural_collapse(c, y, model.fc2.weight, model.fc2.bias)
    for name in ("nc1", "nc2_norm", "nc2_angle", "nc3", "nc4"):
        np.testing.assert_allclose(now[name], signs[name], rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(now["minimum_feature_distance"], minimum_feature_distance(c, logits), rtol=1e-6)
    np.testing.assert_allclose(now["probe_loss"], nn.functional.cross_entropy(logits, y).item(), rtol=1e-6)
    np.testing.assert_allclose(now["class_logits"][1], logits[y == 1].mean(dim=0), atol=1e-6)
    few = torch.cat([torch.nonzero(y == k)[:8, 0] for k in range(3)]).sort().values
    moved = class_elasticity(Logits(model), x[few], y[few], steps_per_class=2)
    np.testing.assert_allclose(now["elasticity"], moved["elasticity"], rtol=1e-5)
    assert model.training


def test_labels_need_not_start_at_zero_or_be_all_of_the_classes():
    x, y = vectors()
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 10))
    run = watch(model, probe=(x, y * 3 + 1), every=1)
    assert run.record["class"].values.tolist() == [1, 4, 7]
    with torch.no_grad():
        features = model[:2](x)
    signs = neural_collapse(features, y, model[2].weight[[1, 4, 7]], model[2].bias[[1, 4, 7]])
    np.testing.assert_allclose(run.record["nc3"][0], signs["nc3"], rtol=1e-6)


def test_record_on_disk_is_the_record_in_memory(tmp_path):
    model = mlp()
    with watch(model, probe=vectors(), every=5, out=tmp_path / "run") as run:
        train(model, vectors(), 12, after=lambda loss: run.step(loss=loss))
        assert digest(open_run(tmp_path / "run")) == digest(run.record)  # while it goes on
    assert run.record["step"].values.tolist() == [0, 5, 10, 12]
    assert np.isfinite(run.record["train_loss"].values[1:]).all()
    assert digest(load(tmp_path / "run" / "record.nc")) == digest(run.record)
    facts = json.loads(run.record.attrs["options"])
    assert facts["readout"] == "7 Linear"
    assert facts["every"] == 5


def test_class_logits_serve_the_estimate_of_strengths():
    model = mlp()
    with watch(model, probe=vectors(), every=5, class_logits=True, slow=0) as run:
        train(model, vectors(), 60, after=lambda loss: run.step())
    found = estimate_strengths(run.record["step"].values, run.record["class_logits"].values)
    assert "integrated_gap" in found


def test_a_second_start_continues_and_steps_made_again_replace_old_ones(tmp_path):
    def start(steps, **options):
        model = mlp()
        with watch(model, probe=vectors(), every=2, slow=0, out=tmp_path, **options) as run:
            for _ in range(steps):
                run.step()
        return run.record["step"].values.tolist()

    assert start(4) == [0, 2, 4]
    assert start(3, resume=True) == [0, 2, 4, 6, 7]
    assert start(2, first_step=3, resume=True) == [0, 2, 3, 4, 5]


def test_another_run_is_not_mixed_in(tmp_path):
    watch(mlp(), probe=vectors(), every=1, out=tmp_path).close()
    x, y = vectors()
    with pytest.raises(ValueError, match="its probe differ"):
        watch(mlp(), probe=(x + 1, y), every=1, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="its layers differ"):
        watch(nn.Linear(6, 3), probe=(x, y), every=1, out=tmp_path, first_step=1)
    run = watch(mlp(), probe=(x, y), every=1, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="another live run"):
        watch(mlp(), probe=(x, y), every=1, out=tmp_path)
    run.close()


def _model_with(outputs):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 3)

        def forward(self, x):
            return outputs(self.linear(x))

    return Odd()


X, Y = vectors()


@pytest.mark.parametrize(
    ("model", "probe", "options", "message"),
    [
        (mlp(), (X, Y[:-1]), {}, r"probe labels must hold one row for each of the 60 samples"),
        (mlp(), (X, Y * 0), {}, "at least 2 classes"),
        (mlp(), (X[:3], Y[:3]), {}, "3 samples in as many classes"),
        (mlp(), (X * torch.nan, Y), {}, "probe inputs must be finite"),
        (mlp(), (X, Y.double()), {}, "whole numbers"),
        (mlp(), (X, Y - 1), {}, "whole numbers from 0 on"),
        (mlp(), (X, Y + 1), {}, "below the model's 3 outputs, got 3"),
        (mlp(), X, {}, r"probe must be a pair \(inputs, labels\)"),
        (mlp(), ([[1.0]], Y), {}, "probe inputs must be a tensor"),
        (mlp(), (X.to("meta"), Y), {}, "probe must be on the model's device, cpu, got meta"),
        (_model_with(lambda z: z.sum()), (X, Y), {}, r"model must return logits \(sample, class\)"),
        (_model_with(lambda z: z[:1]), (X, Y), {}, "logits for each of 37 samples, got 1"),
        ("net", (X, Y), {}, "model must be a torch.nn.Module, got str"),
        (nn.Sequential(nn.LazyLinear(3)), (X, Y), {}, "lazy layers"),
        (mlp(), (X, Y), {"every": 0}, "every must be"),
        (mlp(), (X, Y), {"reduce": "max"}, "reduce must be one of"),
        (mlp(), (X, Y), {"out": "/proc/nowhere"}, "out must be a folder that can be written to"),
        (mlp(), (X, Y), {"loggers": [print]}, "loggers must have a method log"),
        (mlp(), (X, Y), {"layers": ["nothing"]}, "layers must name submodules"),
    ],
)
def test_what_cannot_work_is_named_before_training(model, probe, options, message):
    with pytest.raises(ValueError, match=message):
        watch(model, probe=probe, **options)


@pytest.mark.parametrize("outputs", [lambda z: (z, z.sum()), lambda z: {"loss": z.sum(), "logits": z}])
def test_tuples_and_dicts_are_handled(outputs):
    run = watch(_model_with(outputs), probe=(X, Y), every=1)
    assert np.isfinite(run.record["intra"].values).all()


def test_models_with_several_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 3)

        def forward(self, x, scale):
            return self.b(self.a(x).relu() * scale)

    for inputs in ((X, torch.ones(60, 1)), {"scale": torch.ones(60, 1), "x": X}):
        run = watch(Two(), probe=(inputs, Y), every=1)
        assert run.layers == ["a"]
        assert run.skipped == {"elasticity": "it needs one input tensor"}
        assert np.isfinite(run.record["nc1"].values).all()


def test_training_goes_on_when_measuring_fails_and_one_warning_is_given(monkeypatch):
    model = mlp()
    run = watch(model, probe=(X, Y), every=1, slow=0)

    def broken(*_arguments, **_options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(running, "read_features", broken)
    with pytest.warns(RuntimeWarning, match="could not measure at step 1; training goes on") as told:
        train(model, (X, Y), 5, after=lambda loss: run.step(loss=loss))
    assert len(told) == 1
    assert model.training
    monkeypatch.undo()
    run.step()
    assert run.record["step"].values.tolist() == [0, 6]  # it goes on when the trouble is over


def test_a_later_failure_of_another_kind_is_told_too(monkeypatch):
    run = watch(mlp(), probe=(X, Y), every=1, slow=0)

    def fails(error):
        def broken(*_arguments, **_options):
            raise error

        monkeypatch.setattr(running, "read_features", broken)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run.step()
            run.step()
        return [str(each.message) for each in told]

    assert ["out of memory" in each for each in fails(RuntimeError("out of memory"))] == [True]
    assert ["no layer" in each for each in fails(KeyError("no layer"))] == [True]


def test_the_final_state_is_measured_although_its_step_was():
    model = mlp()
    logged = []

    class Log:
        def log(self, values, step):
            logged.append((step, set(values)))

    with watch(model, probe=(X, Y), every=1, slow=1, loggers=[Log()]) as run:
        train(model, (X, Y), 3, after=lambda loss: run.step())
        before = float(run.record["probe_loss"][-1])
        with torch.no_grad():  # as averaging does at the end
            for weight in model.parameters():
                weight.data.mul_(0.5)
    assert float(run.record["probe_loss"][-1]) != before
    assert run.record["step"].values.tolist() == [0, 1, 2, 3]
    assert "weights were changed" in json.loads(run.record.attrs["parameters"])["final_state"]
    assert [step for step, _ in logged] == [0, 1, 2, 3, 3]
    assert all(name.startswith("final/") for name in logged[-1][1])


@pytest.mark.parametrize("slow", [0, 2])
def test_no_number_is_logged_twice_at_a_step(slow):
    logged = []

    class Log:
        def log(self, values, step):
            logged.extend((name, step) for name in values)

    model = mlp()
    with watch(model, probe=(X, Y), every=1, slow=slow, loggers=[Log()]) as run:
        train(model, (X, Y), 3, after=lambda loss: run.step(loss=loss))
    assert len(logged) == len(set(logged))
    assert ("train_loss", 3) in logged
    if slow:
        assert {("intra", 3), ("elasticity/0/1", 3), ("quality/2", 3)} <= set(logged)
        assert np.isfinite(run.record["intra"].values[-1])


def test_everything_measured_is_logged():
    logged = {}

    class Log:
        def log(self, values, step):
            logged.update(values)

    run = watch(mlp(), probe=(X, Y), every=1, class_logits=True, class_names=["a", "b", "c"], loggers=[Log()])
    assert {"loads/input", "increment/0 Linear", "idle/0 Linear", "linearity", "class_logits/b/2"} <= set(logged)
    numbers = {name: each for name, each in run.record.data_vars.items() if each.dtype.kind in "bf"}
    held = {str(name) for name, each in numbers.items() if np.isfinite(each).any()}
    assert {name.partition("/")[0] for name in logged} == held


def test_classes_have_the_names_that_are_given():
    run = watch(mlp(), probe=(X, Y), every=1, class_names=["cat", "dog", "owl"])
    assert run.record["elasticity"].sel({"class": "dog", "source": "owl"}).size == 1
    with pytest.raises(ValueError, match="class_names must be a list of 3 names or more"):
        watch(mlp(), probe=(X, Y), class_names=["cat", "dog"])


def test_every_epoch():
    with watch(mlp(), probe=(X, Y), every="epoch", slow=0) as run:
        for _ in range(3):
            for _ in range(5):
                run.step()
            run.end_epoch()
    assert run.record["step"].values.tolist() == [0, 5, 10, 15]


def test_former_names_of_variables_work_with_a_warning(tmp_path):
    run = watch(mlp(), probe=(X, Y), every=1, out=tmp_path)
    run.close()
    for record in (run.record, open_run(tmp_path), open_run(tmp_path / "record.nc")):
        assert record.loads.dims == ("step", "layer")
        assert "load" in record
        with pytest.warns(DeprecationWarning, match="'load' of watched runs is now called 'loads'"):
            assert record["load"].equals(record.loads)
        with pytest.warns(DeprecationWarning, match="is now called 'idle'"):
            assert record.isel(step=0)["dead"].dims == ("layer",)


def test_short_runs_are_measured_on_time_whatever_the_first_one_loads():
    model = mlp()
    with watch(model, probe=(X, Y), steps=100, slow=0) as run:
        train(model, (X, Y), 100, after=lambda loss: run.step())
    assert run.record.sizes["step"] >= 11


def test_training_goes_on_where_warnings_are_errors(monkeypatch, capsys):
    run = watch(mlp(), probe=(X, Y), every=1, slow=0)
    monkeypatch.setattr(running, "read_features", lambda *_: 1 / 0)
    with warnings.catch_warnings(action="error"):
        run.step()
    assert "training goes on (ZeroDivisionError" in capsys.readouterr().err


def test_a_run_that_diverges_is_recorded_as_such():
    model = mlp()
    with watch(model, probe=(X, Y), every=1) as run:
        with torch.no_grad():
            model[4].weight.fill_(torch.nan)
        run.step()
    last = run.record.isel(step=-1)
    assert np.isfinite(last["loads"].values).tolist() == [True, True, False]
    assert np.isnan(last["nc1"])
    assert str(last["shape"].values) == "undefined"


def test_an_error_in_training_is_passed_on_and_the_record_is_written(tmp_path):
    def fail():
        with watch(mlp(), probe=(X, Y), every=1, out=tmp_path) as run:
            run.step()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert load(tmp_path / "record.nc")["step"].values.tolist() == [0, 1]


def test_time_budget_is_kept_on_a_real_run():
    model, data = Transformer(), tokens()
    with watch(model, probe=data, max_overhead=0.05) as run:
        train(model, data, 150, after=lambda loss: run.step())
        during = run.overhead
        measured = run.record.sizes["step"]
    assert during <= 0.05 or measured == 1  # only the state before training, which it could not yet pay for


@pytest.mark.ci
def test_two_processes(tmp_path):
    program = Path(__file__).with_name("two_ranks.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first["same"]
    assert second["same"]
    assert first["steps"] == [0, 5, 10, 15, 20]
    assert second["layers"] == []  # the second process does nothing
    assert open_run(tmp_path / "run")["step"].values.tolist() == [0, 5, 10, 15, 20]


def test_loads_of_a_distributed_model_are_those_of_the_module():
    assert np.isclose(watch(mlp(), probe=(X, Y)).record["loads"][0, 0], float(data_separation(X, Y)))
