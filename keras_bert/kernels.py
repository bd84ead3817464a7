"""How each backend runs BERT fast. The layers say what is computed; only this file knows with which ops.

On TensorFlow the layers see only real tokens, `[N, H]`, so padding costs nothing. JAX, torch, XLA and TPUs need static
shapes: there N is B*S, and the same layers run. Shapes: B batch, S sequence, N tokens, H hidden, A heads, D head.
"""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_bert import compat

BACKEND = keras.backend.backend()
if BACKEND == "tensorflow":
    import tensorflow as tf
elif BACKEND == "jax":
    import jax
elif BACKEND == "torch":
    import torch

_static: contextvars.ContextVar[bool] = contextvars.ContextVar("static_shapes", default=False)
_portable: contextvars.ContextVar[bool] = contextvars.ContextVar("portable", default=False)
_custom_gradients: contextvars.ContextVar[bool] = contextvars.ContextVar("custom_gradients", default=True)


def is_concrete(x: Any) -> bool:
    """Whether a tensor has values that can be read: it is neither symbolic nor being traced."""
    if isinstance(x, keras.KerasTensor):
        return False
    if BACKEND == "tensorflow" and tf.is_tensor(x):
        return compat.is_eager(x)
    if BACKEND == "jax":
        return not isinstance(x, jax.core.Tracer)
    return not (BACKEND == "torch" and isinstance(x, torch.Tensor) and x.device.type == "meta")


# === Exports ===


@contextlib.contextmanager
def portable(*, custom_gradients: bool = True) -> Iterator[None]:
    """Trace for any device: the fused norm is for CPUs only, and a GPU may serve a graph that is on disk.

    custom_gradients: off for a graph that is not trained further. It then has the gradients of TensorFlow's own ops;
    custom ones that are not saved with a graph make TensorFlow warn when it is loaded, and fail in a model around it.
    """
    tokens = _portable.set(True), _custom_gradients.set(custom_gradients)
    try:
        yield
    finally:
        _portable.reset(tokens[0])
        _custom_gradients.reset(tokens[1])


if BACKEND == "tensorflow":

    def _custom_gradient(function: Callable) -> Callable:
        """`tf.custom_gradient`, unless the graph is traced without custom gradients."""
        with_gradient = tf.custom_gradient(function)

        @functools.wraps(function)
        def op(*inputs: Any) -> Any:
            return with_gradient(*inputs) if _custom_gradients.get() else function(*inputs)[0]

        return op


# === Padding ===


@contextlib.contextmanager
def static_shapes() -> Iterator[None]:
    """Trace with static shapes, which ONNX and ahead-of-time compilers need; XLA and TPUs always get them."""
    token = _static.set(True)
    try:
        yield
    finally:
        _static.reset(token)


def drops_padding() -> bool:
    """Whether N is the number of real tokens in this batch; otherwise N is B*S."""
    if BACKEND != "tensorflow" or _static.get():
        return False
    if isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy):
        return False
    return not compat.is_compiled_by_xla()


def real_tokens(mask: Any) -> tuple[Any, Any, Any]:
    """The positions of a mask's [B, S] tokens.

    `rows` [N]: their rows in the flat batch. `slots` [B, S]: the way back, with N at padding. `stand_ins` [B, S]: the
    same, with the last real token in front of it at padding.
    """
    flat = ops.reshape(mask, (-1,))  # [B*S]
    if not drops_padding():
        rows = ops.arange(ops.size(flat), dtype="int32")  # [N], N = B*S
        slots = ops.reshape(rows, ops.shape(mask))  # [B, S]
        return rows, slots, slots
    real = tf.not_equal(flat, 0)
    rows = tf.cast(tf.where(real)[:, 0], "int32")  # [N]
    # Padding needs a token to stand in for it: where none is real, the first is kept.
    rows = tf.concat([rows, tf.range(tf.minimum(tf.size(flat), 1) - tf.minimum(tf.size(rows), 1))], 0)
    last = tf.maximum(tf.cumsum(tf.cast(real, "int32")) - 1, 0)
    slots = tf.where(real, last, tf.size(rows))
    return rows, tf.reshape(slots, tf.shape(mask)), tf.reshape(last, tf.shape(mask))  # [N], [B, S], [B, S]


def pack(ids: Any, rows: Any) -> Any:
    """From ids [B, S] to those of the real tokens [N]."""
    ids = ops.reshape(ids, (-1,))  # [B*S]
    return tf.gather(ids, rows) if drops_padding() else ids  # [N]


def unpack(x: Any, rows: Any, slots: Any) -> Any:
    """From the real tokens [N, H] to [B, S, H], with zeros at padding; static shapes leave padding as it is."""
    if drops_padding():
        return _unpack(x, rows, slots)
    batch, length = ops.shape(slots)
    return ops.reshape(x, (batch, length, x.shape[-1]))  # [B, S, H]


def positions(table: Any, rows: Any, slots: Any) -> Any:
    """The position vectors [N, H] of the tokens."""
    batch, length = ops.shape(slots)
    if drops_padding():
        return lookup(table, rows % length)  # [N, H]
    by_position = ops.broadcast_to(table[:length], (batch, length, table.shape[-1]))  # [B, S, H]
    return ops.reshape(by_position, (-1, table.shape[-1]))  # [N, H]


if BACKEND == "tensorflow":
    # The gradient of a gather that takes each row once is itself a gather, and no scatter-add is needed.

    def _padded(x: tf.Tensor, slots: tf.Tensor) -> tf.Tensor:
        zeros = tf.zeros(tf.concat([[1], tf.shape(x)[1:]], 0), x.dtype)
        return tf.gather(tf.concat([x, zeros], 0), slots)  # [B, S, H]

    @_custom_gradient
    def _unpack(x: tf.Tensor, rows: tf.Tensor, slots: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
            dx = tf.gather(tf.reshape(dy, [-1, dy.shape[-1]]), rows)  # [N, H]
            real = tf.gather(tf.reshape(slots, [-1]), rows) < tf.size(rows)  # not the token kept where none is real
            return tf.where(real[:, None], dx, tf.zeros([], dx.dtype)), None, None

        return _padded(x, slots), gradient


# === Embeddings ===


def lookup(table: Any, ids: Any) -> Any:
    """Rows of a table, with a dense gradient: from Keras on TensorFlow it would be `IndexedSlices`, unsummed."""
    if BACKEND != "tensorflow":
        return ops.take(table, ids, axis=0)
    return _lookup(tf.convert_to_tensor(table), ids)


if BACKEND == "tensorflow":

    @_custom_gradient
    def _lookup(table: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
            return tf.math.unsorted_segment_sum(dy, ids, tf.shape(table)[0]), None

        return tf.gather(table, ids), gradient


# === GELU ===

_SLOPE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


@keras.saving.register_keras_serializable("keras_bert")
def gelu_tanh(x: Any) -> Any:
    """Google's GELU: `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`."""
    if BACKEND != "tensorflow":
        return ops.gelu(x, approximate=True)
    return _gelu_tanh(x)


@keras.saving.register_keras_serializable("keras_bert")
def gelu_erf(x: Any) -> Any:
    """HuggingFace's GELU: `x/2 * (1 + erf(x / sqrt(2)))`."""
    return ops.gelu(x, approximate=False)


if BACKEND == "tensorflow":

    @_custom_gradient
    def _gelu_tanh(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            z = tf.cast(x, "float32")  # TensorFlow's CPU is slower on elementwise bfloat16
            square = tf.square(z)
            gate = tf.sigmoid(z * (square * (2 * _SLOPE * _CUBIC) + 2 * _SLOPE))  # 1 + tanh(u) = 2 sigmoid(2 u)
            slope = z * (square * (6 * _SLOPE * _CUBIC) + 2 * _SLOPE)
            return dy * tf.cast(gate + tf.raw_ops.SigmoidGrad(y=gate, dy=slope), dy.dtype)

        return tf.nn.gelu(x, approximate=True), gradient


# === Layer normalization ===


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalize the last axis, in float32 at least."""
    if BACKEND == "torch":  # keras.ops reads the size of the axis from x, where ONNX needs a constant
        wide = keras.backend.result_type(x.dtype, "float32")
        y, weight, bias = (ops.cast(t, wide) for t in (x, gamma, beta))
        return ops.cast(torch.nn.functional.layer_norm(y, tuple(gamma.shape), weight, bias, epsilon), x.dtype)
    if BACKEND != "tensorflow":
        return ops.cast(ops.layer_normalization(x, gamma, beta, -1, epsilon), x.dtype)
    return _layer_norm(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta), epsilon)


if BACKEND == "tensorflow":

    def _layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
        # Under a mixed policy gamma and beta stay float32, which the fused op does not accept.
        fuses = x.dtype == gamma.dtype and x.dtype != tf.float64 and drops_padding()
        fuses = fuses and not _portable.get() and not tf.config.list_physical_devices("GPU")

        @_custom_gradient
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


def dropout(x: Any, rate: float, seed: Any) -> Any:
    """Drop elements with a seed [2], and scale the rest by the true rate.

    Random bytes are cheaper than random floats: one draw of 32 bits is enough for four elements, or for two where 1/256
    is too coarse for the rate or for the share that is kept.
    """
    bits = 8 if abs(round(rate * 2**8) / 2**8 - rate) < 0.02 * min(rate, 1 - rate) else 16
    threshold = min(2**bits - 1, max(1, round(rate * 2**bits)))
    scale = 2**bits / (2**bits - threshold)
    if BACKEND == "tensorflow":
        return _keep(x, _random_bits(tf.shape(x), bits, seed) >= threshold, tf.constant(scale, x.dtype))
    if BACKEND == "jax":
        keep = jax.random.bits(seed, x.shape, f"uint{bits}") >= threshold
    else:
        start = (int(seed[0]) * 1_000_003 + int(seed[1])) % 2**32  # torch's CPU generator has seeds of 32 bits
        generator = torch.Generator(x.device).manual_seed(start)
        keep = torch.randint(2**bits, x.shape, generator=generator, device=x.device, dtype=torch.int32) >= threshold
    return ops.where(keep, x * scale, ops.zeros((), x.dtype))


if BACKEND == "tensorflow":

    def _random_bits(shape: tf.Tensor, bits: int, seed: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context()
        if replica is not None:
            # The seed is the same on all replicas. Their draws must differ, also from those of other steps.
            seed += tf.stack([0, tf.cast(replica.replica_id_in_sync_group, seed.dtype) * 2**40])
        size, each = tf.reduce_prod(shape), 32 // bits
        words = tf.random.stateless_uniform([(size + each - 1) // each], seed, None, None, tf.int32)
        return tf.reshape(tf.reshape(tf.bitcast(words, f"uint{bits}"), [-1])[:size], shape)

    @_custom_gradient
    def _keep(x: tf.Tensor, keep: tf.Tensor, scale: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
            return tf.where(keep, dy * scale, tf.zeros([], dy.dtype)), None, None

        return tf.where(keep, x * scale, tf.zeros([], x.dtype)), gradient


# === Attention ===


def split_heads(qkv: Any, padding: dict[str, Any], heads: int) -> list[Any]:
    """From the real tokens [N, 3H] to queries, keys and values [B, A, S, D]; padding has those of a real token."""
    if drops_padding():
        return tf.unstack(_split_heads(qkv, padding["rows"], padding["stand_ins"], heads))
    batch, length = ops.shape(padding["slots"])
    qkv = ops.reshape(qkv, (batch, length, 3, heads, qkv.shape[-1] // 3 // heads))  # [B, S, 3, A, D]
    return ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3)  # 3 x [B, A, S, D]


def merge_heads(context: Any, padding: dict[str, Any]) -> Any:
    """From the context [B, A, S, D] to that of the real tokens [N, H]."""
    if drops_padding():
        return _merge_heads(context, padding["rows"], padding["slots"])
    hidden = context.shape[1] * context.shape[3]
    return ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, hidden))  # [N, H]


if BACKEND == "tensorflow":
    # One gather of vectors [D] handles padding and heads at once, instead of a copy, a gather and a transposition.

    def _by_head(rows: tf.Tensor, length: tf.Tensor, heads: int) -> tf.Tensor:
        """The rows [N, A] of the tokens' vectors in [B, A, S, D], flattened to its last axis."""
        first = rows // length * (heads * length) + rows % length
        return tf.expand_dims(first, 1) + tf.range(heads) * length  # [N, A]

    def _split_heads(qkv: tf.Tensor, rows: tf.Tensor, stand_ins: tf.Tensor, heads: int) -> tf.Tensor:
        shape = tf.shape(stand_ins)

        @_custom_gradient
        def split(qkv: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            def gradient(dy: tf.Tensor) -> tf.Tensor:  # it is zero at padding, which attention hides
                at = tf.reshape(tf.range(3), [3, 1]) * (shape[0] * heads * shape[1])
                at += _by_head(rows, shape[1], heads)[:, None]  # [N, 3, A]
                return tf.reshape(tf.gather(tf.reshape(dy, [-1, dy.shape[-1]]), at), tf.shape(qkv))  # [N, 3H]

            at = stand_ins[:, None] * (3 * heads) + tf.reshape(tf.range(3 * heads), [3, 1, heads, 1])  # [3, B, A, S]
            return tf.gather(tf.reshape(qkv, [-1, qkv.shape[-1] // 3 // heads]), at), gradient  # [3, B, A, S, D]

        return split(qkv)

    @_custom_gradient
    def _merge_heads(context: tf.Tensor, rows: tf.Tensor, slots: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        _, heads, _, width = context.shape

        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
            vectors = tf.reshape(tf.pad(dy, [[0, 1], [0, 0]]), [-1, width])  # [(N + 1) * A, D], zeros for padding
            dx = tf.gather(vectors, slots[:, None] * heads + tf.range(heads)[:, None])  # [B, A, S, D]
            return dx, None, None

        at = _by_head(rows, tf.shape(slots)[1], heads)  # [N, A]
        vectors = tf.gather(tf.reshape(context, [-1, width]), at)  # [N, A, D]
        # Without -1: the graph rewriter fuses the residual only if it knows that both have N rows.
        return tf.reshape(vectors, [tf.shape(rows)[0], heads * width]), gradient  # [N, H]


def softmax(x: Any) -> Any:
    """Softmax of the last axis; Keras's own warns if a sequence has one token."""
    if BACKEND == "tensorflow":
        return tf.nn.softmax(x)
    return jax.nn.softmax(x) if BACKEND == "jax" else torch.softmax(x, -1)


def fused_attention() -> bool:
    """Whether the backend has attention as one kernel that is faster than the three ops."""
    if _static.get():  # ONNX has no such op
        return False
    return BACKEND == "torch" or (BACKEND == "jax" and jax.default_backend() != "cpu")


def attention(query: Any, key: Any, value: Any, bias: Any) -> Any:
    """Context [B, A, S, D] of queries, keys and values [B, A, S, D], by Keras's fused kernel."""
    query, key, value = (ops.swapaxes(x, 1, 2) for x in (query, key, value))  # [B, S, A, D]
    mask = ops.equal(bias, 0)  # [B, 1, 1, S]
    batch, length = ops.shape(bias)[0], ops.shape(bias)[-1]
    mask = ops.broadcast_to(mask, (batch, 1, length, length))  # [B, 1, S, S]
    return ops.swapaxes(ops.dot_product_attention(query, key, value, mask=mask), 1, 2)  # [B, A, S, D]
