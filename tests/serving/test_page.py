"""The page of the server: what is sent, and in Chromium what a classifier's page does with what is typed."""

import base64
import copy
import hashlib
import json
import re
import shlex
import signal
import subprocess

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from keras_bert.serving.page import make_page
from keras_bert.serving.served_version import find_models
from keras_bert.serving.server import application
from keras_bert_cli import app
from tests.serving.browser import page_in_browser, serving_page
from tests.serving.exported import LABELS, NAME

TEXT = "#fields textarea"
KOREAN = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "영화", "##가", "재미", "DVD", "the"]


@pytest.fixture(scope="module")
def models(kit):
    return find_models(kit)


# === What is sent ===


def test_one_small_file_with_a_strict_policy(models):
    page = make_page(models)
    html = page.html.decode()
    assert len(page.html) <= 150_000
    assert not re.search(r"https?://|\bsrc=|@import|url\(", html)
    style, script = (re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[1] for tag in ("style", "script"))
    policy = page.headers["Content-Security-Policy"]
    for kind, source in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; connect-src 'self';")
    assert "unsafe" not in policy


def test_names_cannot_become_html(models):
    name = "</script><script>alert(1)</script>"
    html = make_page({name: models[NAME]}).html.decode()
    assert html.count("</script>") == 2
    assert "\\u003c/script>\\u003cscript>" in html


def test_answers(models):
    with TestClient(application(models, make_page(models))) as client:
        answer = client.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "Content-Security-Policy" in answer.headers
        head = client.head("/")
        assert (head.status_code, head.content) == (200, b"")
        assert client.post("/").status_code == 404
        assert client.get("/other").status_code == 404
    with TestClient(application(models)) as client:
        assert client.get("/").json()["error"].startswith("Malformed request: GET /")


def test_part_of_an_export(models):
    """Whatever is there has a page: the text of an older export, without pieces, or the pieces without a text."""
    for names in ([NAME], [f"{NAME}-preprocess"]):
        page = make_page({name: models[name] for name in names}).html.decode()
        assert f'"name": "{names[0]}"' in page
    assert '"pieces": null' in make_page({NAME: models[NAME]}).html.decode()


def with_vocabulary(models, file, pieces):
    """The same models, as if their vocabulary were another one."""
    file.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    changed = copy.copy(models[NAME][1])
    changed.vocabulary_file = file
    return {**models, NAME: {1: changed}}


def test_the_language_of_the_samples(models, tmp_path):
    assert '"language": "en"' in make_page(models).html.decode()
    for language, pieces in {
        "ko": (KOREAN, ["\u1112", "##\u1161", "##\u11ab", "of", "##ing"]),  # the second is without accents
        "en": (["[UNK]", "the", "film", "서"], ["영화", "##가", "the", "film", "Film", "der"], ["映画", "は"], []),
    }.items():
        for number, vocabulary in enumerate(pieces):
            page = make_page(with_vocabulary(models, tmp_path / f"{language}{number}.txt", vocabulary))
            assert f'"language": "{language}"' in page.html.decode()


def test_play_refuses_what_is_no_model(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="nope"):
        CliRunner().invoke(app, ["play", str(tmp_path / "nope"), "--port", "0"], catch_exceptions=False)
    assert signal.getsignal(signal.SIGTERM) is before


# === In a browser ===


@pytest.fixture(scope="module")
def url(models):
    with serving_page(models) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with page_in_browser() as browser:
        yield browser


@pytest.fixture
def page(browser, url):
    """The page with its first answer. At the end, nothing has failed, and only the server was asked."""
    browser.requests()
    browser.errors()
    browser.open(url)
    browser.until(lambda: browser.text("#said"))
    yield browser
    assert browser.errors() == []
    asked = {address.split("?")[0] for address, _ in browser.requests()}
    assert all(address.startswith((url, "data:")) for address in asked)


@pytest.mark.network
def test_typing(page, expected):
    page.type(TEXT, "w1 w3 nope")
    answer = expected(["w1 w3 nope"])
    label, score = answer["label"][0].decode(), answer["score"][0]
    page.until(lambda: page.text("#said") == f"{label} · {100 * score:.1f} %")
    assert sorted(page.texts("#answer .bars li span:first-of-type")) == sorted(LABELS)
    page.until(lambda: len(page.texts("#pieces .chip")) == 3)
    assert [text[:2] for text in page.texts("#pieces .chip")][:2] == ["w1", "w3"]
    assert len(page.texts("#pieces .unknown")) == 1
    assert page.js("return document.querySelectorAll('#answer-request pre')[0].textContent").startswith("curl -s 'http")


@pytest.mark.network
def test_the_curl_line_gives_the_answer(page):
    page.type(TEXT, 'it\'s w1 "w2" $HOME `w3` 좋아요')
    page.until(lambda: "`w3` 좋아요" in page.texts("#answer-request pre")[0])  # the reply has 좋아요 too, a label
    line = page.texts("#answer-request pre")[0]
    assert shlex.split(line)[:2] == ["curl", "-s"]
    said = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout
    best = json.loads(said)["predictions"][0]
    assert best["truncated"]
    assert page.text("#said") == f"{best['label']} · {100 * best['score']:.1f} % · the text was truncated"


@pytest.mark.network
def test_chips(page):
    """Keys walk over them, and the place of each is in characters and bytes."""
    page.type(TEXT, "좋 w1 " + "w2 " * 20)
    page.until(lambda: len(page.texts("#pieces .cut")))
    assert len(page.texts("#pieces .chip:not(.cut)")) == 10  # of --seq-length 12
    assert "truncated" in page.text("#said")
    assert len(page.texts("#pieces [tabindex='0']")) == 1
    page.js("document.querySelector('#pieces .chip').focus()")
    assert "characters 0 to 1 · bytes 0 to 3 · “좋”" in page.text("#piece")
    page.driver.switch_to.active_element.send_keys("\ue014")  # the right arrow
    assert "characters 2 to 4 · bytes 4 to 6 · “w1”" in page.text("#piece")


@pytest.mark.network
def test_composition(page):
    """What an input method has not finished is not asked."""
    page.type(TEXT, "w1 ")
    page.until(lambda: '"w1 "' in page.text("#answer-request pre"))
    page.requests()
    page.js("document.querySelector(arguments[0]).focus()", TEXT)
    for syllable in ("ㅈ", "조", "좋"):
        composed = {"text": syllable, "selectionStart": 1, "selectionEnd": 1}
        page.driver.execute_cdp_cmd("Input.imeSetComposition", composed)
        page.js("return new Promise((go) => setTimeout(go, 200))")
    assert page.requests() == []
    page.driver.execute_cdp_cmd("Input.insertText", {"text": "좋아요"})
    page.until(lambda: "w1 좋아요" in page.text("#answer-request pre"))
    assert {body for _, body in page.requests() if "ㅈ" in body or "조" in body} == set()


@pytest.mark.network
def test_quick_keystrokes(page):
    """Ten thousand, in batches 10 ms apart with three longer pauses: only there and at the end is the server asked."""
    page.requests()
    page.js(
        """
        const box = document.querySelector(arguments[0]), pause = (ms) => new Promise((go) => setTimeout(go, ms));
        return (async () => {
          for (let i = 0; i < 10000; i++) {
            box.value = `w1 ${i}`;
            box.dispatchEvent(new InputEvent("input"));
            if (i % 100 === 99) await pause(i % 2500 === 2499 ? 300 : 10);
          }
        })();
        """,
        TEXT,
    )
    page.until(lambda: "w1 9999" in page.text("#answer-request pre"))
    page.until(lambda: page.text("#answer").strip() and page.text("#said"))
    asked = [body for url, body in page.requests() if f"{NAME}:predict" in url]
    texts = [json.loads(body)["instances"][0]["text"] for body in asked]
    assert texts[-1] == "w1 9999"
    assert len(texts) == len(set(texts)) > 1
    assert set(texts) <= {"w1 2499", "w1 4999", "w1 7499", "w1 9999"}
    assert "w1 9999" in page.text("#answer-request pre")


@pytest.mark.network
def test_answers_that_come_late(page):
    """While a request is under way no other is sent, and its answer is not shown if something was typed since."""
    page.js(
        """
        const real = window.fetch, typed = new Promise((go) => { window.allTyped = go; });
        window.open = 0; window.most = 0; window.shown = [];
        window.fetch = async (...request) => {
          if (!request[0].includes("preprocess")) most = Math.max(most, ++open);
          await typed;
          const reply = await real(...request);
          if (!request[0].includes("preprocess")) open--;
          return reply;
        };
        new MutationObserver(() => shown.push(document.querySelector("#answer-request pre")?.textContent ?? ""))
          .observe(document.getElementById("answer-request"), { childList: true });
        """
    )
    for text in ("w1", "w2", "w3"):
        page.type(TEXT, text)
        page.js("return new Promise((go) => setTimeout(go, 170))")
    page.js("allTyped()")
    page.until(lambda: '"w3"' in page.text("#answer-request pre"))
    assert page.js("return most") == 1
    assert not [one for one in page.js("return shown") if '"w1"' in one or '"w2"' in one]


@pytest.mark.network
@pytest.mark.parametrize(
    "text",
    ["<img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>", "</script>&lt;b&gt;${1}`"],
)
def test_html_is_text(page, text):
    page.type(TEXT, text)
    page.until(lambda: text[:9] in page.text("#answer-request pre") and page.texts("#pieces .chip"))
    assert not page.js("return window.hacked")
    assert page.js("return document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.long
@pytest.mark.network
def test_a_megabyte(browser, url):
    """Answered if the server has no limit that it passes, and otherwise refused in one line."""
    browser.open(url)
    browser.until(lambda: browser.text("#said"))
    browser.put(TEXT, ("n" * 999 + " ") * 1000)
    browser.until(lambda: "truncated" in browser.text("#said"), 60)
    browser.until(lambda: "of the first 20,000 characters" in browser.text("#pieces-about"))
    assert len(browser.text("#answer-request pre")) < 10_000
    assert browser.errors() == []
    browser.put(TEXT, "w1 " * 333_000)
    browser.until(lambda: "The server refused the request: A request may have at most" in browser.text("#error"), 60)
    browser.until(lambda: "struck out" in browser.text("#pieces-about"))
    assert all("413" in error for error in browser.errors())  # Chromium logs refusals itself


@pytest.mark.network
def test_half_a_surrogate_pair_and_nothing(browser, url):
    browser.open(url)
    browser.until(lambda: browser.text("#said"))
    browser.put(TEXT, "w1 \ud83d")
    browser.until(lambda: "half of a surrogate pair" in browser.text("#error"))
    assert browser.text("#said") == ""
    browser.put(TEXT, "w1 😀")
    browser.until(lambda: "%" in browser.text("#said"))
    assert browser.text("#error") == ""
    browser.put(TEXT, "")
    browser.until(lambda: browser.text("#said") == "Type a text.")
    assert [error for error in browser.errors() if "400" not in error] == []  # Chromium logs refusals itself


@pytest.mark.network
def test_a_server_that_stops(models, browser):
    with serving_page(models) as url:
        browser.open(url)
        browser.until(lambda: browser.text("#said"))
    browser.type(TEXT, "w7")
    browser.until(lambda: "does not answer" in browser.text("#error"))
    with serving_page(models, int(url.rpartition(":")[2].strip("/"))):
        browser.until(lambda: '"w7"' in browser.text("#answer-request pre"))
        browser.until(lambda: browser.text("#error") == "")
        assert "%" in browser.text("#said")
    assert all("REFUSED" in error for error in browser.errors())  # Chromium logs these itself


@pytest.mark.network
def test_an_export_without_pieces(models, browser):
    with serving_page({NAME: models[NAME]}) as url:
        browser.open(url)
        browser.until(lambda: "%" in browser.text("#said"))
        assert "Export the model again" in browser.text("#pieces-about")
    assert browser.errors() == []


@pytest.mark.network
def test_the_samples_of_a_korean_vocabulary(page, models, tmp_path):
    """The page begins with Korean; what is around the text stays English."""
    first = page.js("return document.querySelector(arguments[0]).value", TEXT)
    assert first.isascii()
    with serving_page(with_vocabulary(models, tmp_path / "vocab.txt", KOREAN)) as url:
        page.open(url)
        page.until(lambda: "영화" in page.text("#answer-request pre") and page.texts("#pieces .chip"))
        assert "영화" in page.js("return document.querySelector(arguments[0]).value", TEXT)
        assert page.text("#fields label").startswith("Text")
        page.requests()


@pytest.mark.network
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_narrow(page, url, scheme):
    page.open(url, width=320, scheme=scheme)
    page.until(lambda: page.text("#said"))
    page.type(TEXT, "w1 좋아요 nope " + "w2 " * 20 + "n" * 300)
    page.until(lambda: len(page.texts("#pieces .cut")))
    assert page.fits(320)
    assert page.violations() == []


@pytest.mark.network
def test_drawn_at_once(page):
    """Within 100 ms of the reply."""
    for number in range(5):
        page.type(TEXT, f"w1 w2 w{number}")
        page.until(lambda number=number: f'w{number}"' in page.text("#answer-request pre"))
    assert page.median_drawn() <= 100
