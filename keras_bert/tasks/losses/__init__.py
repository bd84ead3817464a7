"""Losses of sentence vectors, by the word that `SentenceEmbedder.fit(loss=...)` takes."""

from keras_bert.tasks.losses.batch_hard_triplet import BatchHardTriplet
from keras_bert.tasks.losses.multiple_negatives import MultipleNegativesRanking
from keras_bert.tasks.losses.scored_pairs import CoSENT, CosineMSE
from keras_bert.tasks.losses.sentence_loss import SentenceLoss

LOSSES: dict[str, type[SentenceLoss]] = {
    "ranking": MultipleNegativesRanking,
    "cosine": CosineMSE,
    "cosent": CoSENT,
    "triplet": BatchHardTriplet,
}


def name_of(loss: SentenceLoss) -> str:
    """The word for a loss; for one that has none, its class."""
    return next((name for name, kind in LOSSES.items() if type(loss) is kind), type(loss).__name__)
