"""The model a run starts from: a new one, or one of any source, fitted to the vocabulary of the examples."""

import dataclasses
import logging
from typing import Any

import numpy as np

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.pretraining.examples.read_examples import ExampleReader
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.pretraining.run.pretrain_recipe import Recipe
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.vectors import Pooling
from keras_bert.weights.checkpoint import Checkpoint, Head
from keras_bert.weights.heads import assign_head
from keras_bert.weights.load import build, read_source
from keras_bert.weights.tables import Stored

logger = logging.getLogger("keras_bert")


def new_model(recipe: Recipe, examples: ExampleReader) -> Pretrainer:
    """A model of the recipe's size with random weights."""
    assert examples.vocabulary is not None
    return _pretrainer(BertConfig.from_size(recipe.size, vocab_size=len(examples.vocabulary)), recipe, examples)


def model_from(checkpoint: Checkpoint, recipe: Recipe, examples: ExampleReader) -> Pretrainer:
    """A model with the weights of a checkpoint that has the examples' vocabulary; heads it lacks are random.

    A head for masked words with another GELU or epsilon, as in a preset of KerasHub, is trained with those of the
    encoder, since our folder has one config for both.
    """
    pretrainer = _pretrainer(checkpoint.config, recipe, examples, checkpoint.pooling)
    checkpoint.assign_to(pretrainer.bert)
    assign_head(pretrainer, checkpoint)
    if missing := set(pretrainer.heads) - set(checkpoint.heads):
        names = ", ".join(map(repr, sorted(missing)))
        logger.warning("%s lacks these heads, which start from random weights: %s.", checkpoint.source, names)
    return pretrainer


def read_resized(source: Any, examples: ExampleReader) -> Checkpoint:
    """Read anything that `load` accepts, with the examples' vocabulary: known pieces keep their vectors and biases."""
    vocabulary = examples.vocabulary
    assert vocabulary is not None
    checkpoint = read_source(source)
    if checkpoint.vocabulary is None:
        if checkpoint.config.vocab_size != len(vocabulary):
            raise ValueError(
                f"{source} has no vocabulary, and its {checkpoint.config.vocab_size} word vectors do not fit the "
                f"examples' {len(vocabulary)} pieces. Put its vocab.txt beside the weights. Received: {source}"
            )
        return checkpoint
    if examples.rules not in (None, checkpoint.rules):
        logger.warning(
            "The examples were written with other text rules than those of %s. The new model has the rules of the "
            "examples. To keep the others, write the examples again with the options for them, such as --cased. "
            "Received: %s in the examples, %s in the model",
            source, examples.rules, checkpoint.rules,
        )  # fmt: skip
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


def _pretrainer(
    config: BertConfig, recipe: Recipe, examples: ExampleReader, pooling: Pooling | None = None
) -> Pretrainer:
    rate = recipe.dropout
    config = dataclasses.replace(config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)
    assert examples.vocabulary is not None
    preprocessor = Preprocessor(examples.vocabulary, **vars(examples.rules), max_length=config.max_position_embeddings)
    bert = Bert(config, preprocessor, dtype=recipe.dtype, remat=recipe.remat, pooling=pooling)
    return Pretrainer(bert, nsp=examples.nsp)
