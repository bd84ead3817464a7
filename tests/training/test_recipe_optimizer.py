"""The optimizer of a recipe against torch's AdamW and plain loops; run with KERAS_BACKEND=jax and torch too."""

import keras
import numpy as np
import pytest

from keras_bert import AdamW, FinetuneRecipe
from keras_bert.compat import averages_of
from tests.parity.oracles import array
from tests.tasks.small import small_bert, small_task

RATES = {"layer_1": 0.5, "layer_0": 0.25, "embeddings": 0.125}  # of two blocks with layer_decay=0.5


def freeze(bert):
    bert.freeze(blocks=1)


def add_lora(bert):
    bert.enable_lora(2)


@pytest.mark.parametrize("change", [None, freeze, add_lora])
def test_layer_decay_is_torchs_adamw_with_parameter_groups(change):
    torch = pytest.importorskip("torch")
    bert = small_bert(num_hidden_layers=2)
    if change:
        change(bert)
    variables = small_task("classifier", bert).trainable_variables
    optimizer = FinetuneRecipe(learning_rate=0.01, layer_decay=0.5, clipnorm=1e9).optimizer(steps=10)
    optimizer.build(variables)

    groups, rates = [], set()
    for variable in variables:
        rate = next((rate for name, rate in RATES.items() if name in variable.path), 1.0)
        rates.add(rate)
        decay = 0.0 if variable.name in ("bias", "gamma", "beta") else 0.01
        parameter = torch.nn.Parameter(torch.tensor(np.array(array(variable))))
        groups.append({"params": [parameter], "lr": 0.01 * rate, "weight_decay": decay})
    assert rates == {None: {0.125, 0.25, 0.5, 1.0}, freeze: {0.5, 1.0}, add_lora: {0.25, 0.5, 1.0}}[change]
    theirs = torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8)
    schedule = torch.optim.lr_scheduler.LambdaLR(theirs, lambda step: min(step + 1, (10 - step) / 9))
    rng = np.random.default_rng(0)
    for _ in range(6):
        gradients = [rng.standard_normal(variable.shape).astype("float32") for variable in variables]
        for group, gradient in zip(theirs.param_groups, gradients, strict=True):
            group["params"][0].grad = torch.tensor(gradient)
        theirs.step()
        schedule.step()
        optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], variables)
    for variable, group in zip(variables, theirs.param_groups, strict=True):
        np.testing.assert_allclose(array(variable), group["params"][0].detach().numpy(), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_average_is_that_of_a_plain_loop_over_the_updates(accumulate):
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    optimizer = FinetuneRecipe(learning_rate=0.1, ema=0.8, accumulate=accumulate).optimizer(steps=5 * accumulate)
    optimizer.build(layer.trainable_variables)
    rng, expected = np.random.default_rng(0), None
    for batch in range(5 * accumulate):
        gradients = [rng.standard_normal(variable.shape).astype("float32") for variable in layer.trainable_variables]
        optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients])
        if (batch + 1) % accumulate == 0:
            weights = [np.array(array(weight)) for weight in layer.trainable_variables]
            expected = (
                weights if expected is None else [0.8 * e + 0.2 * w for e, w in zip(expected, weights, strict=True)]
            )
    for (variable, average), value in zip(averages_of(optimizer), expected, strict=True):
        np.testing.assert_allclose(array(average), value, atol=1e-6)
        assert not np.allclose(array(variable), value, atol=1e-3)


def test_the_schedule_counts_updates():
    layer = keras.layers.Dense(2, kernel_initializer="zeros")
    layer.build((None, 3))
    recipe = FinetuneRecipe(learning_rate=1.0, warmup=0.5, accumulate=2)
    optimizer = recipe.optimizer(steps=8)
    optimizer.build(layer.trainable_variables)
    assert (recipe.updates(8), recipe.warmup_steps(8)) == (4, 2)
    rates = []
    for _ in range(8):
        rates.append(float(optimizer.learning_rate))
        optimizer.apply([keras.ops.ones(variable.shape) for variable in layer.trainable_variables])
    assert rates == pytest.approx([0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5])


def test_layer_decay_is_saved():
    optimizer = FinetuneRecipe(layer_decay=0.9).optimizer(steps=10)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert (again.layer_decay, again.decays_in_update) == (0.9, True)
    with pytest.raises(ValueError, match="`layer_decay` must be between 0 and 1"):
        AdamW(1e-3, layer_decay=1.5)
