"""Memory is linear in the bytes of the worst texts that can be found, at 64 kB, 256 kB and 1 MB."""

import ctypes
import random
import sys

import pytest

from tests.hostile.inputs import SPECIAL, large
from tests.hostile.profile import FACTOR
from tests.soak import IN_SOAK
from tests.subprocesses import fork

if not sys.platform.startswith("linux"):
    pytest.skip("the peak is read from /proc", allow_module_level=True)

SIZES = (64_000, 256_000, 1_000_000)  # bytes
LIMIT = 200  # bytes of memory for each


def status(name):
    """A figure of this process in bytes."""
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def peak(call, texts, size):
    """The bytes of memory that a call needs for each byte of its inputs, its answer included."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak
    before = status("VmRSS")
    answer = call(texts)
    found = status("VmHWM")
    del answer
    return (found - before) / (size * getattr(call, "copies", 1))


def asked(function):
    """A signature as a function of the texts that each of its inputs gets.

    A choice gets them as both endings. A tagger's export refuses texts whose answer would be too large.
    """
    import tensorflow as tf

    ranks = {name: spec.shape.rank for name, spec in function.structured_input_signature[1].items()}

    def ask(texts):
        column = tf.constant(texts)
        endings = tf.stack([column, column], 1)
        try:
            return function(**{name: column if rank == 1 else endings for name, rank in ranks.items()})
        except tf.errors.InvalidArgumentError as error:
            if "Send long texts in requests of their own." not in error.message:
                raise
            return None

    ask.copies = sum(ranks.values())
    return ask


def drawn(draw):
    """A random batch as a pattern, with the number of its short rows."""

    def unit():
        return "".join(
            draw.choice((draw.choice("ab!中각#  "), draw.choice(SPECIAL))) for _ in range(draw.randint(1, 3))
        )

    batch = [[(unit(), draw.randint(1, 4)) for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(1, 3))]
    return batch, draw.choice((1, 1, 16, 250))  # with a pattern of up to 4 texts, below the 256 rows that serve takes


def varied(pattern, draw):
    """A pattern that differs from a good one in a place: a simple climb finds worse and worse texts."""
    batch, rows = pattern
    other, more = drawn(draw)
    number = draw.randrange(len(batch))
    return [*batch[:number], draw.choice((other[0], batch[number] + other[0][:1])), *batch[number + 1 :]][
        :4
    ], draw.choice((rows, more))


def search(call, rounds, seed):
    """The pattern that needs the most memory at the smallest size, among random ones and variations of the worst."""
    draw = random.Random(seed)
    size = SIZES[0]
    worst, most = None, 0.0
    for number in range(rounds):
        pattern = drawn(draw) if worst is None or number % 2 else varied(worst, draw)
        found = peak(call, large(*pattern[:1], size, pattern[1]), size)
        if found > most:
            worst, most = pattern, found
    return worst


def of_worst(calls, rounds, seed):
    """For each function: the worst pattern found, and its bytes of memory for each byte at three sizes."""
    found = {}
    for name, call in calls.items():
        call(["a b", "\u302e\u0301"])  # so that graphs are built before
        batch, rows = search(call, rounds, seed)
        found[name] = (batch, rows), [peak(call, large(batch, size, rows), size) for size in SIZES]
    return found


def of_tokenizer(rounds, seed):
    from tests.hostile.test_text import tokenizer

    ours = tokenizer(True, True, True)
    return of_worst({call.__name__: call for call in (ours.tokenize, ours.tokenize_with_offsets)}, rounds, seed)


def of_exports(folder, rounds, seed):
    """The same of each signature that takes text, and of a request to `serve`."""
    import tensorflow as tf

    import keras_bert
    from keras_bert.serving.served_version import find_models
    from tests.hostile.test_text import VOCABULARY
    from tests.serving.in_process import serving
    from tests.weights import small

    config = small.dataclasses.replace(
        small.CONFIG, vocab_size=len(VOCABULARY), num_hidden_layers=1, max_position_embeddings=384
    )
    bert = keras_bert.Bert(config, keras_bert.Preprocessor(VOCABULARY, seq_length=384))
    models = {
        "encoder": bert,
        "classifier": keras_bert.TextClassifier(bert, labels=("bad", "good")),
        "tagger": keras_bert.TokenTagger(bert, labels=("O", "B-A", "I-A")),
        "answerer": keras_bert.QuestionAnswerer(bert),
        "choice": keras_bert.MultipleChoice(bert, choices=2),
        "pretrainer": keras_bert.Pretrainer(bert),
    }
    calls = {}
    for name, model in models.items():
        keras_bert.export(model, folder / name)
        preprocess, text = (tf.saved_model.load(f"{folder / name}/{part}/1") for part in ("preprocess", "text"))
        if name == "encoder":  # the same for all models
            calls["preprocess"], calls["tokenize_with_offsets"] = preprocess, preprocess.tokenize_with_offsets
            calls |= {one: asked(preprocess.signatures[one]) for one in ("pieces", "pieces_pair")}
        for signature, function in text.signatures.items():
            specs = function.structured_input_signature[1]  # tf.train.Examples are `inputs`
            if "inputs" not in specs and all(spec.dtype == tf.string for spec in specs.values()):
                calls[f"{name}: {signature}"] = asked(function)
    found = of_worst(calls, rounds, seed)
    # The limit on pieces would refuse the larger requests.
    with serving(find_models(folder / "classifier"), "classifier", max_pieces=10**7) as post:

        def answer(texts):
            status, found = post({"instances": texts})
            assert status == 200, found
            return found

        found |= of_worst({"serve": answer}, rounds, seed)
    return found


def check(found):
    for name, (pattern, memory) in found.items():
        assert max(memory) <= LIMIT, f"{name} of {pattern}: {memory} bytes a byte at {SIZES}"


def seed():
    return random.randrange(2**32) if FACTOR else 0


@pytest.mark.long
def test_the_worst_texts_of_a_tokenizer_need_linear_memory():
    check(fork(of_tokenizer, 60 * max(1, FACTOR), seed()))


@IN_SOAK
@pytest.mark.long
@pytest.mark.network
def test_the_worst_texts_of_an_export_need_linear_memory(tmp_path):
    pytest.importorskip("uvicorn", reason="pip install 'keras3-bert[serving]'")
    check(fork(of_exports, tmp_path, 3 * max(1, FACTOR), seed()))
