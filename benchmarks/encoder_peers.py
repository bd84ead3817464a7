"""How each package runs the same BERT: a function per package turns a case into a closure that runs it once."""

from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = {"base": (12, 768, 12), "minilm": (6, 384, 12)}  # layers, hidden size, heads
VOCAB = 30522
Run = Callable[[], None]


def batch(rows: int, length: int, mean: int | None, seed: int = 0) -> dict[str, np.ndarray]:
    """Random ids. All texts have `length` tokens, or uneven lengths around `mean`, like sentences."""
    rng = np.random.default_rng(seed)
    lengths = np.full(rows, length) if mean is None else np.clip(rng.normal(mean, mean / 2, rows).round(), 4, length)
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    ids = rng.integers(1000, VOCAB, (rows, length)).astype("int32") * mask
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}


def keras_bert(case: dict[str, Any]) -> Run:
    import keras

    from keras_bert.bert import Bert
    from keras_bert.config import BertConfig
    from keras_bert.training.optimizer import AdamW

    layers, hidden, heads = SHAPES[case["shape"]]
    config = BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    bert = Bert(config, dtype=_policy(case))
    inputs = batch(*case["batch"])
    if case["train"]:
        optimizer = keras.optimizers.AdamW(3e-5) if case.get("keras_optimizer") else AdamW(3e-5)
        return _keras_step(optimizer, bert.input, bert.output["pooled_output"], inputs)
    return _keras_forward(bert, inputs)


def keras_bert_with_keras_adamw(case: dict[str, Any]) -> Run:
    return keras_bert({**case, "keras_optimizer": True})


def keras_hub(case: dict[str, Any]) -> Run:
    import keras
    import keras_hub

    layers, hidden, heads = SHAPES[case["shape"]]
    bert = keras_hub.models.BertBackbone(VOCAB, layers, heads, hidden, 4 * hidden, dropout=0.1, dtype=_policy(case))
    names = {"input_word_ids": "token_ids", "input_mask": "padding_mask", "input_type_ids": "segment_ids"}
    inputs = {names[name]: x for name, x in batch(*case["batch"]).items()}
    if case["train"]:
        return _keras_step(keras.optimizers.AdamW(3e-5), bert.input, bert.output["pooled_output"], inputs)
    return _keras_forward(bert, inputs)


def _policy(case: dict[str, Any]) -> str:
    return "mixed_bfloat16" if case["train"] and case["dtype"] == "bfloat16" else case["dtype"]


def _keras_forward(bert: Any, inputs: dict[str, np.ndarray]) -> Run:
    import keras

    if keras.backend.backend() == "jax":
        import jax

        state = [v.value for v in bert.trainable_variables], [v.value for v in bert.non_trainable_variables]
        forward = jax.jit(lambda state, x: bert.stateless_call(*state, x, training=False)[0]["sequence_output"])
        tensors = {name: jax.numpy.asarray(x) for name, x in inputs.items()}
        return lambda: forward(state, tensors).block_until_ready()
    import tensorflow as tf

    @tf.function
    def forward(x: Any) -> Any:
        outputs = bert(x, training=False)
        return outputs["sequence_output"], outputs["pooled_output"]

    tensors = {name: tf.constant(x) for name, x in inputs.items()}
    return lambda: forward(tensors)[0].numpy()


def _keras_step(optimizer: Any, inputs: Any, pooled: Any, values: dict[str, np.ndarray]) -> Run:
    import keras

    model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(pooled))
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    labels = np.arange(len(next(iter(values.values())))) % 2
    return lambda: model.train_on_batch(values, labels)


def hugging_face(case: dict[str, Any]) -> Run:
    import torch

    bert, inputs = _hugging_face(case)
    if not case["train"]:
        bert = bert.eval().to(getattr(torch, case["dtype"]))

        def forward() -> None:
            with torch.inference_mode():
                bert(**inputs)

        return forward
    head = torch.nn.Linear(bert.config.hidden_size, 2)
    bert.train()
    optimizer = torch.optim.AdamW([*bert.parameters(), *head.parameters()], 3e-5)
    labels = torch.arange(len(inputs["input_ids"])) % 2

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=case["dtype"] == "bfloat16"):
            loss = torch.nn.functional.cross_entropy(head(bert(**inputs).pooler_output).float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def _hugging_face(case: dict[str, Any]) -> Any:
    import torch
    import transformers

    layers, hidden, heads = SHAPES[case["shape"]]
    config = transformers.BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "input_type_ids": "token_type_ids"}
    inputs = {names[name]: torch.tensor(x, dtype=torch.long) for name, x in batch(*case["batch"]).items()}
    return transformers.BertModel(config), inputs


def model_garden(case: dict[str, Any]) -> Run:
    import tensorflow as tf
    import tf_keras
    from official.nlp.modeling import networks

    tf_keras.mixed_precision.set_global_policy(_policy(case))
    layers, hidden, heads = SHAPES[case["shape"]]
    bert = networks.BertEncoderV2(
        VOCAB, hidden_size=hidden, num_layers=layers, num_attention_heads=heads, inner_dim=4 * hidden
    )
    tensors = {name: tf.constant(x) for name, x in batch(*case["batch"]).items()}
    if not case["train"]:
        forward = tf.function(lambda x: bert(x, training=False)["sequence_output"])
        return lambda: forward(tensors).numpy()
    head = tf_keras.layers.Dense(2, dtype="float32")
    optimizer = tf_keras.optimizers.AdamW(3e-5)
    labels = tf.range(case["batch"][0]) % 2

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            logits = head(bert(tensors, training=True)["pooled_output"])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        variables = bert.trainable_variables + head.trainable_variables
        pairs = [(g, v) for g, v in zip(tape.gradient(loss, variables), variables, strict=True) if g is not None]
        optimizer.apply_gradients(pairs)
        return loss

    return lambda: step().numpy()


def onnx_runtime(case: dict[str, Any]) -> Run:
    import io
    import warnings

    import onnxruntime
    import torch

    bert, inputs = _hugging_face(case)

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert.eval()

        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    warnings.simplefilter("ignore", DeprecationWarning)  # the newer exporter needs one more package
    file = io.BytesIO()
    axes = {name: {0: "batch", 1: "length"} for name in inputs}
    example = (inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(Positional(), example, file, input_names=names, dynamic_axes=axes, dynamo=False)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    values = {name: inputs[name].numpy() for name in names}
    return lambda: session.run(None, values)


def matrix_peak(case: dict[str, Any]) -> Run:
    """A large matrix product, to measure what the machine can do at this moment."""
    import tensorflow as tf

    a = tf.cast(tf.random.normal([2048, 2048]), case["dtype"])
    product = tf.function(lambda: tf.matmul(a, a))
    return lambda: product().numpy()
