"""The model that a run begins with: a new one, or one of any source with the vocabulary of the data."""

import dataclasses
import logging
from typing import Any, NamedTuple

import numpy as np

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.pretraining.run.pretrain_recipe import Recipe
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.checkpoint import Checkpoint, Head
from keras_bert.weights.heads import assign_head
from keras_bert.weights.load import build, read_source
from keras_bert.weights.tables import Stored

logger = logging.getLogger("keras_bert")


class Kind(NamedTuple):
    """What the examples of a run have in common."""

    vocabulary: Vocabulary
    rules: TextRules
    nsp: bool


def new_model(recipe: Recipe, kind: Kind) -> Pretrainer:
    """A model of the recipe's size, drawn at random."""
    config = dataclasses.replace(BertConfig.from_size(recipe.size), vocab_size=len(kind.vocabulary))
    return _pretrainer(config, recipe, kind)


def model_from(checkpoint: Checkpoint, recipe: Recipe, kind: Kind) -> Pretrainer:
    """A model with the weights of a checkpoint of `resized`; heads that it lacks are drawn at random."""
    pretrainer = _pretrainer(checkpoint.config, recipe, kind)
    checkpoint.assign_to(pretrainer.bert)
    assign_head(pretrainer, checkpoint)
    if missing := set(pretrainer.heads) - set(checkpoint.heads):
        logger.warning("%s has no head %s; it is drawn at random.", checkpoint.source, ", ".join(sorted(missing)))
    return pretrainer


def resized(source: Any, vocabulary: Vocabulary) -> Checkpoint:
    """The weights of anything that `load` takes, for this vocabulary: a piece keeps its vector and its bias."""
    checkpoint = read_source(source)
    if checkpoint.vocabulary is None:
        if checkpoint.config.vocab_size != len(vocabulary):
            raise ValueError(
                f"The source must have a vocabulary, or a word vector for each of the data's {len(vocabulary)} pieces. "
                f"Put its vocab.txt beside the weights. Received: {checkpoint.config.vocab_size} vectors in {source}"
            )
        return checkpoint
    if checkpoint.vocabulary.tokens == vocabulary.tokens:
        return checkpoint
    bert = build(checkpoint).resize(vocabulary=vocabulary)
    heads = dict(checkpoint.heads)
    if "mlm" in heads:
        heads["mlm"] = _resized_head(heads["mlm"], checkpoint.vocabulary, vocabulary)
    return dataclasses.replace(Checkpoint.of(bert), source=checkpoint.source, heads=heads)


def _resized_head(head: Head, old: Vocabulary, new: Vocabulary) -> Head:
    bias = head.weights["mlm_bias/bias"].read()
    values = [bias[old[piece]] if piece in old else 0.0 for piece in new.tokens]
    return dataclasses.replace(head, weights={**head.weights, "mlm_bias/bias": Stored.of(np.array(values, "float32"))})


def _pretrainer(config: BertConfig, recipe: Recipe, kind: Kind) -> Pretrainer:
    rate = recipe.dropout
    config = dataclasses.replace(config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)
    preprocessor = Preprocessor(kind.vocabulary, **vars(kind.rules), max_length=config.max_position_embeddings)
    return Pretrainer(Bert(config, preprocessor, dtype=recipe.dtype, remat=recipe.remat), nsp=kind.nsp)
