"""Tokenizer, offsets, packing and windows against oracles in plain Python."""

from functools import cache

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.text.packing import Packer
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.windows import windows
from tests.hostile.inputs import SPECIAL, byte_texts, texts
from tests.hostile.profile import hostile
from tests.parity import google_packing, google_tokenizer
from tests.text.test_tokenizer import nested

LETTERS = sorted({*"abcdeisσς!#中각각ıfﬁ", *SPECIAL} - {*" \t\n\r\x00"})
VOCABULARY = Vocabulary(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "##bc", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
)
KNOWN = set(VOCABULARY.tokens)
SWITCHES = [(True, True, True), (False, False, True), (True, False, True), (False, True, False)]


@cache
def tokenizer(*switches):
    return Tokenizer(VOCABULARY, *switches)


def check_tokenizer(batch, switches):
    """The pieces and offsets of each text are Google's."""
    ours = tokenizer(*switches)
    ids, starts, ends = (nested(part) for part in ours.tokenize_with_offsets(batch))
    assert nested(ours.tokenize(batch)) == ids
    rules = dict(zip(("lowercase", "strip_accents", "split_cjk"), switches, strict=True))
    for text, *found in zip(batch, ids, starts, ends, strict=True):
        words = [
            [(VOCABULARY.token(id), start, end) for id, start, end in zip(*word, strict=True)]
            for word in zip(*found, strict=True)
        ]
        assert words == google_tokenizer.tokenize(text, KNOWN, **rules)


@hostile(60)
@given(st.lists(texts, min_size=1, max_size=20), st.sampled_from(SWITCHES))
def test_pieces_and_offsets(batch, switches):
    check_tokenizer(batch, switches)


@hostile(40)
@given(st.lists(byte_texts, min_size=1, max_size=20))
def test_bytes_that_are_not_utf8_are_dropped(batch):
    ours = tokenizer(True, True, True)
    decoded = [text.decode("utf-8", "ignore") for text in batch]
    for found, expected in zip(
        ours.tokenize_with_offsets(tf.constant(batch)), ours.tokenize_with_offsets(decoded), strict=True
    ):
        assert nested(found) == nested(expected)


@hostile(40)
@given(st.lists(texts, min_size=1, max_size=10))
def test_texts_from_pieces_have_the_same_pieces(batch):
    ours = tokenizer(True, True, True)
    ids = ours.tokenize(batch)
    again = ours.tokenize(ours.detokenize(ids))
    unknown = VOCABULARY["[UNK]"]
    for before, after in zip(nested(ids.merge_dims(1, 2)), nested(again.merge_dims(1, 2)), strict=True):
        assert unknown in before or before == after


rows = st.lists(st.integers(5, 40), max_size=30)


@hostile(60)
@given(st.lists(st.tuples(rows, rows), min_size=1, max_size=6), st.integers(3, 40))
def test_packing(pairs, seq_length):
    packer = Packer(VOCABULARY["[CLS]"], VOCABULARY["[SEP]"], VOCABULARY["[PAD]"])
    segments = [tf.ragged.constant(list(column), tf.int32, ragged_rank=1) for column in zip(*pairs, strict=True)]
    packed = packer.pack(segments, seq_length)
    found = zip(
        *(packed[name].numpy().tolist() for name in ("input_word_ids", "input_mask", "input_type_ids")), strict=True
    )
    for pair, row in zip(pairs, found, strict=True):
        assert row == google_packing.pack_pair(*pair, seq_length, packer.start, packer.end, packer.pad)


@hostile(60)
@given(st.lists(st.tuples(rows, rows), min_size=1, max_size=4), st.integers(8, 30), st.integers(1, 40))
def test_windows(pairs, seq_length, stride):
    packer, most = Packer(2, 3, 0), 4
    question, context = (
        tf.ragged.constant(list(column), tf.int32, ragged_rank=1) for column in zip(*pairs, strict=True)
    )
    places = context.with_values(tf.range(tf.size(context.values)))
    found = windows(
        packer, question, context, places, places + 1, seq_length=seq_length, stride=stride, max_question_length=most
    )
    expected = []
    for number, (asked, pieces) in enumerate(pairs):
        asked = asked[:most]
        room = seq_length - 3 - len(asked)
        for start, length in google_packing.document_spans(len(pieces), room, min(stride, room)) or [(0, 0)]:
            row = google_packing.pack_pair(asked, pieces[start : start + length], seq_length, 2, 3, 0)
            expected.append((number, row[0]))
    ids = found["input_word_ids"].numpy().tolist()
    assert list(zip(found["example"].numpy().tolist(), ids, strict=True)) == expected
