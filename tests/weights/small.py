"""A small checkpoint with random weights, and what its model and heads compute."""

import dataclasses

import keras
import numpy as np

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.layers.mlm_head import mlm_head
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.checkpoint import Checkpoint, Head
from keras_bert.weights.load import build
from keras_bert.weights.tables import Stored, encoder_shapes, head_shapes
from tests.parity.oracles import array, ragged_batch

CONFIG = BertConfig(
    vocab_size=24,
    hidden_size=8,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=20,
    max_position_embeddings=16,
)
VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(18)), "é"])
POSITIONS = np.array([[1, 2], [0, 0], [3, 1], [11, 5]], "int32")  # within the lengths of ragged_batch
INPUTS = ragged_batch(CONFIG)
UNCASED = TextRules(lowercase=True)
OUTPUTS = {"classifier": 3, "regressor": 1, "tagger": 4, "choice": 1}


def random_arrays(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: (name.endswith("gamma") + 0.2 * rng.standard_normal(shape)).astype("float32")
        for name, shape in shapes.items()
    }


def stored(arrays):
    return {name: Stored.of(x) for name, x in arrays.items()}


def checkpoint(*heads, config=CONFIG, rules=UNCASED, labels=None, **changes):
    config = dataclasses.replace(config, **changes)
    weights = stored(random_arrays(encoder_shapes(config)))
    made = Checkpoint("made for a test", "test", config, weights, vocabulary=VOCABULARY, rules=rules)
    for seed, head in enumerate(heads, 1):
        arrays = random_arrays(head_shapes(head, config, OUTPUTS.get(head)), seed)
        made.heads[head] = Head(stored(arrays), labels)
    return made


def assert_same(ours, theirs):
    """Bit for bit, heads, config and text included."""
    assert theirs.config == ours.config
    assert_equal_arrays(ours.weights, theirs.weights)
    assert set(theirs.heads) == set(ours.heads)
    for name, head in ours.heads.items():
        assert_equal_arrays(head.weights, theirs.heads[name].weights)
        assert theirs.heads[name].labels == head.labels
        assert theirs.heads[name].multi_label == head.multi_label
    assert theirs.vocabulary == ours.vocabulary
    assert theirs.rules == ours.rules
    assert theirs.pooling == ours.pooling


def assert_equal_arrays(ours, theirs):
    assert set(theirs) == set(ours)
    for name, entry in ours.items():
        x, y = entry.read(), theirs[name].read()
        assert theirs[name].shape == y.shape == x.shape, name
        assert np.array_equal(x, y), name


def outputs(checkpoint, inputs=INPUTS, positions=POSITIONS):
    """Of the encoder and of each head, as NumPy arrays."""
    bert = build(checkpoint)
    given = {name: keras.ops.convert_to_tensor(x) for name, x in inputs.items()}
    result = dict(bert(given))
    result |= {
        name: _head(name, head, checkpoint.config, bert, given, positions) for name, head in checkpoint.heads.items()
    }
    return keras.tree.map_structure(array, result)


def _head(name: str, head: Head, config: BertConfig, bert: Bert, inputs, masked):
    config = head.config or config
    inputs = dict(inputs)
    if name == "mlm":
        positions = keras.Input((None,), dtype="int32", name="positions")
        logits = mlm_head(bert.output["sequence_output"], positions, bert.word_embeddings, config)
        model = keras.Model({**bert.input, "positions": positions}, logits)
        inputs["positions"] = keras.ops.convert_to_tensor(masked)
    else:
        kind = "sequence_output" if name in ("tagger", "qa") else "pooled_output"
        units = head.weights[f"{name}/kernel"].shape[1]
        logits = keras.layers.Dense(units, name=name)(bert.output[kind])
        model = keras.Model(bert.input, logits)
    ours = {f"{layer.name}/{weight.name}": weight for layer in model.layers for weight in layer.weights}
    for weight, entry in head.weights.items():
        ours[weight].assign(entry.read())
    return model(inputs)


def close(x, y, mask=None):
    """The largest difference, on real tokens where a mask is given."""
    difference = np.abs(np.asarray(x) - np.asarray(y))
    return (difference if mask is None else difference * mask[..., None]).max()
