"""The Pretrainer's logits, losses and gradients against HuggingFace's BertForPreTraining and Model Garden's heads."""

import keras
import numpy as np
import pytest

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.pretraining.pretrainer import Pretrainer
from tests.parity import oracles
from tests.parity.test_encoder import SMALL
from tests.parity.test_training import NO_DROPOUT

LENGTHS = (9, 3, 5, 12)
HEADS = {  # HuggingFace's name: ours
    "cls.predictions.transform.dense.weight": ("mlm_dense/kernel", "transposed"),
    "cls.predictions.transform.dense.bias": ("mlm_dense/bias", "whole"),
    "cls.predictions.transform.LayerNorm.weight": ("mlm_norm/gamma", "whole"),
    "cls.predictions.transform.LayerNorm.bias": ("mlm_norm/beta", "whole"),
    "cls.predictions.bias": ("mlm_bias/bias", "whole"),
    "cls.seq_relationship.weight": ("nsp/kernel", "transposed"),
    "cls.seq_relationship.bias": ("nsp/bias", "whole"),
}
NAMES = HEADS | {f"bert.{name}": ours for name, ours in oracles.hugging_face_names(SMALL["num_hidden_layers"]).items()}


class Gradients(keras.optimizers.Optimizer):
    """Leaves in each weight its gradient, on any backend."""

    def update_step(self, gradient, variable, learning_rate):
        self.assign(variable, gradient)


def _pretrainer(hidden_act="gelu_tanh"):
    config = BertConfig(**SMALL, **NO_DROPOUT, hidden_act=hidden_act)
    return oracles.randomize(Pretrainer(Bert(config)))


def _batch(seed=0):
    """Every position of uneven number a text, real tokens alone; the rest is padding with weight 0."""
    rng = np.random.default_rng(seed)
    x = oracles.ragged_batch(BertConfig(**SMALL), LENGTHS, seed)
    positions, weights = np.zeros((4, 5), "int32"), np.zeros((4, 5), "float32")
    for row, (length, count) in enumerate(zip(LENGTHS, (3, 1, 0, 5), strict=True)):
        positions[row, :count] = rng.permutation(length)[:count]
        weights[row, :count] = 1
    x["masked_lm_positions"] = positions
    y = {
        "mlm_logits": rng.integers(0, SMALL["vocab_size"], (4, 5)).astype("int32"),
        "nsp_logits": np.array([0, 1, 1, 0], "int32"),
    }
    return x, y, {"mlm_logits": weights, "nsp_logits": np.ones(4, "float32")}


def _hugging_face(pretrainer):
    """A `transformers.BertForPreTraining` with our weights."""
    import torch
    import transformers

    theirs = transformers.BertForPreTraining(oracles.hugging_face(pretrainer.bert).config).eval()
    theirs.bert.load_state_dict(oracles.hugging_face(pretrainer.bert).state_dict())
    ours, state = oracles.our_weights(pretrainer), theirs.state_dict()
    state |= {
        name: torch.tensor(oracles.cut(oracles.array(ours[own]), how).copy()) for name, (own, how) in HEADS.items()
    }
    state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"]
    theirs.load_state_dict(state)
    return theirs


def _their_outputs(theirs, batch):
    """Their outputs, with the loss of the same positions; a label of -100 counts for nothing."""
    import torch

    x, y, weights = batch
    labels = np.full(x["input_word_ids"].shape, -100)
    for row in range(len(labels)):
        chosen = weights["mlm_logits"][row] > 0
        labels[row, x["masked_lm_positions"][row, chosen]] = y["mlm_logits"][row, chosen]
    inputs = {name: value for name, value in x.items() if name != "masked_lm_positions"}
    next_sentence = torch.tensor(y["nsp_logits"], dtype=torch.long)
    return theirs(**oracles.hugging_face_inputs(inputs), labels=torch.tensor(labels), next_sentence_label=next_sentence)


@pytest.mark.parametrize("hidden_act", ["gelu_tanh", "gelu_erf"])
def test_logits_and_loss(hidden_act):
    pretrainer, (x, y, weights) = _pretrainer(hidden_act), _batch()
    theirs = _their_outputs(_hugging_face(pretrainer), (x, y, weights))
    ours = pretrainer(x)
    logits = theirs.prediction_logits.detach().numpy()[np.arange(4)[:, None], x["masked_lm_positions"]]
    assert np.abs(oracles.array(ours["mlm_logits"]) - logits).max() <= 1e-5
    assert np.abs(oracles.array(ours["nsp_logits"]) - theirs.seq_relationship_logits.detach().numpy()).max() <= 1e-5

    measures = pretrainer.measures((x, y, weights))
    means = {
        name: float(oracles.array(total)) / float(oracles.array(count)) for name, (total, count) in measures.items()
    }
    assert sum(means[name] for name in pretrainer.objective) == pytest.approx(theirs.loss.item(), rel=1e-5)
    right = (logits.argmax(-1) == y["mlm_logits"])[weights["mlm_logits"] > 0]
    assert means["masked_lm_accuracy"] == pytest.approx(right.mean())
    assert float(oracles.array(measures["masked_lm_loss"].count)) == 9


def test_gradients():
    pretrainer, batch = _pretrainer(), _batch()
    theirs = _hugging_face(pretrainer)
    loss = _their_outputs(theirs, batch).loss
    loss.backward()
    pretrainer.compile(Gradients(1.0))
    logs = pretrainer.train_on_batch(*batch, return_dict=True)
    assert float(logs["loss"]) == pytest.approx(loss.item(), rel=1e-5)

    found = {name: oracles.array(x) for name, x in oracles.our_weights(pretrainer).items()}
    parameters = dict(theirs.named_parameters())
    assert {own for own, _ in NAMES.values()} == {name for name in found if "seed" not in name}
    for name, (own, how) in NAMES.items():
        expected = parameters[name].grad.numpy()
        if name.endswith("key.bias"):  # moves all scores of a query alike: its gradient is 0
            assert np.abs(oracles.cut(found[own], how)).max() <= 1e-7
            continue
        difference = np.abs(oracles.cut(found[own], how) - expected).max()
        assert difference <= 1e-5 * np.abs(expected).max(), name


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="Model Garden is on TensorFlow")
def test_model_garden():
    import tensorflow as tf
    import tf_keras
    from official.nlp.modeling import layers

    pretrainer, (x, _, _) = _pretrainer(), _batch()
    ours = {name: oracles.array(weight) for name, weight in oracles.our_weights(pretrainer).items()}
    garden = oracles.model_garden(pretrainer.bert)
    outputs = garden({name: value for name, value in x.items() if name != "masked_lm_positions"})
    head = layers.MaskedLM(
        garden.get_embedding_table(), activation=lambda x: tf_keras.activations.gelu(x, approximate=True)
    )
    positions = tf.constant(x["masked_lm_positions"])
    head(outputs["sequence_output"], positions)
    head.dense.set_weights([ours["mlm_dense/kernel"], ours["mlm_dense/bias"]])
    head.layer_norm.set_weights([ours["mlm_norm/gamma"], ours["mlm_norm/beta"]])
    head.bias.assign(ours["mlm_bias/bias"])
    next_sentence = layers.ClassificationHead(inner_dim=0, num_classes=2, name="next_sentence")
    next_sentence(outputs["pooled_output"])
    next_sentence.set_weights([ours["nsp/kernel"], ours["nsp/bias"]])

    mine = pretrainer(x)
    theirs = head(outputs["sequence_output"], positions)  # [B*P, V]
    assert np.abs(oracles.array(mine["mlm_logits"]) - theirs.numpy().reshape(4, 5, -1)).max() <= 1e-5
    assert np.abs(oracles.array(mine["nsp_logits"]) - next_sentence(outputs["pooled_output"]).numpy()).max() <= 1e-5
