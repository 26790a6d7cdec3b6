"""The chain of Figure 4 against paths that know nothing of a chain, and what its claims say without numbers."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.phases import chain
from dynascope.experiments.registry import find
from dynascope.models.spring_block.chain import SpringBlock

NAME, TIMES = "phases/chain", np.linspace(0.05, 1.0, 20)
NOISE = 2e-3


def _waves():
    """The path of a chain: the last block moves first."""
    return np.pad(
        SpringBlock(friction_right=0.02, friction_left=0.1, noise=0.01).mean_path(60 * TIMES), ((0, 0), (1, 0))
    )


def _together():
    """All layers at once."""
    return np.outer(1 - np.exp(-TIMES / 0.3), np.arange(8) / 8)


def _record(true, fitted, *, friction=(0.2, 0.1, 0.0), right=(0.2, 0.2, 0.2), seeds=5):
    """Paths of networks around one path in all panels, with what was fitted to it."""
    random = np.random.default_rng(0)
    load = 1 - true + NOISE * random.normal(size=(3, seeds, len(TIMES), 8)) * (np.arange(8) > 0)
    found = np.broadcast_to(1 - fitted, (3, *fitted.shape))
    values = {
        "load": (("panel", "trial", "time", "layer"), load),
        "fitted_load": (("panel", "time", "layer"), found),
    }
    for name, numbers in (("friction_difference", friction), ("friction_right", right)):
        values |= {name + end: ("panel", np.add(numbers, width)) for end, width in (("", 0), ("_high", 0.01))}
    return xr.Dataset(values, coords={"panel": list(chain.PANELS), "time": TIMES})


def _verdict(record, claim):
    return next(each.verdict for each in find(NAME).judge(record) if each.id == claim)


def test_a_chain_beats_the_nulls_on_its_own_path():
    assert _verdict(_record(_waves(), _waves()), "fig-4-chain-follows") == "reproduced"


def test_a_chain_that_does_no_better_than_all_layers_at_once_is_caught():
    """It is as near to the path as the noise, and so is the null."""
    record = _record(_together(), _together() + 1e-2 * np.sin(9 * TIMES)[:, None] * (np.arange(8) > 0))
    assert _verdict(record, "fig-4-chain-follows") == "not reproduced"


def test_a_chain_on_a_path_at_rest_is_caught():
    still = np.broadcast_to(np.arange(8) / 8, (len(TIMES), 8))
    assert _verdict(_record(still, still), "fig-4-chain-follows") == "not reproduced"


def test_frictions_that_the_path_does_not_tell_leave_the_claim_undetermined():
    judged = {case: _record(_waves(), _waves(), friction=case) for case in ((0.2, 0.1, 0.0), (0.0, 0.1, 0.2))}
    verdicts = [_verdict(record, "fig-4-chain-friction") for record in judged.values()]
    assert verdicts == ["reproduced", "not reproduced"]
    unknown = _record(_waves(), _waves(), friction=(np.nan, 0.1, 0.0))
    assert _verdict(unknown, "fig-4-chain-friction") == "not determined"


@pytest.mark.parametrize(
    ("right", "verdict"),
    [(0.2, "reproduced"), (0.001, "not reproduced"), (-0.2, "not reproduced"), (np.nan, "not determined")],
)
def test_what_a_path_without_noise_tells_is_its_friction_to_the_right(right, verdict):
    """μ→ − μ← of (b) is not told, that of (d) is −0.3."""
    record = _record(_waves(), _waves(), friction=(np.nan, 0.0, -0.3), right=(right, np.nan, np.nan))
    assert _verdict(record, "fig-4-chain-told") == verdict
    note = next(each.note for each in find(NAME).judge(record) if each.id == "fig-4-chain-friction")
    assert "fig-4-chain-told" in note


def test_null_paths_count_what_they_fit():
    (standstill, none), (together, several) = chain.null_paths(_together()[:, 1:], TIMES)
    assert (none, several) == (0, 8)
    assert standstill > 1
    assert together == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(("first", "verdict"), [(0.2, "reproduced"), (0.03, "not reproduced")])
def test_few_networks_need_more_than_three_errors(first, verdict):
    """Intervals of five networks reach 2.8 errors: 0.03 is 5.9 of the difference's, of which four degrees need 6.6."""
    assert _verdict(_record(_waves(), _waves(), friction=(first, 0.1, 0.0)), "fig-4-chain-friction") == verdict
    told = _record(_waves(), _waves(), friction=(0.2, 0.1, 0.0), right=(2 * first / 3, 0.2, 0.2))
    assert _verdict(told, "fig-4-chain-told") == verdict
