"""Programs that tests of sweeps start find the experiments of this folder; a Slurm and an sshd for them."""

import os
from pathlib import Path

import pytest
import slurm_here
import ssh_here


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of the tests, with the experiments of this folder on Python's path."""
    path = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def _require(missing: list[str]) -> None:
    """Skip where programs are not installed, unless whoever installs them said that they are."""
    if missing and os.environ.get("DYNASCOPE_CLUSTERS") != "required":
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert not missing, f"DYNASCOPE_CLUSTERS=required, but not installed: {', '.join(missing)}"


@pytest.fixture(scope="session")
def slurm_variables(tmp_path_factory):
    """The variables that lead to a Slurm of this session."""
    _require(slurm_here.missing())
    with slurm_here.slurm(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


@pytest.fixture
def slurm(slurm_variables, monkeypatch):
    """A Slurm that this process and those that it starts find."""
    for name, value in slurm_variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def ssh(tmp_path_factory):
    """The command that leads to an sshd of this session, at localhost."""
    _require(ssh_here.missing())
    with ssh_here.sshd(tmp_path_factory.mktemp("sshd")) as configuration:
        yield f"ssh -F {configuration}"
