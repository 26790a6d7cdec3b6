"""What tests of damage share; and after fuzzing: how many inputs were given, and what became of them."""

import sys
from unittest import mock

import promise
import pytest
from strategies import OLD


@pytest.fixture(scope="module")
def own_code():
    """The function of the old sweep can be imported, and is gone afterwards: other tests have their own `decay`."""
    with mock.patch.object(sys, "path", [str(OLD), *sys.path]):
        yield
    sys.modules.pop("decay", None)


def pytest_terminal_summary(terminalreporter):
    """Print the table of what this process has counted."""
    if promise.COUNTS:
        terminalreporter.write_line(promise.table())
