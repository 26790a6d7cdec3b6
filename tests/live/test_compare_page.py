"""The place of comparison: runs over the same axes."""

import numpy as np
import pytest
from selenium.common.exceptions import NoAlertPresentException
from written_runs import EVIL, measure, start

from dynascope import SpringBlock
from dynascope.live.compare import curves_at, final_table
from dynascope.live.sweeps import diagram, quantities, read_table
from dynascope.live.tailing import Course
from dynascope.monitor.journal import Journal
from dynascope.sweep import sweep


def write(folder, steps, slower=1):
    with Journal(folder) as journal:
        journal.append(start())
        for step in steps:
            journal.append(measure(step // slower) | {"step": step})


@pytest.fixture
def two(tmp_path):
    write(tmp_path / "fast", range(0, 400, 10))
    write(tmp_path / "slow", range(0, 600, 20), slower=4)
    return tmp_path


def test_curves_at_equal_step_and_at_equal_loss(two):
    fast, slow = (Course(two / name, curves=1000) for name in ("fast", "slow"))
    assert [step for step, _ in curves_at([fast, slow], "newest")] == [390, 580]
    assert [step for step, _ in curves_at([fast, slow], "equal step")] == [390, 380]
    at, then = curves_at([fast, slow], "equal loss")
    assert (at[0], then[0]) == (150, 580)  # the slow one at 580 is where the fast one was at 145
    assert abs(at[1] - then[1]).max() < 0.05
    assert curves_at([], "equal loss") == []


def test_a_run_without_loss_or_measurements_does_not_hold_others_up(two):
    with Journal(two / "begun") as journal, Journal(two / "bare") as other:
        journal.append(start())
        other.append(start())
        other.append({"kind": "measure", "step": 500, "time": 0.0, "numbers": {"nc1": 0.5}})
    courses = [Course(two / name, curves=1000) for name in ("fast", "slow", "begun", "bare")]
    for moment, steps in (("newest", [390, 580]), ("equal step", [390, 380]), ("equal loss", [150, 580])):
        found = curves_at(courses, moment)
        assert [step for step, _ in found[:2]] == steps
        assert [len(loads) for _, loads in found] == [4, 4, 0, 0]


def test_final_values_and_their_differences(two):
    table = final_table({name: Course(two / name) for name in ("fast", "slow")}).splitlines()
    assert table[0].split() == ["fast", "slow", "slow", "−", "fast"]
    row = next(line for line in table if line.startswith("train loss"))
    assert [float(each) for each in row.split()[2:]] == [0.421, 0.548, 0.127]


@pytest.mark.ci
def test_two_runs_side_by_side(serve, two, browser):
    server = serve(two)
    browser.open(f"{server.address}&place=compare&run=fast&run=slow")
    browser.sees("load curves: fast at step 390; slow at step 580")
    text = browser.text()
    for words in ("slow − fast", "train loss"):
        assert words in text, words
    browser.ask(
        "[...Bokeh.documents[0].all_models].filter((each) => each.labels && each.labels.length === 3)[0].active = 2"
    )
    browser.sees("load curves: fast at step 150; slow at step 580")
    browser.picture("live_compare.png", 1400, 720)
    write(two / EVIL.replace("/", "_"), [0, 10])
    browser.sees(EVIL.replace("/", "_"))
    assert "fast at step 150; slow at step 580" in browser.text()  # still chosen
    browser.ask(
        "[...Bokeh.documents[0].all_models].filter((e) => e.data && e.data.run)[0].selected.indices = [0, 1, 2]"
    )
    browser.sees("load curves: <script>")
    assert browser.driver.current_url.count("run=") == 3
    with pytest.raises(NoAlertPresentException):
        browser.driver.switch_to.alert.dismiss()
    assert browser.errors() == []


@pytest.fixture
def swept(tmp_path):
    grid = {"noise": [0.0, 0.02], "friction_right": [0.0, 0.05, 0.1]}
    fixed = {"duration": 5.0, "trials": 4, "blocks": 3}
    sweep(SpringBlock, grid=grid, fixed=fixed, seeds=2, out=tmp_path / "swept", scheduler="here")
    return tmp_path / "swept"


@pytest.mark.ci
def test_a_sweep_is_a_phase_diagram(swept):
    table = read_table(swept)
    assert {"curvature", "energy"} <= set(quantities(table))
    assert "load" not in quantities(table)
    found = diagram(table, "curvature")
    own = table.isel(time=-1).sel(noise=0.02, friction_right=0.05).mean(("seed", "trial"))
    place = found.cells["said"].index("noise 0.02, friction_right 0.05")
    assert (found.cells["x"][place], found.cells["y"][place]) == (1, 1)
    assert np.isclose(found.cells["value"][place], float(own["curvature"]))
    np.testing.assert_allclose(found.cells["ys"][place], own["load"].values)


@pytest.mark.ci
def test_a_cell_under_the_pointer_shows_its_curve(serve, swept, browser):
    server = serve(swept.parent)
    browser.open(f"{server.address}&place=compare&sweep=swept&quantity=curvature")
    browser.sees("curvature at the end, mean over repetitions")
    browser.wait(lambda: "noise 0, friction_right 0" in browser.titles(), "the first cell is shown")
    browser.wait(
        lambda: browser.point_at("curvature", 1, 2) or "noise 0.02, friction_right 0.1" in browser.titles(),
        "the cell under the pointer is shown",
    )
    own = read_table(swept).isel(time=-1).sel(noise=0.02, friction_right=0.1).mean(("seed", "trial"))
    drawn = (
        "return [...Bokeh.documents[0].all_models].filter((e) => e.type === 'GlyphRenderer' && e.glyph.type === 'Line')"
    )
    np.testing.assert_allclose(browser.ask(drawn + "[0].data_source.data.y"), own["load"].values)
    words = f"cell: noise 0.02, friction_right 0.1 value: {float(own['curvature']):.4f}"
    browser.wait(lambda: browser.tip("curvature", 1, 2) == words, f"the tip says {words!r}")
    browser.picture("live_sweep.png", 1400, 700)
    assert browser.errors() == []


def test_a_table_that_is_none_is_refused_with_a_reason(tmp_path):
    (tmp_path / "table.nc").write_text("nonsense")
    with pytest.raises(ValueError, match=r"table\.nc"):
        read_table(tmp_path)
