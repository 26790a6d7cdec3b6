"""Claims about forecasts fail where these are worse than a rival, or their bands too narrow or too wide."""

import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtri

from dynascope.experiments.forecasts.claims_of import covers
from dynascope.experiments.forecasts.judged import NAMES, SHOWN
from dynascope.experiments.forecasts.networks import KINDS
from dynascope.forecasting.evidence import LEVELS

CURVES = 4000
THEORY = NAMES.index("skills")


def _record(names, *, curves=CURVES, sigma=0.01, rival=3):
    """Forecasts that err by sigma with bands that hold; candidates err by `rival` times as much."""
    rng = np.random.default_rng(0)
    shape = (len(SHOWN), curves)
    value = np.broadcast_to(rng.normal(1.0, 0.2, curves), shape)
    middle = value + sigma * rng.standard_normal(shape)
    plain = value[..., None] + rival * sigma * rng.standard_normal((*shape, len(NAMES)))
    last = value + 3 * sigma * rng.standard_normal(shape)
    weight = np.full((*shape, len(NAMES)), 0.4 / (len(NAMES) - 1))
    weight[..., THEORY] = 0.6
    bands = ndtri(np.array(LEVELS))
    return xr.Dataset(
        {
            "quantiles": (("share", "curve", "quantile"), middle[..., None] + sigma * bands),
            "last_quantiles": (("share", "curve", "quantile"), last[..., None] + 3 * sigma * bands),
            "plain": (("share", "curve", "candidate"), plain),
            "weight": (("share", "curve", "candidate"), weight),
            "value": (("share", "curve"), value),
            "group": ("curve", np.resize(names, curves)),
        },
        {"share": list(SHOWN), "quantile": list(LEVELS), "candidate": list(NAMES)},
    )


@pytest.fixture
def networks():
    return _record([f"networks/mnist/{kind}" for kind in KINDS])


@pytest.fixture
def taskset():
    record = _record(["taskset/one"])
    return record.assign(moving=("curve", np.arange(CURVES) % 2 == 0))


@pytest.fixture
def language():
    schedules = ("cosine_24000", "wsd_20000_24000", "wsdld_20000_24000", "constant_24000")
    one = _record([f"language/25M/{each}" for each in schedules], curves=18, sigma=0.005, rival=40)
    one = _moved(one, "constant", 2.0, "quantiles", "last_quantiles", "plain", "value")  # a decay brings 2, about
    return xr.concat([one] * 3, xr.Variable("told", ["size", "schedule", "alone"]), data_vars="all")


def _shifted(record, by):
    return record.assign(quantiles=record["quantiles"] + by)


def _moved(record, schedule, by, *names):
    """The same where some runs have larger values."""
    chosen = by * record["group"].str.contains(f"/{schedule}_")
    return record.assign({name: record[name] + chosen for name in names})


def _stretched(record, by):
    middle = record["quantiles"].sel(quantile=0.5)
    return record.assign(quantiles=middle + by * (record["quantiles"] - middle))


def test_good_forecasts_pass(networks, taskset, failed):
    assert failed("forecasts/networks", networks) == set()
    assert failed("forecasts/taskset", taskset) == set()


def test_forecasts_worse_than_a_candidate_fail(networks, taskset, failed):
    assert {"forecast-networks-mean", "forecast-networks-median"} <= failed(
        "forecasts/networks", _shifted(networks, 0.05)
    )
    found = failed("forecasts/taskset", _shifted(taskset, 0.05))
    assert {"forecast-taskset-mean", "forecast-taskset-median", "forecast-taskset-median-all"} <= found
    assert "forecast-taskset-crps" in failed("forecasts/taskset", _shifted(taskset, 0.2))
    assert "forecast-networks-crps" in failed("forecasts/networks", _shifted(networks, 0.2))


@pytest.mark.parametrize("by", [0.7, 1.5])
def test_bands_that_do_not_hold_fail(by, networks, taskset, failed):
    expected = {f"forecast-networks-{each}" for each in ("80", "95", "each-80", "each-95")}
    assert failed("forecasts/networks", _stretched(networks, by)) == expected
    expected = {f"forecast-taskset-{each}" for each in ("80", "95", "moving-80", "moving-95")}
    assert failed("forecasts/taskset", _stretched(taskset, by)) == expected


def test_one_quantity_that_fails_is_enough(networks, failed):
    late = np.char.endswith(networks["group"].values, KINDS[-1])
    spoiled = networks.assign(quantiles=networks["quantiles"] + xr.DataArray(0.05 * late, dims="curve"))
    assert "forecast-networks-mean" in failed("forecasts/networks", spoiled)


def test_bands_of_one_quantity_fail_for_each_and_not_for_all(networks, failed):
    late = np.char.endswith(networks["group"].values, KINDS[-1])
    spoiled = _stretched(networks, 0.7).where(xr.DataArray(late, dims="curve"), networks)
    assert failed("forecasts/networks", spoiled) == {"forecast-networks-each-80", "forecast-networks-each-95"}


def test_theory_without_weight_fails(networks, failed):
    even = networks.assign(weight=xr.full_like(networks["weight"], 1 / len(NAMES)))
    assert failed("forecasts/networks", even) == {"forecast-networks-theory"}


def test_language_models_have_bounds(language, failed):
    bands = {f"forecast-language-{each}" for each in ("80", "95", "alone-80", "alone-95")}
    assert failed("forecasts/language", language) == bands  # 18 runs do not tell 80 % from 95 %
    found = failed("forecasts/language", _shifted(language, 0.4))
    assert {"forecast-language-cosine", "forecast-language-wsd", "forecast-language-schedule"} <= found
    assert "forecast-language-alone" in found
    assert bands <= failed("forecasts/language", _stretched(language, 0.05))


def _covering(share, curves):
    """Curves of which so many lie inside the band, whichever it is."""
    inside = np.arange(curves) < round(share * curves)
    return xr.Dataset({"inside": (("band", "share", "curve"), np.tile(inside, (2, 1, 1)))}, {"band": [0.8, 0.95]})


def test_curves_that_are_too_few_to_tell_bands_apart_bear_neither_out():
    for share in (17 / 18, 1.0):  # with bands without end, too
        assert [covers(_covering(share, 18), band).verdict for band in (0.8, 0.95)] == ["not reproduced"] * 2
    for curves in (200, 4000):
        assert [covers(_covering(0.95, curves), band).verdict for band in (0.8, 0.95)] == [
            "not reproduced",
            "reproduced",
        ]
        assert covers(_covering(0.8, curves), 0.8).verdict == "reproduced"
    assert covers(_covering(1.0, 4000), 0.95).verdict != "reproduced"


def test_what_a_decay_brings_must_be_met(language, failed):
    for off in (-0.7, 0.7):
        assert "forecast-language-what-if" in failed("forecasts/language", _moved(language, "wsdld", off, "quantiles"))
    assert "forecast-language-what-if" not in failed("forecasts/language", _shifted(language, 0.7))
