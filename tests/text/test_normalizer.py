"""The character tables of the normalizer against Python's, character by character."""

import os
import random
import unicodedata

import tensorflow as tf

from keras_bert.text.character_sets import CASED, IGNORABLE
from keras_bert.text.normalizer import MOVING_MARKS, Normalizer, _sorted_accents
from tests.parity.unicode_strings import assigned
from tests.subprocesses import fork


def in_class(members):
    return tf.strings.regex_full_match(assigned(), f"[{members}]").numpy().tolist()


def test_which_neighbours_make_a_sigma_final():
    """A cased letter before a sigma makes it final, unless one follows it; ignorable characters are skipped."""
    cased = [(character + "Σ").lower()[-1] == "ς" for character in assigned()]
    ignorable = [("aΣ" + c + "a").lower()[1] == "σ" and ("aΣ" + c).lower()[1] == "ς" for c in assigned()]
    cased_only = [
        is_cased and not skipped for is_cased, skipped in zip(in_class(CASED), in_class(IGNORABLE), strict=True)
    ]
    assert cased_only == cased
    assert in_class(IGNORABLE) == ignorable


def test_which_marks_may_move():
    def leaves_moving(character):
        parts = unicodedata.normalize("NFD", character.lower())
        return any(unicodedata.combining(part) and unicodedata.category(part) != "Mn" for part in parts)

    assert in_class(MOVING_MARKS) == [leaves_moving(character) for character in assigned()]


def test_which_accents_are_sorted():
    """TensorFlow may know younger ones than Python."""
    accents = [c for c in assigned() if unicodedata.category(c) == "Mn"]
    sorted_by_python = {c for c in accents if all(map(unicodedata.combining, unicodedata.normalize("NFD", c)))}
    assert sorted_by_python <= set(_sorted_accents())
    assert {c for c in _sorted_accents() if unicodedata.category(c) != "Cn"} <= sorted_by_python


def test_long_runs_of_marks_become_the_same_words():
    """Beyond 4,096 bytes runs are shortened before NFD. Python sorts them as they are."""
    draw = random.Random(0)
    accents, moving = "\u0301\u0327\u0340\u05b0\u0345", "\u302e\u1715\U0001d16d"
    kinds = ["a", "é", "\u034f", accents, moving, accents + moving]
    texts = []
    for longest in (3, 30, 199):
        for _ in range(20):
            runs = [draw.choices(draw.choice(kinds), k=draw.randint(1, longest)) for _ in range(10_000 // longest)]
            texts.append(" ".join("e" + "".join(run) for run in runs))
    assert min(len(text.encode()) for text in texts) > 4096
    normalizer = Normalizer(lowercase=False, strip_accents=True, split_cjk=True)
    for text, words in zip(texts, normalizer.normalize(texts).numpy(), strict=True):
        expected = (c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        assert words.decode() == "".join(expected)


def lowered(language):
    """TensorFlow's lower case, which depends on the language, and ours, with accents stripped and kept."""
    os.environ["LC_ALL"] = language
    text = "IİI i̇ TITLE ÌÍĨĮ J̀ İ Į̃ ΑΣ"
    ours = [Normalizer(True, strip, True).normalize([text])[0].numpy() for strip in (True, False)]
    return tf.strings.lower(text, encoding="utf-8").numpy(), ours


def test_the_language_of_the_machine_changes_no_id():
    """ICU lowercases by the language of the machine. Turkish and Lithuanian differ in İ, Ì and I."""
    found = [fork(lowered, language) for language in ("C", "tr_TR.UTF-8", "lt_LT.UTF-8")]
    assert len({theirs for theirs, _ in found}) == 3
    assert all(ours == found[0][1] for _, ours in found)
