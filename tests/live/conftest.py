"""A server in a process of its own, runs that are written by hand, and the browser of this machine."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from written_runs import measure, start

from dynascope.monitor.journal import Journal

# all text that can be seen, below shadow roots too
TEXT = """
const all = (node) => node.nodeType === 3 ? node.data : ["STYLE", "SCRIPT"].includes(node.nodeName) ? "" :
  [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes].map(all).join(" ");
return all(document.body);
"""


@pytest.fixture
def runs(tmp_path):
    """A folder with a run under way, whose journal is the second part."""
    with Journal(tmp_path / "runs" / "first") as journal:
        journal.append(start())
        for step in range(0, 400, 10):
            journal.append(measure(step))
        yield tmp_path / "runs", journal


class Server:
    """`dynascope live` on its own, which can be killed and started again."""

    def __init__(self, folder, home, *options):
        self._home, self._words, self.port = home, [str(folder), "--no-browser", *options], 0
        self.start()

    def start(self):
        words = [sys.executable, "-m", "dynascope", "live", *self._words, "--port", str(self.port)]
        environment = os.environ | {"HOME": str(self._home)}
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        self.address = self.process.stdout.readline().strip()
        self.port = int(self.address.split(":")[2].split("/")[0])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def serve(tmp_path_factory):
    """A function that serves a folder until the test is done."""
    home = tmp_path_factory.mktemp("home")
    servers = []

    def begin(folder, *options):
        servers.append(Server(folder, home, *options))
        return servers[-1]

    yield begin
    for each in servers:
        each.kill()


def open_chromium(folder):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,1500"):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={folder}")
    options.add_argument("--disable-component-update")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = shutil.which("chromedriver")
    if not options.binary_location or driver is None:
        raise FileNotFoundError("neither chromium and chromedriver nor Chrome is installed")
    return webdriver.Chrome(options, webdriver.ChromeService(driver))


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory):
    try:
        driver = open_chromium(tmp_path_factory.mktemp("profile"))
    except (FileNotFoundError, WebDriverException) as error:
        if os.environ.get("DYNASCOPE_BROWSER") == "required":
            raise
        pytest.skip(f"no browser: {error}")
    yield driver
    driver.quit()


class Browser:
    """What a person sees, and what the browser asked for."""

    def __init__(self, driver):
        self.driver = driver
        self.logs()

    def logs(self):
        return self.driver.get_log("browser"), self.driver.get_log("performance")

    def open(self, address):
        self.driver.get(address)

    def text(self):
        return self.driver.execute_script(TEXT)

    def wait(self, condition, within, what):
        """Seconds until a condition holds."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < within, f"{what}: not within {within} s; {self.text()[:2000]!r}"
            time.sleep(0.05)
        return time.monotonic() - began

    def sees(self, words, within=20.0):
        return self.wait(lambda: words in self.text(), within, f"the page says {words!r}")

    def requests(self):
        """Addresses that were asked for since the last call, sockets among them, and what the console says."""
        console, performance = self.logs()
        found = []
        for line in performance:
            event = json.loads(line["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                found.append(event["params"]["request"]["url"])
            elif event["method"] == "Network.webSocketCreated":
                found.append(event["params"]["url"])
        return found, console

    def picture(self, path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))


@pytest.fixture
def browser(_chromium):
    yield Browser(_chromium)
    with contextlib.suppress(WebDriverException):
        _chromium.get("about:blank")
