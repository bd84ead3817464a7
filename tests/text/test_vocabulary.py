import hashlib
import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from keras_bert.text import vocabulary_learner
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from tests.soak import IN_SOAK
from tests.subprocesses import python

GOOGLE_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["The lowest of the newest: low, lower, lowest; new, newer, newest! Über Ähren, 한국어 漢字."] * 12


def google_tokens(path):
    """Google's reader: only LF ends a line, and line n is the piece with id n."""
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def test_googles_vocabulary(minilm):
    path = minilm / "vocab.txt"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == GOOGLE_SHA256
    vocabulary = Vocabulary.from_file(path)
    assert len(vocabulary) == 30522
    assert vocabulary["here"] == 2182
    assert vocabulary.token(2182) == "here"
    assert vocabulary.special_tokens == {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
    assert list(vocabulary) == google_tokens(path)


def test_two_more_vocabularies(shared):
    for name, size in (("kcbert-30000.txt", 30000), ("multi_cased-119547.txt", 119547)):
        path = shared / "vocab" / name
        vocabulary = Vocabulary.from_file(path)
        assert len(vocabulary) == size
        assert list(vocabulary) == google_tokens(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends(tmp_path, end, last):
    path = tmp_path / "vocab.txt"
    path.write_bytes((end.join([*SPECIAL, "a", "##b"]) + end * last).encode())
    assert Vocabulary.from_file(path).tokens == (*SPECIAL, "a", "##b")


def test_pieces_that_look_like_white_space_are_kept(tmp_path):
    odd = ["\u2028", "\x85", "\xa0", "\x0b", " ", "", "\u3000", "a\r"]
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(f"{token}\n" for token in [*SPECIAL, *odd, "after"]).encode())
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == (*SPECIAL, *odd, "after")
    assert list(vocabulary) == google_tokens(path)
    vocabulary.save(tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()


def test_a_byte_order_mark_is_not_part_of_a_piece(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(SPECIAL), encoding="utf-8-sig")
    assert Vocabulary.from_file(path).tokens == tuple(SPECIAL)


def test_save_replaces_the_file_at_once(tmp_path, monkeypatch):
    path = tmp_path / "vocab.txt"
    Vocabulary(SPECIAL).save(path)
    Vocabulary([*SPECIAL, "한국어"]).save(str(path))
    assert Vocabulary.from_file(path) == Vocabulary([*SPECIAL, "한국어"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            Vocabulary(SPECIAL).save(path)
    assert os.listdir(tmp_path) == ["vocab.txt"]
    assert Vocabulary.from_file(path)["한국어"] == 5
    (tmp_path / "link").symlink_to("vocab.txt")
    Vocabulary(SPECIAL).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert Vocabulary.from_file(path) == Vocabulary(SPECIAL)
    (tmp_path / "plain").write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_lookups():
    vocabulary = Vocabulary([*SPECIAL, "a"])
    assert "a" in vocabulary
    assert "b" not in vocabulary
    assert vocabulary == Vocabulary((*SPECIAL, "a"))
    assert vocabulary != Vocabulary(SPECIAL)
    assert hash(vocabulary) == hash(Vocabulary([*SPECIAL, "a"]))
    assert Vocabulary(SPECIAL[:4]).special_tokens == {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    with pytest.raises(KeyError, match="no piece 'embeddings'"):
        vocabulary["embeddings"]
    for number in (-1, 6):
        with pytest.raises(IndexError, match=rf"from 0 to 5, the last id .* Received: {number}"):
            vocabulary.token(number)
    with pytest.raises(TypeError, match=r"vocabulary\[piece\]. Received: 'a'"):
        vocabulary.token("a")


@pytest.mark.parametrize("missing", SPECIAL[:4])
def test_missing_special_tokens(missing):
    with pytest.raises(ValueError, match=rf"4 pieces without \{missing}"):
        Vocabulary([token for token in SPECIAL if token != missing])


def test_bad_vocabularies(tmp_path):
    with pytest.raises(ValueError, match="Received: 'a' with the ids 5 and 7"):
        Vocabulary([*SPECIAL, "a", "b", "a"])
    for path in ("vocab.txt", tmp_path, None):
        with pytest.raises(TypeError, match=r"Vocabulary\.from_file"):
            Vocabulary(path)
    for odd in (7, "a\nb", None, ["a"]):
        with pytest.raises(ValueError, match="must be a string without a line feed"):
            Vocabulary([*SPECIAL, odd])
    with pytest.raises(ValueError, match=r"half of a surrogate pair.*Rename it.*Received: '\\ud800'"):
        Vocabulary([*SPECIAL, "a", "b\ud800"])
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        Vocabulary.from_file(tmp_path / "none.txt")
    for data, message in (
        (b"", "is empty"),
        (b"[PAD]\n\xff\n", "line 2 is not"),
        (b"[PAD]\n", r"without \[UNK\], \[CLS\], \[SEP\] \(file '"),
    ):
        path = tmp_path / "vocab.txt"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            Vocabulary.from_file(path)


# === Learning ===


def learn(texts=TEXTS, size=100, alphabet=40, **options):
    return Vocabulary.learn(texts, size, alphabet=alphabet, **options)


def test_words_are_split_as_the_tokenizer_splits_them():
    vocabulary = learn()
    assert vocabulary.tokens[:5] == tuple(SPECIAL)
    assert {"lowest", "uber", ":", ",", "漢", "字"} <= set(vocabulary)
    assert not {"漢字", "Über", "lowest;"} & set(vocabulary)
    assert Tokenizer(vocabulary).tokens("The newest, uber") == ["the", "newest", ",", "uber"]
    cased = learn(lowercase=False)
    assert {"The", "Über", "한국어"} <= set(cased)
    korean = learn(strip_accents=False, split_cjk=False)
    assert {"the", "über", "한국어", "漢字"} <= set(korean)


def test_texts_files_and_generators_give_the_same_vocabulary(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    assert learn([path]) == learn(path) == learn(TEXTS) == learn(iter(TEXTS)) == learn("\n".join(TEXTS))
    for texts in (str(path), [str(path)], iter([str(path)])):
        with pytest.raises(ValueError, match=r"A string is a text to learn from, but this one is the path of a file\."):
            learn(texts)


def test_control_over_size_count_and_alphabet(caplog):
    assert len(learn(size=70)) == 70
    assert len(learn(size=70, unused=5)) == 70
    assert learn(size=70, unused=2).tokens[5:7] == ("[unused0]", "[unused1]")
    rare = [*TEXTS, "rare rare rare"]
    assert "rare" in learn(rare, min_count=3)
    assert "rare" not in learn(rare, min_count=4)
    assert "漢" not in learn(min_count=13, texts=[*TEXTS, "the lowest"])
    assert "lower" in learn(alphabet=12)
    assert "한국어" not in "".join(learn(strip_accents=False, alphabet=12))
    with pytest.raises(ValueError, match="raise `alphabet`"):
        learn(alphabet=1)
    with caplog.at_level(logging.WARNING, logger="keras_bert"):
        learn(size=5000)
    assert "Requested: 5000." in caplog.text


def test_the_smallest_size():
    """Each letter is a piece, even one that begins no word, and each letter inside of words is one with ##."""
    assert learn(["ab ab"], size=8).tokens[5:] == ("a", "b", "##b")
    with pytest.raises(ValueError, match=r"`size` must be at least 8: 5 reserved pieces.*Received: size=7"):
        learn(["ab ab"], size=7)
    with pytest.raises(ValueError, match=r"`size` must be at least .*Received: size=28"):
        learn(size=28, alphabet=30)


def test_all_letters_of_kept_words_are_pieces():
    vocabulary = learn(size=200)
    for token in vocabulary:
        if token not in SPECIAL and not token.startswith("##"):
            assert token[0] in vocabulary
            assert all(f"##{letter}" in vocabulary for letter in token[1:])


def test_a_large_corpus_is_sampled_by_seed(monkeypatch, caplog):
    monkeypatch.setattr(vocabulary_learner, "BLOCK_BYTES", 1000)
    texts = [f"word{number} other{number % 7}" for number in range(3000)]
    with caplog.at_level(logging.INFO, logger="keras_bert"):
        one = learn(texts, sample_bytes=5000)
    assert "learned from a sample of 0 MB (seed 0)" in caplog.text
    assert one == learn(texts, sample_bytes=5000)
    assert one != learn(texts, sample_bytes=5000, seed=1)


def test_the_number_of_words_is_limited(monkeypatch, caplog):
    monkeypatch.setattr(vocabulary_learner, "MAX_LETTERS", 2000)
    monkeypatch.setattr(vocabulary_learner, "BLOCK_BYTES", 1000)
    texts = [f"often {number:06d}" for number in range(2000)]
    with caplog.at_level(logging.INFO, logger="keras_bert"):
        assert "often" in learn(texts, size=60)
    assert "too many different words" in caplog.text


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="have no word"):
        learn(["", " \x00 "])
    with pytest.raises(ValueError, match="have no word"):
        learn([])
    with pytest.raises(ValueError, match="Raise `size` or lower `alphabet`"):
        learn(size=20)
    with pytest.raises(ValueError, match=r"no room after the 5 reserved pieces.*size=5"):
        learn(size=5)
    with pytest.raises(ValueError, match=r"`min_count` must be at least 1\..* Received: min_count=0"):
        learn(min_count=0)
    with pytest.raises(FileNotFoundError, match="none"):
        learn([tmp_path / "none"])
    with pytest.raises(TypeError, match="Received: 3"):
        learn(["a", 3])
    monster = ["x" * 100_000, "\ud800 a", *TEXTS]
    assert learn(monster) == learn(["a", *TEXTS])


def test_the_path_of_a_file_is_not_a_text(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("a")
    with pytest.raises(ValueError, match=r"pathlib\.Path"):
        learn([str(path)])


def digest():
    # Every pair of letters is equally frequent here, so that only the order of ties decides.
    letters = "abcdefgh"
    texts = [" ".join(a + b + c + a for c in letters) for a in letters for b in letters] * 3
    return hashlib.sha256("|".join(Vocabulary.learn(texts, 60, alphabet=9)).encode()).hexdigest()


@IN_SOAK
@pytest.mark.long
def test_the_same_bytes_in_every_process():
    code = "from tests.text.test_vocabulary import digest; print(digest())"
    path = os.pathsep.join(sys.path)
    for threads in ("1", "4"):
        found = python(code, PYTHONPATH=path, RAYON_NUM_THREADS=threads, PYTHONHASHSEED=threads, KERAS_BACKEND="jax")
        assert found == digest()


@pytest.mark.long
def test_pieces_per_word_on_held_out_books(shared, minilm):
    books = sorted(Path(shared / "books").glob("*.md"))
    ours = Vocabulary.learn([book for number, book in enumerate(books) if number % 9 or number > 81], 30000)
    google = Vocabulary.from_file(minilm / "vocab.txt")
    lines = [line for book in books[:82:9] for line in book.read_text(encoding="utf-8").splitlines()]
    pieces = {name: Tokenizer(one).tokenize(lines) for name, one in (("ours", ours), ("google", google))}
    assert len(ours) == 30000
    assert pieces["ours"].flat_values.shape[0] <= pieces["google"].flat_values.shape[0]
