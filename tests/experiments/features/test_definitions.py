"""Claims on feature measures fail when the measure is not what it says."""

from dataclasses import replace

import numpy as np
import pytest

from dynascope.experiments.features import definitions
from dynascope.experiments.registry import find
from dynascope.measure import spectrum

WRONG = {
    # what is spoilt, how, the claim that must notice, and how many draws that takes
    "intensity": (
        definitions,
        "eigenfunctions",
        lambda right: lambda train, test: (right(train, test)[0] * 1.05, right(train, test)[1]),
        "alg-1-intensity",
        30,
    ),
    "utilization": (spectrum, "_shares", lambda right: lambda *a: right(*a) ** 2, "eq-2.5-utilization", 2),
    "collapse": (
        definitions,
        "neural_collapse",
        lambda right: lambda x, labels: right(x * (1 + 0.01 * np.eye(*x.shape)), labels),
        "prop-2.5-collapse",
        2,
    ),
    "operator": (
        definitions,
        "_mp_operator",
        lambda right: lambda a1, a2, outputs: right(a1, a2, outputs * (1 + 0.01 * np.eye(*outputs.shape))),
        "prop-2.5-collapse",
        2,
    ),
    "a feature too many": (
        definitions,
        "_mp_operator",
        lambda right: lambda a1, a2, outputs: right(a1, a2, np.hstack([outputs, np.eye(len(outputs), 1)])),
        "eq-2.9-minimal",
        2,
    ),
    "kappa": (
        definitions,
        "minimum_feature_distance",
        lambda right: lambda x, y: right(x[:, :3], y),
        "eq-2.9-minimal",
        2,
    ),
    "pinv": (
        definitions,
        "data_separation",
        lambda right: lambda x, labels, kind: right(x, labels, kind="trace"),
        "s4-linear-layers",
        2,
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_measure_is_caught(case, failed, monkeypatch):
    module, name, spoil, claim, draws = WRONG[case]
    monkeypatch.setattr(module, name, spoil(getattr(module, name)))
    experiment = find("features/definitions")
    assert claim in failed(experiment.name, experiment.record(replace(experiment.settings("smoke"), draws=draws)))


def test_another_operator_is_caught(failed):
    experiment = find("features/definitions")
    record = experiment.record(replace(experiment.settings("smoke"), draws=2))
    spoilt = record.assign(eigenvalues=record["eigenvalues"] * (1 + 1e-6))
    assert failed(experiment.name, spoilt) - failed(experiment.name, record) == {"def-1-eigenspaces"}
    alike = record.assign(trace_few=0 * record["trace_few"])
    assert failed(experiment.name, alike) - failed(experiment.name, record) == {"s4-linear-layers"}
    squared = record.assign(utilization_printed=record["utilization"])  # no erratum where nothing differs
    assert failed(experiment.name, squared) - failed(experiment.name, record) == {"eq-2.5-utilization"}


def test_a_formula_that_holds_in_the_first_draw_alone_is_caught(smoke, failed):
    """One number of one other draw is enough."""
    record = smoke("features/definitions")[0]
    assert not failed("features/definitions", record)
    for name, claim in (
        ("utilization", "eq-2.5-utilization"),
        ("projector", "eq-2.19-projector"),
        ("means", "eq-2.18-class-means"),
    ):
        values = record[name].transpose("draw", ...).copy(deep=True)
        values[(-1,) + (0,) * (values.ndim - 1)] += 0.01
        assert failed("features/definitions", record.assign({name: values})) == {claim}
