"""How each package runs a pretraining step: a function per package turns a case into a closure that runs it."""

from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "base": (12, 768, 12)}  # layers, hidden size, heads
VOCAB, PREDICTIONS, RATE, NORM = 30522, 20, 1e-4, 1.0
Run = Callable[[], None]


def batch(rows: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Random ids without padding. The masked pieces come as positions [B, P] and as one label per position [B, S]."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(1000, VOCAB, (rows, length))
    positions = np.stack([np.sort(rng.choice(np.arange(1, length), PREDICTIONS, False)) for _ in range(rows)])
    wanted = rng.integers(1000, VOCAB, (rows, PREDICTIONS))
    labels = np.full((rows, length), -100)
    np.put_along_axis(labels, positions, wanted, 1)
    return {"ids": ids, "positions": positions, "wanted": wanted, "labels": labels, "next": np.arange(rows) % 2}


def keras_bert(case: dict[str, Any]) -> Run:
    """`replica_step`, in the loop that `pretrain` runs."""
    import tensorflow as tf

    from keras_bert.bert import Bert
    from keras_bert.config import BertConfig
    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.training.optimizer import AdamW
    from keras_bert.training.orbit_engine import Trainer, distribute
    from keras_bert.training.strategy import strategy

    data = {name: x.astype("int32") for name, x in batch(*case["batch"]).items()}
    ones = np.ones_like(data["ids"])
    x = {"input_word_ids": data["ids"], "input_mask": ones, "input_type_ids": 0 * ones}
    triple = (
        {**x, "masked_lm_positions": data["positions"]},
        {"mlm_logits": data["wanted"], "nsp_logits": data["next"]},
        {"mlm_logits": np.ones(data["wanted"].shape, "float32"), "nsp_logits": np.ones(len(ones), "float32")},
    )
    one = strategy("one")
    model = Pretrainer(Bert(BertConfig.from_size(case["size"]), dtype=_policy(case)))
    optimizer = AdamW(RATE)
    optimizer.build(model.trainable_variables)
    step = tf.Variable(0, dtype=tf.int64)
    dataset = distribute(lambda *_: tf.data.Dataset.from_tensors(triple).repeat(), one, case["batch"][0])
    trainer = Trainer(model, optimizer, dataset, step, strategy=one, accumulate=1, clip_norm=NORM)
    return lambda: trainer.train(tf.constant(1))


def hugging_face(case: dict[str, Any]) -> Run:
    """With the defaults of its Trainer: the fused AdamW, and gradients clipped to norm 1."""
    import torch
    import transformers

    layers, hidden, heads = SIZES[case["size"]]
    config = transformers.BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    model = transformers.BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, fused=True)
    data = {name: torch.tensor(x) for name, x in batch(*case["batch"]).items()}
    inputs = {
        "input_ids": data["ids"],
        "attention_mask": torch.ones_like(data["ids"]),
        "token_type_ids": torch.zeros_like(data["ids"]),
        "labels": data["labels"],
        "next_sentence_label": data["next"],
    }

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=case["dtype"] == "bfloat16"):
            loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
        optimizer.step()

    return step


def model_garden(case: dict[str, Any]) -> Run:
    """BertPretrainerV2 with the loss of its MaskedLMTask, in a plain loop in a tf.function."""
    import tensorflow as tf
    import tf_keras
    from official.modeling import tf_utils
    from official.nlp.modeling import layers as garden_layers
    from official.nlp.modeling import models, networks

    tf_keras.mixed_precision.set_global_policy(_policy(case))
    layers, hidden, heads = SIZES[case["size"]]
    encoder = networks.BertEncoderV2(
        VOCAB, hidden_size=hidden, num_layers=layers, num_attention_heads=heads, inner_dim=4 * hidden
    )
    head = garden_layers.ClassificationHead(hidden, 2, dropout_rate=0.1, name="next_sentence")
    model = models.BertPretrainerV2(
        encoder, classification_heads=[head], mlm_activation=tf_utils.get_activation("gelu")
    )
    optimizer = tf_keras.optimizers.AdamW(RATE, global_clipnorm=NORM)
    data = {name: tf.constant(x, tf.int32) for name, x in batch(*case["batch"]).items()}
    inputs = {
        "input_word_ids": data["ids"],
        "input_mask": tf.ones_like(data["ids"]),
        "input_type_ids": tf.zeros_like(data["ids"]),
        "masked_lm_positions": data["positions"],
    }

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            words, sentences = (tf.cast(outputs[name], tf.float32) for name in ("mlm_logits", "next_sentence"))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(data["wanted"], words))
            loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(data["next"], sentences))
        variables = model.trainable_variables
        pairs = [(g, v) for g, v in zip(tape.gradient(loss, variables), variables, strict=True) if g is not None]
        optimizer.apply_gradients(pairs)
        return loss

    return lambda: step().numpy()


def _policy(case: dict[str, Any]) -> str:
    return "mixed_bfloat16" if case["dtype"] == "bfloat16" else "float32"
