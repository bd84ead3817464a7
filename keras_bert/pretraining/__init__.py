"""From raw text to a pretrained BERT: documents, examples, and the run that learns from them.

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

from typing import Any

_WHERE = {
    "write_examples": "examples.write_examples",
    "read_examples": "examples.read_examples",
    "pretrain": "run.pretrain",
    "evaluate": "run.evaluation",
    "Recipe": "run.pretrain_recipe",
    "RECIPES": "run.pretrain_recipe",
}

__all__ = ["RECIPES", "Recipe", "evaluate", "pretrain", "read_examples", "write_examples"]


def __getattr__(name: str) -> Any:  # each is imported when it is asked for
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
