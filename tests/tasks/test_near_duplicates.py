"""Near-duplicates against all pairs by brute force, and what they need of memory."""

import random
import tracemalloc

import pytest

from keras_bert.tasks.reports.near_duplicates import near_duplicates

WORDS = [
    "the",
    "film",
    "was",
    "good",
    "bad",
    "not",
    "very",
    "plot",
    "story",
    "long",
    "영화",
    "정말",
    "재미",
    "별로",
    "연기",
]


def words_of(text):
    return " ".join("".join(one if one.isalnum() else " " for one in text).casefold().split())


def runs(text):
    text = words_of(text)
    return {text[start : start + 5] for start in range(max(1, len(text) - 4))}


def jaccard(a, b):
    return len(a & b) / len(a | b)


def changed(dice, text):
    """A copy with some words replaced and some characters doubled."""
    words = text.split()
    for _ in range(dice.randrange(4)):
        words[dice.randrange(len(words))] = dice.choice(WORDS)
    text = "  ".join(words).title()
    place = dice.randrange(len(text))
    return text[:place] + dice.choice(["", "!", "x", text[place]]) + text[place:]


def test_all_pairs():
    dice = random.Random(0)
    training = [" ".join(dice.choices(WORDS, k=dice.randrange(1, 25))) for _ in range(250)]
    rows = [changed(dice, dice.choice(training)) for _ in range(250)]
    sets, others = ([runs(text) for text in texts] for texts in (rows, training))
    best = [max(jaccard(row, other) for other in others) for row in sets]
    assert sum(0.8 <= one < 1 for one in best) > 30  # near, but not equal
    assert sum(0.5 <= one < 0.8 for one in best) > 30
    found = {one.row: one for one in near_duplicates([rows], [training])}
    assert set(found) == {row for row, similarity in enumerate(best) if similarity >= 0.8}
    for one in found.values():
        assert one.similarity == pytest.approx(jaccard(sets[one.row], others[one.training_row]))
        assert one.equal == (words_of(rows[one.row]) in map(words_of, training))


def test_what_is_equal():
    rows = ["It WAS good!", "ｉｔ was  good", "it was bad", "", "...", "영화, 좋아요"]
    training = ["영화 좋아요.", "It was: good", "", "..."]
    found = near_duplicates([rows], [training])
    assert [(one.row, one.training_row, one.equal) for one in found] == [
        (0, 1, True), (1, 1, True), (4, 3, True), (5, 0, True),
    ]  # fmt: skip


def test_every_text_of_a_row_must_be_near():
    context = "The old bridge was built by engineers, and the new one was opened in 1932. " * 4
    rows = [["When was it opened?", "Who built the old bridge?"], [context, context]]
    training = [["When was it  opened", "Which colour has it?"], [context[:-3], context]]
    (found,) = near_duplicates(rows, training)
    assert (found.row, found.training_row, found.equal) == (0, 0, False)
    with pytest.raises(ValueError, match=r"Pass the same columns of both. Received: 1 and 2 columns"):
        near_duplicates(rows, training[:1])


def test_many_rows_of_one_form():
    form = "Your order {} was shipped on Monday and will arrive by the end of this week. Thank you for your order."
    training = [form.format(number) for number in range(3000, 3300)]
    found = near_duplicates([[form.format(number) for number in range(7000, 7400)]], [training])
    assert [one.row for one in found] == list(range(400))


class Generated:
    """A column of many texts, none of which is kept."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        dice = random.Random(number)
        return " ".join(dice.choices(WORDS, k=12)) + f" {number}"


def test_training_rows_need_no_memory():
    peaks = []
    for count in (1050, 3150):
        tracemalloc.start()
        near_duplicates([["the film was good", "no"]], [Generated(count)])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 10_000_000
