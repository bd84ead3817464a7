"""`load`: a `Bert` from a file of any known format."""

import logging
import os
from pathlib import Path
from typing import Any

from keras_bert.bert import Bert
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.weights import google, hugging_face, keras_hub, model_garden, own
from keras_bert.weights.checkpoint import Checkpoint

logger = logging.getLogger("keras_bert")

FORMATS = (own, hugging_face, keras_hub, google, model_garden)  # each tells its own by what lies at a path


def load(
    source: str | os.PathLike,
    *,
    weights: bool = True,
    dtype: Any = None,
    seq_length: int | str = 128,
    cache_dir: str | os.PathLike | None = None,
    local_only: bool = False,
) -> Bert:
    """The encoder of `source`, with its vocabulary.

    source: a name of `list_models`, the path of a file or folder of any known format, or "hf://org/name".
    weights: False gives the architecture with random weights.
    dtype: a Keras policy, such as "bfloat16" for inference or "mixed_bfloat16" for training.
    seq_length: of the preprocessor; its attribute can be set later.
    cache_dir: where downloads are kept; by default KERAS_BERT_HOME, else a folder of Keras's own.
    local_only: never use the network.
    """
    return build(read(Path(source)), weights=weights, dtype=dtype, seq_length=seq_length)


def read(path: Path) -> Checkpoint:
    """The checkpoint at a path, its format told by what lies there."""
    for form in FORMATS:
        if form.recognise(path):
            return form.read_checkpoint(path)
    raise ValueError(f"The path must hold a BERT of a known format. Received: {path}")


def build(checkpoint: Checkpoint, *, weights: bool = True, dtype: Any = None, seq_length: int | str = 128) -> Bert:
    """The model of a checkpoint."""
    config, preprocessor = checkpoint.config, None
    if checkpoint.vocabulary is not None:
        preprocessor = Preprocessor(
            checkpoint.vocabulary,
            **vars(checkpoint.rules),
            seq_length=seq_length,
            max_length=config.max_position_embeddings,
        )
    bert = Bert(config, preprocessor, dtype=dtype)
    if weights:
        checkpoint.assign_to(bert)
    bert.pooling = checkpoint.pooling
    return bert
