"""The learning rate is kept with every measurement, and goes on where a run goes on."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from dynascope import watch
from dynascope.monitor import open_run
from networks import mlp, vectors


def _train(model, optimiser, scheduler, steps, run=None):
    x, y = vectors()
    for _ in range(steps):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        scheduler.step()
        if run is not None:
            run.step(loss=loss)


def _parts():
    torch.manual_seed(0)
    model = mlp()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimiser, LambdaLR(optimiser, lambda step: 1 / (1 + step))


def test_the_rate_of_every_measurement_is_recorded(tmp_path):
    model, optimiser, scheduler = _parts()
    with watch(model, vectors(), every=2, slow=0, optimizer=optimiser, out=tmp_path) as run:
        _train(model, optimiser, scheduler, 5, run)
    for record in (run.record, open_run(tmp_path), open_run(tmp_path / "record.nc")):
        assert record["learning_rate"].dims == ("step",)
        np.testing.assert_allclose(record["learning_rate"], 0.1 / (1 + np.array([0, 2, 4, 5])))


def test_a_run_that_goes_on_has_the_rates_of_one_that_was_never_stopped(tmp_path):
    model, optimiser, scheduler = _parts()
    with watch(model, vectors(), every=2, slow=0, optimizer=optimiser, out=tmp_path / "whole") as run:
        _train(model, optimiser, scheduler, 8, run)
    model, optimiser, scheduler = _parts()
    run = watch(model, vectors(), every=2, slow=0, optimizer=optimiser, out=tmp_path / "parts")
    _train(model, optimiser, scheduler, 4, run)
    kept = copy.deepcopy([each.state_dict() for each in (model, optimiser, scheduler)])
    random = torch.get_rng_state()
    _train(model, optimiser, scheduler, 3, run)  # lost when it is stopped
    run.close(last=False)
    model, optimiser, scheduler = _parts()
    for each, state in zip((model, optimiser, scheduler), kept, strict=True):
        each.load_state_dict(state)
    torch.set_rng_state(random)
    with watch(model, vectors(), every=2, slow=0, optimizer=optimiser, out=tmp_path / "parts", first_step=4) as run:
        _train(model, optimiser, scheduler, 4, run)
    whole, parts = (open_run(tmp_path / name) for name in ("whole", "parts"))
    assert parts["step"].values.tolist() == [0, 2, 4, 6, 8]
    for name in ("learning_rate", "train_loss", "probe_loss"):
        np.testing.assert_array_equal(parts[name], whole[name])


def test_a_run_that_was_begun_without_the_optimiser_has_no_rates_there(tmp_path):
    model, optimiser, scheduler = _parts()
    with watch(model, vectors(), every=2, slow=0, out=tmp_path) as run:
        _train(model, optimiser, scheduler, 2, run)
    with watch(model, vectors(), every=2, slow=0, out=tmp_path, first_step=2, optimizer=optimiser) as run:
        _train(model, optimiser, scheduler, 2, run)
    np.testing.assert_allclose(open_run(tmp_path)["learning_rate"], [np.nan, np.nan, 0.1 / 5])


def test_training_with_a_scheduler_stays_the_same_bit_for_bit():
    def weights(watched):
        model, optimiser, scheduler = _parts()
        run = watch(model, vectors(), every=2, slow=2, optimizer=optimiser) if watched else None
        _train(model, optimiser, scheduler, 10, run)
        return nn.utils.parameters_to_vector(model.parameters()), optimiser.param_groups[0]["lr"]

    (plain, rate), (seen, seen_rate) = weights(False), weights(True)
    assert torch.equal(plain, seen)
    assert rate == seen_rate


@pytest.mark.parametrize(
    ("rates", "kept"), [([0.1, 0.3, 0.2], 0.3), ([torch.tensor(0.5), 0.1], 0.5), ([None, 0.1], 0.1), ([None], None)]
)
def test_of_several_groups_the_largest_rate_is_kept(rates, kept):
    model = mlp()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    optimiser.param_groups = [{"params": [], "lr": rate} for rate in rates]
    record = watch(model, vectors(), every=2, slow=0, optimizer=optimiser).record
    assert kept is None or record["learning_rate"].item() == kept
    assert ("learning_rate" in record) == (kept is not None)
