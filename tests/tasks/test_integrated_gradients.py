"""Integrated gradients against their axiom, and against leaving out each piece by brute force."""

import keras
import numpy as np
import pytest
from scipy.stats import spearmanr

from keras_bert.layers.int8_dense import int8_blocks
from keras_bert.tasks.reports.findings import Explained, weighted
from keras_bert.tasks.reports.integrated_gradients import integrated_gradients
from keras_bert.tasks.reports.number_findings import explained_cosine
from keras_bert.tasks.text_classifier import TextClassifier
from tests.parity.oracles import randomize
from tests.tasks.small import KINDS, TEXTS, VOCABULARY, columns, small_bert, small_task

pytestmark = pytest.mark.usefixtures("eager")
SPECIAL = [VOCABULARY[token] for token in ("[PAD]", "[CLS]", "[SEP]")]
MASK = VOCABULARY["[MASK]"]


def inputs_of(task, x, row=0):
    inputs = task.examples(x).inputs(np.array([row]))
    return {name: np.asarray(value) for name, value in inputs.items()}


def value_of(task, inputs, explained, ids=None):
    """What is explained, for other ids if they are given."""
    inputs = inputs if ids is None else {**inputs, "input_word_ids": ids}
    return float(explained.value(task({name: keras.ops.convert_to_tensor(one) for name, one in inputs.items()})))


def explained_of(task, kind):
    if kind == "embedder":
        return explained_cosine(2)(0)
    weights = np.linspace(-1, 1.5, task.output_shape[-1] or 1)
    if kind == "answerer":  # of a start and an end
        weights = np.zeros((2, 12))
        weights[[0, 1, 0], [5, 6, 0]] = 1, 1.5, -1
        return Explained(0, lambda logits: keras.ops.sum(logits[..., :12] * weights.astype("float32")))
    return weighted(0, weights)


@pytest.mark.parametrize("kind", [*KINDS, "windows"])
def test_completeness(kind):
    """What the pieces add is the difference to the row with [MASK] for each of them."""
    task = randomize(small_task(kind, small_bert(num_hidden_layers=2)), scale=0.5)
    x, _ = columns(kind)
    inputs, explained = inputs_of(task, x), explained_of(task, kind)
    pieces, added = integrated_gradients(task, inputs, explained.value)
    ids, real = inputs["input_word_ids"], inputs["input_mask"] != 0
    assert pieces == [VOCABULARY.token(id) for id in ids[real].tolist()]
    masked = np.where(np.isin(ids, SPECIAL), ids, MASK)
    difference = value_of(task, inputs, explained) - value_of(task, inputs, explained, masked)
    assert abs(difference) > 1e-2
    assert added.sum() == pytest.approx(difference, rel=1e-3, abs=1e-5)
    assert not added[np.isin(ids[real], SPECIAL)].any()
    assert value_of(task, inputs, explained) == value_of(task, inputs, explained)  # the word vectors are back


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="int8 runs on TensorFlow")
def test_int8_has_no_gradients():
    task = small_task("classifier")
    with int8_blocks(fixed_ranges=False):
        task = type(task).from_config(task.get_config())
    assert integrated_gradients(task, inputs_of(task, TEXTS), weighted(0, [-1, 1]).value) is None


@pytest.mark.long
def test_occlusion():
    """The pieces of a trained classifier have the order in which their absence changes the answer."""
    keras.utils.set_random_seed(0)
    task = TextClassifier(small_bert(seq_length=16), labels=("negative", "positive"))
    nouns = ("film", "rome", "서울", "who")
    texts = [f"the {noun} was {word} ." for noun in nouns for word in ("good", "bad")]
    task.compile(keras.optimizers.Adam(0.03), task.default_loss())
    batch = {name: np.asarray(one) for name, one in task.examples(texts).inputs(np.arange(len(texts))).items()}
    for _ in range(10):
        task.train_on_batch(batch, np.array([1, 0] * len(nouns)))
    agreements = []
    for row in range(4):
        inputs = inputs_of(task, texts, row)
        explained = weighted(row, [-1, 1])
        pieces, added = integrated_gradients(task, inputs, explained.value)
        ids = inputs["input_word_ids"]
        places = np.flatnonzero(~np.isin(ids[0], SPECIAL))
        whole, drops = value_of(task, inputs, explained), []
        for place in places:
            without = ids.copy()
            without[0, place] = MASK
            drops.append(whole - value_of(task, inputs, explained, without))
        assert pieces[int(abs(added).argmax())] == texts[row].split()[3]
        agreements.append(spearmanr(added[places], drops).statistic)
    assert np.mean(agreements) > 0.8


def test_a_row_that_is_too_long(monkeypatch, tmp_path):
    monkeypatch.setattr("keras_bert.tasks.reports.integrated_gradients.TOKENS", 8)
    task = small_task("classifier")
    inputs = inputs_of(task, columns("classifier")[0], 2)
    assert integrated_gradients(task, inputs, weighted(2, [1, -1]).value) is None
    y = ["negative" if one.label == "positive" else "positive" for one in task.classify([TEXTS[2]])]
    task.write_report(tmp_path / "report", [TEXTS[2]], y)
    assert "too long to find the pieces" in (tmp_path / "report" / "index.html").read_text("utf-8")
