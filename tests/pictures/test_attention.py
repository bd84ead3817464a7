"""The attention page and its command: the data in it, and what it refuses."""

import base64
import json
import re
import zlib

import numpy as np
import pytest
from typer.testing import CliRunner

from keras_bert.pictures import attention_page
from keras_bert_cli import app
from tests.pictures import small


@pytest.fixture(scope="module")
def bert():
    return small.bert()


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_weights(bert):
    pair = ("The cat sat.", "영화를 보았다")
    data = data_of(attention_page(bert, *pair, model="small"))
    expected = bert.attention(pair)
    assert data["pieces"] == expected.pieces[0]
    assert data["pieces"][data["second"] :] == ["영화", "##를", "보", "##았다", "[SEP]"]
    assert data["texts"] == list(pair)
    assert (data["model"], data["cut"], data["layers"], data["heads"]) == ("small", False, 2, 2)
    for layer, text in enumerate(data["maps"]):
        codes = np.frombuffer(zlib.decompress(base64.b64decode(text)), "uint8").reshape(expected.maps[layer, 0].shape)
        np.testing.assert_allclose((codes / 255) ** 2, expected.maps[layer, 0], atol=0.004)


def test_html_in_a_text_is_shown_as_text(bert):
    evil = "</script><script>alert(1)</script> <!-- $data"
    page = attention_page(bert, evil)
    assert data_of(page)["texts"] == [evil]
    assert data_of(page)["second"] is None
    assert page.count("<script") == page.count("</script>") == 2
    assert page.count("<!--") == 0


def test_the_page_refers_to_no_other(bert):
    assert not re.search(r"//\w|@import|url\(", attention_page(bert, "a"))


def test_a_long_text_is_truncated(bert, caplog):
    data = data_of(attention_page(bert, "cat " * 40))
    assert (len(data["pieces"]), data["cut"]) == (32, True)
    assert caplog.messages == ["The text is truncated to 32 tokens."]


def test_too_many_weights(bert, monkeypatch):
    monkeypatch.setattr("keras_bert.pictures.attention.LIMIT", 99)
    with pytest.raises(
        ValueError, match=r"at most 99 attention weights\. Shorten.*Received: 2 layers x 2 heads x 5 x 5 tokens"
    ):
        attention_page(bert, "The cat sat")


@pytest.mark.parametrize("texts", [(["a", "b"],), ("a", ["b"]), (("a", "b"),)])
def test_lists_of_texts_are_refused(bert, texts):
    with pytest.raises(TypeError, match=r"one text or one pair.*Received: [\[(]"):
        attention_page(bert, *texts)


def test_command(bert, tmp_path):
    bert.save(tmp_path / "bert.keras")

    def run(*options):
        arguments = ["attention", "The cat", "--pair", "영화", "--model", str(tmp_path / "bert.keras"), *options]
        return CliRunner().invoke(app, arguments, catch_exceptions=False)

    said = run("--output", str(tmp_path / "a.html")).output
    size = (tmp_path / "a.html").stat().st_size
    assert said == f"{tmp_path / 'a.html'}: {size / 1e3:.0f} kB\n"
    assert (tmp_path / "a.html").read_text() == attention_page(bert, "The cat", "영화", model="bert.keras")
    assert {path.name for path in tmp_path.iterdir()} == {"bert.keras", "a.html"}
    run("--output", str(tmp_path / "a.html"), "--seq-length", "4")
    assert len(data_of((tmp_path / "a.html").read_text())["pieces"]) == 4
    with pytest.raises(ValueError, match="not exceed the model's"):
        run("--output", str(tmp_path / "a.html"), "--seq-length", "9999")
    with pytest.raises(FileNotFoundError, match="needs a folder that exists"):
        run("--output", str(tmp_path / "none" / "a.html"))
    with pytest.raises(ValueError, match=r"--output must end in \.html"):
        run("--output", str(tmp_path / "bert.keras"))
