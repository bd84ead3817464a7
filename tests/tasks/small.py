"""A small Bert with a vocabulary, one task of each kind over it, and examples to learn."""

import functools

import keras

from keras_bert import Bert, BertConfig, Preprocessor, Vocabulary
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.sentence_embedder import SentenceEmbedder
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger
from tests.parity.oracles import randomize

WORDS = [
    "the",
    "film",
    "was",
    "good",
    "bad",
    "an",
    "##na",
    "lives",
    "in",
    "rome",
    "who",
    "where",
    "?",
    ".",
    "서울",
    "##에서",
]
VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=8,
    num_hidden_layers=1,  # tracing is what takes the time
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=32,
)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TEXTS = ["the film was good .", "bad", "the film was bad , the film was bad .", "good good good"]
QUERIES = ["good", "bad", "rome", "anna"]
POSITIVES = ["the film was good", "the film was bad", "lives in rome", "who lives"]
NEGATIVES = ["bad", "good", "the film", "the film was good"]
PAIRS = (TEXTS, ["good", "the film was bad", "bad", "film"])
QUESTIONS = (["where lives anna?", "who lives in rome?"], ["Anna lives in Rome.", "Anna lives in Rome."])
# Without "windows", a classifier whose inputs have another rank.
KINDS = ("classifier", "several", "regressor", "cosine", "tagger", "pieces", "answerer", "choice", "embedder")


def small_bert(seq_length=16, dtype=None, **changes):
    config = BertConfig(**{**vars(CONFIG), **changes})
    preprocessor = Preprocessor(VOCABULARY, strip_accents=False, seq_length=seq_length, max_length=32)
    return randomize(Bert(config, preprocessor, dtype=dtype))


def small_task(kind, bert=None, **options):
    bert = bert or small_bert()
    if kind == "classifier":
        return TextClassifier(bert, labels=("negative", "positive"), **options)
    if kind == "several":
        return TextClassifier(bert, labels=("film", "good", "bad"), multi_label=True, **options)
    if kind == "windows":
        bert.preprocessor.seq_length = 6
        return TextClassifier(bert, labels=("negative", "positive"), long="windows", pool="attention", **options)
    if kind == "regressor":
        return TextRegressor(bert, **options)
    if kind == "cosine":
        return TextRegressor(bert, pairs="cosine", **options)
    if kind in ("tagger", "pieces"):
        unit = "piece" if kind == "pieces" else "word"
        return TokenTagger(bert, labels=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), unit=unit, **options)
    if kind == "answerer":
        return QuestionAnswerer(bert, **options)
    if kind == "embedder":
        return SentenceEmbedder(bert, **options)
    return MultipleChoice(bert, choices=3, **options)


def columns(kind):
    """What a task of this kind learns: x and y."""
    return {
        "classifier": (TEXTS, ["positive", "negative", "negative", "positive"]),
        "windows": (TEXTS, ["positive", "negative", "negative", "positive"]),
        "several": (TEXTS, [["film", "good"], ["bad"], ["film", "bad"], []]),
        "regressor": (PAIRS, [1.0, 0.0, 0.5, -2.0]),
        "cosine": (PAIRS, [1.0, 0.0, 0.5, -1.0]),
        "tagger": ([["Anna", "lives", "in", "Rome"], ["good"]], [["B-PER", "O", "O", "B-LOC"], ["O"]]),
        "pieces": (["Anna lives in Rome.", "서울에서"], [[(0, 4, "PER"), (14, 18, "LOC")], [(0, 2, "LOC")]]),
        "answerer": (QUESTIONS, ["Rome", ("Anna", 0)]),
        "choice": ((["the film was", "anna lives"], [["good", "rome", "who"], ["bad", "in", "in rome"]]), [0, 2]),
        "embedder": (PAIRS, [1.0, 0.0, 0.5, -1.0]),
    }[kind]


def answers(kind, task):
    """What a task of this kind tells of its examples."""
    x = columns(kind)[0]
    if kind in ("classifier", "several", "windows"):
        return task.classify(x)
    if kind in ("regressor", "cosine"):
        return task.score(x).tolist()
    if kind in ("tagger", "pieces"):
        return task.tag(x)
    if kind == "embedder":
        return [vectors.tolist() for vectors in task.answers(x)]
    return task.answer(*x, top_k=2) if kind == "answerer" else task.choose(*x)


@functools.cache
def trained(kind):
    """A task that has learned its examples by heart, in one epoch of many copies; and the losses of begin and end."""
    keras.utils.set_random_seed(0)
    task = small_task(kind, small_bert(**NO_DROPOUT, num_hidden_layers=2, hidden_size=16, intermediate_size=32))
    task.compile(keras.optimizers.Adam(0.003), task.default_loss(), weighted_metrics=task.default_metrics())
    x, y = columns(kind)
    times = 300 if kind == "answerer" else 80
    copies = tuple(column * times for column in x) if isinstance(x, tuple) else x * times
    before = task.evaluate(x, y, return_dict=True, verbose=0)
    task.fit(copies, y * times, batch_size=len(y), verbose=0)
    return task, before["loss"]
