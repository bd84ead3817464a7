"""BERT for Keras 3: text in, vectors and answers out, from a vocabulary to a served model.

Importing the package registers all its classes with Keras, so that `keras.models.load_model` finds them.
"""

from keras_bert import installation as _installation  # first: it raises the error that explains later ones
from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.exports.export import export
from keras_bert.inference import inference
from keras_bert.nearest import nearest
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.tasks import metrics as _metrics  # F1 and Matthews
from keras_bert.tasks.columns.other_columns import OtherColumns
from keras_bert.tasks.distillation import Distillation
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.sentence_embedder import SentenceEmbedder
from keras_bert.tasks.task import Task
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.training.optimizer import AdamW
from keras_bert.training.strategy import strategy
from keras_bert.version import __version__
from keras_bert.weights.load import load
from keras_bert.weights.zoo import list_models

__all__ = [
    "AdamW",
    "Bert",
    "BertConfig",
    "Distillation",
    "FinetuneRecipe",
    "MultipleChoice",
    "OtherColumns",
    "Preprocessor",
    "Pretrainer",
    "QuestionAnswerer",
    "SentenceEmbedder",
    "Task",
    "TextClassifier",
    "TextRegressor",
    "TokenTagger",
    "Vocabulary",
    "__version__",
    "export",
    "inference",
    "list_models",
    "load",
    "nearest",
    "strategy",
]
