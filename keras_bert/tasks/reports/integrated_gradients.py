"""Integrated gradients (Sundararajan et al. 2017): how much each piece of an example adds to a value of its logits.

The path goes from the row with [MASK] in the place of every piece to the row itself, along a straight line between the
word vectors of both. What the pieces add sums up to the difference of the value between both rows, up to the error of
the integral.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert import kernels
from keras_bert.layers.embeddings import word_vectors
from keras_bert.layers.int8_dense import Int8Dense
from keras_bert.named_weights import layers_of

STEPS = 24  # of Gauss and Legendre's quadrature
TOKENS = 8192  # at a time; a row with more is not explained


def integrated_gradients(
    task: Any, inputs: dict[str, Any], value: Callable[[Any], Any]
) -> tuple[list[str], np.ndarray] | None:
    """The tokens of an example, and what each adds to a value of its logits.

    None if there are too many, or if the task computes in int8, which has no gradients.

    inputs: the task's, for one example. value: of the logits of copies of it, as in `Explained`.
    """
    inputs = {name: np.asarray(value) for name, value in inputs.items()}
    vocabulary, layer = task.bert.preprocessor.vocabulary, task.bert.word_embeddings
    mask = inputs["input_mask"].reshape(-1) != 0
    ids = inputs["input_word_ids"].reshape(-1)
    if len(ids) > TOKENS or any(isinstance(one, Int8Dense) for one in layers_of(task).values()):
        return None
    if kernels.drops_padding():
        mask, ids = mask[mask], ids[mask]
    special = [vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]")]
    unknown = vocabulary["[MASK]" if "[MASK]" in vocabulary else "[UNK]"]
    start, end = (
        ops.cast(layer(ops.convert_to_tensor(one)), "float32")  # [N, H]
        for one in (np.where(np.isin(ids, special), ids, unknown).astype(ids.dtype), ids)
    )
    nodes, shares = np.polynomial.legendre.leggauss(STEPS)
    total = np.zeros(tuple(end.shape), "float32")
    size = max(1, TOKENS // len(ids))
    for first in range(0, STEPS, size):
        steps = ops.convert_to_tensor((nodes[first : first + size, None, None] + 1) / 2, "float32")  # [K, 1, 1]
        copies = {name: ops.convert_to_tensor(np.concatenate([one] * len(steps))) for name, one in inputs.items()}

        def logits_of(vectors: Any, copies: Any = copies) -> Any:
            with word_vectors(layer, ops.cast(vectors, layer.compute_dtype)):
                logits = task(copies, training=False)
            return value(ops.cast(logits, "float32"))

        path = ops.reshape(start + steps * (end - start), (-1, end.shape[-1]))  # [K * N, H]
        found = ops.convert_to_numpy(kernels.gradient(logits_of, path)).reshape(len(steps), *total.shape)  # [K, N, H]
        total += np.tensordot(shares[first : first + size] / 2, found, 1).astype("float32")
    added = (total * ops.convert_to_numpy(end - start)).sum(-1)  # [N]
    return [vocabulary.token(id) for id in ids[mask].tolist()], added[mask]
