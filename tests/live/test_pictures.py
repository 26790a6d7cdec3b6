"""Pictures of runs in a real browser: pointing at them, saving them, their axes, forecast and knobs."""

import csv
import io

import numpy as np
import pytest
from browsing import FIND
from PIL import Image
from selenium.webdriver.common.keys import Keys
from written_runs import EVIL, measure, start, turn

from dynascope.live.tailing import SERIES
from dynascope.monitor import open_run
from dynascope.monitor.journal import Journal

pytestmark = pytest.mark.ci
RECORDED = {"straightness": "linearity"}  # as the record calls it
# heights in pixels at which the line of a column is drawn, and steps of what is drawn by one of its columns
HEIGHTS = """
const lines = [...Bokeh.documents[0].all_models].filter((each) => each.type === "GlyphRenderer"
  && each.glyph.type === "Line" && each.glyph.y.field === arguments[0] && each.glyph.y.transform);
return Array.from(lines.map((each) => Bokeh.index.find_one(each)).filter((view) => view)[0].glyph.sy);
"""
DRAWN = """
const found = [...Bokeh.documents[0].all_models].filter((each) => each.type === "GlyphRenderer"
  && each.glyph.type === arguments[0] && each.data_source.data[arguments[1]]?.length);
return found.map((each) => Array.from(each.data_source.data[arguments[1]]));
"""
MIDDLE = """
const box = arguments[0].getBoundingClientRect();
return [box.x + box.width / 2, box.y + box.height / 2];
"""
SMOOTH = """
const all = (node) => [...node.querySelectorAll("*")].flatMap((each) => each.shadowRoot
  ? [each, ...all(each.shadowRoot)] : [each]);
return all(document).filter((each) => each.matches(".noUi-handle"))[0];
"""


@pytest.fixture
def shown(serve, runs, browser):
    """The page of a run, with all its pictures, and where the run lies."""
    folder, journal = runs
    for each in (turn(100, 0.1), turn(200, 0.05), turn(150, 0.5) | {"knob": f"{EVIL} $$k$$"}):
        journal.append(each)
    browser.open(serve(folder).address)
    browser.sees("forecast: loss at step")
    browser.wait(lambda: browser.ask(HEIGHTS, "train_loss"), "the loss is drawn")
    yield browser, folder / "first"
    assert browser.errors() == []


def test_pointing_at_a_line_shows_its_numbers(shown):
    browser, _ = shown
    numbers = measure(100)["numbers"]
    for title, y, words in (
        ("loss", 0.6, f"step: 100 train loss: {numbers['train_loss']:.4g} probe loss: {numbers['probe_loss']:.4g}"),
        ("accuracy", 0.7, f"step: 100 probe accuracy: {numbers['probe_accuracy']:.4g}"),
        ("distance", 0.3, f"step: 100 minimum feature distance: {numbers['minimum_feature_distance']:.4g}"),
        ("steered: learning rate", 0.1, "step: 100 value: 0.1"),
    ):
        browser.wait(
            lambda title=title, y=y, words=words: browser.tip(title, 100, y) == words, f"the tip says {words!r}"
        )
    load = measure(390)["numbers"]["load"]
    browser.wait(
        lambda: (
            browser.tip("load curve", 1, load[1]) == f"layer: conv1 load: {load[1]:.3f} work: {load[0] - load[1]:.3f}"
        ),
        "the tip says what a block is",
    )


def test_the_numbers_that_are_saved_are_those_of_the_record(shown, tmp_path):
    browser, folder = shown
    (tmp_path / "saved").mkdir()
    place = browser.download(tmp_path / "saved", lambda: browser.ask(FIND, "button", "data (CSV)")[0].click())
    assert place.name == "first.csv"
    rows = list(csv.DictReader(io.StringIO(place.read_text())))
    record = open_run(folder)
    assert set(rows[0]) == {"step", *SERIES}
    compared = 0
    for name in rows[0]:
        found = np.array([float(row[name]) for row in rows])
        own = RECORDED.get(name, name)
        if own not in record:
            assert np.isnan(found).all(), name
            continue
        np.testing.assert_allclose(found, record[own].values, rtol=1e-9, err_msg=name)
        compared += 1
    assert compared == 13


def test_a_picture_is_saved_as_it_is_seen(shown, tmp_path):
    browser, _ = shown
    (tmp_path / "saved").mkdir()

    def save():
        browser.point_at("loss", 100, 0.6)
        browser.point(browser.ask(MIDDLE, browser.ask(FIND, ".bk-tool-icon-save", "")[1]), press=True)

    place = browser.download(tmp_path / "saved", save)
    picture = np.asarray(Image.open(place).convert("RGB")).reshape(-1, 3)
    assert place.name == "loss.png"
    blue = np.abs(picture.astype(int) - (0x2B, 0x8C, 0xC4)).max(-1) < 8
    assert blue.sum() > 100  # the line of the loss, and not an empty picture


def test_axes_and_smoothing_change_what_is_drawn(shown):
    browser, _ = shown
    linear = np.array(browser.ask(HEIGHTS, "train_loss"))
    handle = browser.ask(SMOOTH)
    handle.send_keys(Keys.ARROW_RIGHT * 50)
    browser.wait(lambda: "smoothing=0.5" in browser.driver.current_url, "the address has the smoothing")
    browser.wait(lambda: browser.ask(HEIGHTS, "train_loss")[1] != linear[1], "the line is another one")
    smooth = np.array(browser.ask(HEIGHTS, "train_loss"))
    mean = linear[:1].tolist()
    for height in linear[1:]:
        mean.append((mean[-1] + height) / 2)
    np.testing.assert_allclose(smooth, mean, atol=0.5)
    browser.click("button, .bk-btn", "log", lambda: "axes=log" in browser.driver.current_url)
    browser.wait(lambda: abs(browser.ask(HEIGHTS, "train_loss")[20] - smooth[20]) > 5, "the axis is another one")
    address = browser.driver.current_url
    logarithmic = browser.ask(HEIGHTS, "train_loss")
    browser.open(address)
    browser.wait(lambda: np.allclose(browser.ask(HEIGHTS, "train_loss"), logarithmic, atol=1.0), "it is as it was")


def test_the_forecast_and_each_knob_are_drawn(shown):
    browser, _ = shown
    (low,), (high,) = (browser.ask(DRAWN, "VArea", name) for name in ("low", "high"))
    (steps,) = browser.ask(DRAWN, "VArea", "step")
    assert steps[0] > 390
    assert (np.array(low) <= high).all()
    assert np.ptp(np.array(high) - low) > 0
    assert sorted(browser.ask(DRAWN, "Step", "value")) == [[0.1, 0.05], [0.5]]
    assert {f"steered: {EVIL} $$k$$", "steered: learning rate"} < set(browser.titles())


def test_a_run_without_forecast_and_knob_shows_neither(serve, tmp_path, browser):
    with Journal(tmp_path / "done") as journal:
        for each in (start(), *(measure(step) for step in range(0, 200, 10)), {"kind": "end", "step": 190}):
            journal.append(each)
    browser.open(serve(tmp_path).address)
    browser.sees("health:")
    browser.sees("closed · step 190")
    assert "forecast" not in browser.text()
    assert browser.ask(DRAWN, "VArea", "low") == browser.ask(DRAWN, "Step", "value") == []
    assert browser.errors() == []
