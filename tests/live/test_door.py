"""Who is let in: nothing without the token, nothing from other origins, nothing outside the named folders."""

import http.client
import os
import signal
import urllib.request

import pytest
from written_runs import measure, start

from dynascope.live.server import token_for
from dynascope.live.shelf import Shelf
from dynascope.monitor.journal import NAME, Journal

SOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "bokeh, none",
}


def status(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    connection.close()
    return answer.status


@pytest.mark.ci
def test_nothing_without_the_token_nor_from_elsewhere(serve, runs):
    server = serve(runs[0])
    page = server.address.removeprefix(f"http://127.0.0.1:{server.port}")
    token = page.removeprefix("/?token=")
    own, other = {"Origin": f"http://127.0.0.1:{server.port}"}, {"Origin": "http://evil.example"}
    assert status(server, page) == 200
    assert status(server, "/static/js/bokeh.min.js") == 200
    for path in ("/", "/ws", "/alive", "/metadata", "/autoload.js", "/favicon.ico", "/nothing", "/static"):
        for given in (path, f"{path}?token=", f"{path}?token={token[:-1]}", f"{path}?other={token}"):
            assert status(server, given) == 401, given
            assert status(server, given, "POST") == 401, given
    assert status(server, "/ws", **own, **SOCKET) == 401
    assert status(server, f"/ws?token={token}", **other, **SOCKET) == 403
    assert status(server, f"/ws?token={token}", **own, **SOCKET) == 101
    assert status(server, page, **other) == 403
    for path in ("/static/../server.py", "/static/js/%2e%2e/%2e%2e/%2e%2e/__init__.py", "/static//etc/passwd"):
        assert status(server, path) in (400, 403, 404), path


@pytest.mark.ci
def test_others_reach_it_by_their_name_of_this_machine_where_it_serves_them(serve, runs):
    wide, alone = serve(runs[0], "--host", "0.0.0.0"), serve(runs[0])
    for server, known in ((wide, 101), (alone, 403)):
        path = "/ws?" + server.address.split("?")[1]
        named = {"Host": "some.name:1", "Origin": "http://some.name:1"}
        assert status(server, path, **named, **SOCKET) == known
        assert status(server, path, **named | {"Origin": "http://evil.example"}, **SOCKET) == 403
        assert status(server, "/ws", **named, **SOCKET) in (401, 403)


@pytest.mark.ci
def test_every_answer_forbids_other_hosts_and_frames(serve, runs):
    with urllib.request.urlopen(serve(runs[0]).address) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.ci
@pytest.mark.parametrize(("number", "left"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_good_order(serve, runs, number, left, capfd):
    server = serve(runs[0])
    assert status(server, server.address.removeprefix(f"http://127.0.0.1:{server.port}")) == 200
    server.process.send_signal(number)
    assert server.process.wait(timeout=60) == left
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert said[0].startswith(f"stopped by {number.name}")


def test_what_lies_outside_the_named_folders_is_not_found(tmp_path):
    for name in ("named/in", "outside"):
        with Journal(tmp_path / name) as journal:
            journal.append(start())
            journal.append(measure(0))
    (tmp_path / "named" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "named" / "file").mkdir()
    (tmp_path / "named" / "file" / NAME).symlink_to(tmp_path / "outside" / NAME)
    assert list(Shelf([tmp_path / "named"]).runs) == ["in"]


def test_a_token_is_kept_for_its_user_alone(tmp_path):
    token = token_for(8760, tmp_path)
    secret = tmp_path / "live_secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert token_for(8760, tmp_path) == token != token_for(8761, tmp_path)
    os.chmod(secret, 0o644)  # others may have read it
    assert token_for(8760, tmp_path) != token


def test_a_home_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert len(token_for(8760, tmp_path / "file")) == 40
