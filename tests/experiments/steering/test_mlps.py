"""Claims about steered networks fail where these fall behind; arms are what they are called."""

import numpy as np
import pytest
import xarray as xr

from dynascope.data import corrupt_labels
from dynascope.experiments.steering import arms
from dynascope.experiments.steering.arms import (
    AGAIN,
    EARLY,
    GRID,
    PLAIN,
    RANDOM,
    STEERED,
    UNLABELLED,
    Config,
    arm_names,
    split,
    trained,
)
from dynascope.experiments.steering.mlps import read, table
from dynascope.networks import MLP, Ensemble

NAME = "steering/mlps"
SMALL = Config(
    size=0,
    samples=20,
    wrong=(0.0, 0.3),
    seeds=2,
    epochs=3,
    width=8,
    batch_size=50,
    grid=(0.0, 0.5),
    customary=(0.5,),
    probe=4,
    unlabelled=5,
    every=2,
    times=3,
    valid=4,
)
WRONG = np.array([0.0, 0.2, 0.4])
BEHIND = {  # the best fixed value, at each share of wrong labels
    STEERED: (0.0, 0.01, 0.04),
    UNLABELLED: (-0.005, 0.005, 0.02),
    PLAIN: (0.01, 0.1, 0.2),
    "dropout 0.1": (0.005, 0.05, 0.1),
    "dropout 0.5": (0.02, 0.03, 0.02),
    RANDOM: (0.02, 0.05, 0.1),
    GRID: (0.01, 0.03, 0.12),
    AGAIN: (0.005, 0.01, 0.05),
    EARLY: (0.02, 0.06, 0.1),
}


@pytest.fixture
def record():
    """Tasks in which every arm lies as far behind as it should, in twelve runs that scatter a little."""
    config = Config()
    shape = (len(config.data), len(config.networks), len(WRONG))
    scatter = 0.0005 * np.random.default_rng(0).normal(size=(*shape, len(BEHIND), config.seeds))
    accuracy = 0.9 - np.array(list(BEHIND.values())).T[..., None] + scatter
    fixed = 0.9 - np.abs(np.arange(len(config.grid)) - 4)[:, None] * 0.01 + np.zeros((*shape, 1, config.seeds))
    coords = {"data": list(config.data), "network": list(config.networks), "wrong": WRONG, "arm": arm_names(config)}
    task = ("data", "network", "wrong")
    values = {"accuracy": ((*task, "arm", "trial"), accuracy), "fixed": ((*task, "value", "trial"), fixed)}
    return xr.Dataset(values, coords=coords | {"value": list(config.grid)})


def _lowered(record, by, **where):
    values = record["accuracy"].copy(deep=True)
    values.loc[where] -= by
    return record.assign(accuracy=values)


SPOILED = {
    "steer-regret": ({"arm": STEERED, "wrong": 0.0}, 0.005),
    "steer-wrong-20": ({"arm": STEERED, "wrong": 0.2}, 0.02),
    "steer-wrong-40": ({"arm": STEERED, "wrong": 0.4}, 0.04),
    "steer-grid": ({"arm": GRID}, -0.05),
    "steer-harmless": ({"arm": PLAIN, "data": "mnist", "network": "mlp-7", "wrong": 0.0}, -0.05),
    "steer-beside": ({"arm": UNLABELLED}, 0.02),
}


def test_claims_hold(record, failed):
    assert failed(NAME, record) == set()


@pytest.mark.parametrize("claim", SPOILED)
def test_each_claim_fails_alone(claim, record, failed):
    where, by = SPOILED[claim]
    assert failed(NAME, _lowered(record, by, **where)) == {claim}


def test_what_the_law_was_tuned_on_does_not_count(record, failed):
    lowered = _lowered(record, 0.008, arm=STEERED, data="mnist", network="mlp-7")
    assert failed(NAME, lowered) == set()


def test_the_oracle_is_one_value_for_all_seeds(record):
    uneven = record.copy(deep=True)
    uneven["fixed"][0, 0, 0, 0, 0] = 1.0  # of one run alone
    np.testing.assert_allclose(read(uneven)["oracle"], 0.9)
    uneven["fixed"][0, 0, 0, 0] = 1.0
    assert (read(uneven)["oracle"][0, 0, 0] == 1.0).all()


def test_the_table_has_every_task_and_says_what_arms_cost(record):
    head, _, *rows = table(record).splitlines()
    assert len(rows) == 27 + 3 + 1
    cells = [each.strip() for each in rows[-1].split("|")[1:-1]]
    costs = dict(zip([each.strip() for each in head.split("|")[1:-1]], cells, strict=True))
    assert (costs[STEERED], costs[GRID], costs[AGAIN]) == ("1", "9", "10")
    clean = next(row for row in rows if row.startswith("| fashion | mlp-3 | 0%"))
    assert [each.strip() for each in clean.split("|")][-2] == "0.9000"


def test_what_validation_chooses(monkeypatch):
    """Of two values the second is better on validation data for the first seed only; early stopping is on its own."""
    fixed = np.array([[[0.1, 0.2], [0.3, 0.4]]])  # (wrong, value, trial)
    kept = {"valid": np.array([[[0.5, 0.9], [0.6, 0.8]]]), "test": fixed / 2}
    course = np.zeros((1, 2, 3))
    monkeypatch.setattr(arms, "_whole", lambda *_: (fixed, fixed[:, 0] + 0.5, fixed, course, course))
    monkeypatch.setattr(arms, "_validated", lambda *_: (kept, np.array([[0.7, 0.7]])))
    monkeypatch.setattr(arms, "_steered_alone", lambda *_: np.array([[0.9, 0.9]]))
    found = dict(zip(arm_names(SMALL), trained("digits", "mlp-2", SMALL)["accuracy"][0], strict=True))
    expected = {STEERED: [0.6, 0.7], PLAIN: [0.1, 0.2], "dropout 0.5": [0.3, 0.4], RANDOM: [0.2, 0.3]}
    expected |= {GRID: [0.15, 0.1], AGAIN: [0.3, 0.2], EARLY: [0.7, 0.7], UNLABELLED: [0.9, 0.9]}
    for arm, values in expected.items():
        np.testing.assert_allclose(found[arm], values)


def test_rivals_are_plain_trainings_on_the_same_labels():
    given = split("digits", SMALL)
    found = trained("digits", "mlp-3", SMALL)
    labels = np.stack([corrupt_labels(given.y, 0.3, seed=seed) for seed in range(2)])
    own = Ensemble(
        MLP(given.x.shape[1:], 10, width=8, depth=3, batch_norm=True, dropout=0.5),
        trials=2,
        learning_rate=0.001,
        batch_size=50,
        optimizer="adam",
        sampling="shuffled",
    )
    run = own.train(given.x, labels, 12, probe=(given.xt, given.yt), record_every=[12], progress=False)
    np.testing.assert_allclose(found["fixed"][1, 1], run["accuracy"][:, -1], atol=0.01)


def test_samples_beside_the_training_set_are_not_in_it():
    given = split("digits", SMALL)
    assert np.bincount(given.y).tolist() == [20] * 10
    assert np.bincount(given.y[given.probe]).tolist() == [4] * 10
    rows = {each.tobytes() for each in given.x}
    assert len(given.beside) == 50
    assert not rows & {each.tobytes() for each in given.beside}


@pytest.mark.parametrize("knob", ["learning_rate", "weight_decay"])
def test_other_knobs_can_be_steered(knob):
    config = Config(**{**vars(SMALL), "knob": knob, "grid": (0.01, 1.0), "customary": (0.01,), "plain": 0.01})
    if knob == "learning_rate":
        config = Config(**{**vars(config), "plain": 1.0})
    found = trained("digits", "mlp-2", config)
    assert np.isfinite(found["accuracy"]).all()
    assert (found["knob"][..., 0] == config.plain).all()


@pytest.mark.parametrize(("name", "short"), [("learning_rate", "rate"), ("weight_decay", "decay")])
def test_claims_about_other_knobs_fail(name, short, record, failed):
    place = f"steering/{name}"
    assert failed(place, record) == set()
    assert failed(place, _lowered(record, -0.05, arm=GRID)) == {f"steer-{short}-grid"}
    where = {"arm": PLAIN, "data": "mnist", "network": "mlp-7", "wrong": 0.0}
    assert failed(place, _lowered(record, -0.05, **where)) == {f"steer-{short}-harmless"}
