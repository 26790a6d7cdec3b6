"""The place of runs in a real browser: what it shows, how soon, and what it asks for."""

import json
import shutil
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
import real_training
import written_runs
from browsing import LONG, best_of
from selenium.common.exceptions import NoAlertPresentException
from written_runs import EVIL, measure, start, turn

from dynascope.monitor.journal import NAME, Journal, read

pytestmark = pytest.mark.ci
# the last step that the picture of the loss holds
SHOWN = """
const sources = [...Bokeh.documents[0].all_models].filter((each) => each.data && each.data.train_loss);
const steps = sources.length ? sources[0].data.step : [];
return steps.length ? steps[steps.length - 1] : -1;
"""

# by the clock, when each step came into the picture of the loss
ARRIVALS = """
const source = [...Bokeh.documents[0].all_models].filter((each) => each.data && each.data.train_loss)[0];
window.arrivals = {};
source.streaming.connect(() => { window.arrivals[source.data.step[source.data.step.length - 1]] = Date.now(); });
"""

# by the clock, when the line above the pictures says that the run was killed
KILLED = """
const status = [...Bokeh.documents[0].all_models].filter((each) => each.name === "status")[0];
window.killed = Infinity;
status.properties.text.change.connect(() => {
  if (status.text.startsWith("killed")) window.killed = Math.min(window.killed, Date.now());
});
"""


def shown(browser):
    return browser.ask(SHOWN)


def test_the_page_is_whole_and_asks_no_other_host(serve, runs, browser):
    folder, journal = runs
    journal.append(turn(200, 0.05))
    server = serve(folder)
    browser.open(server.address)
    browser.sees("forecast: loss at step")
    text = browser.text()
    for words in (
        "first",
        "step 390",
        "health:",
        "load: The load curve",
        "collapse:",
        "minimum feature distance",
        "nc1",
    ):
        assert words in text, words
    asked, console = browser.requests()
    hosts = {urlsplit(each).netloc for each in asked if urlsplit(each).scheme in ("http", "https", "ws", "wss")}
    assert hosts == {f"127.0.0.1:{server.port}"}
    assert [each for each in console if each["level"] == "SEVERE"] == []
    browser.picture("live_runs.png", 1400, 1640)


def test_names_are_text_whatever_they_hold(serve, tmp_path, browser):
    name = "<img src=x onerror=alert(1)>"
    with Journal(tmp_path / name) as journal:
        journal.append(start(["input", EVIL, "$$\\alpha$$", "fc"]) | {"class_names": [EVIL, "$$b$$", "c"]})
        journal.append(measure(0))
        browser.open(serve(tmp_path).address)
        browser.sees("load: The load curve")
        text = browser.text()
        assert EVIL in text
        assert "$$\\alpha$$" in text
        assert name in text
        with pytest.raises(NoAlertPresentException):
            browser.driver.switch_to.alert.dismiss()
        assert browser.errors() == []


def test_a_measurement_appears_within_a_second_of_its_line(serve, runs, browser):
    folder, journal = runs
    browser.open(serve(folder).address)
    browser.sees("forecast: loss at step")
    browser.ask(ARRIVALS)
    steps = iter(range(400, 500, 10))

    def appears():
        step, written = next(steps), time.time()
        journal.append(measure(step))
        browser.wait(lambda: browser.ask("return window.arrivals[arguments[0]]", step), f"step {step} is drawn")
        browser.sees(f"step {step}")
        return browser.ask("return window.arrivals[arguments[0]]", step) / 1000 - written

    best_of(10, 1.0, appears)


def test_a_run_that_is_killed_says_so_within_five_seconds(serve, tmp_path, browser):
    folders = iter((tmp_path / "first", tmp_path / "second", tmp_path / "third"))

    def is_seen():
        folder = next(folders)
        with subprocess.Popen([sys.executable, written_runs.__file__, str(folder / "run")]) as training:
            browser.wait((folder / "run" / NAME).is_file, "the run begins")
            browser.open(serve(folder).address)
            browser.sees("· step")
            browser.ask(KILLED)
            killed = time.time()
            training.send_signal(signal.SIGKILL)
        browser.sees("killed: silent for")
        return browser.ask("return window.killed") / 1000 - killed

    best_of(3, 5.0, is_seen)


def test_a_run_that_is_closed_says_so(serve, runs, browser):
    folder, journal = runs
    browser.open(serve(folder).address)
    browser.sees("step 390")
    journal.append({"kind": "end", "step": 390})
    browser.sees("closed · step 390")


def test_runs_are_found_as_they_appear_and_an_address_leads_to_one(serve, runs, browser):
    folder, _ = runs
    server = serve(folder)
    browser.open(server.address)
    browser.sees("step 390")
    with Journal(folder / "below" / "second") as journal:
        journal.append(start(["input", "fc1", "fc2"]))
        journal.append(measure(70, layers=3))
        browser.sees("second")
        browser.click(".slick-row", "second", lambda: "· step 70" in browser.text())
        browser.wait(lambda: "run=second" in browser.driver.current_url, "the address names the run")
        browser.open(browser.driver.current_url)
        browser.sees("· step 70")
        assert "fc2" in browser.text()


def test_a_run_that_is_deleted_says_so_and_another_can_be_chosen(serve, runs, browser):
    folder, _ = runs
    with Journal(folder / "second") as journal:
        journal.append(start())
        journal.append(measure(70))
    browser.open(serve(folder).address + "&run=second")
    browser.sees("· step 70")
    shutil.rmtree(folder / "second")
    browser.sees("this run is gone from its folder")
    browser.click(".slick-row", "first", lambda: "· step 390" in browser.text())


def test_a_run_without_loads_and_one_without_measurements(serve, tmp_path, browser):
    with Journal(tmp_path / "bare") as journal, Journal(tmp_path / "begun") as other:
        for each in (journal, other):
            each.append(start())
        journal.append({"kind": "measure", "step": 5, "time": 0.1, "numbers": {"train_loss": 0.5}})
        server = serve(tmp_path)
        browser.open(server.address + "&run=bare")
        browser.sees("· step 5")
        browser.sees("train loss")
        browser.click(".slick-row", "begun", lambda: "· step" not in browser.text())
        other.append(measure(0))
        browser.sees("· step 0")
        browser.sees("conv2")
        assert browser.errors() == []


def test_axes_can_be_logarithmic(serve, runs, browser):
    folder, _ = runs
    browser.open(serve(folder).address)
    browser.sees("step 390")
    scales = "return [...Bokeh.documents[0].all_models].filter((each) => each.type === 'LogScale').length"
    assert browser.ask(scales) == 0
    browser.click("button, .bk-btn", "log", lambda: browser.ask(scales) == 3)  # loss, collapse and features


def _received(browser, journal, step):
    """Bytes that come through the socket because of one more record."""
    browser.requests()
    journal.append(measure(step))
    browser.wait(lambda: shown(browser) == step, "the measurement is drawn")
    frames = [json.loads(each["message"])["message"] for each in browser.logs()[1]]
    payloads = [
        each["params"]["response"]["payloadData"] for each in frames if "webSocketFrameReceived" in each["method"]
    ]
    return sum(len(each) for each in payloads if "ColumnsStreamed" in each or '"train_loss"' in each)


def test_a_record_costs_as_many_bytes_after_a_long_history_as_after_a_short_one(serve, runs, browser):
    folder, journal = runs
    browser.open(serve(folder).address)
    browser.sees("forecast: loss at step")
    short = _received(browser, journal, 403)
    for step in range(410, 10_000, 10):
        journal.append(measure(step))
    browser.wait(lambda: shown(browser) == 9990, "the history is drawn")
    long = _received(browser, journal, 10_003)
    assert 0 < long < 1.2 * short


def begin_training(folder, go_on):
    return subprocess.Popen([sys.executable, real_training.__file__, str(folder), str(go_on)])


def told(folder):
    """All that a journal says, but for when."""
    return [{name: each for name, each in entry.items() if name != "time"} for entry in read(folder)]


def test_a_server_that_is_killed_leaves_training_as_it_is_and_the_page_comes_back_with_it(serve, tmp_path, browser):
    with begin_training(tmp_path / "alone" / "run", tmp_path) as alone:
        assert alone.wait(timeout=LONG) == 0
    folder = tmp_path / "watched"
    folder.mkdir()
    server = serve(folder)
    browser.open(server.address + "&axes=log")
    browser.sees("no run yet in the folders that were named")
    with begin_training(folder / "run", tmp_path / "go on") as training:
        browser.sees(f"· step {real_training.STEPS // 2}")
        server.kill()
        browser.sees("The server does not answer. Training goes on without it")
        (tmp_path / "go on").touch()
        assert training.wait(timeout=LONG) == 0
        server.start()
        browser.sees(f"closed · step {real_training.STEPS}")
        browser.wait(lambda: "does not answer" not in browser.text(), "the page answers again")
    assert "axes=log" in browser.driver.current_url  # as it was
    weights = [(each / "run" / "weights").read_bytes() for each in (tmp_path / "alone", folder)]
    assert weights[0] == weights[1]
    assert told(tmp_path / "alone" / "run") == told(folder / "run")


@pytest.mark.parametrize(("place", "words"), [("runs", "step 390"), ("models", "print("), ("compare", "newest")])
def test_pages_are_as_wide_as_a_phone(serve, runs, browser, place, words):
    server = serve(runs[0])
    with browser.screen(390, 844, mobile=True):
        browser.open(f"{server.address}&place={place}&run=first")
        browser.sees(words)
        wide = "return document.documentElement.scrollWidth"
        browser.wait(lambda: browser.ask(wide) == 390, "nothing is wider than the screen")
