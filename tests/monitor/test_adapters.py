"""Loggers and callbacks against stand-ins with the same calls; the packages themselves are optional."""

import importlib
import json
import math
import sys
import types
from types import SimpleNamespace

import pytest
import torch

from dynascope import watch
from dynascope.monitor import huggingface, lightning, open_run
from dynascope.monitor.loggers import Logger, MLflow, TensorBoard, WandB
from networks import mlp, vectors


class Calls(list):
    """Writes every call down."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.append((name, args, kwargs))


def _fill(logger):
    assert isinstance(logger, Logger)
    run = watch(mlp(), probe=vectors(), every=1, slow=0, loggers=[logger])
    run.step(loss=0.5)
    run.close()


def test_tensorboard():
    writer = Calls()
    _fill(TensorBoard(writer))
    added = [args for name, args, _ in writer if name == "add_scalar"]
    assert {step for _, _, step in added} == {0, 1}
    assert ("dynascope/train_loss", 0.5, 1) in added
    assert "dynascope/loads/0 Linear" in {name for name, *_ in added}


def test_wandb_has_its_own_step():
    run = Calls()
    _fill(WandB(run))
    assert ("define_metric", ("dynascope/*",), {"step_metric": "dynascope/step"}) in run
    logged = [args[0] for name, args, kwargs in run if name == "log" and not kwargs]
    assert [values["dynascope/step"] for values in logged] == [0, 1]
    assert logged[1]["dynascope/train_loss"] == 0.5


def test_mlflow():
    client = Calls()
    _fill(MLflow(client))
    assert [kwargs["step"] for name, _, kwargs in client if name == "log_metrics"] == [0, 1]
    json.dumps([args for _, args, _ in client])  # plain numbers


@pytest.mark.parametrize(
    ("make", "package", "line"),
    [
        (TensorBoard, "tensorboard", "pip install tensorboard"),
        (WandB, "wandb", "pip install wandb"),
        (MLflow, "mlflow", "pip install mlflow"),
        (lambda: lightning.WatchCallback, "lightning", "pip install lightning"),
        (lambda: huggingface.WatchCallback, "transformers", "pip install transformers"),
    ],
)
def test_a_missing_package_gives_the_line_that_installs_it(monkeypatch, make, package, line):
    for name in (package, *(("lightning.pytorch", "pytorch_lightning") if package == "lightning" else ())):
        monkeypatch.setitem(sys.modules, name, None)
    lightning._callback.cache_clear()
    huggingface._callback.cache_clear()
    with pytest.raises(ImportError, match=f"is not installed; run: {line}$"):
        make()


def test_a_logger_that_fails_does_not_stop_training():
    class Broken:
        def log(self, values, step):
            raise OSError("no network")

    with pytest.warns(RuntimeWarning, match="no network"):
        run = watch(mlp(), probe=vectors(), every=1, slow=0, loggers=[Broken()])
    run.step()
    assert run.record["step"].values.tolist() == [0, 1]


@pytest.fixture
def stand_in(monkeypatch):
    """A package with a base class for callbacks."""

    def make(name, base):
        parent, _, child = name.partition(".")
        module = types.ModuleType(name)
        setattr(module, base, type(base, (), {}))
        if child:
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
        monkeypatch.setitem(sys.modules, name, module)
        lightning._callback.cache_clear()
        huggingface._callback.cache_clear()
        return getattr(module, base)

    yield make
    lightning._callback.cache_clear()
    huggingface._callback.cache_clear()


def test_lightning_callback(stand_in, tmp_path):
    base = stand_in("lightning.pytorch", "Callback")
    module = mlp()
    module.device = torch.device("cpu")
    others, own = (torch.optim.SGD(each.parameters(), lr=rate) for each, rate in ((mlp(), 0.5), (module, 0.25)))
    trainer = SimpleNamespace(
        is_global_zero=True, global_step=0, estimated_stepping_batches=math.inf, optimizers=[others, own]
    )
    callback = lightning.WatchCallback(vectors(), 2, out=tmp_path, slow=0)
    assert isinstance(callback, base)
    callback.on_train_start(trainer, module)
    for batch in range(8):
        trainer.global_step = (batch + 1) // 2  # gradients are accumulated over two batches
        callback.on_train_batch_end(trainer, module, {"loss": torch.tensor(0.25)}, None, batch)
    callback.on_fit_end(trainer, module)
    record = open_run(tmp_path)
    assert record["step"].values.tolist() == [0, 2, 4]
    assert record["train_loss"].values[1:].tolist() == [0.25, 0.25]
    assert record["learning_rate"].values.tolist() == [0.25] * 3


def test_lightning_callback_does_nothing_in_other_processes(stand_in):
    stand_in("lightning.pytorch", "Callback")
    callback = lightning.WatchCallback(vectors())
    trainer = SimpleNamespace(is_global_zero=False, global_step=0)
    callback.on_train_start(trainer, mlp())
    callback.on_train_batch_end(trainer, mlp(), None, None, 0)
    callback.on_exception(trainer, mlp(), RuntimeError())
    assert callback.run is None


def test_hugging_face_callback(stand_in, tmp_path):
    base = stand_in("transformers", "TrainerCallback")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.classifier = mlp(), torch.nn.Linear(3, 3)

        def forward(self, input_values, labels=None):
            return {"logits": self.classifier(self.body(input_values).relu())}

    x, y = vectors()
    state = SimpleNamespace(
        is_world_process_zero=True, global_step=0, max_steps=4, log_history=[{"loss": 0.75}, {"epoch": 1}]
    )
    callback = huggingface.WatchCallback(({"input_values": x}, y), 2, out=tmp_path)
    assert isinstance(callback, base)
    model = Model()
    around = SimpleNamespace(optimizer=torch.optim.SGD(model.parameters(), lr=0.5))  # as accelerate has it
    callback.on_train_begin(None, state, None, model=model, optimizer=around)
    for step in range(1, 5):
        state.global_step = step
        callback.on_step_end(None, state, None, model=None)
    callback.on_train_end(None, state, None)
    record = open_run(tmp_path)
    assert record["step"].values.tolist() == [0, 2, 4]
    assert record["train_loss"].values[-1] == 0.75
    assert record["learning_rate"].values.tolist() == [0.5] * 3


def test_hugging_face_callback_takes_no_optimiser_of_another_kind(stand_in):
    stand_in("transformers", "TrainerCallback")
    state = SimpleNamespace(is_world_process_zero=True, global_step=0, max_steps=4, log_history=[])
    callback = huggingface.WatchCallback(vectors(), 2)
    callback.on_train_begin(None, state, None, model=mlp(), optimizer=SimpleNamespace(param_groups=[]))
    assert "learning_rate" not in callback.run.record


def test_nothing_else_is_there():
    for module in (lightning, huggingface, importlib.import_module("dynascope.monitor")):
        with pytest.raises(AttributeError, match="nothing"):
            module.nothing  # noqa: B018
