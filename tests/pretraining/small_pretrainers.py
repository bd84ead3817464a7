"""A small Pretrainer, and a batch for it."""

import dataclasses

import numpy as np

from keras_bert.bert import Bert
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.text.preprocessor import Preprocessor
from tests.parity.oracles import randomize
from tests.weights import small

X = {**small.INPUTS, "masked_lm_positions": small.POSITIONS}
Y = {"mlm_logits": small.POSITIONS + 5, "nsp_logits": np.array([0, 1, 1, 0], "int32")}
WEIGHTS = {"mlm_logits": np.array([[1, 1], [0, 0], [1, 0], [1, 1]], "float32"), "nsp_logits": np.ones(4, "float32")}


def small_pretrainer(dtype=None, layers=1, **options):
    config = dataclasses.replace(small.CONFIG, num_hidden_layers=layers)
    bert = Bert(config, Preprocessor(small.VOCABULARY, seq_length=16, max_length=16), dtype=dtype)
    return randomize(Pretrainer(bert, **options))


def only(batch, *names):
    """Of y and weights what belongs to these outputs."""
    return tuple({name: value[name] for name in names} for value in batch)
