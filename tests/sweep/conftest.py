"""Programs that tests of sweeps start find the experiments of this folder."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of the tests, with the experiments of this folder on Python's path."""
    path = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
