"""Tasks of which only a part is trained: a frozen encoder, frozen blocks, LoRA."""

import keras
import numpy as np
import pytest

from keras_bert.training.optimizer import AdamW
from tests.parity.oracles import array
from tests.tasks.small import TEXTS, answers, columns, small_bert, small_task

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="of the TensorFlow backend")


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["classifier", "tagger", "choice"])
def test_a_frozen_encoder_keeps_its_weights(kind):
    task = small_task(kind, freeze=True)
    before = [array(weight) for weight in task.bert.weights]
    kernels = [weight for weight in task.trainable_weights if weight.name == "kernel"]  # no bias tells choices apart
    head = [array(weight) for weight in kernels]
    task.compile(AdamW(0.1), task.default_loss())
    task.fit(*columns(kind), verbose=0)
    assert all(np.array_equal(x, array(y)) for x, y in zip(before, task.bert.weights, strict=True))
    assert head
    assert not any(np.array_equal(x, array(y)) for x, y in zip(head, kernels, strict=True))


@tensorflow_only
def test_the_frozen_encoder_has_no_backward_pass():
    """Of the products a step needs, only the forward ones and the head's two are left."""

    def products(task):
        task.compile(AdamW(), task.default_loss())
        task.fit(TEXTS, [0, 1, 0, 1], verbose=0)
        return count_needed(task, "MatMul")

    forward = 4 + 1  # Dense layers; attention's products are BatchMatMulV2
    assert products(small_task("classifier", freeze=True)) == forward + 2  # the head, and its kernel's gradient
    assert products(small_task("classifier")) > 2 * forward


def count_needed(task, kind):
    """How many operations of a kind the training step depends on; the runtime prunes the others."""
    import tensorflow as tf

    x, y, weight = next(iter(task.examples(TEXTS, [0, 1, 0, 1]).batches(4)))
    graph = tf.function(task.train_step).get_concrete_function((x, y, weight)).graph
    start = [output.op for output in graph.structured_outputs.values()] + list(graph.control_outputs)
    seen, waiting = set(), start
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen.add(operation)
            waiting += [x.op for x in operation.inputs] + list(operation.control_inputs)
    return sum(operation.type == kind for operation in seen)


def test_blocks_can_be_unfrozen():
    task = small_task("classifier", small_bert(num_hidden_layers=2), freeze=True)
    assert len(task.trainable_weights) == 2
    task.bert.freeze(blocks=1)
    assert {weight.path.split("/")[0] for weight in task.trainable_weights if "layer_0" in weight.path} == set()
    assert any("layer_1" in weight.path for weight in task.trainable_weights)


@pytest.mark.parametrize("kind", ["tagger", "choice"])
def test_lora(kind, tmp_path):
    task = small_task(kind)
    answers(kind, task)  # a trace from before must not be used after
    task.bert.enable_lora(2)
    before = array(task.bert.get_layer("layer_0_attention_qkv")._kernel)
    task.compile(AdamW(0.1), task.default_loss())
    logits = task.predict(columns(kind)[0])
    task.fit(*columns(kind), epochs=3, verbose=0)
    assert np.array_equal(before, array(task.bert.get_layer("layer_0_attention_qkv")._kernel))
    assert np.abs(task.predict(columns(kind)[0]) - logits).max() > 1e-3
    task.save(tmp_path / "task.keras")
    loaded = keras.models.load_model(tmp_path / "task.keras")
    assert np.array_equal(loaded.predict(columns(kind)[0]), task.predict(columns(kind)[0]))
    assert len(loaded.trainable_weights) == len(task.trainable_weights)
