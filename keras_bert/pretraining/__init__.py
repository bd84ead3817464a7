"""From raw text to a pretrained BERT: documents, examples, and a run that trains on them.

>>> import dataclasses, tempfile
>>> from keras_bert import Vocabulary
>>> from keras_bert.pretraining import RECIPES, evaluate, pretrain, read_examples, write_examples
>>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "here", "there"])
>>> recipe = dataclasses.replace(RECIPES["tiny-laptop"], steps=1, batch_size=4)
>>> folder = tempfile.TemporaryDirectory()
>>> data, run = f"{folder.name}/data", f"{folder.name}/run"
>>> texts = iter(["Here. There. Here there.", "There. There here. Here."] * 4)  # or files
>>> written = write_examples(texts, data, vocabulary=vocabulary, seq_length=16, workers=1)
>>> x, y, sample_weight = next(iter(read_examples(data, batch_size=2)))
>>> x["input_word_ids"].shape, y["mlm_logits"].shape
(TensorShape([2, 16]), TensorShape([2, 3]))
>>> pretrainer = pretrain(data, run, recipe=recipe, strategy="one")
>>> evaluate(run, data).examples == written.examples
True
>>> folder.cleanup()
"""

from keras_bert.pretraining.examples.read_examples import read_examples
from keras_bert.pretraining.examples.write_examples import write_examples
from keras_bert.pretraining.run.evaluation import evaluate
from keras_bert.pretraining.run.pretrain import pretrain
from keras_bert.pretraining.run.pretrain_recipe import RECIPES, Recipe

__all__ = ["RECIPES", "Recipe", "evaluate", "pretrain", "read_examples", "write_examples"]
