"""Model Garden's checkpoints and TF-Hub exports, made by Model Garden."""

import keras
import numpy as np
import pytest

from keras_bert.weights.load import read
from tests.weights import small

if keras.backend.backend() != "tensorflow":
    pytest.skip("Model Garden runs on TensorFlow", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
pytest.importorskip("official", reason="pip install 'keras3-bert[pretrain]'")

pytestmark = pytest.mark.filterwarnings("ignore:Input dict contained keys:UserWarning")  # Model Garden's own call
MASK = small.INPUTS["input_mask"]


def _encoder(kind, plain=False):
    from official.nlp.modeling import networks

    inner = {"BertEncoder": "intermediate_size", "BertEncoderV2": "inner_dim"}[kind]
    settings = {"max_sequence_length": 16, "type_vocab_size": 2, inner: 20}
    encoder = getattr(networks, kind)(
        vocab_size=24,
        hidden_size=8,
        num_layers=3,
        num_attention_heads=2,
        **settings,
        **({} if plain else _return_all(kind)),
    )
    encoder(small.INPUTS)
    return encoder


def _return_all(kind):
    return {"return_all_encoder_outputs": True, "dict_outputs": True} if kind == "BertEncoder" else {}


def _randomize(*models):
    rng = np.random.default_rng(0)
    for model in models:
        for weight in model.variables:
            if weight.dtype == tf.float32:
                weight.assign(("gamma" in weight.name) + 0.2 * rng.standard_normal(weight.shape))


def _pretrainer(kind):
    from official.modeling import tf_utils
    from official.nlp.modeling import layers, models

    heads = [layers.ClassificationHead(inner_dim=8, num_classes=2, dropout_rate=0.1, name="next_sentence")]
    pretrainer = models.BertPretrainerV2(
        _encoder(kind), classification_heads=heads, mlm_activation=tf_utils.get_activation("gelu")
    )
    pretrainer({**small.INPUTS, "masked_lm_positions": small.POSITIONS})
    _randomize(pretrainer)
    return pretrainer


def _save(folder, **items):
    tf.train.Checkpoint(**items).save(str(folder / "ckpt"))
    (folder / "checkpoint").unlink()
    return folder


def _assert_layers(ours, theirs):
    for mine, other in zip(ours["encoder_outputs"], theirs["encoder_outputs"], strict=True):
        assert small.close(mine, other, MASK) <= 1e-5


@pytest.mark.parametrize("kind", ["BertEncoder", "BertEncoderV2"])
@pytest.mark.parametrize("item", ["encoder", "model"])
def test_encoder(tmp_path, kind, item):
    encoder = _encoder(kind)
    _randomize(encoder)
    checkpoint = read(_save(tmp_path, **{item: encoder}))
    ours, theirs = small.outputs(checkpoint), encoder(small.INPUTS)
    assert checkpoint.config == small.CONFIG
    _assert_layers(ours, theirs)
    assert small.close(ours["pooled_output"], theirs["pooled_output"]) <= 1e-5


@pytest.mark.parametrize("kind", ["BertEncoder", "BertEncoderV2"])
def test_pretraining_with_an_optimizer(tmp_path, kind):
    import tf_keras

    pretrainer = _pretrainer(kind)
    optimizer = tf_keras.optimizers.Adam()
    optimizer.build(pretrainer.trainable_variables)
    step = tf.Variable(7, dtype=tf.int64)
    checkpoint = read(
        _save(tmp_path, model=pretrainer, optimizer=optimizer, global_step=step, **pretrainer.checkpoint_items)
    )
    theirs = pretrainer({**small.INPUTS, "masked_lm_positions": small.POSITIONS})
    ours = small.outputs(checkpoint)
    assert set(checkpoint.heads) == {"mlm", "nsp"}
    assert set(checkpoint.left_out.values()) >= {"it belongs to the optimizer"}
    _assert_layers(ours, theirs)
    assert small.close(ours["mlm"], theirs["mlm_logits"]) <= 1e-5
    assert small.close(ours["nsp"], theirs["next_sentence"]) <= 1e-5


def test_older_pretrainer(tmp_path):
    from official.nlp.modeling import models

    encoder = _encoder("BertEncoder", plain=True)
    pretrainer = models.BertPretrainer(encoder, num_classes=2, num_token_predictions=2, output="logits")
    _randomize(pretrainer)
    ours = small.outputs(read(_save(tmp_path, model=pretrainer)))
    theirs = pretrainer({**small.INPUTS, "masked_lm_positions": small.POSITIONS})
    assert small.close(ours["nsp"], theirs["classification"]) <= 1e-5


def test_classifier(tmp_path):
    from official.nlp.modeling import models

    model = models.BertClassifier(_encoder("BertEncoder"), num_classes=3)
    _randomize(model)
    ours = small.outputs(read(_save(tmp_path, model=model)))
    assert small.close(ours["classifier"], model(small.INPUTS)) <= 1e-5


def test_older_names(tmp_path):
    """The names that Model Garden's TF1 converter gave in 2019 and 2020."""
    encoder = _encoder("BertEncoder")
    _randomize(encoder)
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
    expected = read(_save(tmp_path / "new", encoder=encoder))
    old = tf.Module()
    old.items = []
    for weight in encoder.variables:
        name = weight.name.removesuffix(":0")
        for new, then in (
            ("transformer/", "encoder/"),
            ("self_attention/attention_output/", "self_attention_output/"),
            ("position_embedding/embeddings", "embedding_postprocessor/position_embeddings"),
            ("type_embeddings/embeddings", "embedding_postprocessor/type_embeddings"),
            ("embeddings/layer_norm/", "embedding_postprocessor/layer_norm/"),
        ):
            name = name.replace(new, then)
        old.items.append(tf.Variable(weight, name=f"bert_model/{name}"))
    small.assert_equal_arrays(expected.weights, read(_save(tmp_path / "old", model=old)).weights)


def test_every_weight_is_accounted_for(tmp_path):
    encoder = _encoder("BertEncoder")
    items = [tf.Variable(weight, name=weight.name.removesuffix(":0")) for weight in encoder.variables]
    module = tf.Module()
    module.items = items[:-1]
    missing = items[-1].name.removesuffix(":0")
    for name in ("missing", "more", "shape"):
        (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"Missing: {missing}"):
        read(_save(tmp_path / "missing", model=module))
    module.items = [*items, tf.Variable([1.0], name="more")]
    with pytest.raises(ValueError, match="Left over: more"):
        read(_save(tmp_path / "more", model=module))
    module.items = [*items[:-1], tf.Variable([1.0], name=missing)]
    with pytest.raises(ValueError, match=rf"{missing} has the shape \[.*Received: \[1\]"):
        read(_save(tmp_path / "shape", model=module))


@pytest.mark.long
@pytest.mark.parametrize("with_mlm", [False, True])
def test_tf_hub_export(tmp_path, with_mlm):
    from official.nlp.configs import encoders
    from official.nlp.tools import export_tfhub_lib

    sizes = {
        "vocab_size": 24,
        "hidden_size": 8,
        "num_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 20,
        "max_position_embeddings": 16,
    }
    config = encoders.EncoderConfig({"type": "bert", "bert": sizes})
    _, source = export_tfhub_lib._create_model(encoder_config=config, with_mlm=with_mlm)
    _randomize(source)
    items = source.checkpoint_items if with_mlm else {"encoder": source}
    (tmp_path / "ckpt").mkdir()
    path = tf.train.Checkpoint(**items).save(str(tmp_path / "ckpt" / "ckpt"))
    small.VOCABULARY.save(tmp_path / "vocab.txt")
    export_tfhub_lib.export_model(
        str(tmp_path / "hub"),
        encoder_config=config,
        model_checkpoint_path=path,
        with_mlm=with_mlm,
        vocab_file=str(tmp_path / "vocab.txt"),
        do_lower_case=False,
    )
    checkpoint = read(tmp_path / "hub")
    assert checkpoint.vocabulary == small.VOCABULARY
    assert checkpoint.rules.lowercase is False
    ours = small.outputs(checkpoint)
    loaded = tf.saved_model.load(str(tmp_path / "hub"))
    theirs = loaded({name: tf.constant(x) for name, x in small.INPUTS.items()})
    _assert_layers(ours, theirs)
    assert small.close(ours["pooled_output"], theirs["pooled_output"]) <= 1e-5
    if with_mlm:
        inputs = {**small.INPUTS, "masked_lm_positions": small.POSITIONS}
        logits = loaded.mlm({name: tf.constant(x) for name, x in inputs.items()})["mlm_logits"]
        assert small.close(ours["mlm"], logits) <= 1e-5
