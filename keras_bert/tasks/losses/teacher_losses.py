"""How far a student is from its teacher: in its logits, hidden states, attention and relations.

States are what `layers.states.recorded_states` returns; both models read the same batch.
"""

import math
from typing import Any

import keras
from keras import ops

from keras_bert import kernels
from keras_bert.resize import kept_blocks

States = dict[str, list[Any]]


# === Logits ===


def softened_kl(theirs: Any, ours: Any, temperature: float) -> Any:
    """T^2 times the KL divergence of the student's probabilities from the teacher's, both softened: [..., C] -> [...].

    The factor keeps the gradient as large as it is without a temperature (Hinton et al. 2015).
    """
    theirs, ours = (ops.log_softmax(_float(x) / temperature, axis=-1) for x in (theirs, ours))  # [..., C]
    return temperature**2 * ops.sum(ops.exp(theirs) * (theirs - ours), axis=-1)


def softened_binary_kl(theirs: Any, ours: Any, temperature: float) -> Any:
    """The same where each label has a probability of its own: their mean, [B, C] -> [B]."""
    theirs, ours = (_float(x) / temperature for x in (theirs, ours))  # [B, C]
    yes, no = ops.sigmoid(theirs), ops.sigmoid(-theirs)
    divergence = yes * (ops.log_sigmoid(theirs) - ops.log_sigmoid(ours))
    divergence += no * (ops.log_sigmoid(-theirs) - ops.log_sigmoid(-ours))
    return temperature**2 * ops.mean(divergence, axis=-1)


def squares(theirs: Any, ours: Any, temperature: float) -> Any:
    """Squared differences of numbers or vectors, for which there is no temperature."""
    return ops.square(_float(theirs) - _float(ours))


SOFT_LOSSES = {  # by the loss that a task learns its targets with
    keras.losses.SparseCategoricalCrossentropy: softened_kl,
    keras.losses.CategoricalCrossentropy: softened_kl,
    keras.losses.BinaryCrossentropy: softened_binary_kl,
}


# === States ===


def hidden_loss(theirs: States, ours: States) -> Any:
    """The mean squared difference of the embeddings, and of each block to the teacher's (Jiao et al. 2020, TinyBERT).

    The teacher's blocks are those that `resize` keeps for a model of as many blocks as the student has.
    """
    real = _real_tokens(ours["padding"][0])  # [N]
    blocks = [0, *(2 * (block + 1) for block in kept_blocks(len(theirs["qkv"]), len(ours["qkv"])))]
    pairs = zip((theirs["norms"][number] for number in blocks), ours["norms"][::2], strict=True)  # of [N, H]
    return _mean([_weighed(ops.mean(ops.square(_float(t) - _float(s)), axis=-1), real) for t, s in pairs])


def attention_loss(theirs: States, ours: States, heads: int) -> Any:
    """The mean squared difference of attention scores, as they are before the softmax (Jiao et al. 2020)."""
    real = _real_pairs(ours["padding"][0], heads)  # [B, A, S, S]
    found = []
    for number, block in enumerate(kept_blocks(len(theirs["qkv"]), len(ours["qkv"]))):
        t, s = (_products(*_heads(states, at, heads)[:2]) for states, at in ((theirs, block), (ours, number)))
        found.append(_weighed(ops.square(ops.where(real > 0, t - s, 0.0)), real))
    return _mean(found)


def relation_loss(theirs: States, ours: States, heads: int) -> Any:
    """The KL divergence of the relations in the last blocks, of queries, keys and values (Wang et al. 2021, MiniLMv2).

    A relation is the softmax of the scaled products of a token's vector with those of all tokens, in each of `heads`
    parts of the vectors. So both models may differ in their widths.
    """
    bias = _float(ours["padding"][-1]["bias"])  # [B, 1, 1, S]
    queries = ops.cast(ops.equal(bias[:, :, 0], 0), "float32") * ops.ones((1, heads, 1))  # [B, A, S]
    found = []
    for t, s in zip(_heads(theirs, -1, heads), _heads(ours, -1, heads), strict=True):
        t, s = (ops.log_softmax(_products(x, x) + bias, axis=-1) for x in (t, s))  # [B, A, S, S]
        found.append(_weighed(ops.sum(ops.exp(t) * (t - s), axis=-1), queries))
    return _mean(found)


def _heads(states: States, block: int, heads: int) -> list[Any]:
    """The queries, keys and values of a block, 3 x [B, A, S, D]."""
    return kernels.split_heads(_float(states["qkv"][block]), states["padding"][block], heads)


def _products(x: Any, y: Any) -> Any:
    return ops.matmul(x, ops.swapaxes(y, -1, -2)) / math.sqrt(x.shape[-1])  # [B, A, S, S]


def _real_tokens(padding: dict[str, Any]) -> Any:
    """1 for each token that is real, [N]."""
    real = ops.equal(padding["bias"][:, 0, 0], 0)  # [B, S]
    return ops.cast(kernels.pack(ops.cast(real, "int32"), padding["rows"]), "float32")


def _real_pairs(padding: dict[str, Any], heads: int) -> Any:
    """1 for each pair of real tokens, in each head, [B, A, S, S]."""
    real = ops.cast(ops.equal(padding["bias"], 0), "float32")  # [B, 1, 1, S]
    return real * ops.swapaxes(real, -1, -2) * ops.ones((1, heads, 1, 1))  # [B, A, S, S]


def _weighed(values: Any, weights: Any) -> Any:
    """The mean of values that have these weights; 0 if all weights are 0."""
    return ops.sum(values * weights) / ops.maximum(ops.sum(weights), 1.0)


def _mean(values: list[Any]) -> Any:
    return sum(values) / len(values)


def _float(x: Any) -> Any:
    return ops.cast(x, "float32")
