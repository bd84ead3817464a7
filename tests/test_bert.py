"""Bert as a Keras user meets it; runs on every backend."""

import dataclasses

import keras
import numpy as np
import pytest
import scipy.stats

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.training.optimizer import AdamW
from tests.parity.oracles import array, ragged_batch, randomize

BACKEND = keras.backend.backend()
CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
)


@pytest.fixture
def bert():
    return randomize(Bert(CONFIG))


@pytest.fixture
def inputs():
    return ragged_batch(CONFIG)


def _flat(outputs):
    return [array(x) for x in keras.tree.flatten(outputs)]


def _same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(_flat(one), _flat(other), strict=True))


# === Shapes ===


def test_symbolic_shapes(bert):
    assert bert.output["pooled_output"].shape == (None, 8)
    assert bert.output["sequence_output"].shape == (None, None, 8)
    assert [x.shape for x in bert.output["encoder_outputs"]] == [(None, None, 8)] * 2
    assert bert.output["default"].shape == (None, 8)
    outputs = bert({name: keras.Input((12,), dtype="int32") for name in bert.input})
    assert outputs["sequence_output"].shape == (None, 12, 8)


@pytest.mark.parametrize("lengths", [(1,), (3, 5), (16, 1, 2)])
def test_shapes(bert, lengths):
    outputs = bert(ragged_batch(CONFIG, lengths))
    assert outputs["sequence_output"].shape == (len(lengths), max(lengths), 8)
    assert outputs["pooled_output"].shape == (len(lengths), 8)


# === What the weights begin as ===


def test_initial_values():
    found = []
    for seed in (0, 0, 1):
        keras.utils.set_random_seed(seed)
        bert = Bert(dataclasses.replace(CONFIG, vocab_size=2500))
        found.append(
            [array(weight).ravel() for weight in bert.weights if weight.path.endswith(("kernel", "embeddings"))]
        )
    first, again, other = map(np.concatenate, found)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    normal = scipy.stats.truncnorm(-2, 2, scale=CONFIG.initializer_range)
    assert scipy.stats.kstest(first, normal.cdf).pvalue > 1e-3
    assert np.abs(first).max() <= 0.04 * (1 + 1e-6)
    assert len({x[:8].tobytes() for x in found[0]}) == len(found[0])  # no two weights begin alike


# === The mask ===


def test_masked_positions_are_zero(bert, inputs):
    outputs = bert(inputs)
    for states in [outputs["sequence_output"], *outputs["encoder_outputs"]]:
        assert (array(states)[inputs["input_mask"] == 0] == 0).all()
        assert (array(states)[inputs["input_mask"] == 1] != 0).all()


def test_what_stands_under_the_mask_does_not_matter(bert, inputs):
    before = _flat(bert(inputs))
    hidden = inputs["input_mask"] == 0
    inputs["input_word_ids"][hidden] = 49
    inputs["input_type_ids"][hidden] = 1
    for x, y in zip(before, _flat(bert(inputs)), strict=True):
        assert np.abs(x - y).max() <= 1e-6


def test_a_row_of_nothing_but_padding(bert, inputs):
    before = _flat(bert(inputs))
    inputs["input_mask"][1] = 0
    for x, y in zip(before, _flat(bert(inputs)), strict=True):
        assert np.isfinite(y).all()
        assert np.abs(np.delete(x, 1, 0) - np.delete(y, 1, 0)).max() <= 1e-6


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("lengths", [(), (1,), (0, 0)])
def test_empty_batch_one_token_all_padding(bert, lengths, training):
    shape = (len(lengths), 4)
    mask = (np.arange(4) < np.array(lengths, "int32").reshape(-1, 1)).astype("int32")
    ids = np.ones(shape, "int32")
    outputs = bert({"input_word_ids": ids, "input_mask": mask, "input_type_ids": ids * 0}, training=training)
    assert outputs["sequence_output"].shape == (*shape, 8)
    assert all(np.isfinite(x).all() for x in _flat(outputs))


def test_batch_is_each_row_alone(bert, inputs):
    together = array(bert(inputs)["pooled_output"])
    for i in range(len(together)):
        alone = bert({name: x[i : i + 1] for name, x in inputs.items()})["pooled_output"]
        assert np.abs(array(alone)[0] - together[i]).max() <= 1e-5


# === Bad input ===


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x: "some text", r"bert\.embed\(texts\)"),
        (lambda x: ["a", "b"], r"bert\.embed\(texts\)"),
        (lambda x: np.array(["a"]), r"bert\.embed\(texts\)"),
        (lambda x: x["input_word_ids"], "takes a dict"),
        (lambda x: {**x, "input_mask": x["input_mask"][:, :3]}, "input_mask must have the shape"),
        (lambda x: {**x, "input_word_ids": x["input_word_ids"].astype("float32")}, "must hold integers"),
        (lambda x: {**x, "input_word_ids": np.full(x["input_mask"].shape, "a")}, "must hold integers"),
        (lambda x: {name: x[name] for name in ("input_word_ids", "input_mask")}, "The inputs must be"),
        (lambda x: {**x, "input_words": x["input_word_ids"]}, "The inputs must be"),
        (lambda x: {**x, "input_word_ids": x["input_word_ids"] + 50}, r"must be in 0\.\.\.49"),
        (lambda x: {**x, "input_word_ids": x["input_word_ids"] - 50}, r"must be in 0\.\.\.49"),
        (lambda x: {**x, "input_type_ids": x["input_type_ids"] + 2}, "input_type_ids must be in"),
        (lambda x: {name: np.zeros((1, 17), "int32") for name in x}, "at most the model's 16 positions"),
        (lambda x: {name: np.zeros((2, 0), "int32") for name in x}, "at least one position"),
        (lambda x: {name: value[0] for name, value in x.items()}, r"shape \[batch, sequence\]"),
        (lambda x: {name: [[1, 2], [1]] for name in x}, "rows of one length"),
    ],
)
def test_bad_inputs(bert, inputs, change, says):
    with pytest.raises((ValueError, TypeError), match=says):
        bert(change(inputs))


@pytest.mark.parametrize("nothing", [None, {}, "a text"])
def test_predict_nothing(bert, nothing):
    with pytest.raises((ValueError, TypeError), match="input_word_ids, input_mask, input_type_ids"):
        bert.predict(nothing, verbose=0)


def test_too_long_for_a_model_built_on_bert(bert):
    model = keras.Model(bert.input, bert.output["pooled_output"])
    with pytest.raises(ValueError, match="at most the model's 16 positions"):
        model({name: np.zeros((1, 17), "int32") for name in bert.input})


def test_no_vocabulary(bert):
    with pytest.raises(ValueError, match="has no vocabulary"):
        _ = bert.preprocessor


# === What Keras users expect ===


def _saved_and_loaded(bert, tmp_path):
    bert.save(tmp_path / "bert.keras")
    return keras.models.load_model(tmp_path / "bert.keras")


def test_save_and_load(bert, inputs, tmp_path):
    loaded = _saved_and_loaded(bert, tmp_path)
    assert loaded.config == bert.config
    assert _same(bert(inputs), loaded(inputs))


def test_lora_survives_saving(bert, inputs, tmp_path):
    bert.enable_lora(2)
    assert {weight.path.split("/")[-2] for weight in bert.trainable_weights} == {
        "layer_0_attention_qkv",
        "layer_1_attention_qkv",
    }
    for i in range(2):
        layer = bert.get_layer(f"layer_{i}_attention_qkv")
        layer.lora_kernel_b.assign(keras.random.normal(layer.lora_kernel_b.shape))
    before = _flat(bert(inputs))
    loaded = _saved_and_loaded(bert, tmp_path)
    assert len(loaded.trainable_weights) == len(bert.trainable_weights)
    for x, y in zip(before, _flat(loaded(inputs)), strict=True):
        assert np.abs(x - y).max() <= 1e-5


def test_lora_of_a_layer_by_keras_own_means(bert, inputs):
    bert.get_layer("layer_0_output").enable_lora(2)
    assert _flat(bert(inputs))


def test_lora_targets(bert):
    with pytest.raises(ValueError, match="rank must be at least 1"):
        bert.enable_lora(0)
    with pytest.raises(ValueError, match="must name Dense layers"):
        bert.enable_lora(2, targets=("attention",))


def test_int8_survives_saving(bert, inputs, tmp_path):
    before = _flat(bert(inputs))
    bert.quantize("int8")
    kinds = {keras.backend.standardize_dtype(bert.get_layer(f"layer_{i}_output").kernel.dtype) for i in range(2)}
    assert kinds == {"int8"}
    after = _flat(bert(inputs))
    for x, y in zip(before, after, strict=True):
        assert np.abs(x - y).max() <= 0.15
    assert all(
        np.array_equal(x, y) for x, y in zip(after, _flat(_saved_and_loaded(bert, tmp_path)(inputs)), strict=True)
    )


def test_freezing_survives_saving(bert, tmp_path):
    bert.freeze(blocks=1)
    names = {weight.path.split("/")[-2] for weight in bert.trainable_weights}
    assert all(name.startswith(("layer_1_", "pooler")) for name in names)
    loaded = _saved_and_loaded(bert, tmp_path)
    assert [w.path for w in loaded.trainable_weights] == [w.path for w in bert.trainable_weights]
    bert.freeze()
    assert bert.trainable_weights == []


def test_freezing_anew(bert):
    bert.freeze(blocks=1)
    some = len(bert.trainable_weights)
    bert.freeze()
    bert.freeze(blocks=1)
    assert len(bert.trainable_weights) == some > 0
    with pytest.raises(ValueError, match="blocks must be 0 to 2"):
        bert.freeze(blocks=3)
    bert.freeze()
    bert.enable_lora(2, targets="attention_qkv")
    assert len(bert.trainable_weights) == 2 * 3  # bias and two factors


def test_config_must_be_one():
    with pytest.raises(TypeError, match=r"keras_bert\.load"):
        Bert("base")


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "mixed_float16", "float32"])
def test_dtype_policies(inputs, dtype, tmp_path):
    bert = randomize(Bert(CONFIG, dtype=dtype))
    policy = keras.dtype_policies.get(dtype)
    outputs = bert(inputs)
    for x in keras.tree.flatten(outputs):
        assert keras.backend.standardize_dtype(x.dtype) == policy.compute_dtype
    assert {keras.backend.standardize_dtype(w.dtype) for w in bert.trainable_weights} == {policy.variable_dtype}
    exact = randomize(Bert(CONFIG, dtype="float32"))(inputs)
    for x, y in zip(_flat(outputs), _flat(exact), strict=True):
        assert np.abs(x - y).max() <= 0.1
    assert _same(outputs, _saved_and_loaded(bert, tmp_path)(inputs))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_adamw_refuses_weights_it_could_not_move(dtype):
    bert = Bert(CONFIG, dtype=dtype)
    with pytest.raises(ValueError, match=f"mixed_{dtype}"):
        AdamW().build(bert.trainable_variables)


def test_layers_by_name(bert):
    assert bert.word_embeddings.embeddings.shape == (50, 8)
    assert "layer_1_output" in [layer.name for layer in bert.block(1)]
    dense = [layer.name for layer in bert.layers if isinstance(layer, keras.layers.Dense)]
    assert len(dense) == 2 * 4 + 1
    with pytest.raises(IndexError, match="0 to 1"):
        bert.block(2)


def test_summary_and_plot(bert, tmp_path, capsys):
    bert.summary(line_length=200)
    assert "layer_1_attention_qkv" in capsys.readouterr().out
    pydot = pytest.importorskip("pydot")
    try:
        pydot.Dot.create(pydot.Dot())
    except (OSError, AssertionError):
        pytest.skip("graphviz is not installed")
    keras.utils.plot_model(bert, tmp_path / "bert.png")
    assert (tmp_path / "bert.png").stat().st_size > 0


def test_predict(bert, inputs):
    outputs = bert.predict(inputs, batch_size=3, verbose=0)
    assert [x.shape for x in outputs["encoder_outputs"]] == [(4, 12, 8)] * 2
    assert np.abs(outputs["sequence_output"] - array(bert(inputs)["sequence_output"])).max() <= 1e-5
    lists = {name: x.tolist() for name, x in inputs.items()}
    assert _same(bert(lists), bert(inputs))
    assert np.array_equal(bert.predict(lists, batch_size=3, verbose=0)["default"], outputs["default"])


def test_functional_head_trains_and_reloads(bert, inputs, tmp_path):
    model = keras.Model(bert.input, keras.layers.Dense(2)(bert.output["pooled_output"]))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(inputs, np.array([0, 1, 0, 1]), epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(model.predict(inputs, verbose=0), loaded.predict(inputs, verbose=0))


def test_bert_inside_a_model(bert, inputs, tmp_path):
    ins = {name: keras.Input((None,), dtype="int32", name=name) for name in bert.input}
    model = keras.Model(ins, keras.layers.Dense(2)(bert(ins)["pooled_output"]))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(model.predict(inputs, verbose=0), loaded.predict(inputs, verbose=0))


def test_dropout_is_seeded_and_only_in_training(inputs):
    def build():
        keras.utils.set_random_seed(0)
        return Bert(CONFIG)

    one, other = build(), build()
    first, second = one(inputs, training=True), one(inputs, training=True)
    assert not _same(first, second)
    assert _same(first, other(inputs, training=True))
    assert _same(one(inputs), other(inputs))


def test_remat_changes_nothing(inputs, tmp_path):
    labels = np.array([0, 1, 0, 1])

    def trained(remat):
        keras.utils.set_random_seed(0)
        bert = randomize(Bert(CONFIG, remat=remat))
        model = keras.Model(bert.input, keras.layers.Dense(2)(bert.output["pooled_output"]))
        model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(inputs, labels, epochs=3, shuffle=False, verbose=0)
        return model

    plain, rematerialized = trained(False), trained(True)
    for x, y in zip(plain.trainable_weights, rematerialized.trainable_weights, strict=True):
        assert np.abs(array(x) - array(y)).max() <= 1e-5, x.path


@pytest.mark.skipif(BACKEND != "tensorflow", reason="a TensorFlow format")
def test_export(bert, inputs, tmp_path):
    import tensorflow as tf

    bert.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    outputs = loaded.serve({name: tf.constant(x) for name, x in inputs.items()})
    assert set(outputs) == {"pooled_output", "sequence_output", "default", "encoder_output_0", "encoder_output_1"}
    assert np.abs(outputs["encoder_output_0"] - array(bert(inputs)["encoder_outputs"][0])).max() <= 1e-6


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Keras writes LiteRT from TensorFlow")
def test_export_to_litert(bert, inputs, tmp_path):
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    bert.export(tmp_path / "bert.tflite", format="litert", verbose=False)
    run = litert.Interpreter(str(tmp_path / "bert.tflite")).get_signature_runner()
    outputs, expected = run(**inputs), bert(inputs)
    for name in ("sequence_output", "pooled_output"):
        assert np.abs(outputs[name] - array(expected[name])).max() <= 1e-5


@pytest.mark.filterwarnings("ignore")  # of the exporters
def test_export_to_onnx(bert, inputs, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip({"tensorflow": "tf2onnx", "jax": "jax2onnx", "torch": "onnx"}[BACKEND])
    bert.export(tmp_path / "bert.onnx", format="onnx", verbose=False)
    session = runtime.InferenceSession(tmp_path / "bert.onnx")
    outputs = session.run(None, inputs)
    expected = bert(inputs)
    assert any(x.shape == (4, 8) and np.abs(x - array(expected["pooled_output"])).max() <= 1e-5 for x in outputs)
    states = [x for x in outputs if x.ndim == 3]
    for x in (expected["sequence_output"], *expected["encoder_outputs"]):
        assert min(np.abs(array(x) - y).max() for y in states) <= 1e-5
