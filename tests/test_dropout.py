"""What dropout guarantees: the mean stays, elements are independent, and random bits are not wasted."""

import re

import keras
import numpy as np
import pytest

from keras_bert import kernels
from keras_bert.layers.norm import Dropout
from tests.parity.oracles import array

on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX's own way to be fast")


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.003, 0.999])
def test_dropout_keeps_the_mean(rate):
    keras.utils.set_random_seed(1)
    layer = Dropout(rate)
    x = keras.ops.ones((1000, 1000))
    y = array(layer(x, training=True))
    dropped = (y == 0).mean()
    assert dropped == pytest.approx(rate, rel=0.03)
    assert len(np.unique(y)) == 2
    assert y.mean() == pytest.approx(1, abs=4 * np.sqrt(rate / (1 - rate)) / 1000)
    assert not np.array_equal(y, array(layer(x, training=True)))
    assert array(layer(x, training=False)).min() == 1


def test_dropout_of_nearly_all():
    y = array(Dropout(0.9999999)(keras.ops.ones((1000, 1000)), training=True))
    assert 0 < (y > 0).sum() < 100
    assert set(np.unique(y)) == {0, 2**16}


def test_dropout_of_neighbours_is_independent():
    y = array(Dropout(0.5, seed=3)(keras.ops.ones((4000, 251)), training=True)) > 0
    for axis in (0, 1):
        one, other = np.moveaxis(y, axis, 0)[:-1].ravel(), np.moveaxis(y, axis, 0)[1:].ravel()
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.005


def test_dropout_of_odd_and_empty_shapes():
    for shape in ((0, 3), (1, 1), (3, 5, 7)):
        assert Dropout(0.5)(keras.ops.ones(shape), training=True).shape == shape


@on_jax
@pytest.mark.parametrize(("rate", "bits"), [(0.1, 8), (0.003, 16)])
def test_one_draw_of_32_bits_serves_several_elements(rate, bits):
    import jax

    x, seed = np.ones((6, 64), "float32"), np.array([3, 4], "uint32")
    drawn = str(jax.make_jaxpr(lambda x, seed: kernels.dropout(x, rate, seed))(x, seed))
    assert re.findall(r"random_bits\[bit_width=(\d+) shape=\((\d+), (\d+)\)", drawn) == [("32", "6", str(2 * bits))]


@on_jax
@pytest.mark.parametrize("kind", ["rbg", "unsafe_rbg"])
def test_dropout_with_another_generator(kind):
    import jax

    layer, x = Dropout(0.5, seed=3), keras.ops.ones((1000, 100))
    with jax.default_prng_impl(kind):
        first, second = (array(layer(x, training=True)) for _ in range(2))
    assert (first == 0).mean() == pytest.approx(0.5, abs=0.01)
    assert (first != second).mean() == pytest.approx(0.5, abs=0.01)
