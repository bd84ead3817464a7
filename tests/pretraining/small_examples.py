"""Examples of a small corpus, written and read."""

import numpy as np

from keras_bert.pretraining import read_examples, write_examples
from tests.pretraining.corpus import VOCABULARY


def write(source, directory, **options):
    return write_examples(
        source, directory, **{"vocabulary": VOCABULARY, "seq_length": 32, "shard_size": 4000, "workers": 1} | options
    )


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def batches(source, count=None, **options):
    dataset = read_examples(source, **{"batch_size": 8} | options)
    dataset = dataset if count is None else dataset.take(count)
    return [
        {
            f"{part}/{name}": value.numpy()
            for part, values in zip("xyw", batch, strict=True)
            for name, value in values.items()
        }
        for batch in dataset
    ]


def same(first, second):
    return len(first) == len(second) and all(
        a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)
        for a, b in zip(first, second, strict=True)
    )


def unmasked(batch):
    """The ids as they were before they were masked, without padding."""
    ids = batch["x/input_word_ids"].copy()
    real = batch["w/mlm_logits"] > 0
    rows = np.nonzero(real)[0]
    ids[rows, batch["x/masked_lm_positions"][real]] = batch["y/mlm_logits"][real]
    return [tuple(row[: mask.sum()].tolist()) for row, mask in zip(ids, batch["x/input_mask"], strict=True)]


def rows_of(batch):
    count = len(next(iter(batch.values())))
    return [{name: value[row].tolist() for name, value in batch.items()} for row in range(count)]
