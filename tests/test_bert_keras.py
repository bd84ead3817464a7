"""Bert as a Keras model: saved, frozen, quantized, exported, with LoRA, in other dtypes; runs on every backend."""

import logging

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.training.optimizer import AdamW
from tests.parity.oracles import array, ragged_batch, randomize
from tests.small_bert import CONFIG, flat, same

BACKEND = keras.backend.backend()


@pytest.fixture
def bert():
    return randomize(Bert(CONFIG))


@pytest.fixture
def inputs():
    return ragged_batch(CONFIG)


def _saved_and_loaded(bert, tmp_path):
    bert.save(tmp_path / "bert.keras")
    return keras.models.load_model(tmp_path / "bert.keras")


def test_save_and_load(bert, inputs, tmp_path):
    loaded = _saved_and_loaded(bert, tmp_path)
    assert loaded.config == bert.config
    assert same(bert(inputs), loaded(inputs))


def test_saving_does_not_build_the_attention_maps(bert, tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr("keras_bert.bert.map_model", built.append)
    bert.save(tmp_path / "bert.keras")
    assert built == []


def test_lora_survives_saving(bert, inputs, tmp_path):
    bert.enable_lora(2)
    assert {weight.path.split("/")[-2] for weight in bert.trainable_weights} == {
        "layer_0_attention_qkv",
        "layer_1_attention_qkv",
    }
    for i in range(2):
        layer = bert.get_layer(f"layer_{i}_attention_qkv")
        layer.lora_kernel_b.assign(keras.random.normal(layer.lora_kernel_b.shape))
    before = flat(bert(inputs))
    loaded = _saved_and_loaded(bert, tmp_path)
    assert len(loaded.trainable_weights) == len(bert.trainable_weights)
    for x, y in zip(before, flat(loaded(inputs)), strict=True):
        assert np.abs(x - y).max() <= 1e-5


def test_lora_of_a_layer_by_keras_own_means(bert, inputs):
    bert.get_layer("layer_0_output").enable_lora(2)
    assert flat(bert(inputs))


def test_lora_has_one_rank_and_only_its_changes_are_trained(bert):
    bert.freeze(blocks=1)
    bert.unfreeze()
    assert not bert.non_trainable_weights
    bert.enable_lora(2)
    for change in (bert.unfreeze, lambda: bert.freeze(blocks=1), lambda: bert.enable_lora(4)):
        with pytest.raises(ValueError, match="cannot change a model with LoRA"):
            change()


def test_lora_targets(bert):
    with pytest.raises(ValueError, match="`rank` must be from 1 to"):
        bert.enable_lora(0)
    with pytest.raises(ValueError, match=r"`rank` must be from 1 to the model's hidden size, \d+\..*rank=10000000"):
        bert.enable_lora(10_000_000)
    with pytest.raises(ValueError, match="`targets` must name Dense layers"):
        bert.enable_lora(2, targets=("attention",))


@pytest.mark.usefixtures("quantizes")
def test_int8_survives_saving(bert, inputs, tmp_path):
    before = flat(bert(inputs))
    bert.quantize("int8")
    kinds = {keras.backend.standardize_dtype(bert.get_layer(f"layer_{i}_output").kernel.dtype) for i in range(2)}
    assert kinds == {"int8"}
    after = flat(bert(inputs))
    for x, y in zip(before, after, strict=True):
        assert np.abs(x - y).max() <= 0.15
    assert all(
        np.array_equal(x, y) for x, y in zip(after, flat(_saved_and_loaded(bert, tmp_path)(inputs)), strict=True)
    )


def test_freezing_survives_saving(bert, tmp_path):
    bert.freeze(blocks=1)
    names = {weight.path.split("/")[-2] for weight in bert.trainable_weights}
    assert all(name.startswith(("layer_1_", "pooler")) for name in names)
    loaded = _saved_and_loaded(bert, tmp_path)
    assert [w.path for w in loaded.trainable_weights] == [w.path for w in bert.trainable_weights]
    bert.freeze()
    assert bert.trainable_weights == []


def test_freezing_again(bert):
    bert.freeze(blocks=1)
    some = len(bert.trainable_weights)
    bert.freeze()
    bert.freeze(blocks=1)
    assert len(bert.trainable_weights) == some > 0
    with pytest.raises(ValueError, match="`blocks` must be 0 to 2"):
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
    for x, y in zip(flat(outputs), flat(exact), strict=True):
        assert np.abs(x - y).max() <= 0.1
    assert same(outputs, _saved_and_loaded(bert, tmp_path)(inputs))


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
    assert same(bert(lists), bert(inputs))
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
    assert not same(first, second)
    assert same(first, other(inputs, training=True))
    assert same(one(inputs), other(inputs))


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


@pytest.mark.long
@pytest.mark.parametrize("eagerly", [False, True])
def test_remat_warns_of_nothing(inputs, caplog, eagerly):
    """TensorFlow warns where integers, such as the places of tokens, are watched on the way back."""
    bert = Bert(CONFIG, remat=True)
    model = keras.Model(bert.input, keras.layers.Dense(2)(bert.output["pooled_output"]))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=eagerly)
    loggers = [logging.getLogger(name) for name in ("tensorflow", "absl")]  # which pass nothing on to the root
    for logger in loggers:
        logger.addHandler(caplog.handler)
    try:
        model.fit(inputs, np.array([0, 1, 0, 1]), verbose=0)
    finally:
        for logger in loggers:
            logger.removeHandler(caplog.handler)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    # TensorFlow counts retracing in all models of this process, those of other tests too.
    assert not [message for message in warnings if "retracing" not in message]


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
    expected = dict(bert(inputs))
    expected |= {f"encoder_output_{i}": x for i, x in enumerate(expected.pop("encoder_outputs"))}
    session = runtime.InferenceSession(tmp_path / "bert.onnx")
    assert {output.name for output in session.get_outputs()} == set(expected)
    for name, x in expected.items():
        assert np.abs(session.run([name], inputs)[0] - array(x)).max() <= 1e-5, name


@pytest.mark.filterwarnings("ignore")  # of the exporters
def test_a_task_that_was_never_called_exports_to_onnx(bert, inputs, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip({"tensorflow": "tf2onnx", "jax": "jax2onnx", "torch": "onnx"}[BACKEND])
    task = TextClassifier(bert, labels=("bad", "good"))
    task.export(tmp_path / "task.onnx", format="onnx", verbose=False)
    found = runtime.InferenceSession(tmp_path / "task.onnx").run(["output"], inputs)[0]
    assert np.abs(found - array(task(inputs))).max() <= 1e-5
