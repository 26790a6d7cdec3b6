"""The command `dynascope live`: what it refuses, and what it says before it serves."""

import socket
import sys

import pytest

from dynascope.live import server


def test_a_folder_that_is_not_there(command):
    status, _, error = command("live", "nowhere")
    assert (status, error.strip()) == (2, "error: runs must be folders that are there, got 'nowhere'")


def test_a_port_that_is_taken(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, _, error = command("live", "--port", port, "--no-browser")
    assert status == 2
    assert f"host and port must be free on this machine, got 127.0.0.1:{port}" in error


def test_the_line_that_installs_what_is_missing(command, monkeypatch):
    monkeypatch.delitem(sys.modules, "dynascope.live.server")
    monkeypatch.setitem(sys.modules, "bokeh.application", None)
    status, _, error = command("live")
    assert (status, error.strip()) == (2, "error: dynascope.live.serve needs Bokeh: pip install 'dynascope[live]'")


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_word_of_warning_where_others_can_reach_it(command, monkeypatch, host, warned):
    seen = {}
    monkeypatch.setattr(server, "serve", lambda runs, **options: seen.update(options, runs=runs))
    status, _, error = command("live", "--host", host, "--no-browser", "--port", 0)
    assert status == 0
    assert ("nothing is encrypted" in error) == warned
    assert (seen["host"], seen["port"], seen["browser"]) == (host, 0, False)
