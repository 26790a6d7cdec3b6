"""What is claimed of other networks than perceptrons can fail."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.registry import find
from dynascope.experiments.steering.arms import PLAIN, STEERED, UNLABELLED, arm_names, build

NAME = "steering/architectures"
CONFIG = find(NAME).config
AHEAD = {STEERED: 0.05, UNLABELLED: 0.05, PLAIN: 0.0, "dropout 0.1": 0.01, "dropout 0.5": 0.02}


@pytest.fixture
def record():
    arms = arm_names(CONFIG)
    shape = (len(CONFIG.data), len(CONFIG.networks), len(CONFIG.wrong), len(arms), CONFIG.seeds)
    scatter = 0.0005 * np.random.default_rng(0).normal(size=shape)
    accuracy = 0.4 + np.array([AHEAD.get(each, 0.0) for each in arms])[:, None] + scatter
    coords = {"data": list(CONFIG.data), "network": list(CONFIG.networks), "wrong": list(CONFIG.wrong), "arm": arms}
    task = ("data", "network", "wrong")
    fixed = ((*task, "value", "trial"), np.full((*shape[:3], len(CONFIG.grid), CONFIG.seeds), 0.45))
    values = {"accuracy": ((*task, "arm", "trial"), accuracy), "fixed": fixed}
    return xr.Dataset(values, coords=coords | {"value": list(CONFIG.grid)})


def test_claims_hold(record, failed):
    assert failed(NAME, record) == set()


@pytest.mark.parametrize(
    ("arm", "claim"), [("dropout 0.1", "default"), ("dropout 0.5", "default"), (PLAIN, "harmless")]
)
@pytest.mark.parametrize("network", CONFIG.networks)
def test_one_kind_of_network_is_enough_to_fail(arm, claim, network, record, failed):
    record["accuracy"].loc[{"arm": arm, "network": network}] += 0.07
    assert failed(NAME, record) == {f"steer-others-{claim}", f"steer-others-{claim}-beside"}


@pytest.mark.parametrize(("arm", "suffix"), [(STEERED, ""), (UNLABELLED, "-beside")])
def test_each_way_to_steer_has_its_own_claims(arm, suffix, record, failed):
    record["accuracy"].loc[{"arm": arm}] -= 0.1
    assert failed(NAME, record) == {f"steer-others-{each}{suffix}" for each in ("default", "one-default", "harmless")}


@pytest.mark.parametrize("arm", ["dropout 0.1", "dropout 0.5"])
def test_a_default_that_suits_most_kinds_is_told_from_one_that_suits_some(arm, record, failed):
    """Far better for one kind of network, it is better for all kinds in the mean; a little better it is not."""
    ways = ("", "-beside")
    suits, all_alike = ({f"steer-others-{each}{way}" for way in ways} for each in ("default", "one-default"))
    some = record["accuracy"].copy()
    some.loc[{"arm": arm, "network": "cnn"}] += 0.06
    assert failed(NAME, record.assign(accuracy=some)) == suits
    some.loc[{"arm": arm, "network": "cnn"}] += 0.2
    assert failed(NAME, record.assign(accuracy=some)) == suits | all_alike


@pytest.mark.parametrize("network", CONFIG.networks)
def test_networks_have_a_curve_and_dropout(network):
    made = build(network, (3, 10, 10), CONFIG)
    assert len(made.probes) >= 7
    assert "dropout" in made.adjustable
