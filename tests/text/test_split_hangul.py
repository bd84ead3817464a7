"""Hangul in Unicode's form NFD, which looks like NFC, is named in the log."""

import unicodedata

import pytest

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary

WHOLE = ["영화 좋다", "영화 나쁘다"]
SPLIT = [unicodedata.normalize("NFD", text) for text in WHOLE]
OLD = "\N{HANGUL CHOSEONG SSANGHIEUH}\N{HANGUL JUNGSEONG A}"  # of which there is no whole syllable
WARNING = "syllables that are split into letters"


def small_bert(**rules):
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "영화", "좋다"])
    return Bert(BertConfig.from_size("tiny"), Preprocessor(vocabulary, **rules))


@pytest.mark.parametrize("count", [1, 300])  # with and without TensorFlow's ops
def test_texts(caplog, count):
    bert = small_bert(strip_accents=False)
    bert.embed([*WHOLE * count, OLD])
    assert WARNING not in caplog.text
    for _ in range(2):
        bert.embed(SPLIT * count)
    assert caplog.text.count(WARNING) == 1
    small_bert().embed(SPLIT * count)  # which also splits whole ones
    assert caplog.text.count(WARNING) == 1


def test_contexts_of_questions(caplog):
    task = QuestionAnswerer(small_bert(strip_accents=False))
    task.answer(WHOLE[0], WHOLE[1])
    assert WARNING not in caplog.text
    task.answer(WHOLE[0], SPLIT[1])
    assert caplog.text.count(WARNING) == 1


def test_texts_from_which_a_vocabulary_is_learned(caplog):
    for texts, rules in (WHOLE, {"strip_accents": False}), (SPLIT, {}):
        Vocabulary.learn(texts * 10, size=60, **rules)
        assert WARNING not in caplog.text
    Vocabulary.learn(SPLIT * 10, size=60, strip_accents=False)
    assert WARNING in caplog.text
