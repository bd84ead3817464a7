"""TokenTagger: where its labels stand, and what it tells, with logits that a test may choose."""

import re

import numpy as np
import pytest

from keras_bert import Bert, BertConfig, Preprocessor, Vocabulary
from keras_bert.tasks.decoding.entities import Entity
from keras_bert.tasks.decoding.units import units_of
from keras_bert.tasks.readers import read_klue_ner
from keras_bert.tasks.token_tagger import TokenTagger
from tests.tasks.small import VOCABULARY, small_bert, small_task

pytestmark = pytest.mark.usefixtures("eager")
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def targets(task, x, y):
    """The label of each piece of each row, None where it weighs nothing."""
    _, ids, weight = next(iter(task.examples(x, y).batches(8)))
    return [
        [task.labels[i] if w else None for i, w in zip(row, weights, strict=True)]
        for row, weights in zip(ids.numpy(), weight.numpy(), strict=True)
    ]


def told(task, names):
    """The task, whose logits are now those of these labels for the pieces of each row."""

    def logits(examples, batch_size=32):
        rows = []
        for row in names:
            found = np.zeros((len(row) + 2, len(task.labels)), "float32")
            found[range(1, len(row) + 1), [task.labels.index(name) for name in row]] = 9
            rows.append(found)
        return rows

    object.__setattr__(task, "logits", logits)
    return task


def test_the_first_piece_of_a_word_carries_the_label():
    task = small_task("tagger")
    row = targets(task, [["Anna", "lives"]], [["B-PER", "O"]])[0]
    assert row[:5] == [None, "B-PER", None, "O", None]  # [CLS] an ##na lives [SEP]
    row = targets(task, ["Anna lives in Rome."], [[(0, 4, "PER"), (14, 18, "LOC")]])[0]
    assert row[:7] == [None, "B-PER", None, "O", "O", "B-LOC", "O"]


def test_pieces_as_units():
    task = small_task("pieces")
    row = targets(task, ["Anna 서울에서"], [[(0, 4, "PER"), (5, 7, "LOC")]])[0]
    assert row[:6] == [None, "B-PER", "I-PER", "B-LOC", "O", None]
    row = targets(task, [["Anna", "lives"]], [["B-PER", "O"]])[0]
    assert row[:5] == [None, "B-PER", "I-PER", "O", None]
    task = told(small_task("pieces"), [["B-PER", "I-PER", "B-LOC", "O"]])
    assert task.tag_words([["Anna", "서울에서"]]) == [["B-PER", "B-LOC"]]
    assert [(e.text, e.start, e.end) for e in task.tag("Anna 서울에서")] == [("Anna", 0, 4), ("서울", 5, 7)]


def test_pieces_of_a_type_that_only_has_b():
    """In the data it has only single words, but these have several pieces."""
    task = TokenTagger(small_bert(), ("O", "B-LOC", "B-PER", "I-PER"), unit="piece")
    assert targets(task, [["rome"]], [["B-LOC"]])[0][:3] == [None, "B-LOC", None]
    with pytest.raises(ValueError, match=r"needs the label 'I-LOC', .* Build the task with .*Received: labels=\('O', "):
        targets(task, [["anna"]], [["B-LOC"]])


def test_a_unit_of_two_entities_is_the_first_one_s(caplog):
    texts = ["Anna lives", "Anna lives"]
    entities = [[(2, 10, "LOC"), (0, 2, "PER")], [(0, 1, "PER"), (1, 2, "LOC")]]
    found = [row[1:4] for row in targets(small_task("tagger"), texts, entities)]  # an ##na lives
    assert found == [["B-PER", None, "B-LOC"], ["B-PER", None, "O"]]
    assert "2 of 4 entities begin in a word that has the label of the preceding entity" in caplog.text
    assert "Rows: 0, 1" in caplog.text
    caplog.clear()
    found = [row[1:4] for row in targets(small_task("pieces"), texts, entities)]
    assert found == [["B-PER", "B-LOC", "I-LOC"], ["B-PER", "O", "O"]]
    assert "1 of 4 entities begin in a piece" in caplog.text


def test_entities_that_end_inside_a_unit_are_counted(caplog):
    """As before a Korean particle: without the warning, the scores are low and the answers too long, without a word."""
    texts = ["Anna 서울에서", "Anna lives"]
    entities = [[(0, 4, "PER"), (5, 7, "LOC")], [(1, 4, "PER")]]
    targets(small_task("tagger"), texts, entities)
    assert "2 of 3 entities begin or end inside a word, such as '서울' in '서울에서'." in caplog.text
    assert "The task learns and returns whole words. With unit='piece' it returns" in caplog.text
    caplog.clear()
    targets(small_task("pieces"), texts, entities)  # an ##na, and 서울 ##에서
    assert "1 of 3 entities begin or end inside a piece, such as 'nna' in 'Anna'." in caplog.text
    assert "unit='piece'" not in caplog.text
    caplog.clear()
    targets(small_task("pieces"), texts, [entities[0], []])
    assert not caplog.text


def test_all_of_klue_ner_is_learnt(shared, caplog):
    examples = read_klue_ner(shared / "ko/klue-ner.dev.tsv")
    vocabulary = Vocabulary.from_file(shared / "vocab/kcbert-30000.txt")
    config = BertConfig.from_size("tiny", vocab_size=len(vocabulary))
    bert = Bert(config, Preprocessor(vocabulary, lowercase=False, seq_length=512))
    kinds = sorted({kind for entities in examples.y for _, _, kind in entities})
    labels = ("O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"))
    learned = TokenTagger(bert, labels, unit="piece").examples(examples.x, examples.y)
    begins = sum(labels[number][0] == "B" for number in learned.targets.flat_values.numpy())
    entities = sum(map(len, examples.y))
    shared_pieces = int(re.search(rf"(\d+) of {entities} entities begin in a piece", caplog.text)[1])
    assert entities - shared_pieces <= begins <= entities
    assert shared_pieces < 0.005 * entities


def test_entities_are_parts_of_the_text_as_given():
    task = told(small_task("tagger"), [["B-PER", "O", "O", "O", "B-LOC", "O"]])
    text = "  Ánna  lives in Rome ."  # "Ánna" is [UNK], one piece
    task = told(task, [["B-PER", "O", "O", "B-LOC", "O"]])
    found = task.tag(text)
    assert [(e.type, e.text) for e in found] == [("PER", "Ánna"), ("LOC", "Rome")]
    assert all(text[e.start : e.end] == e.text for e in found)
    words = [["Ánna", "lives", "in", "Rome", "."]]
    joined = " ".join(words[0])
    for entity in task.tag(words)[0]:
        assert joined[entity.start : entity.end] == entity.text


def test_words_stay_words():
    """What the tokenizer parts, joins or drops is still one word each."""
    task = told(TokenTagger(small_bert(), labels=("X", "Y")), [["X", "Y", "Y", "Y", "Y", "X", "X"]])
    words = ["good", "in.was", "\x01", "good"]  # in . was are one word; a control character leaves nothing
    units = units_of(task.bert.preprocessor, [words], "word")
    assert units.firsts(0).tolist() == [0, 1, 4, 5]
    assert task.tag_words([words]) == [["X", "Y", "Y", "X"]]
    found = task.tag([words])[0]
    assert [(e.type, e.text) for e in found] == list(zip("XYYX", words, strict=True))
    assert found[0] == Entity("X", "good", 0, 4, pytest.approx(1.0, abs=1e-3))


def test_marks_are_of_what_they_follow():
    """Accents that are stripped and variation selectors leave no piece, but are told."""
    bert = Bert(small_bert().config, Preprocessor(VOCABULARY, seq_length=16))
    words = ["Rome\u0301", "❤\ufe0f", "\u200bRome\u200b"]
    task = told(small_task("tagger", bert), [["B-LOC", "B-PER", "B-LOC"]])
    assert [entity.text for entity in task.tag([words])[0]] == words
    spans = [(e.start, e.end) for e in task.tag(" ".join(words))]
    assert spans == [(0, 5), (6, 8), (10, 14)]


def test_long_texts_are_read_in_parts():
    task = small_task("tagger")
    words = ["good"] * 40
    rows = units_of(task.bert.preprocessor, [words, ["bad"]], "word").rows(14)
    assert rows.row_lengths().numpy().tolist() == [14, 14, 12, 1]
    assert len(task.tag_words([words, ["bad"]])[0]) == 40
    found = targets(task, [words], [["B-PER"] + ["O"] * 39])
    assert sum(name is not None for row in found for name in row) == 40


def test_empty_texts():
    task = small_task("tagger")
    assert task.tag("") == []
    assert task.tag(["", " "]) == [[], []]
    assert task.tag_words([[], ["good"]])[0] == []


def test_bad_examples():
    task = small_task("tagger")
    wrong = {
        "Word 1 of row 0 is empty": ([["Anna", ""]], [["O", "O"]]),
        "Row 0 has 2 words, but a different number of labels": ([["Anna", "ran"]], [["O"]]),
        "'B-ORG'.*position 1 of row 0": ([["Anna", "ran"]], [["O", "B-ORG"]]),
        "must not overlap.*row 0": (["Anna lives"], [[(2, 10, "LOC"), (0, 4, "PER")]]),
        "not a part of its text of 4 characters": (["Anna"], [[(0, 5, "PER")]]),
        "entity at row 0 does not hold a word": (["Anna  lives"], [[(4, 5, "PER")]]),
        "'B-ORG'": (["Anna"], [[(0, 4, "ORG")]]),
        "All words have the same label.*'O'": ([["Anna", "ran"]], [["O", "O"]]),
    }
    for message, given in wrong.items():
        with pytest.raises(ValueError, match=message):
            task.fit(*given, verbose=0)
    for entities in ([{"start": 0, "end": 4, "type": "PER"}], ["B-PER"], [("0", 4, "PER")], None, "B-PER"):
        with pytest.raises(TypeError, match=r"entit.*Received: .*at row 0"):
            task.fit(["Anna"], [entities], verbose=0)
    stray = TokenTagger(small_bert(), labels=("O", "B-PER", "VERB"))
    with pytest.raises(ValueError, match=r"'VERB' is not 'O' and has no prefix"):
        stray.fit([["Anna", "lives"]], [["B-PER", "VERB"]], verbose=0)
    with pytest.raises(TypeError, match="lists of words"):
        task.tag_words(["Anna"])
    with pytest.raises(ValueError, match="`unit` must be one of word, piece"):
        TokenTagger(small_bert(), labels=LABELS, unit="letter")
    with pytest.raises(ValueError, match="`whole_words` must be True or False"):
        TokenTagger(small_bert(), labels=LABELS, whole_words="no")


@pytest.mark.parametrize(
    "words",
    [
        "the U.N. met in Rome .",
        "Jean-Luc and AT&T .",
        "a - b",
        "( end . )",
        "wait . . .",
        "Dr . X",
        "either/or 3.5 , 10",
        "",
    ],
)
def test_words_of_a_text_as_annotators_keep_them(words):
    """The units of a text without spaces before its marks are the words themselves."""
    text = re.sub(r" (?=[.,)])|(?<=\() ", "", words)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "-", "&", "/", ",", "(", ")", "rome"]
    units = units_of(Preprocessor(Vocabulary(pieces)), [text, "the U.N."], "word", whole_words=True)
    for number, expected in enumerate((words.split(), ["the", "U.N."])):
        begins = units.firsts(number)
        ends = [units.end[last - 1] for last in [*begins[1:], units.splits[number + 1]]][: len(begins)]
        found = [units.texts[number][units.start[a] : b] for a, b in zip(begins, ends, strict=True)]
        assert found == expected


def test_a_tagger_trained_on_words_keeps_them_in_texts(tmp_path):
    import keras
    import tensorflow as tf

    words, tags = [["U.N.", "film"], ["good"]], [["B-PER", "O"], ["O"]]
    task = small_task("tagger")
    assert not task.whole_words
    task.fit(words, tags, epochs=1, verbose=0)
    task.save(tmp_path / "task.keras")
    task = keras.models.load_model(tmp_path / "task.keras")
    task.get_layer("tagger").bias.assign([0.0, 99.0, 0.0, 0.0, 0.0])  # each unit is a person of its own
    expected = [("U.N.", 0, 4), ("film", 5, 9)]
    assert [(one.text, one.start, one.end) for one in task.tag("U.N. film")] == expected
    answer = task.signatures(lambda packed: task(packed, training=False), 16)["serving_default"].function
    found = {name: value.numpy()[0].tolist() for name, value in answer(tf.constant(["U.N. film"])).items()}
    assert found["count"] == 2
    assert list(zip(found["text"], found["start"], found["end"], strict=True)) == [(b"U.N.", 0, 4), (b"film", 5, 9)]
    untrained = small_task("tagger")
    untrained.fit(["U.N. film"], [[(0, 1, "PER")]], epochs=1, verbose=0)
    assert not untrained.whole_words  # it learned texts, whose words end at a mark
