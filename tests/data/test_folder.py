"""Fetching, against a server of our own: sums are checked, downloads resumed, nothing broken is left behind."""

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dynascope.cli import data as cli_data
from dynascope.data import folder as place
from dynascope.data.folder import Download, data_folder, data_sets, fetch

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


def test_archives_are_unpacked(server):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("inner/a.bin")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"abc"))
    server("set.tar.gz", stream.getvalue())
    fetch("own")
    assert (data_folder() / "inner" / "a.bin").read_bytes() == b"abc"


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
