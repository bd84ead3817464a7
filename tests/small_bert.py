"""The small Bert that tests/test_bert*.py ask, and what tells two of them apart."""

import keras
import numpy as np

from keras_bert.config import BertConfig
from tests.parity.oracles import array

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
)


def flat(outputs):
    return [array(x) for x in keras.tree.flatten(outputs)]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(flat(one), flat(other), strict=True))
