"""Every input that ever failed is checked again. A text may be written as parts: [part, times] is a part repeated."""

import json
from pathlib import Path

import pytest

from tests.hostile.inputs import large
from tests.hostile.test_memory import LIMIT, SIZES, peak
from tests.hostile.test_readers import check_reader
from tests.hostile.test_requests import check_request
from tests.hostile.test_text import SWITCHES, check_tokenizer, tokenizer
from tests.subprocesses import fork

CASES = [json.loads(line) for line in Path(__file__).with_name("corpus.jsonl").read_text(encoding="utf-8").splitlines()]


def cases(check):
    found = [case for case in CASES if case["check"] == check]
    return pytest.mark.parametrize("case", found, ids=lambda case: case["why"])


def written(content):
    parts = [content] if isinstance(content, str) else content
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts).encode()


@cases("texts")
def test_texts(case):
    for switches in SWITCHES:
        check_tokenizer(case["texts"], switches)


@cases("reader")
def test_readers(case):
    check_reader(case["name"], written(case["content"]))


@pytest.mark.long
@cases("request")
def test_requests(server, case):
    check_request(server, case["path"], written(case["body"]))


def _memory():
    ours = tokenizer(True, True, True)
    ours.tokenize_with_offsets(["a b", "\u302e\u0301"])  # so that graphs are built before
    return {
        (case["why"], size): peak(ours.tokenize_with_offsets, large(case["batch"], size, case["rows"]), size)
        for case in CASES
        if case["check"] == "memory"
        for size in SIZES
    }


@pytest.mark.long
def test_memory():
    found = fork(_memory)
    assert max(found.values()) <= LIMIT, found
