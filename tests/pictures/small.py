"""A small model that reads English and Korean."""

import keras

from keras_bert import Bert, BertConfig, Preprocessor, Vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = ("the", "cat", "sat", "em", "##bed", ".", "<", ">", "/", "script", "영화", "##를", "보", "##았다", "서울", "$")


def bert(positions: int = 32, layers: int = 2, **options) -> Bert:
    keras.utils.set_random_seed(0)
    vocabulary = Vocabulary([*SPECIAL, *PIECES])
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=8,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=positions,
        initializer_range=0.5,  # so that heads differ
    )
    preprocessor = Preprocessor(vocabulary, strip_accents=False, seq_length="longest", max_length=positions, **options)
    return Bert(config, preprocessor)
