"""The attention page in Chromium: what it shows, what click, key and pointer do, and that it asks no network."""

import json
from urllib.parse import urlsplit

import pytest

from keras_bert.pictures import attention_page
from tests.chromium import chromium
from tests.pictures import small

pytestmark = pytest.mark.network  # chromedriver listens on loopback

PAIR = ("The cat sat.", "영화를 보았다 </script><b>")


@pytest.fixture(scope="module")
def browser():
    with chromium(1300) as driver:
        yield driver


@pytest.fixture
def keys():
    return pytest.importorskip("selenium.webdriver.common.keys").Keys


@pytest.fixture(scope="module")
def bert():
    return small.bert()


@pytest.fixture(scope="module")
def pair_page(bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "pair.html"
    path.write_text(attention_page(bert, *PAIR), encoding="utf-8")
    return path


def show(browser, path, width=1300, scheme="light"):
    """Open a page, wait until it is drawn, and see that nothing went wrong and nothing was asked for."""
    from selenium.webdriver.support.ui import WebDriverWait

    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.set_window_size(width, 900)
    browser.get_log("performance")
    browser.get(path.as_uri())
    WebDriverWait(browser, 30).until(lambda browser: browser.execute_script("return document.body.dataset.ready"))
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {urlsplit(url).scheme for url in asked} <= {"file", "data"}
    assert {url for url in asked if url.startswith("file")} == {path.as_uri()}


def find(browser, selector):
    return browser.find_element("css selector", selector)


def texts(browser, selector):
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)", selector
    )


def point_at(browser, selector):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).move_to_element(find(browser, selector)).perform()


def pixels(browser, selector):
    return browser.execute_script("return document.querySelector(arguments[0]).toDataURL()", selector)


def test_what_it_shows(browser, pair_page, bert):
    show(browser, pair_page)
    pieces = bert.attention(PAIR).pieces[0]
    assert "영화" in pieces
    assert texts(browser, "#from li > span") == texts(browser, "#to li > span") == pieces
    assert texts(browser, "#texts dd") == list(PAIR)  # the </script> and <b> in it are text
    assert "2 layers × 2 heads · " in find(browser, "#about").text
    assert len(texts(browser, "#grid button canvas")) == 4
    assert find(browser, "#head-title").text == "Layer 0 · Head 0"
    assert len({pixels(browser, f"#grid button:nth-of-type({i}) canvas") for i in (1, 2, 3, 4)}) == 4


def test_a_layer_that_is_not_there_yet(browser, pair_page, tmp_path):
    """Large pages take seconds to unpack; until then a layer has no map, and nothing that points at it fails."""
    html = pair_page.read_text(encoding="utf-8").replace("Content-Security-Policy", "none")  # it knows the script
    slow = html.replace("maps[layer] = await", "await new Promise((go) => layer ? 0 : go()); maps[layer] = await")
    assert slow != html
    (tmp_path / "slow.html").write_text(slow, encoding="utf-8")
    browser.get((tmp_path / "slow.html").as_uri())
    find(browser, '[aria-label="Layer 1, head 0"]').click()
    point_at(browser, "#map-frame canvas")
    find(browser, "#special").click()
    assert "→" not in find(browser, "#map-place").text
    painted = "return document.querySelector(arguments[0]).getContext('2d').getImageData(0, 0, 9, 9).data.some(Boolean)"
    assert not browser.execute_script(painted, "#map-frame canvas")
    find(browser, '[aria-label="Layer 0, head 0"]').click()
    assert browser.execute_script(painted, "#map-frame canvas")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_click_and_keys_choose_the_head(browser, pair_page, keys):
    show(browser, pair_page)
    before = pixels(browser, "#map-frame canvas"), pixels(browser, "#lines")
    find(browser, '[aria-label="Layer 1, head 0"]').click()
    assert find(browser, "#head-title").text == "Layer 1 · Head 0"
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert pixels(browser, "#map-frame canvas") != before[0]
    assert pixels(browser, "#lines") != before[1]
    browser.switch_to.active_element.send_keys(keys.ARROW_RIGHT)
    assert find(browser, "#head-title").text == "Layer 1 · Head 1"
    assert find(browser, '[aria-pressed="true"]').get_attribute("aria-label") == "Layer 1, head 1"
    find(browser, "#layer-down").click()
    assert find(browser, "#head-title").text == "Layer 0 · Head 1"


def shown_shares(browser, side):
    """What stands beside the tokens, as shares; 0 where nothing does."""
    return [float(text.removesuffix(" %") or 0) / 100 for text in texts(browser, f"#{side} small")]


def test_pointing_at_a_token(browser, pair_page, bert):
    show(browser, pair_page)
    maps = bert.attention(PAIR).maps[:, 0]  # [L, A, S, S]
    assert set(shown_shares(browser, "to")) == {0}
    point_at(browser, "#from-2")
    assert shown_shares(browser, "to") == pytest.approx(maps[0, 0, 2], abs=0.01)
    assert shown_shares(browser, "from") == [0] * maps.shape[-1]
    assert find(browser, "#readout").text.startswith("cat looks at ")
    best = bert.attention(PAIR).pieces[0][maps[0, 0, 2].argmax()]
    assert texts(browser, "#readout i b")[0] == best
    assert find(browser, "#from-2").get_attribute("aria-selected") == "true"
    point_at(browser, "#to-3")
    assert shown_shares(browser, "from") == pytest.approx(maps[0, 0, :, 3], abs=0.01)
    point_at(browser, "h1")
    assert set(shown_shares(browser, "from")) == {0}
    find(browser, "#from-2").click()
    point_at(browser, "h1")
    assert shown_shares(browser, "to") == pytest.approx(maps[0, 0, 2], abs=0.01)  # a click holds it


def test_keys_walk_over_the_tokens(browser, pair_page, keys):
    show(browser, pair_page)
    tokens = find(browser, "#from")
    tokens.send_keys(keys.ARROW_DOWN, keys.ARROW_DOWN)
    assert find(browser, "#readout").text.startswith("the looks at ")
    assert tokens.get_attribute("aria-activedescendant") == "from-1"


@pytest.mark.parametrize("width", [500, 1300])
def test_labels_do_not_overlap(browser, pair_page, width):
    show(browser, pair_page, width)
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('#columns li')].map((li) => { const box = "
        "li.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; })"
    )
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert not [b for b in boxes[:i] if b[0] < right and left < b[2] and b[1] < bottom and top < b[3]]
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_dark(browser, pair_page):
    def lightness():
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor"), pixels(
            browser, "#lines"
        )

    show(browser, pair_page)
    light = lightness()
    show(browser, pair_page, scheme="dark")
    assert all(a != b for a, b in zip(light, lightness(), strict=True))


def test_512_tokens(browser, tmp_path):
    page = tmp_path / "long.html"
    page.write_text(attention_page(small.bert(512, layers=1), "the cat sat . 영화를 보았다 " * 100), encoding="utf-8")
    show(browser, page)
    assert len(texts(browser, "#from li")) == 512
    assert "512 tokens · the text is truncated" in find(browser, "#about").text
    top = pixels(browser, "#lines")
    browser.execute_script("document.querySelector('#scroller').scrollTop = 6000")
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert pixels(browser, "#lines") != top  # the lines of what is in view
