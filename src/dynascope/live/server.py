"""The server: one door for every request, and behind it Bokeh's pages."""

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.events import ConnectionLost
from bokeh.models import CustomJS
from bokeh.resources import Resources
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.views.static_handler import StaticHandler
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.ioloop import IOLoop, PeriodicCallback
from tornado.web import OutputTransform, RequestHandler
from tornado.websocket import WebSocketHandler

from dynascope.live.compare import Compare
from dynascope.live.runs import TICK, Runs
from dynascope.live.shelf import Shelf

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FIND, _REST = 2.0, 10  # seconds between two searches for new runs; and times as long as a search of a large tree took
_ADDRESS = 1 << 16  # bytes of an address that is read
_HEAD = 1 << 22  # bytes before a body: browsers send addresses of up to 2 MB, which Tornado else drops without a word
_BODY = 1 << 20  # bytes of a body, or of a message from a page: a page says little
_STARTED = secrets.token_hex(8)
_PAGE = Path(__file__).with_name("page.html")
_REFUSALS = {
    401: "This page needs the token of its server: add &token=… as in the address that it printed.",
    403: "This server answers its own pages only, each of them in a session of its own.",
    414: f"This address is longer than {_ADDRESS} bytes: leave out some of it.",
}
_HEADERS = {
    # whatever a page holds, a browser asks no other host and shows the page in no frame
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class _Safe(OutputTransform):
    """Headers that every answer has; library files may be kept."""

    def __init__(self, request: HTTPServerRequest) -> None:
        self._kept = request.path.startswith("/static/")

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        for name, value in _HEADERS.items():
            if not (self._kept and name == "Cache-Control"):
                headers[name] = value
        return status_code, headers, chunk


class _Alive(RequestHandler):
    """Says which start of the server this is."""

    def get(self) -> None:
        self.finish(_STARTED)


class _Refusal(RequestHandler):
    """What a request gets that is not let in."""

    def initialize(self, status: int) -> None:
        self.set_status(status)

    def prepare(self) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(_REFUSALS[self.get_status()] + "\n")


class _Guarded(BokehTornado):  # type: ignore[misc]  # Bokeh's types are not read
    """Bokeh's application behind one door: nothing but library files is had without the token, or from elsewhere."""

    def __init__(self, *arguments: Any, token: str, origins: set[str], wide: bool, **options: Any) -> None:
        self._token, self._origins, self._wide = token, origins, wide
        super().__init__(*arguments, extra_websocket_origins=["*"] if wide else sorted(origins), **options)

    def find_handler(self, request: HTTPServerRequest, **options: Any) -> Any:
        if refused := self._refuses(request):
            return self.get_handler_delegate(request, _Refusal, {"status": refused})
        found = super().find_handler(request, **options)
        if request.method == "HEAD" and not issubclass(found.handler_class, WebSocketHandler | StaticHandler):
            own = found.handler_class  # Tornado leaves the body of its answer out
            found.handler_class = type(own.__name__, (own,), {"head": own.get})
        return found

    def _refuses(self, request: HTTPServerRequest) -> int:
        """The status of a refusal, 0 for none."""
        if len(request.uri or "") > _ADDRESS:
            return 414
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() not in self._origins_of(request):
            return 403
        if request.path.startswith("/static/"):
            return 0
        given = request.query_arguments.get("token", [b""])[-1]
        if not hmac.compare_digest(given, self._token.encode()):
            return 401
        return 403 if {"bokeh-token", "bokeh-session-id"} & set(request.query_arguments) else 0

    def _origins_of(self, request: HTTPServerRequest) -> set[str]:
        """Pages that may ask: our own, by whatever name others know this machine where it serves them."""
        return self._origins | ({request.host.lower()} if self._wide else set())

    def resources(self, absolute_url: str | bool | None = None) -> Resources:
        """Library files of the installed package, whatever Bokeh's settings say; without formulas, fonts and maps."""
        parts = ["bokeh", "bokeh-widgets", "bokeh-tables"]
        return Resources("server", root_url="/", path_versioner=StaticHandler.append_version, components=parts)


def token_for(port: int, home: Path | None = None) -> str:
    """The token of a port: the same after a restart, so that open pages come back; made of a secret of this user.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     token_for(80, Path(home)) == token_for(80, Path(home)) != token_for(81, Path(home))
    True
    """
    place = (home or Path.home() / ".cache" / "dynascope") / "live_secret"
    secret = secrets.token_bytes(32)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(secret)
        kept = place.read_bytes()
        secret = kept if len(kept) == len(secret) and place.stat().st_mode & 0o077 == 0 else secret
    except OSError:  # a home that cannot be written to: a token for this time
        pass
    return hmac.new(secret, str(port).encode(), "sha256").hexdigest()[:40]


def serve(runs: Sequence[Path], *, host: str, port: int, browser: bool, told: Callable[[str], None]) -> None:
    """Serve a page about all runs in and below some folders until a signal comes, which is then given on.

    host: one of LOOPBACK, or an address of this machine that others can reach; port: 0 for any that is free
    browser: whether to open one, where there is a screen. told: called with the address, when it can be asked
    """
    logging.getLogger("bokeh").setLevel(logging.ERROR)  # pages that are closed while something is sent are no news
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.CRITICAL)  # nor is nonsense, which it quotes in full
    shelf = Shelf(runs)
    if not host:
        raise ValueError(f"host must be an address of this machine, got {host!r}")
    try:
        door = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, ValueError) as error:  # taken, unknown, or no name at all
        raise ValueError(f"host and port must be free on this machine, got {host}:{port}: {error}") from error
    door.setblocking(False)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ended = asyncio.run(_serve(shelf, door, host, browser, told))
    for number, handler in before.items():  # asyncio has put its own in their place
        signal.signal(number, handler)
    signal.raise_signal(ended)


async def _serve(shelf: Shelf, door: socket.socket, host: str, browser: bool, told: Callable[[str], None]) -> int:
    """Serve, and return the number of the signal that ended it."""
    port = door.getsockname()[1]
    token = token_for(port)
    named = socket.gethostname() if host in ("0.0.0.0", "::") else host
    shown = f"[{named}]" if ":" in named else named
    home = f"http://{shown}:{port}/"
    with ThreadPoolExecutor(3) as workers:
        application = _Guarded(
            {"/": Application(FunctionHandler(lambda doc: _open(doc, shelf, workers)))},
            token=token,
            origins={f"{each.lower()}:{port}" for each in (shown, *LOOPBACK[:2])},
            wide=host not in LOOPBACK,
            extra_patterns=[("/alive", _Alive)],
            transforms=[_Safe],
            log_function=lambda _handler: None,
            include_headers=[],
            include_cookies=[],
            websocket_max_message_size_bytes=_BODY,
        )
        http = HTTPServer(application, max_header_size=_HEAD, max_body_size=_BODY)
        server = BaseServer(IOLoop.current(), application, http)
        http.add_sockets([door])
        server.start()
        looks = PeriodicCallback(shelf.look, TICK)
        looks.start()
        address = f"{home}?token={token}"
        told(address)
        if browser and (sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
            webbrowser.open(address)
        ended = await _until_stopped(shelf, workers)
        logging.getLogger("tornado").setLevel(logging.CRITICAL)  # what is on its way to open pages ends here
        looks.stop()
        server.stop()
        workers.shutdown(wait=False, cancel_futures=True)
    return ended


async def _until_stopped(shelf: Shelf, workers: ThreadPoolExecutor) -> int:
    """Search for new runs until a signal comes; its number."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows, where Ctrl-C is an exception
            loop.add_signal_handler(number, stop, number)
    while not stopped.done():
        begun = loop.time()
        shelf.put(await loop.run_in_executor(workers, shelf.find))
        await asyncio.wait([stopped], timeout=max(_FIND, _REST * (loop.time() - begun)))
    return stopped.result()


def _open(doc: Document, shelf: Shelf, workers: ThreadPoolExecutor) -> None:
    """Fill the document of a new session with the place that its address names."""
    asked = doc.session_context.request.arguments
    given = {name: values[-1].decode(errors="replace") for name, values in asked.items()}
    doc.title = "dynascope live"
    doc.template = _PAGE.read_text(encoding="utf-8")
    doc.template_variables["started"] = _STARTED
    doc.js_on_event(ConnectionLost, CustomJS(code="window.dropped = true"))
    doc.config.reconnect_session = doc.config.notify_connection_status = False  # the page does so
    if given.get("place") == "models":
        models = import_module("dynascope.live.models")  # loads JAX
        doc.template_variables["families"] = {name: each.title for name, each in models.FAMILIES.items()}
        models.Models(doc, shelf, workers, given)
    elif given.get("place") == "compare":
        Compare(doc, shelf, workers, [each.decode(errors="replace") for each in asked.get("run", [])], given)
    else:
        Runs(doc, shelf, workers, given)
