"""BERT for Keras 3: text in, vectors and answers out, from a vocabulary to a served model."""

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.version import __version__

# `keras-bert`, or `python -m keras_bert.cli`: a command imports what it needs when it runs, so that help comes at once,
# without Keras, whose import takes seconds, and an import that fails or is interrupted is told like any error.
_COMMAND_LINE = Path(sys.argv[0]).stem == "keras-bert" or "keras_bert.cli" in sys.orig_argv


def refuse_old_package() -> None:
    """An error where the package that this one follows is installed too."""
    try:
        distribution("keras-bert")
    except PackageNotFoundError:
        return
    raise ImportError(
        "The abandoned package keras-bert writes into the same folder keras_bert as this one. "
        "Run: pip uninstall -y keras-bert keras3-bert && pip install keras3-bert. Received: both installed"
    )


if not _COMMAND_LINE:
    refuse_old_package()

# Importing these registers their classes, so that keras.models.load_model finds them.
if TYPE_CHECKING or not _COMMAND_LINE:
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
