"""What the kernels guarantee: fused ops, one trace and cheap gradients."""

import collections
import dataclasses
import types

import keras
import numpy as np
import pytest

from keras_bert import kernels
from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.layers.embeddings import Embedding, word_vectors
from keras_bert.layers.norm import AddNorm, LayerNorm
from tests.parity.oracles import array, ragged_batch, randomize
from tests.subprocesses import python

on_tensorflow = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's own way to be fast")
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX's own way to be fast")
CONFIG = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)


# === Fusion ===


def _optimized_ops(function, inputs):
    """The ops that TensorFlow really ran, after its graph rewriter."""
    from tensorflow.python.eager import context

    context.context().enable_run_metadata()
    try:
        function(inputs)  # its first run: later ones do not tell their graph
        graphs = context.context().export_run_metadata().partition_graphs
    finally:
        context.context().disable_run_metadata()
    return collections.Counter(_fused_name(node) for graph in graphs for node in graph.node)


def _fused_name(node):
    fused = b" ".join(node.attr["fused_ops"].list.s).decode()
    return f"{node.op}({fused})" if fused else node.op


@on_tensorflow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fused_ops(dtype):
    import tensorflow as tf

    bert = Bert(CONFIG, dtype=dtype)
    inputs = {name: tf.constant(x) for name, x in ragged_batch(CONFIG, (9, 3)).items()}
    forward = tf.function(lambda x: bert(x, training=False)["pooled_output"], autograph=False)
    ops = _optimized_ops(forward, inputs)
    if not any("Mkl" in op for op in ops):
        pytest.skip("this TensorFlow runs without oneDNN on this processor")
    layers = CONFIG.num_hidden_layers
    fused = {name: sum(n for op, n in ops.items() if "FusedMatMul" in op and name in op) for name in ("Gelu", "Add")}
    assert fused["Gelu"] == layers  # bias + GELU
    assert sum(n for op, n in ops.items() if "FusedMatMul(BiasAdd Add" in op) == 2 * layers  # bias + residual
    assert sum(n for op, n in ops.items() if "FusedBatchMatMul" in op) == layers  # scaled, masked scores
    assert ops["_MklLayerNorm"] == 2 * layers + 1


@on_tensorflow
def test_one_trace_for_fifty_lengths():
    import tensorflow as tf

    bert = Bert(CONFIG)
    traces = []
    spec = {name: tf.TensorSpec([None, None], "int32") for name in bert.input}

    @tf.function(input_signature=[spec])
    def forward(inputs):
        traces.append(1)
        return bert(inputs)["pooled_output"]

    for length in range(1, 51):
        forward({name: tf.constant(x) for name, x in ragged_batch(CONFIG, (length, 1 + length // 2)).items()})
    assert len(traces) == 1


# === Padding ===


@on_tensorflow
def test_flat_and_static_agree():
    import tensorflow as tf

    bert = randomize(Bert(CONFIG))
    inputs = ragged_batch(CONFIG, (7, 2, 4))
    flat = [array(x) for x in keras.tree.flatten(bert(inputs))]
    with kernels.static_shapes():
        assert not kernels.drops_padding()
        static = [array(x) for x in keras.tree.flatten(tf.function(bert)(inputs))]
    compiled = [array(x) for x in keras.tree.flatten(tf.function(bert, jit_compile=True)(inputs))]
    assert kernels.drops_padding()
    for x, y, z in zip(flat, static, compiled, strict=True):
        assert np.abs(x - y).max() <= 1e-5
        assert np.abs(x - z).max() <= 1e-5
        padded = np.all(x == 0, axis=-1)
        assert (y[padded] == 0).all()
        assert (z[padded] == 0).all()


@on_tensorflow
def test_padding_is_not_computed():
    import tensorflow as tf

    rows, slots, stand_ins = kernels.real_tokens(tf.constant([[1, 1, 0], [0, 0, 0], [1, 0, 1]]))
    assert rows.numpy().tolist() == [0, 1, 6, 8]
    assert slots.numpy().tolist() == [[0, 1, 4], [4, 4, 4], [2, 4, 3]]
    assert stand_ins.numpy().tolist() == [[0, 1, 1], [1, 1, 1], [2, 2, 3]]
    packed = kernels.pack(tf.reshape(tf.range(9), [3, 3]), rows)
    assert packed.numpy().tolist() == [0, 1, 6, 8]
    unpacked = kernels.unpack(packed[:, None], rows, slots)
    assert unpacked.numpy().ravel().tolist() == [0, 1, 0, 0, 0, 0, 6, 0, 8]


@on_tensorflow
def test_heads_are_split_and_merged_as_with_static_shapes():
    import tensorflow as tf

    mask, heads, width = tf.constant([[1, 1, 0], [0, 0, 0], [1, 0, 1]]), 2, 4
    real = tf.cast(mask, "float32")[..., None]  # [B, S, 1]
    qkv = tf.random.stateless_normal([9, 3 * heads * width], [1, 2]) * tf.reshape(real, [9, 1])

    def attend(qkv):
        """Something of queries, keys and values that does not look at padding."""
        names = ("rows", "slots", "stand_ins")
        padding = dict(zip(names, kernels.real_tokens(mask), strict=True))
        with tf.GradientTape() as tape:
            tape.watch(qkv)
            query, key, value = kernels.split_heads(qkv, padding, heads)
            context = kernels.merge_heads((query * key + value) * real[:, None], padding)
        return context, tape.gradient(context, qkv, context)

    flat = attend(tf.boolean_mask(qkv, tf.reshape(mask, [-1])))
    with kernels.static_shapes():
        static = attend(qkv)
    for x, y in zip(flat, static, strict=True):
        assert (x.numpy() == tf.boolean_mask(y, tf.reshape(mask, [-1])).numpy()).all()


@on_tensorflow
def test_nothing_but_padding_has_no_gradient():
    import tensorflow as tf

    bert = Bert(CONFIG)
    inputs = {name: tf.zeros([2, 3], tf.int32) for name in bert.input}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(bert(inputs, training=True)["sequence_output"])
    assert loss == 0
    weights = [weight.value for weight in bert.trainable_variables if "pooler" not in weight.path]
    assert all((gradient.numpy() == 0).all() for gradient in tape.gradient(loss, weights))


@on_tensorflow
def test_gradients_of_the_gathers_are_gathers():
    import tensorflow as tf

    bert = Bert(CONFIG)
    inputs = {name: tf.constant(x) for name, x in ragged_batch(CONFIG, (9, 3)).items()}

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(bert(inputs, training=True)["sequence_output"])
        return tape.gradient(loss, [bert.get_layer("layer_0_output").kernel.value])

    kinds = {op.type for op in gradients.get_concrete_function().graph.get_operations()}
    assert not kinds & {"ScatterNd", "TensorScatterAdd", "ScatterAdd"}


# === Attention ===


@on_jax
def test_each_row_has_its_own_mask_on_a_tpu(monkeypatch):
    """Keras hands the first row's mask to the kernel of TPUs for all rows. The kernel here does what theirs would."""
    import jax
    from keras.src.backend.jax import nn

    bert = randomize(Bert(CONFIG), scale=0.3)
    inputs = ragged_batch(CONFIG, (3, 9))
    expected = array(bert(inputs)["sequence_output"])

    def kernel(query, key, value, custom_mask, **_):
        scores = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
        return jax.nn.softmax(jax.numpy.where(custom_mask, scores, -1e9)) @ value  # [B, A, S, D]

    monkeypatch.setattr(nn, "wrap_flash_attention", kernel)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    monkeypatch.setattr(jax, "devices", lambda *_: [types.SimpleNamespace(platform="tpu")])
    assert np.abs(array(bert(inputs)["sequence_output"]) - expected).max() <= 1e-5


# === Norms ===


def test_layer_norm_against_numpy():
    rng = np.random.default_rng(0)
    x, residual = rng.standard_normal((2, 5, 8)).astype("float32")
    layer = AddNorm()
    layer.build([(5, 8), (5, 8)])
    layer.gamma.assign(rng.standard_normal(8))
    layer.beta.assign(rng.standard_normal(8))
    total = (x + residual).astype("float64")
    centered = total - total.mean(-1, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12) * array(layer.gamma) + array(
        layer.beta
    )
    assert np.abs(array(layer([x, residual])) - expected).max() <= 1e-5


def test_layer_norm_of_three_axes():
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype("float32")
    y = array(LayerNorm()(x))
    assert np.abs(y.mean(-1)).max() <= 1e-6
    assert y.std(-1) == pytest.approx(np.ones((2, 3)), abs=1e-5)


# === Gradients ===


def test_gradient_of_word_vectors():
    """The gradient at the vectors that an Embedding returns in place of its own."""
    layer = Embedding(5, 3)
    own = array(layer(np.array([1, 2])))
    given = keras.ops.convert_to_tensor(np.arange(6, dtype="float32").reshape(2, 3))

    def cubes(vectors):
        with word_vectors(layer, vectors):
            return keras.ops.sum(layer(np.array([1, 2])) ** 3)

    assert array(kernels.gradient(cubes, given)) == pytest.approx(3 * array(given) ** 2)
    assert np.array_equal(array(layer(np.array([1, 2]))), own)


def test_gradients_of_tables_are_summed_in_float32():
    """Each position's vector gets a gradient from 64 rows, and each type's from all 8192 tokens."""
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = dataclasses.replace(CONFIG, max_position_embeddings=128, **rates)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, config.vocab_size, (64, 128)).astype("int32")
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
    targets = rng.normal(1, 1, (*ids.shape, config.hidden_size)).astype("float32")
    steps = []
    for dtype in ("float32", "mixed_bfloat16"):
        bert = randomize(Bert(config, dtype=dtype), scale=0.3)
        before = [array(layer.embeddings) for layer in bert.layers if isinstance(layer, keras.layers.Embedding)]
        model = keras.Model(bert.input, bert.output["sequence_output"])
        model.compile(keras.optimizers.SGD(1.0), "mse")
        model.fit(inputs, targets, batch_size=64, verbose=0)
        after = [array(layer.embeddings) for layer in bert.layers if isinstance(layer, keras.layers.Embedding)]
        steps.append([y - x for x, y in zip(before, after, strict=True)])
    for step, expected in zip(steps[1], steps[0], strict=True):
        assert np.linalg.norm(step - expected) <= 0.03 * np.linalg.norm(expected)


# === Backends ===


@pytest.mark.long
@on_tensorflow  # once is enough
def test_backends_agree(tmp_path):
    """JAX and torch with TensorFlow, from the same weights, to 1e-5."""
    bert = randomize(Bert(CONFIG))
    bert.save_weights(tmp_path / "bert.weights.h5")
    inputs = ragged_batch(CONFIG, (7, 2, 4))
    np.savez(tmp_path / "inputs.npz", **inputs)
    ours = [array(x) for x in keras.tree.flatten(bert(inputs))]
    for backend in ("jax", "torch"):
        pytest.importorskip(backend)
        python(
            """
            import sys
            sys.modules["tensorflow"] = None  # this process needs none, and importing it takes seconds
            import keras
            import numpy as np
            from keras_bert.bert import Bert
            from keras_bert.config import BertConfig
            folder = sys.argv[1]
            bert = Bert(BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                   intermediate_size=32))
            bert.load_weights(folder + "/bert.weights.h5")
            outputs = bert(dict(np.load(folder + "/inputs.npz")))
            np.savez(folder + "/outputs.npz", *[keras.ops.convert_to_numpy(x) for x in keras.tree.flatten(outputs)])
            """,
            str(tmp_path),
            KERAS_BACKEND=backend,
        )
        with np.load(tmp_path / "outputs.npz") as outputs:
            for mine, name in zip(ours, outputs.files, strict=True):
                assert np.abs(mine - outputs[name]).max() <= 1e-5
