"""A server in a process of its own, and what the browser of this machine sees of it."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver.common.actions.action_builder import ActionBuilder

LONG, AGAIN = 120.0, 5.0  # seconds that anything may take on a machine under load, and after which a click is repeated
TRIES = 3  # to load a page, each with its part of those seconds
# all text that can be seen, below shadow roots too
TEXT = """
const all = (node) => node.nodeType === 3 ? node.data : ["STYLE", "SCRIPT"].includes(node.nodeName) ? "" :
  [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes].map(all).join(" ");
return all(document.body);
"""
# elements that a selector finds, below shadow roots too
FIND = """
const all = (node) => [...node.querySelectorAll("*")].flatMap((each) => each.shadowRoot
  ? [each, ...all(each.shadowRoot)] : [each]);
return all(document).filter((each) => each.matches(arguments[0]) && each.textContent.includes(arguments[1]));
"""
# where a place of the picture with a title lies in the window, the picture put into its middle
PLACE = """
const plots = [...Bokeh.documents[0].all_models].filter((each) => each.type === "Figure"
  && each.title.text.text.startsWith(arguments[0]));
const view = plots.map((each) => Bokeh.index.find_one(each)).filter((each) => each)[0];
view.el.scrollIntoView({block: "center"});
const box = view.el.getBoundingClientRect();
return [box.x + view.frame.x_scale.compute(arguments[1]), box.y + view.frame.y_scale.compute(arguments[2])];
"""
TITLES = 'return [...Bokeh.documents[0].all_models].filter((e) => e.type === "Figure").map((e) => e.title.text.text)'


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


def open_chromium(folder):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-component-update",
        "--disable-background-timer-throttling",
        "--disable-renderer-backgrounding",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = shutil.which("chromedriver")
    if not options.binary_location or driver is None:
        raise FileNotFoundError("neither chromium and chromedriver nor Chrome is installed")
    opened = webdriver.Chrome(options, webdriver.ChromeService(driver))
    opened.set_page_load_timeout(LONG / TRIES)
    return opened


class Browser:
    """What a person sees, and what the browser asked for."""

    def __init__(self, driver):
        self.driver = driver
        self.resize(1400, 1500)
        self.logs()

    def resize(self, width, height):
        self.driver.set_window_size(width, height)

    def logs(self):
        return self.driver.get_log("browser"), self.driver.get_log("performance")

    def open(self, address):
        """Load a page; in a new tab where chromedriver has lost the one before, as it now and then does under load."""
        for _ in range(1, TRIES):
            with contextlib.suppress(TimeoutException):
                return self.driver.get(address)
            self.driver.switch_to.new_window("tab")
        return self.driver.get(address)

    def ask(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self):
        return self.ask(TEXT)

    def wait(self, condition, what, within=LONG):
        """Seconds until a condition holds; a page that is just being loaded or drawn again holds none."""
        began = time.monotonic()
        while True:
            with contextlib.suppress(WebDriverException, IndexError):
                if condition():
                    return time.monotonic() - began
            assert time.monotonic() - began < within, f"{what}: not within {within} s; {self.text()[:2000]!r}"
            time.sleep(0.05)

    def sees(self, words, within=LONG):
        return self.wait(lambda: words in self.text(), f"the page says {words!r}", within)

    def click(self, selector, text, until):
        """Click on the first element that holds a text, and again where it was drawn anew under the pointer."""
        pressed = -AGAIN

        def shows():
            nonlocal pressed
            if until():
                return True
            if time.monotonic() - pressed > AGAIN:
                self.ask(FIND, selector, text)[0].click()
                pressed = time.monotonic()
            return False

        self.wait(shows, f"a click on {text!r} shows")

    def point(self, place, *, press=False):
        """Move the pointer to a place in the window, and press it there."""
        actions = ActionBuilder(self.driver)
        actions.pointer_action.move_to_location(*map(round, place))
        if press:
            actions.pointer_action.click()
        actions.perform()

    def titles(self):
        """Titles of all pictures."""
        return self.ask(TITLES)

    def point_at(self, title, x, y, *, press=False):
        """Move the pointer to a place of a picture, by its axes."""
        self.point(self.ask(PLACE, title, x, y), press=press)

    def tip(self, title, x, y):
        """What is said beside the pointer at a place of a picture."""
        self.point_at(title, x, y)
        rows = self.ask(FIND, ".bk-tooltip-row-label, .bk-tooltip-row-value", "")
        return " ".join(each.text for each in rows if each.is_displayed())

    def download(self, folder, start):
        """The file that is saved when something is done."""
        where = {"behavior": "allow", "downloadPath": str(folder)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
        start()
        self.wait(lambda: [each for each in folder.iterdir() if each.suffix in (".csv", ".png")], "a file is saved")
        return next(folder.iterdir())

    @contextlib.contextmanager
    def screen(self, width, height, *, mobile=False):
        """A screen of another size, for some time."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def errors(self):
        """Errors in the console since the last call."""
        return [each for each in self.requests()[1] if each["level"] == "SEVERE"]

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

    def picture(self, name, width, height):
        """A screenshot for the docs, where one is asked for."""
        if place := os.environ.get("DYNASCOPE_PICTURES"):
            with self.screen(width, height):
                time.sleep(2.0)  # until it is drawn in its new size
                self.driver.save_screenshot(str(Path(place) / name))


def best_of(tries, seconds, attempt):
    """Assert that one of some attempts takes less: other programs may take this machine's time."""
    taken = []
    while len(taken) < tries and not (taken and taken[-1] < seconds):
        taken.append(attempt())
    assert min(taken) < seconds, taken
