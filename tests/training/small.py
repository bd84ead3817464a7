"""A small model with `measures`, and batches that are a pure function of the step."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.layers.mlm_head import mlm_head
from keras_bert.training.measures import Measure

VOCABULARY, BATCH, LENGTH, MASKED = 50, 16, 6, 3


def small_model(dropout=0.0, dtype="float32", seed=7):
    """BERT of 2 layers and width 8 with an MLM head; same seed, same weights and masks."""
    keras.utils.set_random_seed(seed)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.2,
    )
    bert = Bert(config, dtype=dtype)
    positions = keras.Input((MASKED,), dtype="int32", name="masked_lm_positions")
    logits = mlm_head(bert.output["sequence_output"], positions, bert.word_embeddings, config, dtype)
    return Small({**bert.input, "masked_lm_positions": positions}, logits)


class Small(keras.Model):
    objective = ("loss",)

    def measures(self, batch, training):
        x, y, weight = batch
        logits = tf.cast(self(x, training=training), "float32")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        right = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), y), "float32")
        count = tf.reduce_sum(weight)
        return {
            "loss": Measure(tf.reduce_sum(losses * weight), count),
            "accuracy": Measure(tf.reduce_sum(right * weight), count),
        }


def batches(start, part=(0, 1)):
    """The rows of this worker, from the batch of step `start`; how many positions count differs by row."""
    dataset = tf.data.Dataset.range(start, 2**40).map(batch)
    rows = BATCH // part[1]
    return dataset.map(lambda *x: tf.nest.map_structure(lambda t: t[part[0] * rows : (part[0] + 1) * rows], x))


def batch(step):
    def draw(salt, *shape, low, high):
        return tf.random.stateless_uniform(shape, tf.stack([step, salt]), low, high, tf.int32)

    lengths = draw(0, BATCH, 1, low=3, high=LENGTH + 1)
    mask = tf.cast(tf.range(LENGTH) < lengths, tf.int32)
    ids = draw(1, BATCH, LENGTH, low=1, high=VOCABULARY) * mask
    positions = draw(2, BATCH, MASKED, low=0, high=3)
    weight = tf.cast(draw(3, BATCH, MASKED, low=0, high=3) > 0, tf.float32)
    x = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": mask * 0, "masked_lm_positions": positions}
    return x, draw(4, BATCH, MASKED, low=1, high=VOCABULARY) % 7, weight


def weights(model):
    return np.concatenate([np.ravel(np.asarray(x)) for x in model.trainable_variables])
