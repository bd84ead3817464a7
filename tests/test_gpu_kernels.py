"""What JAX runs on a GPU has the numbers of Keras's ops; here it runs on the CPU."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_bert import kernels
from keras_bert.bert import Bert
from tests.parity.oracles import array, ragged_batch, randomize
from tests.test_kernels import CONFIG

if keras.backend.backend() != "jax":
    pytest.skip("JAX's own way to be fast", allow_module_level=True)
import jax


@pytest.mark.parametrize("activation", [kernels.gelu_tanh, kernels.gelu_erf])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_gradient_of_gelu_on_a_gpu(activation, dtype, error, monkeypatch):
    x = keras.ops.linspace(-8, 8, 1000)
    gradient = jax.grad(lambda x: activation(x).astype("float32").sum())
    expected = array(gradient(x))  # Keras's, in float32
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert np.abs(array(gradient(x.astype(dtype))) - expected).max() <= error


@pytest.mark.parametrize("hidden_act", ["gelu_tanh", "gelu_erf"])
def test_bert_on_a_gpu(hidden_act, monkeypatch):
    """What JAX runs on a GPU, run on the CPU."""
    config = dataclasses.replace(CONFIG, hidden_act=hidden_act)
    bert = randomize(Bert(config), scale=0.3)
    inputs = ragged_batch(config, (3, 9))
    expected = array(bert(inputs)["sequence_output"])
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert np.abs(array(bert(inputs)["sequence_output"]) - expected).max() <= 1e-5
