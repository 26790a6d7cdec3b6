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


@pytest.fixture
def spoilt(smoke):
    """A function that changes variables of a smoke record, and gives the claims that fail for that reason."""

    def run(name, **changed):
        experiment, record = find(f"elastic/{name}"), smoke(f"elastic/{name}")[0]
        changed = {key: change(record[key]) if callable(change) else change for key, change in changed.items()}
        before, after = (
            {finding.id for finding in experiment.judge(each) if finding.fails("paper")}
            for each in (record, record.assign(changed))
        )
        return after - before

    return run
