"""Pretrainer: training, measures and wrong inputs; its losses run on every backend."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.heads import assign_head
from keras_bert.weights.tables import Stored
from tests.parity.oracles import array
from tests.pretraining.small_pretrainers import WEIGHTS, X, Y, only, small_pretrainer
from tests.weights import small

MEASURES = ["masked_lm_accuracy", "masked_lm_loss", "next_sentence_accuracy", "next_sentence_loss"]


def _mean(measure):
    return float(array(measure.total)) / float(array(measure.count))


def test_fit():
    pretrainer = small_pretrainer()
    before = [array(weight) for weight in pretrainer.bert.trainable_weights]
    pretrainer.compile(keras.optimizers.Adam(1e-2))
    logs = pretrainer.fit(X, Y, sample_weight=WEIGHTS, batch_size=2, epochs=12, verbose=0).history
    assert sorted(logs) == ["loss", *MEASURES]
    assert logs["loss"][-1] < 0.5 * logs["loss"][0]
    assert all((array(new) != old).any() for new, old in zip(pretrainer.bert.trainable_weights, before, strict=True))


@pytest.mark.usefixtures("eager")
def test_fit_without_compile():
    pretrainer = small_pretrainer()
    pretrainer.fit(X, Y, sample_weight=WEIGHTS, batch_size=2, verbose=0)
    assert pretrainer.optimizer.iterations == len(WEIGHTS["mlm_logits"]) // 2
    assert pretrainer.optimizer.global_clipnorm == 1
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        data = tf.data.Dataset.from_tensors((X, Y, WEIGHTS)).repeat()
        with pytest.raises(ValueError, match=r"repeats its examples forever.*Pass `steps_per_epoch`"):
            pretrainer.fit(data, epochs=2)
        pretrainer.fit(data, steps_per_epoch=1, verbose=0)


@pytest.mark.usefixtures("eager")
def test_logs_are_means_over_all_masked_positions():
    """Batches of two rows have 2 and 3 masked positions, so the mean of their means would be wrong."""
    pretrainer = small_pretrainer()
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


@pytest.mark.usefixtures("eager")
def test_without_next_sentences():
    pretrainer = small_pretrainer(nsp=False)
    assert pretrainer.objective == ("masked_lm_loss",)
    y, weights = only((Y, WEIGHTS), "mlm_logits")
    assert sorted(pretrainer.measures((X, y, weights))) == MEASURES[:2]
    pretrainer.compile()
    assert sorted(pretrainer.train_on_batch(X, y, weights, return_dict=True)) == ["loss", *MEASURES[:2]]
    with pytest.raises(ValueError, match=r"`y` must be a dict that has the keys \['nsp_logits'\].*nsp=False"):
        small_pretrainer().measures((X, y, weights))
    with pytest.raises(ValueError, match=r"`sample_weight` must be a dict that has the keys \['mlm_logits'\]"):
        pretrainer.measures((X, y, None))


@pytest.mark.usefixtures("eager")
def test_a_batch_without_masked_positions():
    measures = small_pretrainer().measures((X, Y, {**WEIGHTS, "mlm_logits": 0 * WEIGHTS["mlm_logits"]}))
    assert float(array(measures["masked_lm_loss"].total)) == float(array(measures["masked_lm_loss"].count)) == 0
    pretrainer = small_pretrainer()
    pretrainer.compile()
    logs = pretrainer.train_on_batch(X, Y, {**WEIGHTS, "mlm_logits": 0 * WEIGHTS["mlm_logits"]}, return_dict=True)
    assert float(logs["loss"]) == pytest.approx(float(logs["next_sentence_loss"]))
    assert all(np.isfinite(array(weight)).all() for weight in pretrainer.weights)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(dtype):
    exact, pretrainer = small_pretrainer(), small_pretrainer(dtype)
    outputs = pretrainer(X)
    for name, logits in exact(X).items():
        assert keras.backend.standardize_dtype(outputs[name].dtype) == "float32"
        assert np.abs(array(outputs[name]) - array(logits)).max() < 0.05
    pretrainer.compile()
    logs = pretrainer.train_on_batch(X, Y, WEIGHTS, return_dict=True)
    assert np.isfinite(float(logs["loss"]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_cannot_be_trained(dtype):
    pretrainer = small_pretrainer(dtype)
    for logits in pretrainer(X).values():
        assert keras.backend.standardize_dtype(logits.dtype) == "float32"
        assert np.isfinite(array(logits)).all()
    pretrainer.compile(keras.optimizers.SGD())
    with pytest.raises(ValueError, match=f'dtype="mixed_{dtype}"'):
        pretrainer.fit(X, Y, sample_weight=WEIGHTS, verbose=0)
    bert = Bert(small.CONFIG, dtype=dtype)
    bert.compile(keras.optimizers.SGD(), loss={"pooled_output": "mse"})
    with pytest.raises(ValueError, match=f'dtype="mixed_{dtype}"'):
        bert.train_on_batch(small.INPUTS, {"pooled_output": np.zeros((4, 8))})


@pytest.mark.usefixtures("eager")
def test_frozen_encoder():
    pretrainer = small_pretrainer()
    pretrainer.bert.freeze()
    before = [array(weight) for weight in pretrainer.bert.weights]
    pretrainer.compile(keras.optimizers.Adam(1e-2))
    pretrainer.train_on_batch(X, Y, WEIGHTS)
    assert len(pretrainer.trainable_weights) == 7
    for weight, old in zip(pretrainer.bert.weights, before, strict=True):
        assert (array(weight) == old).all() or "seed" in weight.path


def test_a_loss_cannot_be_set():
    with pytest.raises(ValueError, match="`loss` cannot be set"):
        small_pretrainer().compile(loss="mse")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masked_lm_positions": None}, "must be exactly .*masked_lm_positions"),
        (
            {"masked_lm_positions": np.full((4, 2), 12)},
            "`masked_lm_positions` has a number outside 0 to 11.*Received: 12",
        ),
        (
            {"masked_lm_positions": np.zeros((3, 2), int)},
            r"a row for each of the 4 sequences.*Received: shape \(3, 2\)",
        ),
        ({"masked_lm_positions": np.zeros(4, int)}, r"shape \[batch, positions\]"),
        ({"input_word_ids": small.INPUTS["input_word_ids"] + 24}, "`input_word_ids` has a number outside 0 to 23"),
    ],
)
def test_wrong_inputs(changes, message):
    inputs = {name: x for name, x in (X | changes).items() if x is not None}
    with pytest.raises(ValueError, match=message):
        small_pretrainer()(inputs)
    with pytest.raises(TypeError, match=r"`bert` must be a keras_bert\.Bert"):
        Pretrainer(small.CONFIG)


def test_weights_of_heads_are_assigned_in_one_order():
    """JAX compares what the processes of a run put on their devices; a set of names has another order in each."""
    pretrainer = small_pretrainer()
    checkpoint, seen = Checkpoint.of(pretrainer), []

    def read(name, stored):
        seen.append(name)
        return stored.read()

    for head in checkpoint.heads.values():
        for name, stored in head.weights.items():
            head.weights[name] = Stored(stored.shape, partial(read, name, stored))
    names = [name for head in pretrainer.heads for name in checkpoint.heads[head].weights]
    checkpoint.heads = dict(reversed(checkpoint.heads.items()))
    assign_head(pretrainer, checkpoint)
    assert seen == names
