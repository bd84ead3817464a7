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
