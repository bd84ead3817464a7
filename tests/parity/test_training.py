"""Gradients and optimizer steps against HuggingFace's autograd and a numpy oracle."""

import keras
import numpy as np
import pytest
import torch

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.training.optimizer import AdamW
from tests.parity import oracles
from tests.parity.test_encoder import SMALL

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def _bert(hidden_act="gelu_tanh", lengths=(9, 1, 5, 12)):
    config = BertConfig(**SMALL, **NO_DROPOUT, hidden_act=hidden_act)
    return oracles.randomize(Bert(config)), oracles.ragged_batch(config, lengths)


def _scalar(pooled, hidden, mask, weights, reduce_sum):
    """A number that depends on every output at real tokens, alike for any framework."""
    total = reduce_sum(pooled * weights[0])
    for states, weight in zip(hidden, weights[1:], strict=True):
        total = total + reduce_sum(states * weight * mask[..., None])
    return total


def _their_gradients(model, inputs, weights):
    """HuggingFace's gradients, by our names and in our form."""
    outputs = model(**oracles.hugging_face_inputs(inputs), output_hidden_states=True)
    mask = torch.tensor(inputs["input_mask"])
    loss = _scalar(
        outputs.pooler_output, outputs.hidden_states[1:], mask, [torch.tensor(w) for w in weights], torch.sum
    )
    loss.backward()
    return _in_our_form({name: p.grad.numpy() for name, p in model.named_parameters()})


def _in_our_form(theirs):
    ours, parts = {}, {}
    for name, (mine, how) in oracles.hugging_face_names(SMALL["num_hidden_layers"]).items():
        if how == "whole":
            ours[mine] = theirs[name]
        elif how == "transposed":
            ours[mine] = theirs[name].T
        else:
            parts.setdefault(mine, []).append(theirs[name].T)
    return {**ours, **{mine: np.concatenate(values, -1) for mine, values in parts.items()}}


def _random_weights(bert, inputs, seed=1):
    rng = np.random.default_rng(seed)
    rows, length = inputs["input_mask"].shape
    hidden = bert.config.hidden_size
    shapes = [(rows, hidden)] + [(rows, length, hidden)] * bert.config.num_hidden_layers
    return [0.1 * rng.standard_normal(shape).astype("float32") for shape in shapes]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the gradients of our own making are TensorFlow's")
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("hidden_act", ["gelu_tanh", "gelu_erf"])
@pytest.mark.parametrize("lengths", [(9, 1, 5, 12), (12, 12)])
def test_gradients(hidden_act, lengths, static):
    import contextlib

    import tensorflow as tf

    from keras_bert import kernels

    bert, inputs = _bert(hidden_act, lengths)
    weights = _random_weights(bert, inputs)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            outputs = bert(inputs, training=True)
            hidden = outputs["encoder_outputs"]
            mask = inputs["input_mask"].astype("float32")
            loss = _scalar(outputs["pooled_output"], hidden, mask, weights, tf.reduce_sum)
        return tape.gradient(loss, [weight.value for weight in bert.trainable_weights])

    with kernels.static_shapes() if static else contextlib.nullcontext():
        found = gradients()
    assert all(isinstance(gradient, tf.Tensor) for gradient in found)  # dense, the embeddings' too
    theirs = _their_gradients(oracles.hugging_face(bert), inputs, weights)
    names = ["/".join(weight.path.split("/")[-2:]) for weight in bert.trainable_weights]
    ours = {name: gradient.numpy() for name, gradient in zip(names, found, strict=True)}
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        layer = name.split("/")[0]
        largest = max(np.abs(value).max() for other, value in theirs.items() if other.split("/")[0] == layer)
        difference = np.abs(ours[name] - expected)
        if name.endswith("qkv/bias"):  # a key's bias moves all scores of a query alike: its gradient is 0
            assert np.abs(np.split(ours[name], 3)[1]).max() <= 1e-6
        assert difference.max() <= 1e-4 * largest, name


def _classifier(bert):
    logits = keras.layers.Dense(3, name="logits")(bert.output["pooled_output"])
    return keras.Model(bert.input, logits)


def _their_classifier(bert, model):
    head = torch.nn.Linear(bert.config.hidden_size, 3)
    kernel, bias = (oracles.array(weight) for weight in model.get_layer("logits").weights)
    head.weight.data, head.bias.data = torch.tensor(kernel.T.copy()), torch.tensor(bias.copy())
    return oracles.hugging_face(bert), head


def _their_loss(theirs, head, inputs, labels):
    logits = head(theirs(**oracles.hugging_face_inputs(inputs)).pooler_output)
    return torch.nn.functional.cross_entropy(logits, torch.tensor(labels))


def test_sgd_steps():
    bert, _ = _bert()
    model = _classifier(bert)
    theirs, head = _their_classifier(bert, model)
    rate = 0.05
    model.compile(keras.optimizers.SGD(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    optimizer = torch.optim.SGD([*theirs.parameters(), *head.parameters()], rate)
    rng = np.random.default_rng(0)
    for step in range(20):
        inputs = oracles.ragged_batch(bert.config, tuple(rng.integers(1, 16, 6)), seed=step)
        labels = rng.integers(0, 3, 6)
        ours = model.train_on_batch(inputs, labels)
        loss = _their_loss(theirs, head, inputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert float(np.ravel(ours)[0]) == pytest.approx(loss.item(), rel=1e-5)
        model.reset_metrics()
    final = oracles.hugging_face(bert).state_dict()  # our weights, in their form
    for name, value in theirs.state_dict().items():
        if "position_ids" not in name and "token_type_ids" not in name:
            assert np.abs(final[name].numpy() - value.numpy()).max() <= 1e-5 * max(1, np.abs(value.numpy()).max())


@pytest.mark.parametrize("adamw", [keras.optimizers.AdamW, AdamW], ids=["Keras's", "ours"])
def test_adamw_step(adamw):
    """One step with clipping, against the formula written in numpy on HuggingFace's gradients."""
    rate, decay, beta1, beta2, eps = 1e-3, 0.01, 0.9, 0.999, 1e-6
    bert, inputs = _bert()
    inputs["input_word_ids"][:, ::2] = 7  # rows that come twice are where a sparse gradient goes wrong
    labels = np.array([0, 1, 2, 1])
    model = _classifier(bert)
    theirs, head = _their_classifier(bert, model)
    _their_loss(theirs, head, inputs, labels).backward()
    gradients = _in_our_form({name: p.grad.numpy() for name, p in theirs.named_parameters()})
    gradients["logits/kernel"], gradients["logits/bias"] = head.weight.grad.numpy().T, head.bias.grad.numpy()
    norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in gradients.values()))
    before = {"/".join(w.path.split("/")[-2:]): oracles.array(w) for w in model.trainable_weights}

    optimizer = adamw(rate, weight_decay=decay, epsilon=eps, global_clipnorm=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    optimizer.build(model.trainable_variables)  # or the step is traced twice
    model.train_on_batch(inputs, labels)

    assert norm > 0.1
    for weight in model.trainable_weights:
        name = "/".join(weight.path.split("/")[-2:])
        gradient = gradients[name] * 0.1 / norm
        first, second = (1 - beta1) * gradient, (1 - beta2) * gradient**2
        kept = 1 if name.endswith(("bias", "gamma", "beta")) else 1 - rate * decay
        step = rate * np.sqrt(1 - beta2) / (1 - beta1)
        expected = before[name] * kept - step * first / (np.sqrt(second) + eps)
        if name.endswith("qkv/bias"):  # the key's part has the gradient 0, of which Adam makes the sign of the noise
            expected, found = (np.delete(x, range(48, 96)) for x in (expected, oracles.array(weight)))
        else:
            found = oracles.array(weight)
        assert np.abs(found - expected).max() <= 1e-6, name
