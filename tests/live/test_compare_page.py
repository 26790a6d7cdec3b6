"""The place of comparison: runs over the same axes."""

import pytest
from selenium.common.exceptions import NoAlertPresentException
from written_runs import EVIL, measure, start

from dynascope.live.compare import curves_at, final_table
from dynascope.live.tailing import Course
from dynascope.monitor.journal import Journal


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
    browser.picture("live_compare.png", 1400, 900)
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
