"""The page of `dynascope live` by the clock: first view of many long runs, and what one more record costs.

100 runs of 2000 measurements are written by hand. Seconds are those until the server has answered with the page and,
where Chromium and its driver are installed, until the browser has drawn it; bytes are those through the socket for one
more record, after a short and after a long history.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parent.parent / "tests" / "live"))
from browsing import Browser, Server, open_chromium
from written_runs import measure, start

from dynascope import SpringBlock
from dynascope.live.models import solve
from dynascope.monitor import journal

RUNS, RECORDS = 100, 2000


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
            size = subprocess.run(["ps", "-o", "rss=", "-p", str(server.process.pid)], capture_output=True, check=True)
            table.add_row("memory of the server", f"{int(size.stdout) / 1024:.0f} MB")
            server.kill()
    chains = [SpringBlock(noise=noise) for noise in np.linspace(0.005, 0.02, 11)]
    solve(chains[0])
    begun = time.perf_counter()
    for chain in chains[1:]:
        solve(chain)
    table.add_row("a slider's answer, 200 trials", f"{(time.perf_counter() - begun) / 10:.3f} s")
    Console().print(table)


def look(table: Table, root: Path, server: Server, file: journal.Journal) -> None:
    """What a browser sees, and what it is sent."""
    driver = open_chromium(root / "profile")
    browser = Browser(driver)
    for _ in range(2):
        begun = time.perf_counter()
        browser.open(f"{server.address}&run=run007")
        browser.sees(f"step {10 * (RECORDS - 1)}")
        table.add_row(f"first view of {RUNS} runs of {RECORDS} records", f"{time.perf_counter() - begun:.2f} s")
    browser.open(f"{server.address}&run=short")
    browser.sees("step 0")
    table.add_row("bytes for record 2", str(frames(browser, file, 13)))
    for step in range(RECORDS):
        file.append(measure(10 * step + 20))
    browser.sees(f"step {10 * RECORDS + 10}")
    table.add_row(f"bytes for record {RECORDS + 3}", str(frames(browser, file, 10 * RECORDS + 23)))
    driver.quit()


if __name__ == "__main__":
    main()
