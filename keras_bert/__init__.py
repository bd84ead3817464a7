"""BERT for Keras 3: text in, vectors and answers out, from a vocabulary to a served model."""

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.version import __version__

# What stands behind `keras-bert`, or `python -m keras_bert.cli`; None for any other program.
_WORDS = sys.argv[1:] if Path(sys.argv[0]).stem == "keras-bert" or "keras_bert.cli" in sys.orig_argv else None
# Help, completion and the list of models come at once: these need no Keras, whose import takes seconds.
_LIGHT = _WORDS is not None and (
    "--help" in _WORDS or "_KERAS_BERT_COMPLETE" in os.environ or _WORDS[:1] in ([], ["--version"], ["models"])
)

# The command line has its own words for errors. TensorFlow reads this when Keras imports it, below.
if _WORDS is not None and "--debug" not in _WORDS:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _refuse_old_package() -> None:
    try:
        distribution("keras-bert")
    except PackageNotFoundError:
        return
    raise ImportError(
        "The abandoned package keras-bert writes into the same folder keras_bert as this one. "
        "Run: pip uninstall -y keras-bert keras3-bert && pip install keras3-bert. Received: both installed"
    )


_refuse_old_package()

# Importing these registers their classes, so that keras.models.load_model finds them.
if TYPE_CHECKING or not _LIGHT:
    from keras_bert.bert import Bert
    from keras_bert.config import BertConfig
    from keras_bert.hub.export import export
    from keras_bert.layers import mlm_head as _mlm_head  # noqa: F401
    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.tasks.multiple_choice import MultipleChoice
    from keras_bert.tasks.question_answerer import QuestionAnswerer
    from keras_bert.tasks.text_classifier import TextClassifier
    from keras_bert.tasks.text_regressor import TextRegressor
    from keras_bert.tasks.token_tagger import TokenTagger
    from keras_bert.text.preprocessor import Preprocessor
    from keras_bert.text.vocabulary import Vocabulary
    from keras_bert.training.optimizer import AdamW
    from keras_bert.training.strategy import strategy
    from keras_bert.weights.load import load
    from keras_bert.weights.zoo import list_models

__all__ = [
    "AdamW",
    "Bert",
    "BertConfig",
    "MultipleChoice",
    "Preprocessor",
    "Pretrainer",
    "QuestionAnswerer",
    "TextClassifier",
    "TextRegressor",
    "TokenTagger",
    "Vocabulary",
    "__version__",
    "export",
    "list_models",
    "load",
    "strategy",
]
