"""The page of `dynascope live` by the clock: first view of many long runs, and what one more record costs.

100 runs of 2000 measurements are written by hand. Seconds are those until the server has answered with the page and,
where Chromium and its driver are installed, until the browser has all records of the run that is shown; bytes are those
through the socket for one more record, after a short and after a long history. Last: how soon a slider is answered.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parent.parent / "tests" / "live"))
from browsing import Browser, Server, open_chromium
from written_runs import measure, start

from dynascope.live.families import FAMILIES
from dynascope.monitor import journal

RUNS, RECORDS = 100, 2000
SHOWN = """
const sources = [...Bokeh.documents[0].all_models].filter((each) => each.data && each.data.train_loss);
return Array.from(sources[0].data.step);
"""


def write_runs(folder: Path) -> None:
    lines = b"".join(journal._line(each) for each in (start(), *(measure(10 * step) for step in range(RECORDS))))
    for number in range(RUNS):
        (folder / f"run{number:03d}").mkdir(parents=True)
        (folder / f"run{number:03d}" / journal.NAME).write_bytes(lines)


def frames(browser: Browser, file: journal.Journal, step: int) -> int:
    """Bytes through the socket for one more record, but for status and table."""
    browser.logs()
    file.append(measure(step))
    browser.sees(f"step {step}")
    time.sleep(1.0)
    events = [json.loads(each["message"])["message"] for each in browser.logs()[1]]
    texts = [each["params"]["response"]["payloadData"] for each in events if "FrameReceived" in each["method"]]
    return sum(len(each) for each in texts if '"train_loss"' in each)


def memory(server: Server) -> float:
    """Megabytes that the server holds."""
    size = subprocess.run(["ps", "-o", "rss=", "-p", str(server.process.pid)], capture_output=True, check=True)
    return int(size.stdout) / 1024


def main() -> None:
    table = Table("what", "value", box=None, pad_edge=False)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        write_runs(root / "runs")
        with journal.Journal(root / "runs" / "short") as file:
            file.append(start())
            file.append(measure(0))
            begun = time.perf_counter()
            server = Server(root / "runs", root)
            table.add_row("start of the server", f"{time.perf_counter() - begun:.2f} s")
            begun = time.perf_counter()
            urllib.request.urlopen(server.address).read()
            table.add_row("first answer", f"{time.perf_counter() - begun:.2f} s")
            if shutil.which("chromium") and shutil.which("chromedriver"):
                look(table, root, server, file)
            server.kill()
    for name, family in FAMILIES.items():
        table.add_row(f"a slider's answer: {family.title}", answer(name))
    Console().print(table)


def answer(name: str) -> str:
    """Seconds that a family takes for another value of its first slider that is no whole number."""
    family = FAMILIES[name]
    first = next(each for each, offered in family.sliders.items() if offered.step != 1)
    values = family.read_state({})
    family.solve(values)
    taken, before = [], time.process_time()
    for place in range(1, 11):
        values[first] += family.sliders[first].step * (-1) ** place
        begun = time.perf_counter()
        family.solve(values)
        taken.append(time.perf_counter() - begun)
    spent = (time.process_time() - before) / len(taken)
    return f"{statistics.median(taken):.3f} s, of the processor {spent:.3f} s"


def look(table: Table, root: Path, server: Server, file: journal.Journal) -> None:
    """What a browser sees, and what it is sent."""
    driver = open_chromium(root / "profile")
    browser = Browser(driver)
    driver.get("data:text/html,")  # a browser that is open: its own start is not ours
    time.sleep(1.0)
    for number in range(4):
        begun = time.perf_counter()
        browser.open(f"{server.address}&run=run{number:03d}")
        browser.sees(f"step {10 * (RECORDS - 1)}")
        browser.wait(lambda: len(browser.ask(SHOWN)) == RECORDS, "all records are drawn")
        taken = time.perf_counter() - begun
        table.add_row(f"view {number + 1}: {RUNS} runs of {RECORDS} records", f"{taken:.2f} s")
        time.sleep(10.0)  # until verdicts are there, and the page before is forgotten
    browser.open(f"{server.address}&run=short")
    browser.sees("step 0")
    table.add_row("bytes for record 2", str(frames(browser, file, 13)))
    for count in (RECORDS, 5 * RECORDS):
        for step in range(len(browser.ask(SHOWN)), count):
            file.append(measure(10 * step))
        browser.sees(f"step {10 * count - 10}")
        table.add_row(f"bytes for record {count + 1}", str(frames(browser, file, 10 * count - 7)))
        table.add_row(f"memory of the server after {count} records", f"{memory(server):.0f} MB")
    driver.quit()


if __name__ == "__main__":
    main()
