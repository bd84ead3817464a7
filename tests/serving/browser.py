"""Chromium, and what tests of the page look at."""

import contextlib
import json
import os
import statistics
import time
from pathlib import Path

import pytest

from keras_bert.serving.batcher import BatchThreads
from keras_bert.serving.page import make_page
from keras_bert.serving.served_version import ServedVersion, batcher_for
from keras_bert.serving.server import application
from tests.chromium import chromium
from tests.serving.in_process import running

AXE = os.environ.get("AXE_CORE") or Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


class Traced(ServedVersion):
    """As if it had been saved and loaded, which takes longer than tracing."""

    def __init__(self, part, signatures, vocabulary_file=Path(os.devnull)):
        self.part, self.facts, self.threads = part, {}, BatchThreads()
        self.vocabulary_file = vocabulary_file
        self.signatures = {name: _Named(function) for name, function in signatures.items()}
        self.batchers = {
            name: batcher_for(function, self.runner(function), self.threads)
            for name, function in self.signatures.items()
        }


class _Named:
    """A traced function whose arguments have names only, as those of a loaded SavedModel."""

    def __init__(self, function):
        positional, named = function.structured_input_signature
        self.structured_input_signature = (), {spec.name: spec for spec in (*positional, *named.values())}
        self.structured_outputs = function.structured_outputs
        self.function = function

    def __call__(self, **inputs):
        return self.function(**inputs)


@contextlib.contextmanager
def serving_page(models, port=0):
    """Serve these models with their page; yields the address."""
    with running(application(models, make_page(models)), port) as (host, port):
        yield f"http://{host}:{port}/"


@contextlib.contextmanager
def page_in_browser():
    with chromium(1200) as driver:
        yield PageInBrowser(driver)


class PageInBrowser:
    """The page, as somebody who uses it sees it."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url, *, width=1200, scheme="light"):
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        self.resize(width)
        self.driver.get(url)

    def resize(self, width):
        # A window is at least 500 wide.
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def texts(self, selector):
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)", selector
        )

    def text(self, selector):
        return " ".join(self.texts(selector))

    def until(self, condition, seconds=30):
        """The first true value of a function."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, self.js("return document.body.innerText")
            time.sleep(0.02)
        return found

    def type(self, selector, text):
        box = self.find(selector)
        box.clear()
        box.send_keys(text)

    def click(self, selector):
        """Find and click in one step: a new answer replaces what is on the page."""
        self.js("document.querySelector(arguments[0]).click()", selector)

    def put(self, selector, text):
        """Replace what is in a box in one step. Unlike `type`, this can write any character."""
        code = "const [box, text] = arguments; box.value = JSON.parse(text); box.dispatchEvent(new InputEvent('input'))"
        self.js(code, self.find(selector), json.dumps(text))

    def choose(self, title):
        self.js(
            "[...document.querySelectorAll('#tools label')].find((one) => one.textContent === arguments[0]).click()",
            title,
        )

    def requests(self):
        """The addresses and bodies of what was asked since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [(request["url"], request.get("postData", "")) for request in sent]

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def median_drawn(self):
        """The median of the milliseconds in which at least five answers were drawn, as the page itself measures it."""
        drawn = self.js("return performance.getEntriesByName('answer drawn').map((one) => one.duration)")
        assert len(drawn) >= 5
        return statistics.median(drawn)

    def fits(self, width):
        """Whether nothing scrolls sideways in a window of this width, details included."""
        self.resize(width)
        self.js("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        return self.js(
            "return document.documentElement.scrollWidth <= innerWidth && innerWidth === arguments[0]", width
        )

    def violations(self):
        """What axe-core finds that is serious."""
        if not Path(AXE).is_file():
            pytest.skip("axe-core is not on this machine: npm install --no-save axe-core, or set AXE_CORE")
        self.js(Path(AXE).read_text(encoding="utf-8"))
        found = self.driver.execute_async_script("axe.run().then(arguments[0])")
        assert len(found["passes"]) > 15
        serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        return [(one["id"], one["nodes"][0]["html"]) for one in serious]
