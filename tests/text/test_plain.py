"""The engine in Python and numpy against the one in TensorFlow: the same ids, offsets, rows, windows and answers."""

import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import Preprocessor, Vocabulary
from keras_bert.tasks.decoding import decode_answers, decode_entities
from keras_bert.text import philox, tensors
from keras_bert.text.chunk_table import ChunkTable
from keras_bert.text.packing import TRUNCATIONS
from keras_bert.text.plain_tokenizer import PlainTokenizer
from keras_bert.text.tokenizer import Tokenizer
from tests.parity import unicode_strings
from tests.soak import IN_SOAK
from tests.subprocesses import python
from tests.tasks.small import KINDS
from tests.text.answers import save_all
from tests.text.test_tokenizer import nested

PIECES = [
    *"abcdeu!?가각中Σσς",
    *(f"##{one}" for one in "abcdeuσς가\u1161\u302e"),
    "the",
    "##ing",
    "\u1100",
    "[",
    "mask",
    "]",
]
VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES])
SWITCHES = [(True,), (False,), (True, False), (False, True), (True, None, False)]
CACHES = (tensors.has_text,)
TEXTS = ["the cat!", "", "a b c d e a b c d e [MASK]", "Jose\u0301 각각, 中中?", "ab " * 30]
ALL_KINDS = *KINDS, "windows"
OTHERS = ["a", "b c d", "the eu " * 4, "", "Σ ΑΣ aΣ."]


@pytest.fixture
def without(monkeypatch):
    """Switches to numpy, and back before the test compares."""

    def switch(available):
        monkeypatch.setattr(tensors, "has_tensorflow", lambda *names: available)
        for function in CACHES:
            function.cache_clear()

    yield lambda: switch(False), lambda: switch(True)
    monkeypatch.undo()
    for function in CACHES:
        function.cache_clear()


def both(without, function):
    """What a function returns with the graph, and what it returns without."""
    graph = plain(function())
    without[0]()
    try:
        return graph, plain(function())
    finally:
        without[1]()


def plain(value):
    """Tensors, ragged tensors and arrays as lists."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if hasattr(value, "to_list"):
        return nested(value)
    return value if isinstance(value, list | str | bytes) else np.asarray(value).tolist()


# === The tokenizer ===


def differences(texts, *switches, **options):
    graph, python = Tokenizer(VOCABULARY, *switches, **options), PlainTokenizer(VOCABULARY, *switches, **options)
    expected, found = graph.tokenize_with_offsets(texts), python.tokenize_with_offsets(texts)
    same = nested(python.tokenize(texts)) == nested(found[0])
    parts = [list(zip(*map(plain, one), strict=True)) for one in (expected, found)]
    return [] if same and parts[0] == parts[1] else [t for t, a, b in zip(texts, *parts, strict=True) if a != b]


@pytest.mark.parametrize("switches", SWITCHES)
def test_hard_strings(switches):
    """`benchmarks/plain_text.py` compares 100,000 of them, every code point and twelve books."""
    texts = unicode_strings.hard(600, VOCABULARY.tokens, seed=len(switches)) + unicode_strings.all_blocks(16)[::40]
    assert differences([*texts, *unicode_strings.long_words()], *switches) == []


def test_characters_that_python_does_not_know():
    young = ["\u0ece", "\U00010efd", "\U00011f41", "\U00011f42", "\U00013439", "\U00011b00", "\U0001e030", "\U0001df25"]
    draw = random.Random(0)
    texts = ["".join(draw.choices([*young, "\u302e", "\u0301", "a", "Σ", "B", "."], k=8)) for _ in range(300)]
    assert differences(texts, True) == []
    assert differences(texts, True, False) == []


def test_special_tokens_and_odd_bytes():
    texts = ["a[MASK]b [mask] \x05ab [MA\x00SK]", "[UNK]?", "[PAD][SEP]é", "\x1c\x1da", "\x85b\u2028c"]
    assert differences(texts, True, special_tokens_in_text=True) == []
    assert differences([b"a\xff b\xc3", b"\xe2\x82a", b"\xed\xa0\x80b", *texts], True) == []


def test_one_chunk_of_a_megabyte_takes_seconds():
    """Python's NFD takes a minute for a run of 50,000 marks, because it sorts by insertion."""
    tokenizer = PlainTokenizer(VOCABULARY)
    texts = ["a" + "\u302e\u0301" * 100_000, "!" * 300_000, "ΑΣ'" * 100_000]
    assert [len(row) for row in tokenizer.tokenize_with_offsets(texts)[0]][:2] == [1, 300_000]


def test_a_full_table_starts_again(monkeypatch):
    monkeypatch.setattr("keras_bert.text.chunk_table.MOST_CHUNKS", 3)
    tokenizer = PlainTokenizer(VOCABULARY)
    assert [plain(tokenizer.tokenize(TEXTS)) for _ in range(3)] == [plain(Tokenizer(VOCABULARY).tokenize(TEXTS))] * 3


# === The preprocessor ===


@pytest.mark.parametrize("truncation", TRUNCATIONS)
@pytest.mark.parametrize("seq_length", [18, 40, "longest"])
def test_rows(without, truncation, seq_length):
    def rows():
        layer = Preprocessor(VOCABULARY, seq_length=seq_length, truncation=truncation, max_length=30)
        columns = TEXTS, "a b", ("a", "b"), [], [b"a\xff"]
        columns += (TEXTS, OTHERS), (TEXTS, OTHERS, TEXTS)
        found = []
        for x in columns:
            try:
                found.append([plain(layer(x)), plain(layer.is_cut(x)), plain(layer.is_cut(x, seq_length=9))])
            except ValueError as error:
                found.append([str(error)])
        return found

    graph, numpy = both(without, rows)
    assert graph == numpy


def test_pieces_and_windows(without):
    def found():
        layer = Preprocessor(VOCABULARY)
        packed = layer.pack([[[5, 6], [7]], [[8], []]], seq_length=9)
        windows = layer.windows(OTHERS, TEXTS, seq_length=16, stride=3, max_question_length=5)
        ids = layer.tokenize(TEXTS)
        return [
            layer.tokens(TEXTS),
            layer.tokens("a b"),
            plain(layer.tokenize_with_offsets("Jose\u0301")),
            plain(packed),
            plain(layer.pack([ids, ids])),
            plain(windows),
            plain(layer.detokenize(ids)),
            plain(layer.detokenize([2, 5, 6])),
            plain(layer.detokenize(packed["input_word_ids"])),
        ]

    graph, numpy = both(without, found)
    assert graph == numpy


def test_the_same_errors(without):
    def messages():
        layer, found = Preprocessor(VOCABULARY), []
        for texts in (None, [3], ["\ud800"], ((), ["a"]), {"a"}, np.array([["a"]])):
            with pytest.raises((TypeError, ValueError)) as error:
                layer(texts)
            found.append(str(error.value))
        for segments in ([], [[12, 13]], ["a b"], [np.array([12])], [[[12]], [[12], [13]]]):
            with pytest.raises(ValueError, match=r"egment|columns"):
                layer.pack(segments)
        with pytest.raises(ValueError, match=r"must be from 0 to .*Received: -1$"):
            layer.detokenize([-1])
        return found

    graph, numpy = both(without, messages)
    assert graph == numpy


# === Decoding and the order of examples ===


def test_answers(without):
    def answers():
        rng = np.random.default_rng(0)
        layer = Preprocessor(VOCABULARY)
        windows = layer.windows(OTHERS, TEXTS, seq_length=16, stride=3, max_question_length=5)
        places = {name: np.asarray(windows[name]) for name in ("example", "start", "end", "best")}
        logits = rng.normal(size=(len(places["example"]), 2, 16)).round(1).astype("float32")  # some are equal
        texts = tensors.tensors().constant([text.encode() for text in TEXTS], tensors.tensors().string)
        found = []
        for threshold in (float("nan"), 0.0, 9.0):
            options = {"null_threshold": tf.constant(threshold, tf.float64), "top_k": tf.constant(7)}
            options |= {"max_answer_length": tf.constant(5)}
            if not tensors.uses_tensorflow():
                options = {name: value.numpy() for name, value in options.items()}
            found.append(plain(decode_answers.answer_decoder()(places, logits, texts, **options)))
        return found

    for graph, numpy in zip(*both(without, answers), strict=True):
        np.testing.assert_allclose(graph.pop("score"), numpy.pop("score"), rtol=1e-9)
        assert graph == numpy


def test_entities(without):
    labels = ("O", "B-PER", "I-PER", "E-PER", "B-LOC")

    def entities():
        rng = np.random.default_rng(0)
        ids, start, end = PlainTokenizer(VOCABULARY).tokenize_with_offsets(TEXTS)
        row = np.repeat(np.arange(len(TEXTS), dtype="int32"), ids.merge_dims(1, 2).row_lengths())
        logits = rng.normal(size=(len(row), len(labels))).astype("float32")
        is_unit = rng.random(len(row)) < 0.7
        is_unit[np.flatnonzero(np.diff(row, prepend=-1))] = True
        texts = tensors.tensors().constant([text.encode() for text in TEXTS], tensors.tensors().string)
        scheme = decode_entities.scheme_of(labels)
        starts, ends = start.flat_values, end.flat_values
        return decode_entities.entity_decoder()(scheme, logits, row, starts, ends, is_unit, row, texts)

    graph, numpy = both(without, entities)
    np.testing.assert_allclose(graph.pop("score"), numpy.pop("score"), rtol=1e-5)
    assert graph == numpy
    assert len(graph["row"]) > 20


@pytest.mark.parametrize("seed", [[0, 1], [-5, 123_456], [2**31 - 1, -(2**31)]])
def test_random_numbers(seed):
    bits = tf.random.stateless_uniform([2, 2], seed, None, None, tf.int32)
    assert philox.random_bits(seed, 4).view("int32").reshape(2, 2).tolist() == bits.numpy().tolist()
    expected = tf.random.stateless_uniform([1001], seed).numpy()
    from keras_bert.text import numpy_tensors

    assert np.array_equal(numpy_tensors.random.stateless_uniform([1001], seed), expected)


def test_learning_a_vocabulary(without):
    texts = ["Jose\u0301 went, 서울에서 the the theme! ", "ΑΣ the went \x00 "] * 20 + [" " * 140_000]
    graph, numpy = both(without, lambda: list(Vocabulary.learn(texts, size=70, alphabet=40).tokens))
    assert graph == numpy


def test_an_interrupt_leaves_no_half_chunks(monkeypatch):
    """An interrupt comes at any time; here, after the ids of the new chunks were kept, and before their spans."""
    tokenizer = PlainTokenizer(VOCABULARY)
    tokenizer.tokenize_with_offsets(["a b"])

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ChunkTable, "_spans_of", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tokenizer.tokenize_with_offsets(["the b"])
    found, expected = (one.tokenize_with_offsets(["a the b e"]) for one in (tokenizer, PlainTokenizer(VOCABULARY)))
    assert [part.to_list() for part in found] == [part.to_list() for part in expected]


# === A process without TensorFlow ===

CODE = """
    import sys
    sys.modules["tensorflow"] = sys.modules["tensorflow_text"] = None
    import keras_bert
    vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
    bert = keras_bert.Bert(keras_bert.BertConfig.from_size("tiny", vocab_size=6), keras_bert.Preprocessor(vocabulary))
    print(bert.embed(["a b", "b"]).shape)
    for refused in (lambda: keras_bert.export(bert, "x"), lambda: keras_bert.strategy("one")):
        try:
            refused()
        except ImportError as error:
            print(error)
"""


@pytest.mark.long
def test_what_needs_tensorflow_says_so():
    shape, *errors = python(CODE, KERAS_BACKEND="torch").splitlines()
    assert shape == "(2, 128)"
    assert "pip install tensorflow tensorflow-text" in errors[0]
    assert "`keras_bert.strategy` needs TensorFlow" in errors[1]


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="once is enough")
@pytest.mark.parametrize(
    ("backend", "missing", "kinds"),
    [
        ("torch", "tensorflow,tensorflow_text", ("tagger", "answerer")),
        pytest.param("torch", "tensorflow,tensorflow_text", ALL_KINDS, marks=IN_SOAK),
        pytest.param("jax", "tensorflow,tensorflow_text", ALL_KINDS, marks=IN_SOAK),
        pytest.param("tensorflow", "tensorflow_text", ALL_KINDS, marks=IN_SOAK),
    ],
)
def test_every_task_answers_the_same(backend, missing, kinds, tmp_path):
    """Vectors, answers, scores and training of all tasks, in processes with and without these packages."""
    save_all(tmp_path, *kinds)
    run = (
        "import runpy, sys; sys.argv = ['', *sys.argv[1:]]; runpy.run_module('tests.text.answers', run_name='__main__')"
    )
    found = [json.loads(python(run, how, str(tmp_path), *kinds, KERAS_BACKEND=backend)) for how in ("none", missing)]
    numbers = [[one for one in flat(part) if isinstance(one, float)] for part in found]
    np.testing.assert_allclose(*numbers, atol=1e-5, rtol=1e-5)
    assert [one for one in flat(found[0]) if not isinstance(one, float)] == [
        one for one in flat(found[1]) if not isinstance(one, float)
    ]


def flat(value):
    """All names and values in nested dicts and lists, in order."""
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield name
            yield from flat(one)
    else:
        yield value
