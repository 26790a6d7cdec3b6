"""One folder holds one training: a second one goes beside it, a resumed one is checked."""

import platform
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dynascope import watch
from dynascope.monitor import open_run
from networks import mlp, tokens, train, vectors


def _trained(folder, steps, model=None, **options):
    model = mlp() if model is None else model
    with watch(model, probe=vectors(), every=2, slow=0, out=folder, **options) as run:
        train(model, vectors(), steps, after=lambda loss: run.step())
    return run, model


def _steps(folder):
    return open_run(folder)["step"].values.tolist()


def test_a_second_training_gets_a_folder_of_its_own_and_says_so(tmp_path):
    _trained(tmp_path / "run", 4)
    for number in (2, 3):
        with pytest.warns(UserWarning, match=rf"holds a run already.*it goes to '.*run-{number}' \(resume=True"):
            run, _ = _trained(tmp_path / "run", 6)
        assert run.folder == tmp_path / f"run-{number}"
        assert _steps(run.folder) == [0, 2, 4, 6]
    assert _steps(tmp_path / "run") == [0, 2, 4]


def test_what_a_killed_run_left_in_a_numbered_folder_goes_with_the_next_run(tmp_path):
    for _ in range(2):
        with warnings.catch_warnings(action="ignore"):
            run, _ = _trained(tmp_path / "run", 2)
    left = run.folder / f".record.{platform.node()}-99999999-{'0' * 32}.nc"
    left.write_bytes(b"half a rec")
    with warnings.catch_warnings(action="ignore"):
        run, _ = _trained(tmp_path / "run", 2)
    assert run.folder == tmp_path / "run-3"
    assert not left.exists()


def test_the_line_that_is_warned_about_is_the_users(tmp_path):
    _trained(tmp_path, 2)
    with pytest.warns(UserWarning, match="holds a run") as told:
        watch(mlp(), probe=vectors(), every=2, out=tmp_path)
    assert told[0].filename == __file__


def test_the_same_training_from_the_start_is_another_run(tmp_path):
    for _ in range(2):
        torch.manual_seed(0)
        with warnings.catch_warnings(action="ignore"):
            run, _ = _trained(tmp_path / "run", 4)
    assert run.folder == tmp_path / "run-2"


def test_a_restored_model_is_recognised_by_what_was_measured(tmp_path):
    """Also from a checkpoint that is older than the last line."""
    _, model = _trained(tmp_path, 4)
    _, model = _trained(tmp_path, 4, model)
    assert _steps(tmp_path) == [0, 2, 4, 6, 8]
    older = {name: value.clone() for name, value in model.state_dict().items()}
    _trained(tmp_path, 4, model)
    assert _steps(tmp_path) == [0, 2, 4, 6, 8, 10, 12]
    model.load_state_dict(older)
    run, _ = _trained(tmp_path, 2, model)
    assert run.folder == tmp_path
    assert _steps(tmp_path) == [0, 2, 4, 6, 8, 10]


def test_a_resume_that_does_not_match_is_refused(tmp_path):
    _, model = _trained(tmp_path, 4)
    with pytest.raises(ValueError, match=r"says of step 4 is another state.*force it with resume=True"):
        _trained(tmp_path, 2, first_step=4)
    assert _trained(tmp_path, 2, model, first_step=4)[0].steps == 6
    assert _trained(tmp_path, 2, first_step=6, resume=True)[0].folder == tmp_path
    with pytest.warns(UserWarning, match="holds a run already"):
        run, _ = _trained(tmp_path, 2, model, first_step=6, resume=False)
    assert _steps(run.folder) == [6, 8]


def test_a_resume_that_cannot_be_checked_says_so(tmp_path):
    _, model = _trained(tmp_path, 4)
    with pytest.warns(UserWarning, match="was not measured at step 3: it is continued, but not checked"):
        _trained(tmp_path, 1, model, first_step=3)
    assert _steps(tmp_path) == [0, 2, 3, 4]


def _lightning():
    return pytest.importorskip("lightning.pytorch")


def _classifier():
    pl = _lightning()

    class Classifier(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _index):
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Classifier()


def _fit(folder, epochs, *, callbacks=(), checkpoint=None, **options):
    pl = _lightning()
    watching = pytest.importorskip("dynascope.monitor.lightning").WatchCallback(
        vectors(), options.pop("every", 4), out=folder / "run", slow=0, **options
    )
    saving = pl.callbacks.ModelCheckpoint(folder, save_last=True)
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=[watching, saving, *callbacks],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = _classifier()
    trainer.fit(model, DataLoader(TensorDataset(*vectors(90)), batch_size=4), ckpt_path=checkpoint)
    return watching.run, model


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_from_a_checkpoint_and_keeps_what_was_measured(tmp_path):
    _fit(tmp_path, 2)
    run, _ = _fit(tmp_path, 3, checkpoint=str(tmp_path / "last.ckpt"))
    assert run.folder == tmp_path / "run"
    assert _steps(run.folder) == [*range(0, 24, 4), 23, *range(24, 46, 4), 46, *range(48, 69, 4), 69]
    run, _ = _fit(tmp_path, 1)
    assert _steps(run.folder) == [0, 4, 8, 12, 16, 20, 23]
    assert run.folder == tmp_path / "run-2"


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
def test_lightning_measures_each_epoch(tmp_path):
    run, _ = _fit(tmp_path, 3, every="epoch")
    assert run.record["step"].values.tolist() == [0, 23, 46, 69]
    assert set(run.record["learning_rate"].values.tolist()) == {0.1}


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
def test_the_hugging_face_trainer_continues_from_an_older_checkpoint(tmp_path):
    transformers = pytest.importorskip("transformers")
    callbacks = pytest.importorskip("dynascope.monitor.huggingface")
    x, y = tokens()
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=11, num_labels=3, **sizes)

    def fit(steps, checkpoint=None):
        watching = callbacks.WatchCallback(({"input_ids": x}, y), 4, out=tmp_path / "run", slow=0)
        settings = transformers.TrainingArguments(
            output_dir=str(tmp_path / "trainer"),
            max_steps=steps,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            save_steps=5,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        data = [{"input_ids": each, "labels": label} for each, label in zip(x, y, strict=True)]
        model = transformers.BertForSequenceClassification(config)
        trainer = transformers.Trainer(model, settings, train_dataset=data, callbacks=[watching])
        trainer.train(resume_from_checkpoint=checkpoint)
        return watching.run

    fit(8)
    assert _steps(tmp_path / "run") == [0, 4, 5, 8]
    assert fit(9, str(tmp_path / "trainer" / "checkpoint-5")).folder == tmp_path / "run"
    assert _steps(tmp_path / "run") == [0, 4, 5, 8, 9]
    assert open_run(tmp_path / "run")["learning_rate"].values[-1] == 0.0  # it falls to 0 in a line
    assert fit(2).folder == tmp_path / "run-2"


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
def test_averaged_weights_are_the_final_state(tmp_path):
    averaging = _lightning().callbacks.EMAWeightAveraging(decay=0.9)
    run, model = _fit(tmp_path, 2, callbacks=[averaging])
    now = watch(model, probe=vectors(), every=1, slow=0).record
    averaged = float(run.record["probe_loss"][-1])
    assert averaged == pytest.approx(float(now["probe_loss"][0]))
    _fit(
        tmp_path,
        3,
        callbacks=[_lightning().callbacks.EMAWeightAveraging(decay=0.9)],
        checkpoint=str(tmp_path / "last.ckpt"),
    )
    assert _steps(tmp_path / "run")[-1] == 69
    assert float(open_run(tmp_path / "run")["probe_loss"].sel(step=46)) != averaged  # training went on without it
