"""Names of version 0.1.0 still work, each with a warning that says the new one."""

import numpy as np
import pytest
import xarray as xr

import dynascope
import dynascope.sweep
from dynascope import DeepLinear, DiagonalNetwork, Multilinear, ScalarNetwork, TwoLayerLinear, load, save
from dynascope.data import SparseParity
from dynascope.models import multilinear
from dynascope.models.multilinear.extended import scaled_skill
from dynascope.models.multilinear.scaling import fit_exponent
from dynascope.networks import MLP, Ensemble
from dynascope.networks.parity import ParitySettings

QUICK = {"save_points": 2, "trials": 1}
STEPS, CURVE = [1.0, 50.0, 90.0, 130.0, 400.0], [0.0, 0.1, 0.5, 0.9, 1.0]
X, Y = np.random.default_rng(0).normal(size=(6, 4)), np.arange(6) % 2
OLD = {
    "dynascope.fit_chain is now called dynascope.estimate_chain": lambda: dynascope.fit_chain,
    "dynascope.calibrate_emergence is now called dynascope.estimate_emergence": lambda: dynascope.calibrate_emergence,
    "dynascope.simplex_etf is now called dynascope.measure.simplex_etf": lambda: dynascope.simplex_etf,
    "dynascope.etf_distance is now called dynascope.measure.etf_distance": lambda: dynascope.etf_distance,
    "separating_direction is now called dynascope.measure.separating": lambda: dynascope.separating_direction,
    "dynascope.sweep.Sweepable is now called dynascope.sweep.Workload": lambda: dynascope.sweep.Sweepable,
    "calibrate_emergence is now": lambda: multilinear.calibrate_emergence("time", STEPS, CURVE),
    "fit_exponent is now": lambda: fit_exponent([1, 2, 3], [3.0, 2.0, 1.0]),
    "exponent is now called skill_exponent": lambda: Multilinear(exponent=0.5),
    "batch is now called batch_size": lambda: Multilinear(skills=5).simulate(steps=1, batch=1, **QUICK),
    "batch is now": lambda: ScalarNetwork(width=2).simulate(0.01, batch=1, **QUICK),
    "batch is now called": lambda: ParitySettings(SparseParity(2, 8), batch=5),
    "train is now called simulate": lambda: DeepLinear(2, 3).train(method="gd", duration=0.01, **QUICK),
    r"simulate\('gd', …\) is now called simulate\(…, method='gd'\)": lambda: DeepLinear(2, 3).simulate("gd", 0.01, 1),
    "time_to is now called time_to_reach": lambda: DiagonalNetwork().time_to(0.5),
    "emergence_time is now called time_to_reach": lambda: DiagonalNetwork().emergence_time(),
    "flow is now called solve_numerically": lambda: TwoLayerLinear([[1.0]], [[0.5]], [[0.3]]).flow([0.0, 1.0]),
    "flow is now called solve;": lambda: scaled_skill(1.0, frequency=1.0, target=1.0).flow([0.0, 1.0], 0.1, [0.1]),
    "copies is now called trials": lambda: Ensemble(MLP(4, 2, width=3, depth=1), copies=2),
    "fit is now called train": lambda: Ensemble(MLP(4, 2, width=3, depth=1), trials=2).fit(X, Y, steps=1),
}


@pytest.mark.parametrize("message", OLD)
def test_an_old_name_works_and_warns(message):
    with pytest.warns(DeprecationWarning, match=message):
        assert OLD[message]() is not None


def test_an_unknown_name_is_still_unknown():
    with pytest.raises(AttributeError, match="no attribute 'fit_chian'"):
        dynascope.fit_chian  # noqa: B018


def test_records_of_ensembles_that_were_written_with_copies_have_trials(tmp_path):
    old = xr.Dataset(
        {"loss": (("copy", "step"), np.ones((2, 3)))}, coords={"copy": [4, 5]}, attrs={"model": '"Ensemble"'}
    )
    new = load(save(old, tmp_path / "run.nc"))
    assert new["loss"].dims == ("trial", "step")
    assert new["trial"].values.tolist() == [4, 5]
    own = old.assign_attrs(model='"mine"')
    assert load(save(own, tmp_path / "own.nc")).identical(own)
