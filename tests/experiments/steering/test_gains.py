"""What `advise` expects is read off a record: planted gains come back, by bend and share of wrong labels."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.steering.arms import PLAIN, STEERED, Config
from dynascope.experiments.steering.gains import FEWEST, benchmark_of, interval
from dynascope.steering.law import GAIN

TASKS = {"data": ("mnist", "cifar10"), "networks": ("mlp-3", "mlp-7"), "wrong": (0.0, 0.4)}
CONFIG = Config(**TASKS, seeds=12, grid=(0.0, 0.3, 0.6))
BENDS, BEYOND = (2.0, 0.0, -2.0), np.array([[0.02, 0.0, 0.03], [0.2, 0.01, 0.05]])  # (wrong, value)


@pytest.fixture
def record():
    """Steered networks lie as far ahead of each value as they should, but for a little scatter."""
    task = {"data": list(CONFIG.data), "network": list(CONFIG.networks), "wrong": list(CONFIG.wrong)}
    shape = tuple(len(each) for each in task.values())
    scatter = 0.001 * np.random.default_rng(0).normal(size=(*shape, 3, CONFIG.seeds))
    fixed = 0.9 - BEYOND[..., None] + scatter
    bends = np.broadcast_to(np.array(BENDS)[:, None], fixed.shape).copy()
    accuracy = np.full((*shape, 2, CONFIG.seeds), 0.9)
    values = {
        "accuracy": ((*task, "arm", "trial"), accuracy),
        "fixed": ((*task, "value", "trial"), fixed),
        "fixed_bend": ((*task, "value", "trial"), bends),
    }
    stamps = {"experiment": "steering/mlps", "scale": "smoke", "commit": "abc", "config": asdict(CONFIG)}
    coords = task | {"value": list(CONFIG.grid), "arm": [STEERED, PLAIN]}
    return xr.Dataset(values, coords, {name: json.dumps(each) for name, each in stamps.items()})


def test_planted_gains_come_back(record):
    found = benchmark_of(record)
    assert (found.scale, found.commit, found.knob, found.depths) == ("smoke", "abc", "dropout", (3, 7))
    assert (found.gain, found.target) == (GAIN, 0.0)
    assert len(found.gains) == 6
    for column, bend in enumerate(BENDS):
        for wrong, gains in zip(CONFIG.wrong, BEYOND, strict=True):
            (row,) = [each for each in found.gains if each.wrong == wrong and each.holds(bend)]
            assert row.mean == pytest.approx(gains[column], abs=0.0007)  # 3 errors of 24, and rounding
            assert (row.low, row.high) == pytest.approx((gains[column] - 0.002, gains[column] + 0.002), abs=0.001)
            assert row.networks == 24  # all but the data that the law was tuned on


def test_what_the_law_was_tuned_on_does_not_count(record):
    spoiled = record.copy(deep=True)
    spoiled["accuracy"].loc[{"data": "mnist", "network": "mlp-7"}] = 0.0
    assert benchmark_of(spoiled) == benchmark_of(record)


def test_bends_without_meaning_and_few_networks_are_left_out(record):
    few = record.copy(deep=True)
    few["fixed_bend"].loc[{"wrong": 0.0, "value": 0.6}] = np.nan
    few["fixed_bend"].loc[{"wrong": 0.0, "value": 0.6, "data": "cifar10", "network": "mlp-7"}][: FEWEST - 1] = -2.0
    found = benchmark_of(few)
    assert found.gains == tuple(row for row in benchmark_of(record).gains if row.wrong or not row.holds(-2.0))
    few["fixed_bend"].loc[{"wrong": 0.0, "value": 0.6, "data": "cifar10", "network": "mlp-7"}][:FEWEST] = -2.0
    assert {row.networks for row in benchmark_of(few).gains} == {24, FEWEST}


def test_the_interval_holds_one_more_network_in_95_percent():
    draws = np.random.default_rng(1).normal(size=(4000, FEWEST + 1))
    ends = np.array([interval(row[:-1]) for row in draws])
    held = ((ends[:, 0] < draws[:, -1]) & (draws[:, -1] < ends[:, 1])).mean()
    assert held == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / len(draws)))


def test_of_a_real_run(smoke):
    record, _ = smoke("steering/mlps")
    found = benchmark_of(record)
    assert replace(found, gains=()).depths == (3,)
    assert sum(row.networks for row in found.gains) <= np.isfinite(record["fixed_bend"]).sum()
