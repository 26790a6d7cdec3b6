"""Shared by tests of claims on the locally elastic model."""

from dataclasses import replace

import pytest

from dynascope.experiments.registry import find


@pytest.fixture
def verdicts():
    """A function that runs an experiment at its smallest scale, some fields changed, and gives verdicts by claim."""

    def run(name, **changed):
        experiment = find(f"elastic/{name}")
        record = experiment.record(replace(experiment.settings("smoke"), **changed))
        return {finding.id: finding.verdict for finding in experiment.judge(record)}

    return run


@pytest.fixture
def failed(verdicts):
    """The same, but the claims that a run does not bear out."""

    def run(name, **changed):
        found = verdicts(name, **changed)
        return {claim for claim, verdict in found.items() if verdict in ("not reproduced", "not determined")}

    return run
