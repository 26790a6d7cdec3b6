"""What an unfriendly visitor or an unlucky disk may do: the page says what it can, and everything else goes on."""

import json
import os
import shutil
import threading
import urllib.request
from urllib.parse import quote

import numpy as np
import pytest
import xarray as xr
from selenium.common.exceptions import NoAlertPresentException
from written_runs import measure, start

from dynascope.live.shelf import PLAN, TABLE
from dynascope.monitor import journal
from dynascope.monitor.journal import NAME, Journal
from dynascope.records import save

pytestmark = pytest.mark.ci
STEPS = """
const source = [...Bokeh.documents[0].all_models].filter((each) => each.data && each.data.train_loss)[0];
return Array.from(source.data.step);
"""
MARK = "[...Bokeh.documents[0].all_models].filter((e) => e.data && e.data.run)[0].selected.indices = arguments[0]"
HEIGHT = """
const all = (node) => [...node.querySelectorAll("*")].flatMap((each) => each.shadowRoot
  ? [each, ...all(each.shadowRoot)] : [each]);
return all(document).filter((each) => each.matches(".slick-viewport"))[0].getBoundingClientRect().height;
"""
# keeps the sockets of a page, so that they can be closed
SOCKETS = """
window.sockets = [];
const Own = window.WebSocket;
window.WebSocket = class extends Own { constructor(...words) { super(...words); window.sockets.push(this); } };
"""


def write(folder, *entries):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(b"".join(journal._line(each) for each in entries))


def run_of(steps, layers=4):
    names = [f"layer {k}" for k in range(layers)]
    return [start(names), *(measure(step, layers=layers) for step in steps)]


def test_a_journal_that_is_cut_or_replaced_while_it_is_shown(serve, tmp_path, browser):
    write(tmp_path / "runs" / "one", *run_of(range(0, 400, 10)))
    browser.open(serve(tmp_path / "runs").address)
    browser.wait(lambda: browser.ask(STEPS)[-1:] == [390], "the run is shown")
    os.truncate(tmp_path / "runs" / "one" / NAME, 0)
    browser.wait(lambda: browser.ask(STEPS) == [], "an empty one is shown empty")
    write(tmp_path / "runs" / "one", *run_of(range(0, 70, 10)))
    browser.wait(lambda: browser.ask(STEPS) == list(range(0, 70, 10)), "it is written anew")
    write(tmp_path / "other", *run_of(range(5, 905, 10), layers=6))
    os.replace(tmp_path / "other" / NAME, tmp_path / "runs" / "one" / NAME)
    browser.wait(lambda: browser.ask(STEPS) == list(range(5, 905, 10)), "a longer one takes its place")
    browser.sees("layer 5")
    with (tmp_path / "runs" / "one" / NAME).open("r+b") as stream:
        stream.write(b"\xff" * 100)  # damage where it was read before
    shutil.rmtree(tmp_path / "runs" / "one")
    browser.sees("this run is gone from its folder")
    write(tmp_path / "runs" / "one", *run_of([0, 10, 20]))
    browser.wait(lambda: browser.ask(STEPS) == [0, 10, 20], "it is there again")
    assert browser.errors() == []


def test_three_hundred_runs_that_appear_at_once(serve, tmp_path, browser):
    with Journal(tmp_path / "first") as file:
        file.append(start())
        file.append(measure(0))
        server = serve(tmp_path)
        browser.open(server.address + "&run=first")
        browser.sees("· step 0")
        low = browser.ask(HEIGHT)
        for number in range(300):
            write(tmp_path / f"run{number:03d}", *run_of(range(0, 200, 10)))
        count = "return [...Bokeh.documents[0].all_models].filter((e) => e.data && e.data.run)[0].data.run.length"
        browser.wait(lambda: browser.ask(count) == 301, "all of them are in the table")
        browser.wait(lambda: browser.ask(HEIGHT) > 4 * low, "the table has room for some of them")
        file.append(measure(10))
        browser.sees("running · step 10")
        browser.open(server.address + "&place=compare")
        browser.sees("choose two or more runs")
        browser.ask(MARK, list(range(301)))
        browser.sees("10 runs at most, 301 are marked")
        assert browser.text().count(" at step ") == 10
        file.append(measure(20))
        browser.sees("first at step 20")
        assert browser.errors() == []


def test_many_requests_leave_no_threads_and_little_memory(serve, tmp_path):
    write(tmp_path / "one", *run_of(range(0, 400, 10)))
    server = serve(tmp_path)
    status = f"/proc/{server.process.pid}/status"
    failed = []

    def ask(count):
        for number in range(count):
            path = ("", "&place=compare&run=one", "&run=" + "x" * 5000, "&smoothing=" + "9" * 400)[number % 4]
            try:
                urllib.request.urlopen(server.address + path, timeout=120).read()
            except OSError as error:
                failed.append(error)

    def both(count):
        threads = [threading.Thread(target=ask, args=(count,)) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        with open(status) as stream:
            found = dict(line.split(":", 1) for line in stream)
        return int(found["Threads"]), int(found["VmRSS"].split()[0]) / 1024

    threads, _ = both(4)
    more, memory = both(25)
    assert failed == []
    assert more <= threads + 3  # the workers
    assert memory < 600, memory  # each page has a session, which is forgotten after some seconds


def test_a_connection_that_is_lost_is_made_again(serve, runs, browser):
    folder, file = runs
    given = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SOCKETS})
    try:
        browser.open(serve(folder).address + "&axes=log")
        browser.sees("· step 390")
        browser.ask("window.old = true; for (const each of window.sockets) each.close()")
        browser.wait(lambda: browser.ask("return window.old !== true"), "the page is loaded again")
        file.append(measure(400))
        browser.sees("· step 400")
        assert "axes=log" in browser.driver.current_url
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", given)


def test_sliders_go_no_further_than_they_go(serve, tmp_path, browser):
    browser.open(f"{serve(tmp_path).address}&place=models")
    browser.sees("chain = SpringBlock(")
    move = "[...Bokeh.documents[0].all_models].filter((e) => e.title === arguments[0])[0].value = arguments[1]"
    browser.ask(move, "blocks", 1e12)
    browser.sees("blocks=20)")
    browser.ask(move, "noise", -5.0)
    browser.sees("noise=0,")
    browser.ask(move, "time", 1e9)
    browser.ask(move, "blocks", 3.0)
    browser.sees("blocks=3)")
    assert browser.errors() == []


def test_names_in_sweeps_and_of_compared_runs_are_text(serve, tmp_path, browser):
    across, quantity, labels = "$$a$$", "<b>q<script>alert(1)<", ["<img src=x onerror=alert(1)>", "\\(x\\)"]
    cells = {quantity: ((across, "layer"), np.arange(6.0).reshape(2, 3)), "outcome": (across, ["finished"] * 2)}
    cells["$$q$$"] = (across, [1.0, 2.0])
    folder = tmp_path / "<i>sweep $$s$$"
    folder.mkdir()
    save(xr.Dataset(cells, coords={across: labels}), folder / TABLE)
    (folder / PLAN).write_text(json.dumps({}))
    names = ["$$run$$", "\\(b\\) <img src=x onerror=alert(1)>"]
    for name in names:
        write(tmp_path / name, *run_of(range(0, 50, 10)))
    chosen = "".join(f"&run={quote(name)}" for name in names)
    browser.open(f"{serve(tmp_path).address}&place=compare{chosen}&sweep={quote(folder.name)}")
    browser.sees("$$q$$ at the end")
    browser.wait(lambda: f"cell: {across} {labels[0]}" in browser.tip("$$q$$", 0, 0), "a cell is named")
    text = browser.text()
    for words in (*names, folder.name, "load curves: "):
        assert words in text, words
    with pytest.raises(NoAlertPresentException):
        browser.driver.switch_to.alert.dismiss()
    assert browser.errors() == []
    hosts = {each.split("/")[2] for each in browser.requests()[0] if each.startswith("http")}
    assert hosts <= {browser.driver.current_url.split("/")[2]}


def test_runs_that_get_longer_names_stay_chosen(serve, tmp_path, browser):
    for name in ("a/run", "a/other"):
        write(tmp_path / name, *run_of(range(0, 50, 10)))
    browser.open(f"{serve(tmp_path).address}&place=compare&run=run&run=other")
    browser.sees("load curves: other at step 40; run at step 40")
    write(tmp_path / "b" / "run", *run_of(range(0, 30, 10)))
    browser.sees("load curves: a/other at step 40; a/run at step 40")
    browser.sees("a/run − a/other")


def test_a_run_that_has_measured_nothing_is_compared_when_it_has(serve, tmp_path, browser):
    write(tmp_path / "done", *run_of(range(0, 50, 10)))
    with Journal(tmp_path / "new") as file:
        file.append(start([f"layer {k}" for k in range(4)]))
        browser.open(f"{serve(tmp_path).address}&place=compare&run=done&run=new")
        browser.sees("load curves: done at step 40; new at step 0")
        late = measure(70)
        late["numbers"] = {name: each for name, each in late["numbers"].items() if name in ("load", "probe_loss")}
        file.append(late)
        browser.sees("new at step 70")
        lines = """
        return [...Bokeh.documents[0].all_models].filter((each) => each.type === "GlyphRenderer"
          && each.glyph.type === "Line" && Bokeh.index.find_one(each)).map((each) => each.glyph.y.field).sort();
        """
        browser.wait(lambda: browser.ask(lines) == ["probe_loss", "train_loss", "y", "y"], "its own loss is drawn")
        assert browser.errors() == []
