"""A model of 1 layer and width 8 to start a run from."""

from pathlib import Path

import keras

import keras_bert
from keras_bert.weights import our_folder
from keras_bert.weights.checkpoint import Checkpoint


def write_source(folder, vocabulary, positions):
    keras.utils.set_random_seed(1)
    config = keras_bert.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=positions,
        initializer_range=0.2,
    )
    bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary, seq_length=16))
    our_folder.write_checkpoint(Checkpoint.of(bert), Path(folder))
