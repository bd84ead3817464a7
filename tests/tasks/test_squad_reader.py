"""The reader of questions, on the shared data and on small files, and what it says of a bad one."""

import json
import unicodedata

import pytest

from keras_bert.tasks.readers import read_squad


def _squad(*entries, context="Seoul is in Korea."):
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": list(entries)}]}]}, ensure_ascii=False)


def _entry(text="Seoul", start=0, question="Where?", **rest):
    return {"id": "q7", "question": question, "answers": [{"text": text, "answer_start": start}], **rest}


def test_squad(write):
    path = write("a.json", _squad(_entry(), _entry("Korea", 12, is_impossible=False), _entry(is_impossible=True)))
    examples = read_squad(path)
    assert examples.x == (["Where?"] * 3, ["Seoul is in Korea."] * 3)
    assert [tuple(zip(*answers.values(), strict=True)) for answers in examples.y] == [
        (("Seoul", 0),),
        (("Korea", 12),),
        (),
    ]
    assert examples.place(0) == f"{path}:q7"


def test_squad_answers_that_are_not_there(write, caplog):
    read_squad(write("a.json", _squad(_entry(), _entry("Korea", 11), _entry("Busan", 3))))
    assert "2 answers are not at the place in the context that" in caplog.text
    assert "The first is 'Korea' for the question q7" in caplog.text


@pytest.mark.parametrize("encoding", ["cp949", "utf-16"])
def test_squad_in_another_encoding(tmp_path, encoding):
    """The error was about the form of the JSON, which is right."""
    path = tmp_path / "a.json"
    path.write_bytes(_squad(_entry("서울"), context="서울은 수도다.").encode(encoding))
    with pytest.raises(ValueError, match=r"a\.json is not in UTF-8, as JSON must be. Save it as UTF-8. Received: b'"):
        read_squad(path)


def test_answers_and_contexts_in_different_forms(write, caplog):
    """The error and the log showed an answer that is, to the eye, in its context."""
    decomposed = unicodedata.normalize("NFD", "서울")
    with pytest.raises(ValueError, match=r"None of the answers.*look the same, but one has Unicode's form NFC.*NFD"):
        read_squad(write("a.json", _squad(_entry(decomposed), context="서울은 수도다.")))
    read_squad(write("b.json", _squad(_entry("서울"), _entry(decomposed), context="서울은 수도다.")))
    assert "1 answer is not at the place" in caplog.text
    assert 'unicodedata.normalize("NFC", text)' in caplog.text
    caplog.clear()
    read_squad(write("c.json", _squad(_entry("서울"), _entry("수도"), context="서울은 수도다.")))
    assert "NFC" not in caplog.text


def test_squad_questions_alone(write):
    examples = read_squad(write("a.json", _squad({"id": "q7", "question": "Where?"})), answers=False)
    assert (examples.x, examples.y) == ((["Where?"], ["Seoul is in Korea."]), [])


BAD_SQUAD = {
    "no answers": (
        _squad({"id": "q7", "question": "W"}),
        r"a.json:q7: the answers are not a list .*write an empty list. Received: None",
    ),
    "none of the answers": (
        _squad(_entry("Busan")),
        r"None of the answers in .*a.json is in its context.*'Busan' as the answer to the first question, .*id is q7",
    ),
    "a start that is true": (
        _squad(_entry(start=True)),
        r"a.json:q7: an answer has no valid answer_start.*Received: answer_start=True",
    ),
    "no JSON": ("{", "SQuAD's JSON.*JSONDecodeError"),
    "deep JSON": ("[" * 100_000, "SQuAD's JSON.*RecursionError"),
    "another JSON": ('{"rows": []}', "SQuAD's JSON.*KeyError: 'data'"),
    "no questions": (_squad(), "a.json has no questions"),
    "an empty question": (
        _squad(_entry(question=" ")),
        r"a.json:q7: the question is empty or not a string.*Received: question=' '",
    ),
    "a question that is a number": (_squad("x"), "SQuAD's JSON.*a question is not a JSON object"),
    "a context that is a number": (_squad(_entry(), context=5), "SQuAD's JSON.*a context is not a string"),
    "answers that are none": (
        _squad(_entry() | {"answers": None}),
        r"a.json:q7: the answers are not a list.*Received: None",
    ),
    "no start": (
        _squad({"id": "q7", "question": "W", "answers": [{"text": "x"}]}),
        r"a.json:q7: an answer has no valid answer_start.*Received: answer_start=None",
    ),
}


@pytest.mark.parametrize("case", BAD_SQUAD)
def test_bad_squad(write, case):
    text, message = BAD_SQUAD[case]
    with pytest.raises(ValueError, match=message):
        read_squad(write("a.json", text))


def test_shared_squad(shared, caplog):
    examples = read_squad(shared / "en/xquad.en.json")
    assert len(examples) == 1190
    assert examples.y[0] == {"text": ["308"], "answer_start": [34]}
    assert not caplog.text
