"""The kernels that TensorFlow has no op for, or none as fast: their gradients are written out.

Shapes as in `kernels.py`: B batch, S sequence, N tokens, H hidden, A heads, D head.
"""

import contextvars
import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bert import compat
from keras_bert.config import GELU_LEAST

custom_gradients: contextvars.ContextVar[bool] = contextvars.ContextVar("custom_gradients", default=True)

_SLOPE, _CUBIC = math.sqrt(2 / math.pi), 0.044715  # of the GELU


def custom_gradient(function: Callable) -> Callable:
    """`tf.custom_gradient`, unless the graph is traced without custom gradients."""
    with_gradient = tf.custom_gradient(function)

    @functools.wraps(function)
    def op(*inputs: Any) -> Any:
        return with_gradient(*inputs) if custom_gradients.get() else function(*inputs)[0]

    return op


# === Padding ===


def real_tokens(mask: tf.Tensor, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """As in `kernels.py`, with N real tokens. flat: the mask, [B*S]."""
    real = tf.not_equal(flat, 0)
    rows = tf.cast(tf.where(real)[:, 0], "int32")  # [N]
    # Padding needs a token to stand in for it: where none is real, the first is kept.
    rows = tf.concat([rows, tf.range(tf.minimum(tf.size(flat), 1) - tf.minimum(tf.size(rows), 1))], 0)
    last = tf.maximum(tf.cumsum(tf.cast(real, "int32")) - 1, 0)
    slots = tf.where(real, last, tf.size(rows))
    return rows, tf.reshape(slots, tf.shape(mask)), tf.reshape(last, tf.shape(mask))  # [N], [B, S], [B, S]


@custom_gradient
def unpack(x: tf.Tensor, rows: tf.Tensor, slots: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    # The gradient of a gather that takes each row once is itself a gather, and no scatter-add is needed.
    def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        dx = tf.gather(tf.reshape(dy, [-1, dy.shape[-1]]), rows)  # [N, H]
        real = tf.gather(tf.reshape(slots, [-1]), rows) < tf.size(rows)  # not the token kept where none is real
        return tf.where(real[:, None], dx, tf.zeros([], dx.dtype)), None, None

    zeros = tf.zeros(tf.concat([[1], tf.shape(x)[1:]], 0), x.dtype)  # for padding
    return tf.gather(tf.concat([x, zeros], 0), slots), gradient  # [B, S, H]


# === Embeddings, GELU ===


@custom_gradient
def lookup(table: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.math.unsorted_segment_sum(dy, ids, tf.shape(table)[0]), None

    return tf.gather(table, ids), gradient


@custom_gradient
def gelu_tanh(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    def gradient(dy: tf.Tensor) -> tf.Tensor:
        z = tf.cast(x, "float32")  # TensorFlow's CPU is slower on elementwise bfloat16
        square = tf.square(z)
        gate = tf.sigmoid(z * (square * (2 * _SLOPE * _CUBIC) + 2 * _SLOPE))  # 1 + tanh(u) = 2 sigmoid(2 u)
        slope = z * (square * (6 * _SLOPE * _CUBIC) + 2 * _SLOPE)
        return dy * tf.cast(gate + tf.raw_ops.SigmoidGrad(y=gate, dy=slope), dy.dtype)

    return tf.nn.gelu(x, approximate=True), gradient


# === Products in int8 ===

_TINY = 1e-30  # in place of the largest of no numbers, or of zeros


def int8_product(
    x: tf.Tensor, kernel: tf.Tensor, scale: tf.Tensor, bias: tf.Tensor, limit: tf.Tensor | None, gelu: str | None
) -> tf.Tensor:
    """x [N, K] times an int8 kernel [K, M] and the scale [M] of its columns, plus a bias [M]; then a GELU, if named.

    x is rounded to multiples of limit/127, or without a limit of its own largest number/127.
    """
    if limit is None:
        limit = tf.maximum(tf.maximum(tf.reduce_max(x), -tf.reduce_min(x)), _TINY)
    levels = tf.raw_ops.QuantizeV2(
        input=x,
        min_range=-limit,
        max_range=limit,
        T=tf.qint8,
        mode="SCALED",
        round_mode="HALF_TO_EVEN",
        narrow_range=True,
        ensure_minimum_range=0.0,  # by default, the numbers of a range below 0.01 would become coarse
    )
    return compat.quantized_product(levels, tf.bitcast(kernel, tf.qint8), 127 * scale, bias, gelu)  # [N, M]


def int8_product_by_row(x: tf.Tensor, kernel: tf.Tensor, scale: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """The same for the output of a GELU, without a limit, with each row of x rounded by its own largest number."""
    largest = tf.maximum(tf.reduce_max(x, -1, keepdims=True), -GELU_LEAST)  # [N, 1]
    y = int8_product(x / largest, kernel, scale, tf.zeros([bias.shape[0]]), tf.constant(1.0), None)
    return tf.nn.bias_add(y * largest, bias)  # [N, M]


@functools.cache
def largest_int8_weight() -> int:
    """The largest whole number for a weight with which no sum of products overflows on this CPU: 127 or 64."""
    # Without VNNI, two products with inputs of up to 255 are added in 16 bits: 2 * 255 * 64 fits, 2 * 255 * 127 not.
    kernel = tf.fill([64, 1], tf.constant(127, tf.int8))
    y = int8_product(tf.ones([1, 64]), kernel, tf.constant([1 / 127]), tf.zeros([1]), tf.constant(1.0), None)
    return 127 if abs(float(y[0, 0]) - 64) < 0.01 else 64


# === Layer normalization ===


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float, may_fuse: bool) -> tf.Tensor:
    """Normalize the last axis; as one op where the graph will run on this machine's CPU."""
    # Under a mixed policy gamma and beta stay float32, which the fused op does not accept.
    fuses = may_fuse and x.dtype == gamma.dtype and x.dtype != tf.float64
    fuses = fuses and not tf.config.list_physical_devices("GPU")

    @custom_gradient
    def norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            standard, scale = _standardize(x, epsilon)
            dy = _wide(dy)
            dgamma = tf.reduce_sum(dy * standard, range(dy.shape.rank - 1))
            dbeta = tf.reduce_sum(dy, range(dy.shape.rank - 1))
            dy *= _wide(gamma)
            along = tf.reduce_mean(dy * standard, -1, keepdims=True)
            dx = scale * (dy - tf.reduce_mean(dy, -1, keepdims=True) - standard * along)
            return tf.cast(dx, x.dtype), tf.cast(dgamma, gamma.dtype), tf.cast(dbeta, beta.dtype)

        if fuses:
            return _fused_layer_norm(x, gamma, beta, epsilon), gradient
        y = _standardize(x, epsilon)[0] * _wide(gamma) + _wide(beta)
        return tf.cast(y, x.dtype), gradient

    return norm(x, gamma, beta)


def _wide(x: tf.Tensor) -> tf.Tensor:
    return x if x.dtype == tf.float64 else tf.cast(x, "float32")


def _standardize(x: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, tf.Tensor]:
    x = _wide(x)
    centered = x - tf.reduce_mean(x, -1, keepdims=True)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centered), -1, keepdims=True) + epsilon)
    return centered * scale, scale


def _fused_layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    # The pattern that TensorFlow's graph rewriter turns into one op, _MklLayerNorm; each token is a channel.
    shape = tf.shape(x)
    count = tf.reduce_prod(shape[:-1], keepdims=True)
    y, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, tf.concat([[1], count, shape[-1:], [1]], 0)),
        scale=tf.fill(count, 1.0),
        offset=tf.fill(count, 0.0),
        mean=tf.constant([]),
        variance=tf.constant([]),
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,
    )
    return tf.reshape(y, shape) * gamma + beta


# === Dropout ===


def random_bits(shape: tf.Tensor, bits: int, seed: tf.Tensor) -> tf.Tensor:
    replica = tf.distribute.get_replica_context()
    if replica is not None:
        # The seed is the same on all replicas. Their draws must differ, also from those of other steps.
        seed += tf.stack([0, tf.cast(replica.replica_id_in_sync_group, seed.dtype) * 2**40])
    size, each = tf.reduce_prod(shape), 32 // bits
    words = tf.random.stateless_uniform([(size + each - 1) // each], seed, None, None, tf.int32)
    return tf.reshape(tf.reshape(tf.bitcast(words, f"uint{bits}"), [-1])[:size], shape)


@custom_gradient
def keep(x: tf.Tensor, keep: tf.Tensor, scale: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        return tf.where(keep, dy * scale, tf.zeros([], dy.dtype)), None, None

    return tf.where(keep, x * scale, tf.zeros([], x.dtype)), gradient


# === Attention ===
# One gather of vectors [D] handles padding and heads at once, instead of a copy, a gather and a transposition.


def _by_head(rows: tf.Tensor, length: tf.Tensor, heads: int) -> tf.Tensor:
    """The rows [N, A] of the tokens' vectors in [B, A, S, D], flattened to its last axis."""
    first = rows // length * (heads * length) + rows % length
    return tf.expand_dims(first, 1) + tf.range(heads) * length  # [N, A]


def split_heads(qkv: tf.Tensor, rows: tf.Tensor, stand_ins: tf.Tensor, heads: int) -> tf.Tensor:
    shape = tf.shape(stand_ins)

    @custom_gradient
    def split(qkv: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tf.Tensor:  # it is zero at padding, which attention hides
            at = tf.reshape(tf.range(3), [3, 1]) * (shape[0] * heads * shape[1])
            at += _by_head(rows, shape[1], heads)[:, None]  # [N, 3, A]
            return tf.reshape(tf.gather(tf.reshape(dy, [-1, dy.shape[-1]]), at), tf.shape(qkv))  # [N, 3H]

        at = stand_ins[:, None] * (3 * heads) + tf.reshape(tf.range(3 * heads), [3, 1, heads, 1])  # [3, B, A, S]
        return tf.gather(tf.reshape(qkv, [-1, qkv.shape[-1] // 3 // heads]), at), gradient  # [3, B, A, S, D]

    return split(qkv)


@custom_gradient
def merge_heads(context: tf.Tensor, rows: tf.Tensor, slots: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    _, heads, _, width = context.shape

    def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        vectors = tf.reshape(tf.pad(dy, [[0, 1], [0, 0]]), [-1, width])  # [(N + 1) * A, D], zeros for padding
        dx = tf.gather(vectors, slots[:, None] * heads + tf.range(heads)[:, None])  # [B, A, S, D]
        return dx, None, None

    at = _by_head(rows, tf.shape(slots)[1], heads)  # [N, A]
    vectors = tf.gather(tf.reshape(context, [-1, width]), at)  # [N, A, D]
    # Without -1: the graph rewriter fuses the residual only if it knows that both have N rows.
    return tf.reshape(vectors, [tf.shape(rows)[0], heads * width]), gradient  # [N, H]
