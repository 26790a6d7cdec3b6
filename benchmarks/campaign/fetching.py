"""Data sets of a few kilobytes on a server of this machine, in place of the real ones."""

import gzip
import hashlib
import http.server
import io
import os
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from campaign.swept import note
from dynascope.data import folder as data_folder
from dynascope.data.mirrors import BATCHES, IDX_PARTS

BLOCK = 4096  # bytes that the server sends at a time, slowly enough to be interrupted
_PAUSE = 0.004


def _archive() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
            member = tarfile.TarInfo(f"{BATCHES}/{name}.bin")
            member.size = 3073 * 8
            tar.addfile(member, io.BytesIO(_bytes(name, member.size)))
    return gzip.compress(held.getvalue(), mtime=0)


def _bytes(name: str, size: int) -> bytes:
    return np.random.default_rng(list(name.encode())).bytes(size)


SETS = {
    "mnist": {f"mnist-{part}.gz": gzip.compress(_bytes(part, 30_000), mtime=0) for part in IDX_PARTS},
    "cifar10": {"cifar-10-binary.tar.gz": _archive()},
}


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = SETS["mnist"].get(self.path[1:]) or SETS["cifar10"][self.path[1:]]
        first = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if first >= len(content):
            self.send_error(416)
            return
        for block in range(first // BLOCK + bool(first % BLOCK), len(content) // BLOCK):
            note(f"{self.path[1:]}:{block}")
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        with suppress(ConnectionError):  # who asked was stopped
            for at in range(first, len(content), BLOCK):
                self.wfile.write(content[at : at + BLOCK])
                time.sleep(_PAUSE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serve() -> Iterator[None]:
    """Let `dynascope data fetch` find the sets here."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["no_proxy"] = "127.0.0.1"
    for name, files in SETS.items():
        data_folder.DOWNLOADS[name] = tuple(
            data_folder.Download(
                file, f"http://127.0.0.1:{server.server_port}/{file}", hashlib.sha256(held).hexdigest()
            )
            for file, held in files.items()
        )
        data_folder.MIRRORS.pop(name, None)  # no other way out
    try:
        yield
    finally:
        server.shutdown()
