"""Other people's BERTs with the weights of one of ours."""

import re
from typing import Any

import keras
import numpy as np

from keras_bert.bert import Bert


def randomize(bert: Any, seed: int = 0, scale: float = 0.05) -> Any:
    """Weights large enough for every path to matter, biases and norms included."""
    rng = np.random.default_rng(seed)
    for weight in bert.weights:
        if "seed" in weight.path:
            continue
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        deviation = scale if len(weight.shape) == 2 else 0.1
        weight.assign(center + deviation * rng.standard_normal(weight.shape).astype("float32"))
    return bert


def ragged_batch(config: Any, lengths: tuple[int, ...] = (9, 1, 5, 12), seed: int = 0) -> dict[str, np.ndarray]:
    """Random ids, types and masks of uneven lengths, ids under the mask included."""
    rng = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths))
    return {
        "input_word_ids": rng.integers(1, config.vocab_size, shape).astype("int32"),  # HuggingFace never trains row 0
        "input_mask": (np.arange(shape[1]) < np.array(lengths)[:, None]).astype("int32"),
        "input_type_ids": rng.integers(0, config.type_vocab_size, shape).astype("int32"),
    }


def array(x: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")))


def hugging_face_names(num_layers: int) -> dict[str, tuple[str, Any]]:
    """HuggingFace's name -> (our layer and weight, how to cut ours)."""
    names: dict[str, tuple[str, Any]] = {
        "embeddings.word_embeddings.weight": ("word_embeddings/embeddings", "whole"),
        "embeddings.position_embeddings.weight": ("position_embeddings/embeddings", "whole"),
        "embeddings.token_type_embeddings.weight": ("type_embeddings/embeddings", "whole"),
        "pooler.dense.weight": ("pooler/kernel", "transposed"),
        "pooler.dense.bias": ("pooler/bias", "whole"),
        "embeddings.LayerNorm.weight": ("embeddings_norm/gamma", "whole"),
        "embeddings.LayerNorm.bias": ("embeddings_norm/beta", "whole"),
    }
    for i in range(num_layers):
        theirs = f"encoder.layer.{i}"
        for part, name in enumerate(("query", "key", "value")):
            names[f"{theirs}.attention.self.{name}.weight"] = (f"layer_{i}_attention_qkv/kernel", ("part", part))
            names[f"{theirs}.attention.self.{name}.bias"] = (f"layer_{i}_attention_qkv/bias", ("part", part))
        for name, ours in (("attention.output", "attention"), ("output", "output")):
            names[f"{theirs}.{name}.LayerNorm.weight"] = (f"layer_{i}_{ours}_norm/gamma", "whole")
            names[f"{theirs}.{name}.LayerNorm.bias"] = (f"layer_{i}_{ours}_norm/beta", "whole")
        for name, ours in (
            ("attention.output.dense", "attention_output"),
            ("intermediate.dense", "intermediate"),
            ("output.dense", "output"),
        ):
            names[f"{theirs}.{name}.weight"] = (f"layer_{i}_{ours}/kernel", "transposed")
            names[f"{theirs}.{name}.bias"] = (f"layer_{i}_{ours}/bias", "whole")
    return names


def cut(x: np.ndarray, how: Any) -> np.ndarray:
    """A weight of ours in HuggingFace's form: kernels transposed, queries, keys and values apart."""
    if how == "whole":
        return x
    if how == "transposed":
        return x.T
    return np.split(x, 3, -1)[how[1]].T


def our_weights(bert: Bert) -> dict[str, Any]:
    return {"/".join(weight.path.split("/")[-2:]): weight for weight in bert.weights}


def hugging_face(bert: Bert) -> Any:
    """A `transformers.BertModel` with the weights of `bert`, dropout off."""
    import torch
    import transformers

    c = bert.config
    config = transformers.BertConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.hidden_size,
        num_hidden_layers=c.num_hidden_layers,
        num_attention_heads=c.num_attention_heads,
        intermediate_size=c.intermediate_size,
        hidden_act={"gelu_erf": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}[c.hidden_act],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=c.max_position_embeddings,
        type_vocab_size=c.type_vocab_size,
        layer_norm_eps=c.layer_norm_eps,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config).eval()
    ours = our_weights(bert)
    state = {
        theirs: torch.tensor(cut(array(ours[name]), how).copy())
        for theirs, (name, how) in hugging_face_names(c.num_hidden_layers).items()
    }
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert all("position_ids" in name or "token_type_ids" in name for name in missing), missing
    return model


def hugging_face_inputs(inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    import torch

    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    return {names[key]: torch.tensor(value, dtype=torch.long) for key, value in inputs.items()}


def keras_hub(bert: Bert) -> Any:
    """A `keras_hub.models.BertBackbone` with the weights of `bert`."""
    import keras_hub

    c = bert.config
    model = keras_hub.models.BertBackbone(
        vocabulary_size=c.vocab_size,
        num_layers=c.num_hidden_layers,
        num_heads=c.num_attention_heads,
        hidden_dim=c.hidden_size,
        intermediate_dim=c.intermediate_size,
        dropout=0.0,
        max_sequence_length=c.max_position_embeddings,
        num_segments=c.type_vocab_size,
    )
    ours = {name: array(weight) for name, weight in our_weights(bert).items()}
    heads = (c.num_attention_heads, c.head_size)
    parts = {"query": 0, "key": 1, "value": 2}
    for weight in model.weights:
        path = weight.path.removeprefix("bert_backbone/")
        weight.assign(_keras_hub_value(path, ours, heads, parts).reshape(weight.shape))
    return model


def _keras_hub_value(path: str, ours: dict[str, np.ndarray], heads: Any, parts: dict[str, int]) -> np.ndarray:
    last = path.split("/")[-1]
    tables = {"token_embedding": "word", "position_embedding": "position", "segment_embedding": "type"}
    for theirs, name in tables.items():
        if theirs in path:
            return ours[f"{name}_embeddings/embeddings"]
    if "embeddings_layer_norm" in path:
        return ours[f"embeddings_norm/{last}"]
    if "pooled_dense" in path:
        return ours[f"pooler/{last}"]
    match = re.search(r"transformer_layer_(\d+)/(.*)/", path)
    assert match, path
    i, rest = match.groups()
    for name, part in parts.items():
        if name in rest:
            return np.split(ours[f"layer_{i}_attention_qkv/{last}"], 3, -1)[part]
    names = {
        "attention_output": "attention_output",
        "self_attention_layer_norm": "attention_norm",
        "feedforward_layer_norm": "output_norm",
        "feedforward_intermediate_dense": "intermediate",
        "feedforward_output_dense": "output",
    }
    return next(ours[f"layer_{i}_{name}/{last}"] for theirs, name in names.items() if theirs in rest)


def model_garden(bert: Bert) -> Any:
    """Model Garden's `BertEncoderV2` with the weights of `bert`; on the TensorFlow backend."""
    import tf_keras
    from official.nlp.modeling import networks

    c = bert.config
    model = networks.BertEncoderV2(
        vocab_size=c.vocab_size,
        hidden_size=c.hidden_size,
        num_layers=c.num_hidden_layers,
        num_attention_heads=c.num_attention_heads,
        max_sequence_length=c.max_position_embeddings,
        type_vocab_size=c.type_vocab_size,
        inner_dim=c.intermediate_size,
        inner_activation=lambda x: tf_keras.activations.gelu(x, approximate=c.hidden_act == "gelu_tanh"),
        output_dropout=0.0,
        attention_dropout=0.0,
    )
    ids = np.zeros((1, 4), "int32")
    model({"input_word_ids": ids, "input_mask": ids + 1, "input_type_ids": ids})
    ours = {name: array(weight) for name, weight in our_weights(bert).items()}
    for weight in model.variables:
        weight.assign(_garden_value(weight.name, ours).reshape(weight.shape))
    return model


def _garden_value(name: str, ours: dict[str, np.ndarray]) -> np.ndarray:
    name = re.sub(r"^bert_encoder_v2(_\d+)?/", "", name.removesuffix(":0"))
    last = name.split("/")[-1]
    tables = {"word_embeddings": "word", "position_embedding": "position", "type_embeddings": "type"}
    for theirs, table in tables.items():
        if name.startswith(theirs):
            return ours[f"{table}_embeddings/embeddings"]
    if name.startswith("embeddings/layer_norm"):
        return ours[f"embeddings_norm/{last}"]
    if name.startswith("pooler_transform"):
        return ours[f"pooler/{last}"]
    match = re.match(r"transformer/layer_(\d+)/(.*)/", name + "/")
    assert match, name
    i, rest = match.groups()
    for part, theirs in enumerate(("query", "key", "value")):
        if f"self_attention/{theirs}" in rest:
            return np.split(ours[f"layer_{i}_attention_qkv/{last}"], 3, -1)[part]
    names = {
        "self_attention/attention_output": "attention_output",
        "self_attention_layer_norm": "attention_norm",
        "output_layer_norm": "output_norm",
        "intermediate": "intermediate",
        "output": "output",
    }
    return next(ours[f"layer_{i}_{ours_name}/{last}"] for theirs, ours_name in names.items() if theirs in rest)
