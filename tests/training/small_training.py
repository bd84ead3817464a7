"""A small pretrainer, and batches that are a pure function of the step."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.training.loop_options import LoopOptions

VOCABULARY, BATCH, LENGTH, MASKED = 50, 16, 6, 3


def small_pretrainer(dropout=0.0, dtype="float32", seed=7):
    """A layer of width 8; the same seed gives the same weights and the same masks."""
    keras.utils.set_random_seed(seed)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=1,  # tracing is what takes the time
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.2,
    )
    return Pretrainer(Bert(config, dtype=dtype))


def batches(step, part=(0, 1)):
    """From the batch of this step on, the rows of one part of it."""
    rows = BATCH // part[1]
    mine = slice(part[0] * rows, (part[0] + 1) * rows)
    options = tf.data.Options()
    options.autotune.enabled = False  # with it, an iterator that is deleted can wait for a minute
    steps = tf.data.Dataset.range(step, 2**40).with_options(options)
    return steps.map(lambda step: tf.nest.map_structure(lambda x: x[mine], batch(step)))


def batch(step):
    """Random texts; rows differ in length and in the number of positions."""

    def draw(salt, *shape, low, high):
        return tf.random.stateless_uniform(shape, tf.stack([step, salt]), low, high, tf.int32)

    mask = tf.cast(tf.range(LENGTH) < draw(0, BATCH, 1, low=3, high=LENGTH + 1), tf.int32)
    x = {
        "input_word_ids": draw(1, BATCH, LENGTH, low=1, high=VOCABULARY) * mask,
        "input_mask": mask,
        "input_type_ids": mask * 0,
        "masked_lm_positions": draw(2, BATCH, MASKED, low=0, high=3),
    }
    y = {"mlm_logits": draw(3, BATCH, MASKED, low=1, high=8), "nsp_logits": draw(4, BATCH, low=0, high=2)}
    asked = tf.cast(draw(5, BATCH, MASKED, low=0, high=3) > 0, tf.float32)
    return x, y, {"mlm_logits": asked, "nsp_logits": tf.ones([BATCH])}


def weights(model):
    return np.concatenate([np.ravel(np.asarray(x)) for x in model.trainable_variables])


def with_loop(options):
    """Keyword arguments of `train` in which those of `LoopOptions` are one argument."""
    names = {field.name for field in dataclasses.fields(LoopOptions)} & set(options)
    loop = LoopOptions(**{name: options[name] for name in names})
    return {"loop": loop, **{name: value for name, value in options.items() if name not in names}}
