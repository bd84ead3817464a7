"""The tokenizer against an oracle in plain Python, on every block of Unicode and on real text: 0 differences."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.plain_tokenizer import PlainTokenizer
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from tests.parity import google_tokenizer, unicode_strings
from tests.soak import IN_SOAK

UNCASED, CASED = (True, None, True), (False, None, True)  # lowercase, strip_accents, split_cjk
SENTENCE = "Here is the sentence I want embeddings for."


@pytest.fixture
def english(minilm):
    return Vocabulary.from_file(minilm / "vocab.txt")


@pytest.fixture
def multilingual(shared):
    return Vocabulary.from_file(shared / "vocab" / "multi_cased-119547.txt")


@pytest.fixture
def korean(shared):
    return Vocabulary.from_file(shared / "vocab" / "kcbert-30000.txt")


def nested(ragged):
    """Like to_list(), which needs a millisecond for each text."""
    if not hasattr(ragged, "row_splits"):
        return np.asarray(ragged).tolist()
    values, splits = nested(ragged.values), np.asarray(ragged.row_splits).tolist()
    return [values[begin:end] for begin, end in itertools.pairwise(splits)]


def spans(tokenizer, texts):
    """Each text's words, each as its pieces with start and end."""
    ids, starts, ends = (nested(part) for part in tokenizer.tokenize_with_offsets(texts))
    assert nested(tokenizer.tokenize(texts)) == ids
    token = tokenizer.vocabulary.token
    return [
        [[(token(i), s, e) for i, s, e in zip(*word, strict=True)] for word in zip(*text, strict=True)]
        for text in zip(ids, starts, ends, strict=True)
    ]


def differences(vocabulary, texts, switches):
    """What the engine in the graph or the one in Python and numpy reads differently from the oracle."""
    engines = [engine(vocabulary, *switches) for engine in (Tokenizer, PlainTokenizer)]
    known = set(vocabulary.tokens)
    found = []
    for begin in range(0, len(texts), 4096):
        part = texts[begin : begin + 4096]
        for text, *ours in zip(part, *(spans(engine, part) for engine in engines), strict=True):
            rules = {name: getattr(engines[0], name) for name in ("lowercase", "strip_accents", "split_cjk")}
            expected = google_tokenizer.tokenize(text, known, **rules)
            found += [(text, one, expected) for one in ours if one != expected]
    return found


# === Equal to Google's rules: ids and offsets ===


@pytest.mark.parametrize(
    ("name", "switches"),
    [
        ("english", UNCASED),
        ("multilingual", CASED),
        ("korean", UNCASED),
        *(
            pytest.param(name, switches, marks=IN_SOAK)
            for name, switches in [("english", CASED), ("multilingual", UNCASED), ("korean", CASED)]
        ),
    ],
)
def test_equal_on_hard_strings(request, name, switches):
    vocabulary = request.getfixturevalue(name)
    texts = unicode_strings.all_blocks() + unicode_strings.hard(5000, vocabulary.tokens, seed=len(name))
    texts += unicode_strings.long_words()
    texts.append(" ".join(texts[-2000:]))  # in a batch with a long text, runs of marks are shortened
    assert len(texts) > 20_000
    assert differences(vocabulary, texts, switches) == []


@pytest.mark.parametrize(
    "switches", [(True, False, True), (False, True, True), (True, None, False), (False, None, False)]
)
def test_equal_with_other_switches(english, switches):
    texts = unicode_strings.all_blocks(24) + unicode_strings.hard(2000, english.tokens, seed=3)
    assert differences(english, texts, switches) == []


@pytest.mark.parametrize("switches", [UNCASED, CASED])
def test_equal_on_english_books(english, shared, switches):
    books = sorted((shared / "books").glob("*.md"))
    texts = [line for book in books for line in book.read_text(encoding="utf-8").splitlines()[200:240]]
    assert differences(english, texts, switches) == []


@pytest.mark.parametrize("switches", [UNCASED, CASED, (True, False, True)])
@pytest.mark.parametrize("name", ["multilingual", "korean"])
def test_equal_on_korean_reviews(request, shared, name, switches):
    texts = (shared / "ko" / "reviews.txt").read_text(encoding="utf-8").splitlines()[::40]
    assert differences(request.getfixturevalue(name), texts, switches) == []


def test_invalid_utf8_is_ignored_as_in_python(english):
    tails = [
        b"",
        b"\xff",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\x80",
    ]
    texts = [b"caf\xc3\xa9 " + one + b"s" + other + b" \xce\xa3" + one for one in tails for other in tails]
    tokenizer = Tokenizer(english)
    assert nested(tokenizer.tokenize(texts)) == nested(
        tokenizer.tokenize([text.decode("utf-8", "ignore") for text in texts])
    )


# === What a user sees ===


def test_tokens(english):
    pieces = ["here", "is", "the", "sentence", "i", "want", "em", "##bed", "##ding", "##s", "for", "."]
    assert Tokenizer(english).tokens(SENTENCE) == pieces
    assert Tokenizer(english).tokens([SENTENCE, ""]) == [pieces, []]


def test_offsets_of_a_cased_piece_cut_out_the_piece(english):
    text = "naïve — café, 中文 don't (embeddings)"
    tokenizer = Tokenizer(english, lowercase=False)
    _, starts, ends = tokenizer.tokenize_with_offsets(text)
    slices = [text[s:e] for s, e in zip(starts.flat_values.numpy(), ends.flat_values.numpy(), strict=True)]
    pieces = [piece.removeprefix("##") for piece in tokenizer.tokens(text)]
    assert all(piece in (part, "[UNK]") for piece, part in zip(pieces, slices, strict=True))
    assert "".join(slices) == "".join(text.split())


def test_offsets_with_accents_ligatures_emoji_and_cjk():
    pieces = ["e", "##t", "##\u1161", "\u1100", "\u4e2d", "ﬁ", "🙂", "=", "x"]
    tokenizer = Tokenizer(Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces]))
    texts = ["É́T", "가", "中中", "ﬁ 🙂", "x≠x", "x\x00\u200bx", "\u0301"]
    assert spans(tokenizer, texts) == [
        [[("e", 0, 1), ("##t", 2, 3)]],  # the second accent leaves nothing
        [[("\u1100", 0, 1), ("##\u1161", 0, 1)]],  # two pieces of one syllable
        [[("\u4e2d", 0, 1)], [("\u4e2d", 1, 2)]],
        [[("ﬁ", 0, 1)], [("🙂", 2, 3)]],
        [[("x", 0, 1)], [("=", 1, 2)], [("x", 2, 3)]],
        [[("[UNK]", 0, 4)]],
        [],
    ]


def test_hangul_is_split_into_jamo_only_if_accents_are_stripped(korean):
    text = "한국어 영화를 봤습니다"
    for switches in (CASED, (True, False, True)):
        tokenizer = Tokenizer(korean, *switches)
        assert tokenizer.detokenize(tokenizer.tokenize([text]))[0].numpy().decode() == text
    syllables = range(0xAC00, 0xD7A4)
    assert not any(ord(c) in syllables for piece in Tokenizer(korean).tokens(text) for c in piece)


@pytest.mark.parametrize("engine", [Tokenizer, PlainTokenizer])
def test_control_characters_as_pieces(engine):
    """A text has none after normalization, though they stand for special tokens there."""
    special, letters = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], ["a", "##b"]
    controls = [*map(chr, (*range(1, 10), *range(11, 32))), "##\x01", "\x05b"]
    texts = ["a[MASK]ab \x05 \x01 [SEP]", "".join(map(chr, range(1, 9)))]
    with_controls = engine(Vocabulary([*special, *letters, *controls]), special_tokens_in_text=True)
    without = engine(Vocabulary([*special, *letters]), special_tokens_in_text=True)
    assert nested(with_controls.tokenize(texts)) == nested(without.tokenize(texts))
    assert nested(without.tokenize(texts)) == [[[5], [4], [5, 6], [3]], []]


def test_special_tokens_in_text():
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "[", "]", "mask", "##b"])
    text = "a[MASK]b [mask] \x05ab [MA\x00SK]"
    plain = [[("[", 1, 2)], [("mask", 2, 6)], [("]", 6, 7)]]
    typed = [[("[", 9, 10)], [("mask", 10, 14)], [("]", 14, 15)]]
    rest = [[("a", 17, 18), ("##b", 18, 19)], [("[", 20, 21)], [("mask", 21, 26)], [("]", 26, 27)]]
    a, b = [[("a", 0, 1)]], [[("b", 7, 8)]]
    assert spans(Tokenizer(vocabulary), [text]) == [[*a, *plain, *b, *typed, *rest]]
    tokenizer = Tokenizer(vocabulary, special_tokens_in_text=True)
    assert spans(tokenizer, [text, "[UNK]?", "[PAD][SEP]"]) == [
        [*a, [("[MASK]", 1, 7)], *b, *typed, *rest],
        [[("[UNK]", 0, 5)], [("[UNK]", 5, 6)]],
        [[("[PAD]", 0, 5)], [("[SEP]", 5, 10)]],
    ]
    assert spans(tokenizer, ["é" * 201]) == [[[("[UNK]", 0, 201)]]]


def test_detokenize(english):
    tokenizer = Tokenizer(english)
    ids = tokenizer.tokenize([SENTENCE, ""])
    text = b"here is the sentence i want embeddings for ."
    assert tokenizer.detokenize(ids).numpy().tolist() == [text, b""]
    assert tokenizer.detokenize(ids.merge_dims(1, 2).to_tensor()).numpy().tolist() == [text, b""]
    assert tokenizer.detokenize(ids.flat_values).numpy() == text
    assert tokenizer.detokenize([[101, 102, 0], []]).numpy().tolist() == [b"[CLS] [SEP]", b""]
    with pytest.raises(ValueError, match="whole numbers"):
        tokenizer.detokenize([[0.5]])
    for unknown in (30522, -1):
        with pytest.raises(ValueError, match=rf"must be from 0 to 30521.*Received: {unknown}$"):
            tokenizer.detokenize([unknown])
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be from 0 to 30521"):
            tf.function(tokenizer.detokenize)(tf.constant([unknown]))


# === The same ids everywhere ===


def test_batches_graphs_and_tf_data_return_the_same(english):
    texts = [*unicode_strings.hard(100, english.tokens, seed=5), "", "  ", SENTENCE]
    tokenizer = Tokenizer(english)
    expected = spans(tokenizer, texts)
    assert [spans(tokenizer, [text])[0] for text in texts[::10]] == expected[::10]
    in_graph = tf.function(tokenizer.tokenize_with_offsets, input_signature=[tf.TensorSpec([None], tf.string)])
    for eager, graph in zip(tokenizer.tokenize_with_offsets(texts), in_graph(tf.constant(texts)), strict=True):
        assert nested(eager) == nested(graph)
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    batched = dataset.batch(7).map(tokenizer.tokenize, num_parallel_calls=2)
    assert [row for batch in batched for row in nested(batch)] == nested(tokenizer.tokenize(texts))
    single = dataset.map(tokenizer.tokenize)
    assert [row.to_list() for row in single] == nested(tokenizer.tokenize(texts))


def test_the_first_use_may_be_in_a_graph_and_in_a_saved_model(english, tmp_path):
    root = tf.Module()
    tokenizer = Tokenizer(english, special_tokens_in_text=True)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def offsets(texts):
        return tokenizer.tokenize_with_offsets(texts)

    root.offsets = offsets
    root.text = tf.function(tokenizer.detokenize, input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    tf.saved_model.save(root, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    texts = [SENTENCE, "Héllo [MASK]", ""]
    for ours, theirs in zip(tokenizer.tokenize_with_offsets(texts), loaded.offsets(tf.constant(texts)), strict=True):
        assert nested(ours) == nested(theirs)
    assert loaded.text(tf.ragged.constant([[101]], tf.int32)).numpy().tolist() == [b"[CLS]"]


# === Bad input ===


def test_texts_without_words(english):
    tokenizer = Tokenizer(english)
    for texts in ([], ["", " \t\n\u3000\u2028", "\x00", "\ufffd\u200b"]):
        for part in tokenizer.tokenize_with_offsets(texts):
            assert nested(part) == [[]] * len(texts)
            assert part.dtype == tf.int32


def test_very_long_texts(english):
    tokenizer = Tokenizer(english)
    assert spans(tokenizer, ["a" * 100_000, "é " * 3]) == [
        [[("[UNK]", 0, 100_000)]],
        [[("e", i, i + 1)] for i in (0, 2, 4)],
    ]
    ids, starts, ends = tokenizer.tokenize_with_offsets("Bad word! " * 1_000_000)  # 10 MB
    assert ids.flat_values.shape == [3_000_000]
    assert (starts.flat_values[-1], ends.flat_values[-1]) == (9_999_998, 9_999_999)
    assert tokenizer.tokens("a" * 10_000_000) == ["[UNK]"]


def test_a_vocabulary_with_pieces_that_cannot_occur_in_a_text(tmp_path):
    odd = ["##", "\x00", "\x00\x01", " ", "a b", "\u3000", "##!", "", "a"]
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *odd])
    assert Tokenizer(vocabulary).tokens("a b ## !") == ["a", "[UNK]", "[UNK]", "[UNK]", "[UNK]"]
    long = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a" * 300])
    with pytest.raises(ValueError, match="more than 256 bytes"):
        Tokenizer(long).tokenize("a")
