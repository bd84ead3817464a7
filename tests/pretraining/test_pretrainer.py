"""Pretrainer: fit, saving, loading from every format, and its answers on text."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.pretraining.fill_mask import Filling, NextSentence
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.weights import google, hugging_face, own
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import read
from tests.parity.oracles import array, randomize
from tests.weights import small

X = {**small.INPUTS, "masked_lm_positions": small.POSITIONS}
Y = {"mlm_logits": small.POSITIONS + 5, "nsp_logits": np.array([0, 1, 1, 0], "int32")}
WEIGHTS = {"mlm_logits": np.array([[1, 1], [0, 0], [1, 0], [1, 1]], "float32"), "nsp_logits": np.ones(4, "float32")}
MEASURES = ["masked_lm_accuracy", "masked_lm_loss", "next_sentence_accuracy", "next_sentence_loss"]


def _pretrainer(dtype=None, **options):
    bert = Bert(small.CONFIG, Preprocessor(small.VOCABULARY, seq_length=16, max_length=16), dtype=dtype)
    return randomize(Pretrainer(bert, **options))


def _only(batch, *names):
    return tuple({name: value[name] for name in names} for value in batch)


def _mean(measure):
    return float(array(measure.total)) / float(array(measure.count))


# === Training ===


def test_fit():
    pretrainer = _pretrainer()
    before = [array(weight) for weight in pretrainer.bert.trainable_weights]
    pretrainer.compile(keras.optimizers.Adam(1e-2))
    logs = pretrainer.fit(X, Y, sample_weight=WEIGHTS, batch_size=2, epochs=12, verbose=0).history
    assert sorted(logs) == ["loss", *MEASURES]
    assert logs["loss"][-1] < 0.5 * logs["loss"][0]
    assert all((array(new) != old).any() for new, old in zip(pretrainer.bert.trainable_weights, before, strict=True))


def test_logs_are_means_over_all_masked_positions():
    """Batches of two rows hold 2 and 3 masked positions; the mean of their means would be another."""
    pretrainer = _pretrainer()
    pretrainer.compile()
    logs = pretrainer.evaluate(X, Y, sample_weight=WEIGHTS, batch_size=2, verbose=0, return_dict=True)
    measures = pretrainer.measures((X, Y, WEIGHTS))
    assert sorted(measures) == MEASURES
    for name, measure in measures.items():
        assert logs[name] == pytest.approx(_mean(measure), rel=1e-5)
    assert _mean(measures["masked_lm_loss"]) == pytest.approx(_masked_lm_loss(pretrainer), rel=1e-5)


def _masked_lm_loss(pretrainer):
    logits = array(pretrainer(X)["mlm_logits"]).astype("float64")
    shifted = logits - logits.max(-1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log, Y["mlm_logits"][..., None], -1)[..., 0]
    return losses[WEIGHTS["mlm_logits"] > 0].mean()


def test_masked_words_alone():
    pretrainer = _pretrainer(nsp=False)
    assert pretrainer.objective == ("masked_lm_loss",)
    y, weights = _only((Y, WEIGHTS), "mlm_logits")
    assert sorted(pretrainer.measures((X, y, weights))) == MEASURES[:2]
    pretrainer.compile()
    assert sorted(pretrainer.train_on_batch(X, y, weights, return_dict=True)) == ["loss", *MEASURES[:2]]
    with pytest.raises(ValueError, match=r"y must be a dict with nsp_logits.*nsp=False"):
        _pretrainer().measures((X, y, weights))
    with pytest.raises(ValueError, match="sample_weight must be a dict with mlm_logits"):
        pretrainer.measures((X, y, None))


def test_a_batch_without_masked_positions():
    measures = _pretrainer().measures((X, Y, {**WEIGHTS, "mlm_logits": 0 * WEIGHTS["mlm_logits"]}))
    assert float(array(measures["masked_lm_loss"].total)) == float(array(measures["masked_lm_loss"].count)) == 0
    pretrainer = _pretrainer()
    pretrainer.compile()
    logs = pretrainer.train_on_batch(X, Y, {**WEIGHTS, "mlm_logits": 0 * WEIGHTS["mlm_logits"]}, return_dict=True)
    assert float(logs["loss"]) == pytest.approx(float(logs["next_sentence_loss"]))
    assert all(np.isfinite(array(weight)).all() for weight in pretrainer.weights)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(dtype):
    exact, pretrainer = _pretrainer(), _pretrainer(dtype)
    outputs = pretrainer(X)
    assert keras.backend.standardize_dtype(outputs["mlm_logits"].dtype) == "float32"
    assert np.abs(array(outputs["mlm_logits"]) - array(exact(X)["mlm_logits"])).max() < 0.05
    pretrainer.compile()
    logs = pretrainer.train_on_batch(X, Y, WEIGHTS, return_dict=True)
    assert np.isfinite(float(logs["loss"]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_not_trained(dtype):
    pretrainer = _pretrainer(dtype)
    assert np.isfinite(array(pretrainer(X)["mlm_logits"])).all()
    pretrainer.compile(keras.optimizers.SGD())
    with pytest.raises(ValueError, match=f'dtype="mixed_{dtype}"'):
        pretrainer.fit(X, Y, sample_weight=WEIGHTS, verbose=0)
    bert = Bert(small.CONFIG, dtype=dtype)
    bert.compile(keras.optimizers.SGD(), loss={"pooled_output": "mse"})
    with pytest.raises(ValueError, match=f'dtype="mixed_{dtype}"'):
        bert.train_on_batch(small.INPUTS, {"pooled_output": np.zeros((4, 8))})


def test_frozen_encoder():
    pretrainer = _pretrainer()
    pretrainer.bert.freeze()
    before = [array(weight) for weight in pretrainer.bert.weights]
    pretrainer.compile(keras.optimizers.Adam(1e-2))
    pretrainer.train_on_batch(X, Y, WEIGHTS)
    assert len(pretrainer.trainable_weights) == 7
    for weight, old in zip(pretrainer.bert.weights, before, strict=True):
        assert (array(weight) == old).all() or "seed" in weight.path


def test_its_losses_are_its_own():
    with pytest.raises(ValueError, match="Leave loss out"):
        _pretrainer().compile(loss="mse")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masked_lm_positions": None}, "The inputs must be .*masked_lm_positions"),
        ({"masked_lm_positions": np.full((4, 2), 12)}, r"masked_lm_positions must be in 0\.\.\.11.*Received: 12"),
        ({"masked_lm_positions": np.zeros((3, 2), int)}, "a row for each of the 4 sequences. Received: 3"),
        ({"masked_lm_positions": np.zeros(4, int)}, r"shape \[batch, positions\]"),
        ({"input_word_ids": small.INPUTS["input_word_ids"] + 24}, r"input_word_ids must be in 0\.\.\.23"),
    ],
)
def test_wrong_inputs(changes, message):
    inputs = {name: x for name, x in (X | changes).items() if x is not None}
    with pytest.raises(ValueError, match=message):
        _pretrainer()(inputs)
    with pytest.raises(TypeError, match="bert must be a Bert"):
        Pretrainer(small.CONFIG)


# === Saving and loading ===


def _assert_same(one, other):
    ours, theirs = one(X), other(X)
    assert set(ours) == set(theirs)
    for name, logits in ours.items():
        assert (array(logits) == array(theirs[name])).all()
    assert other.bert.preprocessor.vocabulary == small.VOCABULARY


@pytest.mark.parametrize("nsp", [True, False])
def test_keras_file(tmp_path, nsp):
    pretrainer = _pretrainer(nsp=nsp)
    pretrainer.bert.freeze(1)
    pretrainer.get_layer("mlm_dense").trainable = False
    pretrainer.compile()
    pretrainer.train_on_batch(X, *(_only((Y, WEIGHTS), *pretrainer.output)))
    pretrainer.save(tmp_path / "model.keras")
    for loaded in (keras.models.load_model(tmp_path / "model.keras"), Pretrainer.load(tmp_path / "model.keras")):
        _assert_same(pretrainer, loaded)
        trainable = [weight.path for weight in pretrainer.trainable_weights]
        assert [weight.path for weight in loaded.trainable_weights] == trainable
        pooler, saved = (x.bert.get_layer("pooler").kernel for x in (loaded, pretrainer))
        assert (array(pooler) == array(saved)).all()  # of no use to masked words alone, but kept
        assert isinstance(loaded.optimizer, type(pretrainer.optimizer))
    mixed = Pretrainer.load(tmp_path, dtype="mixed_bfloat16", seq_length=8)
    assert mixed.bert.dtype_policy.name == "mixed_bfloat16"
    assert mixed.bert.preprocessor.seq_length == 8
    for weight, saved in zip(mixed.weights, pretrainer.weights, strict=True):
        assert (array(weight) == array(saved)).all()


@pytest.mark.parametrize("form", [own, hugging_face, google])
def test_formats(tmp_path, form):
    if form is google and keras.backend.backend() != "tensorflow":
        pytest.skip("Google's checkpoints are read with TensorFlow")
    pretrainer = _pretrainer()
    form.write_checkpoint(Checkpoint.of(pretrainer), tmp_path / "model")
    loaded = Pretrainer.load(tmp_path / "model")
    assert loaded.nsp
    _assert_same(pretrainer, loaded)
    assert not Pretrainer.load(tmp_path / "model", nsp=False).nsp


def test_keras_file_as_a_checkpoint(tmp_path):
    pretrainer = _pretrainer()
    pretrainer.save(tmp_path / "model.keras")
    small.assert_same(Checkpoint.of(pretrainer), read(tmp_path / "model.keras"))
    folder = tmp_path / "folder"
    folder.mkdir()
    pretrainer.bert.config.to_json(folder / "bert_config.json")
    small.VOCABULARY.save(folder / "vocab.txt")
    pretrainer.save_weights(folder / own.WEIGHTS)
    small.assert_equal_arrays(read(folder).heads["mlm"].weights, Checkpoint.of(pretrainer).heads["mlm"].weights)


def test_a_source_without_the_head(tmp_path):
    hugging_face.write_checkpoint(small.checkpoint("classifier"), tmp_path / "classifier")
    with pytest.raises(ValueError, match=r"must have the head mlm.*with the heads classifier"):
        Pretrainer.load(tmp_path / "classifier")
    Bert(small.CONFIG).save(tmp_path / "bert.keras")
    with pytest.raises(ValueError, match=r"must have the head mlm.*with no head"):
        Pretrainer.load(tmp_path / "bert.keras")


def test_masked_words_alone_go_on_with_next_sentences(tmp_path):
    made = small.checkpoint("mlm")
    hugging_face.write_checkpoint(made, tmp_path / "model")
    assert not Pretrainer.load(tmp_path / "model").nsp
    loaded = Pretrainer.load(tmp_path / "model", nsp=True)
    small.assert_equal_arrays(made.heads["mlm"].weights, Checkpoint.of(loaded).heads["mlm"].weights)
    assert array(loaded.get_layer("nsp").kernel).any()


def test_a_head_computed_otherwise_than_its_encoder():
    """As KerasHub's, with the erf GELU over an encoder with the tanh form."""
    other = dataclasses.replace(small.CONFIG, hidden_act="gelu_erf", layer_norm_eps=1e-5)
    pretrainer = _pretrainer(mlm_config=other)
    checkpoint = Checkpoint.of(pretrainer)
    assert checkpoint.heads["mlm"].config == other
    expected = small.outputs(checkpoint)
    assert np.abs(array(pretrainer(X)["mlm_logits"]) - expected["mlm"]).max() <= 1e-6
    again = Pretrainer.from_config(pretrainer.get_config())
    assert again.mlm_config == other


# === Text ===


def test_fill_mask():
    pretrainer = _pretrainer()
    text = "w1 [MASK] w2 [MASK]w3"
    masks = pretrainer.fill_mask(text, top_k=24)
    inputs = {
        name: array(x)[None].astype("int32") for name, x in pretrainer.bert.preprocessor("w1 w0 w2 w0 w3").items()
    }
    inputs["input_word_ids"][0, [2, 4]] = 4
    logits = array(pretrainer({**inputs, "masked_lm_positions": np.array([[2, 4]], "int32")})["mlm_logits"])[0]
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert len(masks) == 2
    for mask, scores in zip(masks, expected, strict=True):
        assert [filling.id for filling in mask] == list(np.argsort(-scores))
        assert [filling.score for filling in mask] == pytest.approx(sorted(scores, reverse=True), rel=1e-4)
        assert all(filling.token == small.VOCABULARY.token(filling.id) for filling in mask)
    assert next(f for f in masks[0] if f.token == "w7").text == "w1 w7 w2 [MASK]w3"
    assert next(f for f in masks[1] if f.token == "w7").text == "w1 [MASK] w2 w7w3"
    assert dataclasses.asdict(masks[0][0]).keys() == {"token", "id", "score", "text"}


def test_fill_mask_of_many():
    pretrainer = _pretrainer()
    texts = [f"w{i % 18} [MASK] " + "w1 " * (i % 9) for i in range(40)]
    found = pretrainer.fill_mask(texts, top_k=1)
    assert [len(masks) for masks in found] == [1] * 40
    for index in (0, 8, 39):
        (alone,) = pretrainer.fill_mask(texts[index], top_k=1)
        assert found[index][0][0].token == alone[0].token
        assert found[index][0][0].score == pytest.approx(alone[0].score, rel=1e-4)
    assert pretrainer.fill_mask([]) == []


def test_korean():
    from keras_bert.text.vocabulary import Vocabulary

    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "나는",
        "에",
        "가서",
        "그곳에서",
        "빵과",
        "를",
        "샀다",
        "##들",
    ]
    vocabulary = Vocabulary([*pieces, *(f"가{i}" for i in range(11))])
    bert = Bert(small.CONFIG, Preprocessor(vocabulary, lowercase=False))
    first, second = Pretrainer(bert).fill_mask("나는 [MASK]에 가서 그곳에서 빵과 [MASK]를 샀다", top_k=24)
    assert next(f for f in first if f.token == "빵과").text == "나는 빵과에 가서 그곳에서 빵과 [MASK]를 샀다"
    assert next(f for f in second if f.token == "##들").text == "나는 [MASK]에 가서 그곳에서 빵과들를 샀다"


@pytest.mark.parametrize(
    ("texts", "top_k", "message"),
    [
        ("w1 w2", 5, r"must have a \[MASK\].*Received: 'w1 w2'"),
        (["[MASK]", "w1 " * 20 + "[MASK]"], 5, "within the model's 16 positions.*Received: 23 pieces.*index 1"),
        ("[MASK]", 0, "top_k must be 1 to 24.*Received: top_k=0"),
        ("[MASK]", 25, "top_k must be 1 to 24"),
        (("[MASK]", "w1"), 5, "one text or a list"),
    ],
)
def test_fill_mask_wrongly(texts, top_k, message):
    with pytest.raises(ValueError, match=message):
        _pretrainer().fill_mask(texts, top_k)


def test_is_next():
    pretrainer = _pretrainer()
    one = pretrainer.is_next("w1 w2", "w3")
    inputs = {name: array(x)[None].astype("int32") for name, x in pretrainer.bert.preprocessor(("w1 w2", "w3")).items()}
    logits = array(pretrainer({**inputs, "masked_lm_positions": np.zeros((1, 1), "int32")})["nsp_logits"])[0]
    assert one.score == pytest.approx(1 / (1 + np.exp(logits[1] - logits[0])), rel=1e-5)
    assert one.is_next == (logits[0] >= logits[1])
    many = pretrainer.is_next(["w1 w2"] * 40, ["w3"] * 39 + ["w4 w5"])
    assert len(many) == 40
    assert isinstance(many[0], NextSentence)
    assert many[0].score == pytest.approx(one.score, rel=1e-5)
    assert many[39].score == pytest.approx(pretrainer.is_next("w1 w2", "w4 w5").score, rel=1e-5)
    with pytest.raises(ValueError, match="no head of next sentences"):
        _pretrainer(nsp=False).is_next("w1", "w2")
    with pytest.raises(ValueError, match="equal length"):
        pretrainer.is_next(["w1"], ["w2", "w3"])


def test_without_a_vocabulary():
    with pytest.raises(ValueError, match="no vocabulary"):
        Pretrainer(Bert(small.CONFIG)).fill_mask("[MASK]")


def test_command(tmp_path):
    import json

    from typer.testing import CliRunner

    from keras_bert.cli import app, fill_mask  # noqa: F401  registers the command

    pretrainer = _pretrainer()
    hugging_face.write_checkpoint(Checkpoint.of(pretrainer), tmp_path / "model")
    expected = pretrainer.fill_mask("w1 [MASK] [MASK]", top_k=3)

    def run(*more):
        arguments = ["fill-mask", "w1 [MASK] [MASK]", "--model", str(tmp_path / "model"), "--top-k", "3", *more]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    found = [[Filling(**filling) for filling in mask] for mask in json.loads(run("--json"))]
    assert [[f.token for f in mask] for mask in found] == [[f.token for f in mask] for mask in expected]
    lines = run().splitlines()
    assert len(lines) == 6
    assert lines[0].split("\t")[2:] == [expected[0][0].token, expected[0][0].text]
