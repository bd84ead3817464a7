"""How each backend runs BERT fast. The layers say what is computed, and this file with which ops.

`tensorflow_kernels.py` has the ops that TensorFlow lacks, and `gpu_kernels.py` those that JAX lacks on a GPU.

On TensorFlow the layers see only real tokens, `[N, H]`, so padding costs nothing. JAX, torch, XLA and TPUs need static
shapes: there N is B*S, or R*L where texts share R rows of L positions, and the same layers run. Shapes: B batch, S
sequence, N tokens, H hidden, A heads, D head.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_bert import compat
from keras_bert.using import using

BACKEND = keras.backend.backend()
if BACKEND == "tensorflow":
    import tensorflow as tf

    from keras_bert import tensorflow_kernels as fast
    from keras_bert.tensorflow_kernels import int8_product, int8_product_by_row, largest_int8_weight  # noqa: F401
elif BACKEND == "jax":
    import jax

    from keras_bert import gpu_kernels
elif BACKEND == "torch":
    import torch

_static: ContextVar[bool] = ContextVar("static_shapes", default=False)
_portable: ContextVar[bool] = ContextVar("portable", default=False)
_shared: ContextVar[Any] = ContextVar("shared_rows", default=None)


def is_concrete(x: Any) -> bool:
    """Whether a tensor has values that can be read: it is neither symbolic nor being traced."""
    if isinstance(x, keras.KerasTensor):
        return False
    if BACKEND == "tensorflow" and tf.is_tensor(x):
        return compat.is_eager(x)
    if BACKEND == "jax":
        return not isinstance(x, jax.core.Tracer)
    return not (BACKEND == "torch" and isinstance(x, torch.Tensor) and x.device.type == "meta")


def on_jax_gpu() -> bool:
    return BACKEND == "jax" and jax.default_backend() == "gpu"


# === Exports ===


@contextmanager
def portable(*, custom_gradients: bool) -> Iterator[None]:
    """Trace for any device: the fused norm is for CPUs only, and a GPU may serve a graph that is on disk.

    custom_gradients: off for a graph that is not trained further. It then has the gradients of TensorFlow's own ops;
    custom ones that are not saved with a graph make TensorFlow warn when it is loaded, and fail in a model around it.
    """
    with using(_portable, True), using(fast.custom_gradients, custom_gradients):
        yield


def without_gradient() -> Any:
    """A block in which torch keeps nothing for gradients; the other backends do not keep what `stop_gradient` ends."""
    return torch.no_grad() if BACKEND == "torch" else nullcontext()


# === Padding ===


def static_shapes() -> AbstractContextManager[Any]:
    """Trace with static shapes, which ONNX and ahead-of-time compilers need; XLA and TPUs always get them."""
    return using(_static, True)


def drops_padding() -> bool:
    """Whether N is the number of real tokens in this batch; otherwise N is B*S."""
    if BACKEND != "tensorflow" or _static.get():
        return False
    if isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy):
        return False
    return not compat.is_compiled_by_xla()


def sharing_rows(sources: Any) -> AbstractContextManager[Any]:
    """Compute the texts of a batch [B, S] in rows [R, L] that they share; see `text/shared_rows.py`."""
    return using(_shared, sources)


def shared_rows() -> Any:
    """For each position of shared rows [R, L] the one of the flat batch [B*S], or B*S if it is empty; or else None."""
    return _shared.get()


def real_tokens(mask: Any) -> tuple[Any, Any, Any]:
    """The positions of a mask's [B, S] tokens.

    `rows` [N]: their rows in the flat batch. `slots` [B, S]: the way back, with N at padding. `stand_ins` [B, S]: the
    same, with the last real token in front of it at padding. Of shared rows, the tokens in their rows [R, L].
    """
    flat = ops.reshape(mask, (-1,))  # [B*S]
    if (shared := shared_rows()) is not None:
        rows = ops.reshape(shared, (-1,))  # [N], N = R*L
        tokens = ops.arange(rows.shape[0], dtype="int32")  # [N]
        slots = ops.scatter(rows[:, None], tokens, (flat.shape[0] + 1,))[:-1]  # [B*S]
        # Keras builds models with inputs of ones on torch, and their slots are not in the rows.
        slots = ops.where(flat == 0, rows.shape[0], ops.minimum(slots, rows.shape[0]))
        slots = ops.reshape(slots, mask.shape)  # [B, S]
        return rows, slots, ops.reshape(tokens, shared.shape)
    if not drops_padding():
        rows = ops.arange(ops.size(flat), dtype="int32")  # [N], N = B*S
        slots = ops.reshape(rows, ops.shape(mask))  # [B, S]
        return rows, slots, slots
    return fast.real_tokens(mask, flat)


def pack(ids: Any, rows: Any) -> Any:
    """From ids [B, S] to those of the real tokens [N]."""
    ids = ops.reshape(ids, (-1,))  # [B*S]
    if shared_rows() is not None:
        return _or_zero(ids, rows)  # [N]
    return tf.gather(ids, rows) if drops_padding() else ids  # [N]


def unpack(x: Any, rows: Any, slots: Any) -> Any:
    """From the real tokens [N, H] to [B, S, H], with zeros at padding; without shared rows, static shapes leave it."""
    if drops_padding():
        return fast.unpack(x, rows, slots)
    if shared_rows() is not None:
        return _there_and_back(x, slots, rows)  # [B, S, H]
    batch, length = ops.shape(slots)
    return ops.reshape(x, (batch, length, x.shape[-1]))  # [B, S, H]


def _or_zero(x: Any, index: Any) -> Any:
    """Elements of the first axis, with zeros where the index is their number."""
    return ops.take(ops.concatenate([x, ops.zeros_like(x[:1])]), index, axis=0)


def _there_and_back(x: Any, there: Any, back: Any) -> Any:
    """The elements [N, H] at `there` [B, S], whose gradient is not a scatter but the elements at `back` [N]."""
    return _or_zero(x, there)


if BACKEND == "jax":
    _there_and_back = jax.custom_vjp(_there_and_back)
    _there_and_back.defvjp(
        lambda x, there, back: (_or_zero(x, there), back),
        lambda back, gradient: (_or_zero(ops.reshape(gradient, (-1, gradient.shape[-1])), back), None, None),
    )


def positions(table: Any, rows: Any, slots: Any) -> Any:
    """The position vectors [N, H] of the tokens."""
    batch, length = ops.shape(slots)
    if drops_padding() or shared_rows() is not None:
        return lookup(table, rows % length)  # [N, H]
    by_position = ops.broadcast_to(table[:length], (batch, length, table.shape[-1]))  # [B, S, H]
    return ops.reshape(by_position, (-1, table.shape[-1]))  # [N, H]


# === Embeddings ===


def lookup(table: Any, ids: Any) -> Any:
    """Rows of a table, with a dense gradient: from Keras on TensorFlow it would be `IndexedSlices`, unsummed."""
    if BACKEND != "tensorflow":
        return ops.take(table, ids, axis=0)
    return fast.lookup(tf.convert_to_tensor(table), ids)


def at_positions(x: Any, positions: Any) -> Any:
    """The vectors [B*P, H] at positions [B, P] of a batch [B, S, H]."""
    batch, length, hidden = ops.shape(x)
    if BACKEND == "jax":  # of a flat batch, the compiler would sum the vectors of all devices on each of them
        vectors = ops.take_along_axis(x, ops.expand_dims(positions, -1), 1)  # [B, P, H]
        return ops.reshape(vectors, (-1, hidden))  # [B*P, H]
    rows = positions + length * ops.arange(batch, dtype=positions.dtype)[:, None]  # [B, P]
    return lookup(ops.reshape(x, (-1, hidden)), ops.reshape(rows, (-1,)))  # [B*P, H]


# === GELU ===


@keras.saving.register_keras_serializable("keras_bert")
def gelu_tanh(x: Any) -> Any:
    """Google's GELU: `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`."""
    if BACKEND == "tensorflow":
        return fast.gelu_tanh(x)
    return gpu_kernels.gelu_tanh(x) if on_jax_gpu() else ops.gelu(x, approximate=True)


@keras.saving.register_keras_serializable("keras_bert")
def gelu_erf(x: Any) -> Any:
    """HuggingFace's GELU: `x/2 * (1 + erf(x / sqrt(2)))`."""
    return gpu_kernels.gelu_erf(x) if on_jax_gpu() else ops.gelu(x, approximate=False)


# === Gradients ===


def gradient(function: Any, x: Any) -> Any:
    """The gradient, at x, of a function from a tensor to a number."""
    if BACKEND == "tensorflow":
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)
    if BACKEND == "jax":
        return jax.grad(function)(x)
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x), x)[0]


# === Layer normalization ===


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalize the last axis, in float32 at least."""
    if BACKEND == "torch":  # keras.ops reads the size of the axis from x, where ONNX needs a constant
        wide = keras.backend.result_type(x.dtype, "float32")
        y, weight, bias = (ops.cast(t, wide) for t in (x, gamma, beta))
        return ops.cast(torch.nn.functional.layer_norm(y, tuple(gamma.shape), weight, bias, epsilon), x.dtype)
    if on_jax_gpu():
        return gpu_kernels.layer_norm(x, ops.convert_to_tensor(gamma), ops.convert_to_tensor(beta), epsilon)
    if BACKEND != "tensorflow":
        return ops.cast(ops.layer_normalization(x, gamma, beta, -1, epsilon), x.dtype)
    may_fuse = drops_padding() and not _portable.get()
    return fast.layer_norm(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta), epsilon, may_fuse)


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
        return fast.keep(x, fast.random_bits(tf.shape(x), bits, seed) >= threshold, tf.constant(scale, x.dtype))
    if BACKEND == "jax":
        keep = _random_bits(x.shape, bits, seed) >= threshold
    else:
        start = (int(seed[0]) * 1_000_003 + int(seed[1])) % 2**32  # torch's CPU generator has seeds of 32 bits
        generator = torch.Generator(x.device).manual_seed(start)
        keep = torch.randint(2**bits, x.shape, generator=generator, device=x.device, dtype=torch.int32) >= threshold
    return ops.where(keep, x * scale, ops.zeros((), x.dtype))


def _random_bits(shape: tuple[int, ...], bits: int, seed: Any) -> Any:
    """Random numbers of 8 or 16 bits from JAX: each draw of 32 bits serves neighbours on the last axis."""
    key = jax.random.fold_in(jax.random.key(seed[0]), seed[1])  # of any of JAX's generators; some need four words
    draws = -(-shape[-1] * bits // 32)
    parts = jax.lax.bitcast_convert_type(jax.random.bits(key, (*shape[:-1], draws), "uint32"), f"uint{bits}")
    return ops.reshape(parts, (*shape[:-1], draws * 32 // bits))[..., : shape[-1]]


# === Attention ===


def split_heads(qkv: Any, padding: dict[str, Any], heads: int) -> list[Any]:
    """From the real tokens [N, 3H] to queries, keys and values [B, A, S, D]; padding has those of a real token.

    Of shared rows, [R, A, L, D].
    """
    if drops_padding():
        return tf.unstack(fast.split_heads(qkv, padding["rows"], padding["stand_ins"], heads))
    batch, length = ops.shape(padding["stand_ins"])
    qkv = ops.reshape(qkv, (batch, length, 3, heads, qkv.shape[-1] // 3 // heads))  # [B, S, 3, A, D]
    return ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3)  # 3 x [B, A, S, D]


def merge_heads(context: Any, padding: dict[str, Any]) -> Any:
    """From the context [B, A, S, D] to that of the real tokens [N, H]."""
    if drops_padding():
        return fast.merge_heads(context, padding["rows"], padding["slots"])
    hidden = context.shape[1] * context.shape[3]
    return ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, hidden))  # [N, H]


def softmax(x: Any) -> Any:
    """Softmax of the last axis; Keras's own warns if a sequence has one token."""
    if BACKEND == "tensorflow":
        return tf.nn.softmax(x)
    return jax.nn.softmax(x) if BACKEND == "jax" else torch.softmax(x, -1)


def fused_attention() -> bool:
    """Whether the backend has attention as one kernel that is faster than the three ops.

    On TPUs, Keras has one for masks that are not traced, but gives it the first row's mask for all rows. Its other way
    moves more bytes than the three ops; see docs/scaling.md.
    """
    if _static.get():  # ONNX has no such op
        return False
    return BACKEND == "torch" or on_jax_gpu()


def attention(query: Any, key: Any, value: Any, bias: Any) -> Any:
    """Context [B, A, S, D] of queries, keys and values [B, A, S, D], by Keras's fused kernel."""
    query, key, value = (ops.swapaxes(x, 1, 2) for x in (query, key, value))  # [B, S, A, D]
    mask = ops.equal(bias, 0)  # [B, 1, 1, S], of shared rows [R, 1, L, L]
    batch, length = ops.shape(bias)[0], ops.shape(bias)[-1]
    mask = ops.broadcast_to(mask, (batch, 1, length, length))  # [B, 1, S, S]
    context = ops.dot_product_attention(query, key, value, mask=mask)  # [B, S, A, D]
    return ops.swapaxes(context, 1, 2)  # [B, A, S, D]
