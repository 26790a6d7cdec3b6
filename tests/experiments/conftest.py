"""How claims are made to fail."""

import pytest

from dynascope.experiments.registry import find


@pytest.fixture
def failed():
    """A function that gives the ids of the claims that a record does not bear out, settled by its scale or not."""
    return lambda name, record: {finding.id for finding in find(name).judge(record) if finding.fails("paper")}
