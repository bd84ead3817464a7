"""The page for each kind of model in Chromium: what it shows is what the model answers in Python."""

import contextlib
import functools
import json
import re

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.exports.pieces_signatures import pieces_signatures
from keras_bert.exports.saved_functions import saved_functions
from keras_bert.exports.text_part import answers_to_texts, vectors_of_texts
from keras_bert.exports.text_reader import TextReader
from keras_bert.tasks.task import Task
from tests.parity.oracles import randomize
from tests.serving.browser import Traced, page_in_browser, serving_page
from tests.tasks.small import small_bert, small_task

pytestmark = [pytest.mark.network, pytest.mark.long]

LENGTH = 16


@pytest.fixture(scope="module")
def browser():
    with page_in_browser() as browser:
        yield browser


@functools.cache
def model_of(kind):
    return keras_bert.Pretrainer(small_bert()) if kind == "pretrainer" else small_task(kind)


@functools.cache
def traced(model, attention):
    """The object of the part `text`, its signatures, and those of `preprocess` as far as the page needs them."""
    make = answers_to_texts if isinstance(model, Task) else vectors_of_texts
    root, signatures = make(model, LENGTH, "vocab.txt", attention)
    return root, signatures, saved_functions(pieces_signatures(TextReader.of(model, LENGTH)))


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of a model. At the end, nothing has failed, and axe-core finds nothing serious."""

    @contextlib.contextmanager
    def open(model, attention=False, vocabulary=None):
        preprocessor = (model if isinstance(model, keras_bert.Bert) else model.bert).preprocessor
        preprocessor.vocabulary.save(tmp_path / "vocab.txt")
        vocabulary = vocabulary or tmp_path / "vocab.txt"  # by which the page chooses the language of its samples
        root, signatures, pieces = traced(model, attention)
        text = Traced("text", signatures, vocabulary)
        text.root = root  # which holds the variables
        models = {"small": {1: text}, "small-preprocess": {1: Traced("preprocess", pieces)}}
        with serving_page(models) as url:
            browser.open(url, width=900)
            browser.until(lambda: browser.text("#said") or browser.text("#answer pre"))
            yield browser
            assert browser.text("#error") == ""
            assert browser.errors() == []
            assert browser.violations() == []
            assert browser.fits(320)

    return open


def write(page, number, text):
    page.type(f"#fields label:nth-child({number}) textarea", text)


def asked(page, text):
    """Wait until the answer to this text is shown."""
    page.until(lambda: json.dumps(text, ensure_ascii=False) in page.text("#answer-request pre"))


@pytest.mark.parametrize("korean", [False, True])
@pytest.mark.parametrize("kind", ["classifier", "cosine", "tagger", "answerer", "choice", "pretrainer"])
def test_samples(opened, kind, korean, tmp_path):
    """All of them are in the language of the vocabulary."""
    model = model_of(kind)
    (tmp_path / "ko.txt").write_text("영화\n##가\n", encoding="utf-8")
    with opened(model, kind == "pretrainer", tmp_path / "ko.txt" if korean else None) as page:
        titles = page.texts("#tools label")
        assert len(titles) == (5 if kind == "pretrainer" else 1)
        for title in titles:
            page.choose(title)
            boxes = page.js("return [...document.querySelectorAll('textarea')].map((box) => box.value)")
            lines = [line for box in boxes for line in box.split("\n") if line]
            assert lines
            assert [bool(re.search("[가-힣]", line)) for line in lines] == [korean] * len(lines)
            assert (title == "Masked words") == ("[MASK]" in boxes[0])
            asked(page, boxes[0])
            page.until(lambda text=boxes[0]: text in page.text("#pieces-request pre"))


def test_cosine(opened):
    task = small_task("cosine")
    with opened(task) as page:
        write(page, 1, "the film was good")
        write(page, 2, "bad bad")
        asked(page, "bad bad")
        score = task.score((["the film was good"], ["bad bad"]))[0]
        assert abs(float(page.text("#said").removeprefix("Score ")) - score) <= 1e-4
        page.until(lambda: len(page.texts("#pieces [role=toolbar]")) == 2)


def test_regressor_of_a_text_or_a_pair(opened):
    task = small_task("regressor")
    with opened(task) as page:
        write(page, 1, "good film")
        asked(page, "good film")
        assert abs(float(page.text("#said").removeprefix("Score ")) - task.score(["good film"])[0]) <= 1e-4
        write(page, 2, "bad")
        asked(page, "bad")
        assert abs(float(page.text("#said").removeprefix("Score ")) - task.score((["good film"], ["bad"]))[0]) <= 1e-4


def test_numbers_and_categories(opened):
    rows = {"text": ["good", "bad"], "price": [10.0, 30.0], "brand": ["acme", "bolt"]}
    columns = keras_bert.OtherColumns.learn(rows, numbers=["price"], categories=["brand"])
    task = randomize(keras_bert.TextClassifier(small_bert(), ("no", "yes"), other_columns=columns), scale=0.3)
    with opened(task) as page:
        fields = page.texts("#fields label")
        assert sorted(fields) == ["Second text (only for pairs)", "Text", "brand", "price (a number)"]
        write(page, fields.index("price (a number)") + 1, "12.5")
        write(page, fields.index("brand") + 1, "acme")
        write(page, 1, "good film")
        asked(page, "good film")
        answer = task.classify({"text": "good film", "price": 12.5, "brand": "acme"})
        assert page.text("#said") == f"{answer.label} · {100 * answer.score:.1f} %"


def test_entities(opened):
    """Marked in the text as it was typed, characters beyond the first plane included."""
    task = randomize(small_task("tagger"))
    text = "😀 Anna lives in Rome. 서울에서 the film 😀 was  good"
    with opened(task) as page:
        page.put("textarea", text)
        asked(page, text)
        expected = task.tag(text)
        assert expected
        assert page.texts(".marked mark b") == [entity.type for entity in expected]
        assert page.texts(".marked mark") == [entity.text + entity.type for entity in expected]
        page.js("document.querySelectorAll('mark b').forEach((b) => b.remove())")
        assert page.text(".marked") == text


def test_answers_to_a_question(opened):
    task = small_task("answerer")
    question, context = "where lives anna?", "😀 Anna lives in Rome. The film was good."
    with opened(task) as page:
        write(page, 1, question)
        page.put("#fields label:nth-child(2) textarea", context)
        asked(page, context)
        page.until(lambda: question in page.text("#answer-request pre"))
        page.until(lambda: context in page.text("#pieces-request pre"))
        assert page.texts("#pieces .chip.cut") == []  # a long context is read in windows
        best = task.answer(question, context, top_k=5)
        assert page.text("#said") == f"{best.text} · {100 * best.score:.1f} %"
        assert page.texts(".marked mark") == [best.text]
        shown = page.texts("#answer .bars li span:first-of-type")
        assert shown == [best.text, *(other.text for other in best.others)]


def test_choices(opened):
    task = small_task("choice")
    with opened(task) as page:
        for number, text in enumerate(("the film was", "good", "bad", "in rome"), 1):
            write(page, number, text)
        asked(page, "in rome")
        page.until(lambda: '"good","bad","in rome"' in page.text("#answer-request pre"))
        found = task.choose("the film was", ["good", "bad", "in rome"])
        ranked = sorted(zip(("good", "bad", "in rome"), found.scores, strict=True), key=lambda one: -one[1])
        assert page.texts("#answer .bars li span:first-of-type") == [text for text, _ in ranked]
        assert page.text("#said").startswith(f"{found.text} · ")


def test_pretrainer(opened):
    pretrainer = randomize(keras_bert.Pretrainer(small_bert(num_hidden_layers=2)))
    with opened(pretrainer, attention=True) as page:
        write(page, 1, "the film was good.")
        page.until(lambda: page.texts("#words button") == ["the", "film", "was", "good", "."])
        assert page.text("#answer .bars") == ""
        page.click("#words button:nth-child(4)")
        page.until(lambda: page.js("return document.querySelector('textarea').value") == "the film was [MASK].")
        page.until(lambda: len(page.texts("#answer .bars li")) == 10)
        expected = pretrainer.fill_mask("the film was [MASK].", top_k=10)[0]
        assert page.texts("#answer .bars button span:first-of-type") == [one.token for one in expected]
        assert page.texts("#answer .bars button span:last-child")[0] == f"{100 * expected[0].score:.1f} %"
        page.until(lambda: "[MASK]4" in page.texts("#pieces .chip"))
        assert page.violations() == []
        for place in (0, [one.token[:2] for one in expected].index("##")):  # also one that continues a word
            page.put("textarea", "the film was [MASK].")
            page.until(lambda: len(page.texts("#answer .bars li")) == 10)
            page.click(f"#answer .bars li:nth-child({place + 1}) button")
            text = expected[place].text
            page.until(lambda text=text: page.js("return document.querySelector('textarea').value") == text)

        assert page.median_drawn() <= 100
        assert page.fits(320)
        page.resize(900)

        page.choose("Next sentence")
        page.until(lambda: "is_next" in page.text("#answer-request pre"))
        found = pretrainer.is_next(*page.js("return [...document.querySelectorAll('textarea')].map((x) => x.value)"))
        assert page.text("#said") == ("It follows" if found.is_next else "It does not follow")
        assert page.violations() == []

        page.choose("Two texts")
        page.until(lambda: page.text("#said").startswith("Cosine "))
        assert page.violations() == []

        page.choose("Nearest of a list")
        page.until(lambda: len(page.texts("#answer .bars li")) == 5)
        write(page, 2, "good film\nthe film was good .\nrome")
        write(page, 1, "the film was good.")
        page.until(lambda: page.text("#said") == "the film was good . · 1.0000")
        assert page.violations() == []

        page.choose("Attention")
        page.until(lambda: len(page.texts(".heads button")) == 4)
        page.click(".heads button:nth-child(4)")
        maps = pretrainer.bert.attention("the film was good.")
        share = maps.maps[1, 0, 1, 2].max()
        assert "Layer 1, head 1" in page.text("#answer p")
        assert f"{100 * share:.0f}" in page.text("#answer .hint").replace(".", " ").split()


def test_encoder(opened):
    """Twelve heads in a row, as BERT's base has them, are wider than a narrow window."""
    bert = small_bert(hidden_size=24, num_attention_heads=12)
    texts = ["the film was good", "Anna lives in Rome"]
    with opened(bert, attention=True) as page:
        assert page.texts("#tools label") == ["Two texts", "Nearest of a list", "Attention"]
        write(page, 1, texts[0])
        write(page, 2, texts[1])
        asked(page, texts[1])
        one, other = bert.embed(texts)
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert abs(float(page.text("#said").removeprefix("Cosine ")) - cosine) <= 1e-4
        page.choose("Attention")
        page.until(lambda: len(page.texts(".heads button")) == 12)
        page.click(".heads button:nth-child(12)")
        share = bert.attention(texts[0]).maps[0, 0, 11, 0].max()
        assert "Layer 0, head 11" in page.text("#answer p")
        page.until(lambda: f"{100 * share:.0f}" in page.text("#answer .hint").replace(".", " ").split())


@keras.saving.register_keras_serializable("tests_page")
class Length(keras_bert.Task):
    """As little as a task can be: a head."""

    def __init__(self, bert, *, freeze=False, name=None):
        super().__init__(bert, bert.input, keras.layers.Dense(2)(bert.output["pooled_output"]), name=name)


def test_a_task_of_a_user(opened):
    with opened(Length(small_bert())) as page:
        write(page, 1, "the film")
        asked(page, "the film")
        assert list(json.loads(page.text("#answer pre"))) == ["logits", "truncated"]
        page.until(lambda: len(page.texts("#pieces .chip")) == 2)
