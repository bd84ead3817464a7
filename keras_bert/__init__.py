"""BERT for Keras 3: text in, vectors and answers out, from a vocabulary to a served model."""

from importlib.metadata import PackageNotFoundError, distribution


def _refuse_old_package() -> None:
    """An error where the package that this one follows is installed too."""
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
from keras_bert.bert import Bert  # noqa: E402
from keras_bert.config import BertConfig  # noqa: E402
from keras_bert.exports.export import export  # noqa: E402
from keras_bert.layers import mlm_head as _mlm_head  # noqa: E402, F401
from keras_bert.pretraining.pretrainer import Pretrainer  # noqa: E402
from keras_bert.tasks.multiple_choice import MultipleChoice  # noqa: E402
from keras_bert.tasks.question_answerer import QuestionAnswerer  # noqa: E402
from keras_bert.tasks.task import Task  # noqa: E402
from keras_bert.tasks.text_classifier import TextClassifier  # noqa: E402
from keras_bert.tasks.text_regressor import TextRegressor  # noqa: E402
from keras_bert.tasks.token_tagger import TokenTagger  # noqa: E402
from keras_bert.text.preprocessor import Preprocessor  # noqa: E402
from keras_bert.text.vocabulary import Vocabulary  # noqa: E402
from keras_bert.training.optimizer import AdamW  # noqa: E402
from keras_bert.training.strategy import strategy  # noqa: E402
from keras_bert.version import __version__  # noqa: E402
from keras_bert.weights.load import load  # noqa: E402
from keras_bert.weights.zoo import list_models  # noqa: E402

__all__ = [
    "AdamW",
    "Bert",
    "BertConfig",
    "MultipleChoice",
    "Preprocessor",
    "Pretrainer",
    "QuestionAnswerer",
    "Task",
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
