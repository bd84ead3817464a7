"""What every part that reads text answers, as JSON: `python -m tests.text.answers MISSING FOLDER KIND...`.

MISSING is a list of packages, such as "tensorflow,tensorflow_text", that are made unimportable first, or "none". FOLDER
has a task of each kind, as `save_all` has written them.
"""

import json
import sys

if __name__ == "__main__" and sys.argv[1] != "none":
    for missing in sys.argv[1].split(","):
        sys.modules[missing] = None  # importing it fails, as where it is not installed

import dataclasses
from pathlib import Path

import keras
import numpy as np

import keras_bert
from keras_bert.tasks.metrics.scores import scores
from keras_bert.text.tensors import uses_tensorflow
from keras_bert.weights import our_folder
from tests.tasks.small import NO_DROPOUT, TEXTS, answers, columns, small_bert, small_task
from tests.weights import small

LONG = ["anna lives in rome . " * 9, "Jose\u0301 lives, 서울에서 e\u0301\u302e\u0301!", "", "good"]
MASKED = ["w1 [MASK] w2", "[MASK] w3 [MASK]"]


def save_all(folder, *kinds):
    """One task of each of these kinds, and a pretrained model."""
    for kind in kinds:
        small_task(kind, small_bert(**NO_DROPOUT)).save(f"{folder}/{kind}.keras")
    our_folder.write_checkpoint(small.checkpoint("mlm", "nsp"), Path(folder, "pretrained"))


def all_answers(folder, *kinds):
    """Numbers, texts and lists, by what they come from."""
    found = {}
    pretrainer = keras_bert.Pretrainer.load(f"{folder}/pretrained")
    found["fill_mask"] = [[vars(one) for one in mask] for text in pretrainer.fill_mask(MASKED) for mask in text]
    found["is_next"] = vars(pretrainer.is_next("w1 w2", "w3"))
    bert = keras_bert.load(f"{folder}/pretrained")
    found["attention"] = bert.attention(TEXTS).maps.tolist()
    for kind in kinds:
        task = keras.models.load_model(f"{folder}/{kind}.keras")
        found["embed"] = task.bert.embed(LONG).tolist()
        found["pieces"] = [dataclasses.astuple(one) for one in task.bert.embed(LONG, pooling=None)]
        found["pairs"] = task.bert.embed((LONG, LONG[::-1]), pooling="cls", max_length=9).tolist()
        found["preprocessor"] = [task.bert.preprocessor(texts) for texts in ("anna", LONG, (LONG, LONG[::-1]))]
        x, y = columns(kind)
        found[f"{kind} predict"] = task.predict(x).tolist()
        found[f"{kind} answers"] = plain(answers(kind, task))
        found[f"{kind} scores"] = scores(task, x, y)
        options = {"epochs": 2, "batch_size": 2, "verbose": 0, "validation_data": (x, y)}
        found[f"{kind} fit"] = task.fit(x, y, **options).history
        found[f"{kind} evaluate"] = task.evaluate(x, y, verbose=0, return_dict=True)
        if kind == "tagger":
            found["tag_words"] = task.tag_words([["Anna", "\x00", "lives"], ["good"]])
            found["long"] = plain(task.tag(LONG))
        if kind == "answerer":
            found["long answers"] = plain(task.answer(["who lives?"] * 4, [*LONG[:2], "", "Rome"], top_k=5))
    return plain(found)


def plain(value):
    """As JSON has it."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value):
        return plain(dataclasses.astuple(value))
    if isinstance(value, str | int | float | bool | None):
        return value
    return np.asarray(keras.ops.convert_to_numpy(value)).tolist()


if __name__ == "__main__":
    assert uses_tensorflow() == (sys.argv[1] == "none")
    sys.stdout.write(json.dumps(all_answers(*sys.argv[2:])))
