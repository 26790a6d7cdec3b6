"""A run under way, servers that end with their test, and one browser for all tests."""

import contextlib
import os

import pytest
from browsing import Browser, Server, open_chromium
from selenium.common.exceptions import WebDriverException
from written_runs import measure, start

from dynascope.monitor.journal import Journal


@pytest.fixture
def runs(tmp_path):
    """A folder with a run under way, whose journal is the second part."""
    with Journal(tmp_path / "runs" / "first") as journal:
        journal.append(start())
        for step in range(0, 400, 10):
            journal.append(measure(step))
        yield tmp_path / "runs", journal


@pytest.fixture
def serve(tmp_path_factory):
    """A function that serves a folder until the test is done."""
    home = tmp_path_factory.mktemp("home")
    servers = []

    def begin(folder, *options):
        servers.append(Server(folder, home, *options))
        return servers[-1]

    yield begin
    for each in servers:
        each.kill()


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory):
    for last in (False, False, True):  # a machine under load may not start it at once
        try:
            driver = open_chromium(tmp_path_factory.mktemp("profile"))
            break
        except (FileNotFoundError, WebDriverException) as error:
            if os.environ.get("DYNASCOPE_BROWSER") != "required":
                pytest.skip(f"no browser: {error}")
            if last:
                raise
    yield driver
    driver.quit()


@pytest.fixture
def browser(_chromium):
    yield Browser(_chromium)
    with contextlib.suppress(WebDriverException):
        _chromium.get("about:blank")
