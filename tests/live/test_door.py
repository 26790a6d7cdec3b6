"""Who is let in: nothing without the token, nothing from other origins, nothing outside the named folders."""

import asyncio
import contextlib
import html
import http.client
import json
import os
import re
import signal
import urllib.request

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect
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


def ask(server, path, method="GET", **headers):
    """Status, headers and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = b"" if answer.status == 101 else answer.read()
    connection.close()
    return answer.status, answer.headers, body


def status(*request, **headers):
    return ask(*request, **headers)[0]


def page_of(server):
    return server.address.removeprefix(f"http://127.0.0.1:{server.port}")


@pytest.mark.ci
def test_nothing_without_the_token_nor_from_elsewhere(serve, runs):
    server = serve(runs[0])
    page = page_of(server)
    token = page.removeprefix("/?token=")
    own, other = {"Origin": f"http://127.0.0.1:{server.port}"}, {"Origin": "http://evil.example"}
    assert status(server, page) == 200
    assert status(server, "/static/js/bokeh.min.js") == 200
    for path in ("/", "/ws", "/alive", "/metadata", "/autoload.js", "/favicon.ico", "/nothing", "/static"):
        for given in (path, f"{path}?token=", f"{path}?token={token[:-1]}", f"{path}?other={token}"):
            assert status(server, given) == 401, given
            assert {status(server, given, method) for method in ("POST", "HEAD")} == {401}, given
    assert status(server, "/ws", **own, **SOCKET) == 401
    assert status(server, f"/ws?token={token}", **other, **SOCKET) == 403
    assert status(server, f"/ws?token={token}", **own, **SOCKET) == 101
    assert status(server, page, **other) == 403
    for path in ("/static/../server.py", "/static/js/%2e%2e/%2e%2e/%2e%2e/__init__.py", "/static//etc/passwd"):
        assert status(server, path) in (400, 403, 404), path


@pytest.mark.ci
def test_head_is_answered_as_get_is_without_a_body(serve, runs):
    server = serve(runs[0])
    page = page_of(server)
    for path in (page, f"{page}&place=models", page.replace("/", "/alive"), page.replace("/", "/metadata")):
        whole, head = (ask(server, path, method) for method in ("GET", "HEAD"))
        assert (whole[0], head[0]) == (200, 200)
        assert head[2] == b"" != whole[2]
        assert head[1]["Content-Type"] == whole[1]["Content-Type"]
        assert int(head[1]["Content-Length"]) > 0
    assert status(server, page, "HEAD", Origin="http://evil.example") == 403
    assert status(server, page.replace("/", "/nothing"), "HEAD") == 404
    assert status(server, page, "POST") == 405


@pytest.mark.ci
def test_an_address_that_is_too_long_is_refused_in_words(serve, runs):
    server = serve(runs[0])
    for size in (70_000, 2_000_000):
        refused, headers, body = ask(server, f"{page_of(server)}&run={'x' * size}")
        assert (refused, headers["Content-Type"]) == (414, "text/plain; charset=utf-8")
        assert body.decode() == "This address is longer than 65536 bytes: leave out some of it.\n"
    assert status(server, f"{page_of(server)}&run={'x' * 60_000}") == 200


@pytest.mark.ci
def test_nobody_chooses_the_session_of_another(serve, runs):
    server = serve(runs[0])
    for given in ("bokeh-session-id=a", "bokeh-token=nonsense"):
        refused, _, body = ask(server, f"{page_of(server)}&{given}")
        assert refused == 403
        assert b"a session of its own" in body


async def say(server, messages):
    """Open a page and its socket, and send some messages; the kinds of what comes back."""
    page = urllib.request.urlopen(server.address).read().decode()
    token = json.loads(html.unescape(re.search(r'"token":("[^"]+")', page)[1]))
    address = server.address.replace("http", "ws").replace("/?", "/ws?")
    request = HTTPRequest(address, headers={"Origin": f"http://127.0.0.1:{server.port}"})
    socket = await websocket_connect(request, subprotocols=["bokeh", token])
    for each in messages:
        with contextlib.suppress(WebSocketClosedError):
            await socket.write_message(each, binary=isinstance(each, bytes))
    socket.close()
    while await asyncio.wait_for(socket.read_message(), 60) is not None:
        pass


def bokeh_message(kind, content):
    return [json.dumps({"msgid": "1", "msgtype": kind}), "{}", json.dumps(content)]


@pytest.mark.ci
def test_messages_that_make_no_sense_leave_the_server_and_other_pages_alone(serve, runs, browser, capfd):
    folder, journal = runs
    server = serve(folder)
    browser.open(server.address)
    browser.sees("· step 390")
    changes = [
        {"kind": "ModelChanged", "model": {"id": "p1000"}, "attr": "value", "new": "much"},
        {"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": {"type": "event", "name": "tap"}},
        {"kind": "RootRemoved", "model": {"id": "p1001"}},
        {"kind": 7},
    ]
    for messages in (
        ["nonsense"],
        [b"\x00" * 1000],
        ["{}", "{}", "{}"],
        ["x" * 3_000_000],
        ["[" * 100_000],
        bokeh_message("PATCH-DOC", {"events": changes}),
        *(bokeh_message("PATCH-DOC", {"events": [each]}) for each in changes),
        bokeh_message("PATCH-DOC", []),
        bokeh_message("PULL-DOC-REQ", {}) * 20,
        bokeh_message("nothing", {}),
    ):
        asyncio.run(say(server, messages))
    said = capfd.readouterr().err
    assert "error handling message" in said  # they were read
    assert max(map(len, said.splitlines())) < 1000  # and are not quoted in full
    journal.append(measure(400))
    browser.sees("· step 400")
    assert status(server, page_of(server)) == 200
    assert browser.errors() == []


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
    assert status(server, page_of(server)) == 200
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
