"""The names of dynascope.measure are a contract; PyTorch is loaded only by what needs it."""

import subprocess
import sys

import pytest

from dynascope import measure


def test_public_names_carry_examples():
    assert measure.__all__ == [
        "LoadAccumulator",
        "cka",
        "class_elasticity",
        "data_separation",
        "effective_dimension",
        "eigenfunctions",
        "etf_distance",
        "feature_spectrum",
        "gradient_gram",
        "load_curve",
        "minimum_feature_distance",
        "neural_collapse",
        "separating_direction",
        "simplex_etf",
    ]
    for name in measure.__all__:
        assert ">>>" in getattr(measure, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        measure.nothing  # noqa: B018 (looking it up is the test)


def test_torch_stays_out_until_it_is_needed():
    code = (
        "import sys; from dynascope.measure import load_curve, feature_spectrum, neural_collapse, LoadAccumulator; "
        "import numpy as np; load_curve([np.eye(4)] * 3, [0, 0, 1, 1]); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
