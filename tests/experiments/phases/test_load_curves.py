"""Training of packs of networks: what it measures, and that it can be swept."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.phases import load_curves
from dynascope.measure import data_separation
from dynascope.networks.mlp_variants import ConstantMLP
from dynascope.sweep import sweep

TINY = {"data": "digits", "size": 0, "samples": 12, "tested": 6, "epochs": 2, "depth": 3, "width": 8, "batch_size": 16}


def test_a_run_does_not_depend_on_its_pack():
    """Not under Adam, which follows the sign of rounding where a gradient is 0: that of biases before batch norm."""
    base = load_curves.DEFAULTS | TINY | {"optimizer": "sgd"}
    pack = [base | {"slope": 0.0, "seed": 3}, base | {"slope": 0.5, "dropout": 0.2, "seed": 3}, base | {"seed": 1}]
    together = load_curves.train(pack)
    for each, record in zip(pack, together, strict=True):
        xr.testing.assert_allclose(load_curves.train([each])[0], record, rtol=1e-4)
    assert not np.allclose(together[0]["load"], together[1]["load"])


def test_a_sweep_is_what_the_experiment_runs(tmp_path):
    grid = {"slope": [0.0, 1.0], "dropout": [0.0, 0.2]}
    swept = sweep(load_curves.phase_training, grid, tmp_path, seeds=2, fixed=TINY, scheduler="here", progress=False)
    here = load_curves.run_grid(grid, seeds=2, fixed=TINY)
    assert here["load"].dims == ("slope", "dropout", "trial", "probe", "layer")
    swept = swept.rename(seed="trial")
    np.testing.assert_allclose(swept["load"].transpose(*here["load"].dims), here["load"], rtol=1e-4)


def test_load_of_the_inputs_is_their_separation():
    """Layer 0 without batch norm is the data itself."""
    record = load_curves.train([load_curves.DEFAULTS | TINY | {"normalisation": "constant"}])[0]
    x, y, _, _ = load_curves.data_set("digits", 0, 12, 6)
    expected = [float(data_separation(x.reshape(len(x), -1), y, kind=kind)) for kind in ("trace", "pinv")]
    found = [float(record[name].sel(probe="train")[0]) for name in ("load", "load_pinv")]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="normalisation must be one of batch, constant"):
        load_curves.train([load_curves.DEFAULTS | TINY | {"normalisation": "layer"}])
    with pytest.raises(ValueError, match="name must be one of"):
        load_curves.train([load_curves.DEFAULTS | TINY | {"data": "svhn"}])


def test_constants_keep_the_variance_of_features():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = ConstantMLP(200, 2, width=200, depth=6, slope=0.3).eval()
    features = network.features(torch.randn(500, 200))
    sizes = [float((each.detach() ** 2).mean()) for each in features.values()]
    np.testing.assert_allclose(sizes[1:-1], 1.0, rtol=0.35)
