"""Loggers against the real packages, where they are installed; nothing leaves the machine."""

import pytest

from dynascope import watch
from dynascope.monitor.loggers import MLflow, TensorBoard, WandB
from networks import mlp, vectors

NAME = "dynascope/train_loss"


def _fill(logger):
    with watch(mlp(), probe=vectors(), every=1, slow=0, loggers=[logger]) as run:
        run.step(loss=0.5)
        run.step(loss=0.25)
    assert not run._told


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_back_what_was_logged(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    _fill(TensorBoard(tmp_path))
    written = events.EventAccumulator(str(tmp_path))
    written.Reload()
    assert [(each.step, each.value) for each in written.Scalars(NAME)] == [(1, 0.5), (2, 0.25)]
    assert "dynascope/loads/0 Linear" in written.Tags()["scalars"]


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
def test_wandb_keeps_the_numbers_although_the_user_logs_with_higher_steps(tmp_path):
    wandb = pytest.importorskip("wandb")
    run = wandb.init(mode="offline", dir=tmp_path, project="dynascope", settings=wandb.Settings(silent=True))
    run.log({"mine": 1.0}, step=1000)
    _fill(WandB(run))
    assert run.summary[NAME] == 0.25
    assert run.summary["dynascope/step"] == 2
    run.finish()
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.ci
def test_mlflow_reads_back_what_was_logged(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run() as active:
        _fill(MLflow())
    history = mlflow.MlflowClient().get_metric_history(active.info.run_id, NAME)
    assert [(each.step, each.value) for each in history] == [(1, 0.5), (2, 0.25)]
