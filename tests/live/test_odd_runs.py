"""Runs with odd names and odd numbers: each is shown as far as it goes, and none of them spoils the page."""

import os
from urllib.parse import quote, unquote_plus

import numpy as np
import pytest
from written_runs import EVIL, measure, start

from dynascope.live.shelf import Shelf
from dynascope.monitor.journal import NAME, Journal

pytestmark = pytest.mark.ci
NAMES = [
    "ünï çødé 漢字",
    EVIL.replace("/", "_"),
    "a\"b'c`d",
    "x%2Fy%00",
    "a&run=b#c?d=e",
    "  spaces  ",
    "—",
    "{{ 7*7 }}",
]


def write(folder, entries):
    with Journal(folder) as journal:
        for each in entries:
            journal.append(each)


def numbers(value, steps=range(0, 100, 10)):
    """Measurements of which some numbers become a value."""
    for step in steps:
        entry = measure(step)
        if step > 30:
            entry["numbers"] |= {"train_loss": value, "load": [value, 1.0, value, 0.2], "nc1": value}
        yield entry


def opens(browser, server, name):
    """Show a run, and wait until it is judged or has nothing to judge."""
    browser.open(f"{server.address}&run={quote(name)}")
    browser.wait(
        lambda: any(words in browser.text() for words in ("health:", "not judged:", "no measurement yet")),
        f"{name!r} is shown",
    )
    assert "there is no run" not in browser.text()
    assert browser.errors() == []


def test_names_of_folders_may_hold_anything(serve, tmp_path, browser):
    for name in NAMES:
        write(tmp_path / name, [start(), measure(0)])
    bad = os.fsencode(tmp_path) + b"/bad\xff"  # no text at all
    os.mkdir(bad)
    with open(bad + b"/" + NAME.encode(), "wb") as stream:
        stream.write((tmp_path / NAMES[0] / NAME).read_bytes())
    assert sorted(Shelf([tmp_path]).runs) == sorted([*NAMES, "bad\ufffd"])
    server = serve(tmp_path)
    for name in [*NAMES, "bad\ufffd"]:
        opens(browser, server, name)
        browser.wait(lambda name=name: f"run={name}" in unquote_plus(browser.driver.current_url), "its address")
    browser.open(f"{server.address}&place=compare" + "".join(f"&run={quote(each)}" for each in NAMES))
    browser.sees("load curves: ")
    assert all(f"{name} at step 0" in browser.text() for name in NAMES)
    assert browser.errors() == []


def test_numbers_may_be_anything(serve, tmp_path, browser):
    for value in (np.nan, np.inf, 1e300, 1e-300):
        write(tmp_path / f"{value}", [start(), *numbers(value)])
    write(tmp_path / "one layer", [start(["only"]), *(measure(step, layers=1) for step in range(0, 100, 10))])
    deep = [f"model.layers.{k}.projection" for k in range(200)]
    write(tmp_path / "deep", [start(deep), *(measure(step, layers=200) for step in range(0, 100, 10))])
    write(
        tmp_path / "no layers", [start([]), *({**measure(step), "numbers": {"train_loss": 1.0}} for step in range(9))]
    )
    again = [measure(step) for step in range(0, 100, 10)]
    write(tmp_path / "continued", [start(), *again, start(), *again[5:], measure(100)])
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / NAME).write_bytes(bytes(range(256)) * 9)
    server = serve(tmp_path)
    for name in Shelf([tmp_path]).runs:
        opens(browser, server, name)


def test_an_address_that_leads_nowhere_says_so(serve, runs, browser):
    server = serve(runs[0])
    browser.open(f"{server.address}&run=../../etc/passwd&smoothing=much&axes=%3Cb%3E")
    browser.sees("there is no run '../../etc/passwd' here; another: ")
    browser.sees("· step 390")
    browser.open(f"{server.address}&place=models&family=../x&run=..&time=nan&noise=%ff&blocks=1e400")
    browser.sees("there is no run '..' here")
    browser.sees("chain = SpringBlock(")
    browser.open(f"{server.address}&place=compare&run=..&sweep=..&moment=never")
    browser.sees("choose two or more runs")
    assert browser.errors() == []


def test_a_page_is_left_alone_by_another_one(serve, runs, browser):
    folder, journal = runs
    write(folder / "second", [start(), measure(70)])
    server = serve(folder)
    browser.open(f"{server.address}&run=first")
    browser.sees("· step 390")
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    browser.open(f"{server.address}&run=second&axes=log")
    browser.sees("· step 70")
    journal.append(measure(400))
    browser.driver.close()
    browser.driver.switch_to.window(first)
    browser.sees("· step 400")
    assert "run=first" in browser.driver.current_url
    assert "axes=linear" in browser.driver.current_url
