"""The cases of tensorflow-text: bert_tokenizer, wordpiece_tokenizer, trimmer, segment_combiner and pad_model_inputs."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.packing import Packer, kept_lengths
from keras_bert.text.wordpiece import WordPiece
from tests.foreign.pieces import preprocessor, words

# === bert_tokenizer_test ===

ANADE = "Añade la información del formulario y tus preguntas"


@pytest.mark.parametrize(
    ("text", "lowercase", "expected"),
    [
        ("taste the rustisc indiefrost", False, "taste the rustisc indiefrost"),
        ("Han Kuo-yu (韓國食)🤔", False, "Han Kuo - yu ( 韓 國 食 ) 🤔"),
        (ANADE, False, ANADE),
        ("UNwantéd,running", True, "unwanted , running"),
        (ANADE, True, "anade la informacion del formulario y tus preguntas"),
        ("香港では４日", False, "香 港 では４ 日"),
        ("영어독해 자만심 왜 문제일까", False, "영어독해 자만심 왜 문제일까"),
        ("據港媒《東網》報導", False, "據 港 媒 《 東 網 》 報 導"),
        ("のテキストとして", False, "のテキストとして"),
    ],
)
def test_basic_tokenizer(text, lowercase, expected):
    assert words(text, expected.split(), lowercase=lowercase) == expected.split()


VOCABULARY = (
    "[unused1] [unused23] ' ##% ##af ##book ##c ##fr ##hey ##is ##o ##ost ##s ##tri ##y $ % & ( ) * - . 20 : ? [CLS] "
    "[SEP] 國 韓 食 🤔 🤣 ^ an awesome candy dug had han indie is ka ku moth rust taste the up what yo yu "
    "爱 上 一 个 不 回 家 的 人"
)


@pytest.fixture(scope="module")
def tokenizer():
    return preprocessor(VOCABULARY.split())


@pytest.mark.parametrize(
    ("text", "expected", "extracted"),
    [
        ("taste the rustisc indiefrost", "taste the rust ##is ##c indie ##fr ##ost", None),
        ("Han Kuo-yu (韓國食)🤔", "han ku ##o - yu ( 韓 國 食 ) 🤔", "Han Ku o - yu ( 韓 國 食 ) 🤔"),
        ("dugtrio had an awesome 🤣 dugbook", "dug ##tri ##o had an awesome 🤣 dug ##book", None),
        ("yo^what$is*up?", "yo ^ what $ is * up ?", None),
        ("mothaf*&%ka", "moth ##af * & % ka", None),
        (
            "mothaf*&%ka cantfindme whodis",
            "moth ##af * & % ka [UNK] [UNK]",
            "moth af * & % ka cantfindme whodis",
        ),
        ("candy", "candy", None),
        ("candybook", "candy ##book", None),
        ("爱上一个不回家的人", "爱 上 一 个 不 回 家 的 人", None),
    ],
)
def test_bert_tokenizer(tokenizer, text, expected, extracted):
    """Pieces, their ids, and the characters that each came from."""
    assert tokenizer.tokens(text) == expected.split()
    parts = tokenizer.tokenize_with_offsets([text])
    assert {part.dtype for part in parts} == {tf.int32}
    ids, starts, ends = (part.merge_dims(0, 2).numpy().tolist() for part in parts)
    assert ids == [tokenizer.vocabulary[piece] for piece in expected.split()]
    found = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert found == (extracted or expected.replace("##", "")).split()


# === wordpiece_tokenizer_test ===

ENGLISH = "don ##' ##t tread ##ness hel ##lo there my na ##me is ter ##ry what ##cha ##ma ##call ##it? you said"
CHINESE = "貿 易 戰 最 大 受 益 者 越 南 總 理 阮 春 福"


@pytest.mark.parametrize(
    ("vocabulary", "given", "expected"),
    [
        ("к ##уп ##иха", "купиха", [["к", "##уп", "##иха"]]),
        (ENGLISH, "don't treadness", [["don", "##'", "##t"], ["tread", "##ness"]]),
        (
            ENGLISH,
            "hello there my name is terry",
            [["hel", "##lo"], ["there"], ["my"], ["na", "##me"], ["is"], ["ter", "##ry"]],
        ),
        (
            ENGLISH,
            "whatchamacallit? you said",
            [["what", "##cha", "##ma", "##call", "##it?"], ["you"], ["said"]],
        ),
        (
            ENGLISH,
            "don't tread cantfindme treadcantfindme",
            [["don", "##'", "##t"], ["tread"], ["[UNK]"], ["[UNK]"]],
        ),
        (CHINESE, CHINESE, [[word] for word in CHINESE.split()]),
        (f"{ENGLISH} {CHINESE}", "貿 越 don't treadness", [["貿"], ["越"], ["don", "##'", "##t"], ["tread", "##ness"]]),
        (
            "क ##र ##े ##ं ##* ##👇",
            "करें*👇👇",
            [["क", "##र", "##े", "##ं", "##*", "##👇", "##👇"]],
        ),
        (ENGLISH, "nap hello!me", [["[UNK]"], ["[UNK]"]]),
    ],
)
def test_wordpiece(vocabulary, given, expected):
    """Words with punctuation in them reach this only if nothing splits them before, as in that suite."""
    tokens = [*vocabulary.split(), "[UNK]"]
    ids, splits, starts = WordPiece(tokens)(given.split())
    assert tf.RaggedTensor.from_row_splits(tf.gather(tokens, ids), splits).to_list() == [
        [piece.encode() for piece in pieces] for pieces in expected
    ]
    for word, pieces, begin in zip(
        given.split(), expected, tf.RaggedTensor.from_row_splits(starts, splits), strict=True
    ):
        ends = [*begin[1:].numpy().tolist(), len(word.encode())]
        found = [word.encode()[a:b].decode() for a, b in zip(begin.numpy().tolist(), ends, strict=True)]
        assert found == ([word] if pieces == ["[UNK]"] else [piece.removeprefix("##") for piece in pieces])


def test_long_words():
    tokenizer = preprocessor([*ENGLISH.split(), "'"], max_word_length=5)
    assert tokenizer.tokens("tread treadness") == ["tread", "[UNK]"]


@pytest.mark.parametrize(
    "pieces", ["hel ##lo there my na ##me is tread ##ness", "what ##cha ##ma ##call ##it? you said", "大 易"]
)
def test_detokenize(pieces):
    tokenizer = preprocessor(f"{ENGLISH} {CHINESE}".split())
    ids = [tokenizer.vocabulary[piece] for piece in pieces.split()]
    assert tokenizer.detokenize([ids])[0].numpy().decode() == pieces.replace(" ##", "")


# === trimmer_ops_test ===


@pytest.mark.parametrize(
    ("truncation", "room", "lengths", "expected"),
    [  # a row for each text of the batch; the lengths of its segments, in pieces
        ("waterfall", [2, 1, 3], [[3, 1], [2, 1], [1, 3]], [[2, 0], [1, 0], [1, 2]]),
        ("waterfall", [2, 2, 2], [[1, 2], [2, 4], [5, 2]], [[1, 1], [2, 0], [2, 0]]),
        ("waterfall", [2, 2, 2], [[2, 2], [2, 4], [5, 2]], [[2, 0], [2, 0], [2, 0]]),
        ("waterfall", [1, 3, 4], [[2, 2], [2, 4], [5, 2]], [[1, 0], [2, 1], [4, 0]]),
        ("longest_first", [2, 2, 2], [[3, 1], [2, 1], [1, 3]], [[1, 1], [1, 1], [1, 1]]),
        ("longest_first", [100] * 3, [[3, 1], [2, 1], [1, 3]], [[3, 1], [2, 1], [1, 3]]),
        ("longest_first", [2], [[3, 3]], [[1, 1]]),
        ("longest_first", [10], [[2, 2, 5, 5]], [[2, 2, 3, 3]]),
        ("longest_first", [7], [[2, 3]], [[2, 3]]),
        ("longest_first", [7, 7], [[3, 3], [10, 10]], [[3, 3], [4, 3]]),
        ("longest_first", [3], [[3, 3]], [[2, 1]]),
        ("longest_first", [2, 2, 2], [[2, 2], [2, 4], [5, 2]], [[1, 1], [1, 1], [1, 1]]),
        ("longest_first", [10], [[4, 4, 6, 6]], [[3, 3, 2, 2]]),
        ("longest_first", [-1], [[1]], [[0]]),
    ],
)
def test_trimmers(truncation, room, lengths, expected):
    for one_room, row, kept in zip(room, lengths, expected, strict=True):
        assert kept_lengths(tf.constant([row]), one_room, truncation).numpy().tolist() == [kept]


# === segment_combiner_ops_test and pad_model_inputs_ops_test ===

FIRST, SECOND = [[1, 2], [3, 4], [5, 6, 7, 8, 9]], [[10, 20], [30, 40, 50, 60], [70, 80]]
THIRD = [[100, 200, 300, 400], [500, 600], [700, 800]]


@pytest.mark.parametrize(
    ("segments", "ends", "ids", "types"),
    [
        ([[[], [], []]], (101, 102), [[101, 102]] * 3, [[0, 0]] * 3),
        ([FIRST], (1001, 1002), [[1001, *row, 1002] for row in FIRST], [[0] * 4, [0] * 4, [0] * 7]),
        ([FIRST], (101, 102), [[101, *row, 102] for row in FIRST], [[0] * 4, [0] * 4, [0] * 7]),
        (
            [FIRST, SECOND],
            (101, 102),
            [
                [101, 1, 2, 102, 10, 20, 102],
                [101, 3, 4, 102, 30, 40, 50, 60, 102],
                [101, 5, 6, 7, 8, 9, 102, 70, 80, 102],
            ],
            [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]],
        ),
        (
            [FIRST, SECOND, THIRD],
            (101, 102),
            [
                [101, 1, 2, 102, 10, 20, 102, 100, 200, 300, 400, 102],
                [101, 3, 4, 102, 30, 40, 50, 60, 102, 500, 600, 102],
                [101, 5, 6, 7, 8, 9, 102, 70, 80, 102, 700, 800, 102],
            ],
            [
                [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2],
                [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2],
                [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2],
            ],
        ),
    ],
)
def test_combined_and_padded(segments, ends, ids, types):
    rows = [tf.ragged.constant(segment, tf.int32, ragged_rank=1) for segment in segments]
    packed = Packer(*ends, pad=0).pack(rows, 16)
    for row, (pieces, kinds) in enumerate(zip(ids, types, strict=True)):
        padding = [0] * (16 - len(pieces))
        assert packed["input_word_ids"][row].numpy().tolist() == pieces + padding
        assert packed["input_type_ids"][row].numpy().tolist() == kinds + padding
        assert packed["input_mask"][row].numpy().tolist() == [1] * len(pieces) + padding


def test_padding_of_rows():
    packed = Packer(101, 102, pad=0).pack([tf.ragged.constant([[1, 2]]), tf.ragged.constant([[10, 20]])], 10)
    np.testing.assert_array_equal(packed["input_word_ids"], [[101, 1, 2, 102, 10, 20, 102, 0, 0, 0]])
    np.testing.assert_array_equal(packed["input_mask"], [[1] * 7 + [0] * 3])
    np.testing.assert_array_equal(packed["input_type_ids"], [[0] * 4 + [1] * 3 + [0] * 3])
