"""The limits of a request's work and of the server's memory."""

import asyncio
import json
import logging
import sys
import time
import tracemalloc
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.serving.batcher import Batcher, BatchThreads, Overloaded
from keras_bert.serving.predict_requests import BadRequest, ModelRequest, read_request
from keras_bert.serving.served_version import ServedVersion, find_models
from keras_bert.serving.work_limit import MAX_PIECES, MAX_VALUES, TooMuchWork, most_pieces, refusal
from tests.parity import unicode_strings
from tests.serving.exported import NAME
from tests.serving.in_process import serving

pytest.importorskip("uvicorn", reason="pip install 'keras3-bert[serving]'")


def outputs(*shapes):
    return {str(number): tf.TensorSpec(shape, "float32") for number, shape in enumerate(shapes)}


def test_pieces():
    sizes = outputs([None], [None, 3], None, [])  # other SavedModels may have outputs of any rank
    assert refusal([], sizes, 1) is None
    assert refusal([2, 3], sizes, 5) is None
    assert "at most 4 pieces" in refusal([2, 3], sizes, 4)


def test_values_of_an_answer():
    """An answer is as wide as its longest row: 256 rows can ask for gigabytes with one of 100,000 pieces."""
    tagger = outputs([None, None], [None])
    assert refusal([100_000] + [1] * 10, tagger, MAX_PIECES) is None
    assert f"at most {MAX_VALUES} values" in refusal([100_000] + [1] * 255, tagger, MAX_PIECES)
    encoder = outputs([None, 768], [None, None, 768])
    assert refusal([512] * 16, encoder, MAX_PIECES) is None
    assert refusal([512] * 256, encoder, MAX_PIECES)


def test_masked_positions_count_like_ids():
    """The answer to each is as long as the vocabulary, so a few bytes can ask for gigabytes."""
    columns = {"input_word_ids": np.zeros([1, 2], "int32"), "masked_lm_positions": np.zeros([1, 100_000], "int32")}
    request = ModelRequest("mlm", columns, by_rows=False, texts=[])
    assert most_pieces(request) == [100_000]
    assert f"at most {MAX_VALUES} values" in refusal(most_pieces(request), outputs([None, None, 30_522]), MAX_PIECES)


def test_answers_that_are_not_finite():
    """They are refused with a reason: JSON has no NaN."""
    version = object.__new__(ServedVersion)
    version.facts, version.signatures = {}, {"serving_default": SimpleNamespace(structured_outputs={})}

    async def answer(columns):
        return {"label": np.array([b"a"], object), "score": np.array([np.nan], "float32")}

    version.batchers = {"serving_default": answer}
    request = ModelRequest("serving_default", {}, by_rows=True, texts=[[b"a"]])
    with pytest.raises(BadRequest, match="The output 'score' has numbers that are not finite"):
        asyncio.run(version.run(request, MAX_PIECES))


def test_a_text_never_has_more_pieces_than_bytes():
    """A piece has a character at least, and no character becomes more characters than it has bytes."""
    for character in unicode_strings.assigned():
        for text in (character, character.lower()):
            parts = [part for part in unicodedata.normalize("NFD", text) if unicodedata.category(part) != "Mn"]
            assert max(len(text), len(parts)) <= len(character.encode()), ascii(character)


@pytest.mark.network
def test_a_request_with_too_many_pieces(kit):
    from keras_bert.serving.served_version import find_models

    models = find_models(kit)
    with serving(models, NAME, max_pieces=1000) as post:
        assert post({"instances": ["w1 " * 1000, "w1"]})[0] == 413
        assert "at most 1000 pieces" in post({"instances": ["w1 " * 600] * 2})[1]["error"]
        assert post({"instances": ["w1 " * 500] * 2})[0] == 200  # more bytes than the limit, but not more pieces
        ids = {name: [[1] * 501] * 2 for name in ("input_word_ids", "input_mask", "input_type_ids")}
        assert post({"signature_name": "logits", "inputs": ids})[0] == 413
        models[NAME][1].tokenize = None  # an export without `preprocess`: a byte counts as a piece
        assert post({"instances": ["w1 " * 500] * 2})[0] == 413


def test_signatures_that_show_few_pieces_of_a_long_text(kit):
    """Their answers are as wide as what they show, not as the text."""
    from keras_bert.serving.served_version import find_models

    models = find_models(kit)  # of seq_length 12
    with serving(models, f"{NAME}-preprocess") as post:
        status, answer = post({"signature_name": "pieces", "instances": ["w1 " * 5000] + ["w1"] * 255})
        assert status == 200
        assert len(answer["predictions"][0]["id"]) == 24
        assert answer["predictions"][0]["total"] == 5000
    with serving(models, NAME) as post:
        assert post({"signature_name": "attention", "instances": ["w1 " * 5000]})[0] == 200
        long = {"signature_name": "pieces_pair", "inputs": {"text": ["w1 " * 99], "text_pair": ["w1 " * 99]}}
    with serving(models, f"{NAME}-preprocess") as post:
        assert len(post(long)[1]["outputs"]["id"][0]) == 48


def test_features_for_every_row(kit):
    """`context` is copied to each row, so a small body can ask for gigabytes."""
    from keras_bert.serving.classify_requests import read_classify_request
    from keras_bert.serving.served_version import find_models

    signatures = find_models(kit)[NAME][1].signatures
    body = {"signature_name": "classify", "examples": [{}] * 256, "context": {"text": "w1 " * 100_000}}
    read_classify_request(json.dumps({**body, "context": {"text": "w1"}}).encode(), signatures)  # imports
    tracemalloc.start()
    try:
        with pytest.raises(TooMuchWork, match=r"at most 2097152 bytes.*Received: 76\d{6} bytes"):
            read_classify_request(json.dumps(body).encode(), signatures)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    body["context"] = {"text": "w1"}
    assert read_classify_request(json.dumps(body).encode(), signatures).texts == [[b"w1"]] * 256


def test_texts_that_wait_to_be_counted_have_a_limit(kit, monkeypatch):
    monkeypatch.setattr("keras_bert.serving.batcher.MAX_WAITING_BYTES", 1000)
    version = find_models(kit)[NAME][1]
    request = ModelRequest("serving_default", {"text": np.array([b"w1 " * 200], object)}, True, [[b"w1 " * 200]])

    async def main():
        asked = [version.run(request, 10) for _ in range(5)]
        return await asyncio.gather(*asked, return_exceptions=True)

    kinds = [type(answer) for answer in asyncio.run(main())]
    assert kinds == [TooMuchWork] * 2 + [Overloaded] * 3
    assert [type(answer) for answer in asyncio.run(main())] == kinds  # those that waited no longer count


def test_inputs_that_are_not_rows():
    """The server serves any SavedModel, but a request has rows."""
    specs = {"rate": tf.TensorSpec([], "float32"), "text": tf.TensorSpec([None], "string")}
    signatures = {"serving_default": SimpleNamespace(structured_input_signature=((), specs))}
    with pytest.raises(BadRequest, match=r"the input 'rate', which is one value for all rows"):
        read_request(b'{"inputs": {"rate": 1.0, "text": ["a"]}}', signatures)


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [("float64", 1e300, "1"), ("float32", 0.5, 1e39), ("int64", 2**40, 2**63), ("int32", 5, 2**31), ("uint8", 255, -1)],
)
def test_numbers_of_every_type(dtype, good, bad):
    signatures = {
        "serving_default": SimpleNamespace(structured_input_signature=((), {"x": tf.TensorSpec([None], dtype)}))
    }
    found = read_request(json.dumps({"instances": [good]}).encode(), signatures).columns["x"]
    assert (found.dtype, found.tolist()) == (dtype, [good])
    with pytest.raises(BadRequest, match=r"^Row 1: `x` must hold"):
        read_request(json.dumps({"instances": [good, bad]}).encode(), signatures)


@pytest.mark.network
def test_large_answers(monkeypatch):
    """A thread writes them, so that the server answers others in the meantime."""
    from keras_bert.serving import server

    dumps = json.dumps
    values = np.arange(12, dtype="float32").reshape(2, 3, 2)
    outputs = {"a": values, "b": np.array(["큰".encode(), b'"'], object), "none": np.zeros((2, 0), "int32")}
    written = []
    monkeypatch.setattr(server.json, "dumps", lambda x, *given, **how: written.append(x) or dumps(x, *given, **how))

    async def run(request, max_pieces):
        return outputs

    signatures = {
        "serving_default": SimpleNamespace(structured_input_signature=((), {"x": tf.TensorSpec([None], "int32")}))
    }
    models = {NAME: {1: SimpleNamespace(signatures=signatures, run=run)}}
    answers = []
    for many in (100, 0):
        monkeypatch.setattr(server, "_MANY_VALUES", many)
        with serving(models, NAME) as post:
            answers.append(post({"instances": [1, 2]}))
    assert answers[0] == answers[1]
    assert answers[0][1]["predictions"][0] == {"a": [[0, 1], [2, 3], [4, 5]], "b": "큰", "none": []}
    of_answers = [x for x in written if isinstance(x, list) and x]
    assert of_answers[-6:-4] == [[0.0, 1.0], [2.0, 3.0]]  # no list of lists is written at once


@pytest.mark.network
def test_a_server_that_is_short_of_memory():
    short = [True]
    models = {NAME: {1: SimpleNamespace(signatures={})}}
    with serving(models, NAME, memory=SimpleNamespace(is_exceeded=lambda: short[0])) as post:
        status, answer = post({"instances": ["a" * (3 << 20)]})
        assert (status, "--memory-limit" in answer["error"]) == (503, True)
        short[0] = False
        assert post({"instances": ["a"]})[0] == 400


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_limit(caplog):
    from keras_bert.serving.memory_limit import MemoryLimit, read_size, resident

    memory = MemoryLimit(resident() + (100 << 20))
    assert not memory.is_exceeded()
    with caplog.at_level(logging.WARNING):
        logging.getLogger("uvicorn.error").addHandler(caplog.handler)
        try:
            large = np.ones(300 << 20, np.uint8)
            assert memory.is_exceeded()
            assert memory.is_exceeded()
            del large
            assert not memory.is_exceeded()
        finally:
            logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    said = list(dict.fromkeys(record.message.partition(" (")[0] for record in caplog.records))
    assert said == [
        "The memory of the server exceeds its limit: new requests get a 503",
        "The memory of the server is below its limit again",
    ]
    with pytest.raises(ValueError, match="before its first request"):
        MemoryLimit(1 << 20)
    for text in ("", "0", "four", "1t", "-1g"):
        with pytest.raises(ValueError, match="such as 512m or 4g"):
            read_size(text)


def test_batches_of_long_rows():
    """A batch is padded to its longest row, so it has few rows if one of them is long."""
    sizes = []

    def run(columns):
        sizes.append(len(columns["text"]))
        time.sleep(0.01)
        return columns

    async def main():
        batcher = Batcher(run, BatchThreads(), max_bytes=1000)
        rows = [b"a" * 100] * 20 + [b"a" * 600] * 3 + [b"a" * 5000]
        await asyncio.gather(*(batcher({"text": np.array([row], object)}) for row in rows))

    asyncio.run(main())
    assert sizes == [10, 10, 1, 1, 1, 1]


@pytest.mark.parametrize("rows", [[b"a" * 600], [[b"a" * 150, b"a", b"", b""]]])
def test_waiting_requests_have_a_limit_in_bytes(rows, monkeypatch):
    """The limit is one for all signatures together, and counts strings after padding."""
    monkeypatch.setattr("keras_bert.serving.batcher.MAX_WAITING_BYTES", 1000)

    async def main():
        threads = BatchThreads()
        batchers = [Batcher(lambda columns: columns, threads) for _ in range(2)]
        for _ in range(2):  # those that waited no longer count
            asked = [batcher({"text": np.array(rows, object)}) for batcher in 2 * batchers]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert [isinstance(answer, Overloaded) for answer in answers] == [False, False, True, True]

    asyncio.run(main())
