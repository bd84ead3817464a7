"""Memory is linear in the bytes of a batch, however they are spread over texts and words, in Python and in exports."""

import ctypes
import sys

import keras
import pytest

from tests.soak import IN_SOAK
from tests.subprocesses import fork

if not sys.platform.startswith("linux"):
    pytest.skip("the peak is read from /proc", allow_module_level=True)

SIZES = (64_000, 256_000, 1_000_000)  # bytes of a batch
LIMIT = 200  # bytes of memory for each


def worst(size):
    """Batches of about `size` bytes: with one text or word far longer than the others, or with very many words."""
    return {
        "one long word among many, and marks that move": ["\u302e\u0301 " + "b" * (size // 2) + " a" * (size // 4)],
        "one long text among many": ["a"] * 255 + ["a " * (size // 2)],
        "short texts and one long word": ["a"] * (size // 2) + ["b" * (size // 2)],
        "only marks": ["a" + "\u302e\u0301" * (size // 5)],  # NFD by itself takes 40 s for 1 MB of them
        "punctuation": ["!" * size],
        "punctuation, and marks that move": ["\u302e\u0301 " + "!" * size],
        "Hangul, and marks that move": ["\u302e\u0301 " + "각" * (size // 3)],
        "bytes that are not UTF-8": [b"\xff" * (size // 2) + b" a" * (size // 4)],
    }


def status(name):
    """A figure of this process in bytes."""
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def too_much(call, skip=()):
    """The batches that `call` needs more memory for than `LIMIT`, with the bytes of memory for each byte."""
    for texts in worst(16_000).values():  # a process allocates some things once
        call(texts)
    found = {}
    for size in SIZES:
        for name, texts in worst(size).items():
            ctypes.CDLL(None).malloc_trim(0)
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # resets the peak
            before = status("VmRSS")
            if name not in skip:
                call(texts)
            found[name, size] = (status("VmHWM") - before) // size
    return {case: memory for case, memory in found.items() if memory > LIMIT}


def of_tokenizer():
    from keras_bert.text.tokenizer import Tokenizer
    from keras_bert.text.vocabulary import Vocabulary

    tokenizer = Tokenizer(Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "##b", "!", "中"]))
    return [
        too_much(call)
        for call in (
            tokenizer.tokenize,
            tokenizer.tokenize_with_offsets,
            lambda texts: tokenizer.detokenize(tokenizer.tokenize(texts)),
        )
    ]


def of_exports(folder):
    import tensorflow as tf

    import keras_bert
    from tests.weights import small

    vocabulary = small.VOCABULARY
    preprocessor = keras_bert.Preprocessor(vocabulary, seq_length=12)
    bert = keras_bert.Bert(small.dataclasses.replace(small.CONFIG, num_hidden_layers=1), preprocessor)
    keras_bert.export(bert, folder)
    preprocess, text = (tf.saved_model.load(f"{folder}/{name}/1") for name in ("preprocess", "text"))
    calls = preprocess, preprocess.tokenize_with_offsets, text.signatures["serving_default"]
    many_rows = "short texts and one long word"  # whose packed rows are far larger than their texts
    return [too_much(lambda texts, call=call: call(tf.constant(texts)), [many_rows]) for call in calls]


@pytest.mark.long
def test_the_memory_of_a_tokenizer_is_linear():
    assert fork(of_tokenizer) == [{}, {}, {}]


@IN_SOAK
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="SavedModels are TensorFlow's")
def test_the_memory_of_an_export_is_linear(tmp_path):
    assert fork(of_exports, tmp_path) == [{}, {}, {}]
