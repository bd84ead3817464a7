"""The page of a report in Chromium: it asks nothing, fails nowhere, and everybody can read it."""

from urllib.parse import urlsplit

import pytest

from tests.serving.browser import page_in_browser
from tests.tasks.small import TEXTS, columns, small_task

# chromedriver listens on loopback
pytestmark = [pytest.mark.network, pytest.mark.long, pytest.mark.usefixtures("eager")]

SCRIPT = "</p><script>alert(1)</script> <b>the film was bad</b> 서울에서"


@pytest.fixture(scope="module")
def browser():
    with page_in_browser() as browser:
        yield browser


@pytest.mark.parametrize("kind", ["classifier", "several", "regressor", "tagger"])
def test_page(browser, kind, tmp_path):
    task = small_task(kind)
    x, y = columns(kind)
    if kind == "classifier":
        x = [SCRIPT, *TEXTS[1:]]
        y = ["negative" if answer.label == "positive" else "positive" for answer in task.classify(x)]
    report = task.write_report(tmp_path / "report", x, y, train=x)
    url = (tmp_path / "report" / "index.html").as_uri()
    for width, scheme in ((1200, "light"), (320, "dark")):
        browser.requests()
        browser.errors()
        browser.open(url, width=width, scheme=scheme)
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.errors() == []
        asked = {address for address, _ in browser.requests()}
        assert {urlsplit(address).scheme for address in asked} <= {"file", "data"}
        assert {address for address in asked if address.startswith("file")} == {url}
        assert browser.violations() == []
    assert len(browser.texts("article")) == len(report["worst"]["rows"]) > 0
    assert browser.js("return document.scripts.length") <= 1  # that of axe-core
    if kind == "classifier":
        assert [text for text in browser.texts("article .text") if SCRIPT in text]
        shown = browser.texts("article:first-of-type .pieces span")
        assert shown == report["worst"]["rows"][0]["pieces"]
        assert len(browser.texts("h2")) == 8
