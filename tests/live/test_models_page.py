"""The place of models in a real browser: sliders, the phase diagram, addresses."""

import re

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from dynascope import SpringBlock
from dynascope.live.models import SLIDERS, phases, read_state, solve

BLOCKS = """
const sources = [...Bokeh.documents[0].all_models].filter((each) => each.data && each.data.work);
return Array.from(sources[0].data.y);
"""
SLIDER = """
const all = (node) => [...node.querySelectorAll("*")].flatMap((each) => each.shadowRoot
  ? [each, ...all(each.shadowRoot)] : [each]);
const model = [...Bokeh.documents[0].all_models].filter((each) => each.title === arguments[0])[0];
return all(Bokeh.index.find_one(model).el.shadowRoot).filter((each) => each.matches(".noUi-handle"))[0];
"""
PLACE = """
const plot = [...Bokeh.documents[0].all_models].filter((each) => each.type === "Figure"
  && each.title.text.startsWith("phases"))[0];
const view = Bokeh.index.find_one(plot), box = view.el.getBoundingClientRect(), frame = view.frame;
return [box.x + frame.x_scale.compute(arguments[0]), box.y + frame.y_scale.compute(arguments[1])];
"""


def blocks(browser):
    return browser.ask(BLOCKS)


def state(text):
    """What the Python lines of the page say."""
    return {
        name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", re.search(r"SpringBlock\((.*)\)", text)[1])
    }


@pytest.mark.ci
def test_sliders_and_clicks_change_the_curve_and_an_address_restores_it(serve, tmp_path, browser):
    server = serve(tmp_path)
    browser.open(f"{server.address}&place=models&stiffness=0.8")
    browser.sees("chain = SpringBlock(")
    assert state(browser.text())["stiffness"] == 0.8
    before = blocks(browser)

    browser.ask(SLIDER, "noise").send_keys(Keys.ARROW_RIGHT * 6)
    browser.wait(lambda: state(browser.text())["noise"] == 0.013, "the noise follows its slider")
    browser.wait(lambda: blocks(browser) != before, "the curve changes")

    x, y = browser.ask(PLACE, 0.005, 0.15)
    browser.point((x, y), press=True)
    browser.wait(lambda: abs(state(browser.text())["noise"] - 0.005) < 0.001, "a click sets the noise")
    seen = state(browser.text())
    assert abs(seen["friction_right"] - 0.15) < 0.01
    own = solve(SpringBlock(**seen | {"blocks": int(seen["blocks"])})).mean[-1]
    browser.wait(lambda: np.allclose(blocks(browser), own, atol=1e-6), "the page shows what its lines give")

    address = re.search(r"http://\S+place=models\S+", browser.text())[0]
    assert "token" not in address
    for each in (browser.driver.current_url, address + "&" + server.address.split("?")[1]):
        browser.open("about:blank")
        browser.open(each)
        browser.sees("chain = SpringBlock(")
        assert state(browser.text()) == seen
    browser.sees("for a colleague")
    assert browser.errors() == []
    browser.picture("live_models.png", 1400, 720)


def test_an_address_that_makes_no_sense_gives_values_that_do():
    first = {name: each[3] for name, each in SLIDERS.items()}
    assert read_state({}) == first
    assert read_state({"noise": "nan", "target": "x", "blocks": ""}) == first
    assert read_state({"noise": "-1", "stiffness": "inf", "blocks": "1e9"}) == first | {"noise": 0.0, "blocks": 20}


@pytest.mark.ci
def test_the_phase_diagram_holds_the_curve_of_its_point():
    values = {name: each[3] for name, each in SLIDERS.items()} | {"friction_right": 0.2, "noise": 0.0}
    alone = SpringBlock(**values | {"blocks": 7})
    rest = np.concatenate([[0.0], alone.equilibrium(), [1.0]])
    found = phases(values)
    assert found[-1, 0] > 0 > found[0, -1]  # friction makes it concave, noise convex
    assert abs(found[-1, 0] - np.diff(rest, 2).mean()) < 0.01
