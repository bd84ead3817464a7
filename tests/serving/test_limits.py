"""The limits of a request's work and of the server's memory."""

import asyncio
import logging
import sys
import time
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.serving.batcher import Batcher, Overloaded
from keras_bert.serving.work_limit import MAX_PIECES, MAX_VALUES, refusal
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
        batcher = Batcher(run, max_bytes=1000)
        rows = [b"a" * 100] * 20 + [b"a" * 600] * 3 + [b"a" * 5000]
        await asyncio.gather(*(batcher({"text": np.array([row], object)}) for row in rows))

    asyncio.run(main())
    assert sizes == [10, 10, 1, 1, 1, 1]


def test_waiting_requests_have_a_limit_in_bytes():
    async def main():
        batcher = Batcher(lambda columns: columns, max_waiting_bytes=1000)
        asked = [batcher({"text": np.array([b"a" * 600], object)}) for _ in range(4)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(main())
    assert [isinstance(answer, Overloaded) for answer in answers] == [False, False, True, True]
