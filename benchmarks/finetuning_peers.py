"""The contestants of benchmarks/finetuning.py: ours, KerasHub, and a linear head on vectors.

HF Trainer is in its own file. Each contestant trains and returns a function that scores, and the seconds of training. A
clock (finetuning_time.py) is called after each step and says when to stop.
"""

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from finetuning_data import pair

Trained = tuple[Callable[[], float], float]  # scores, and the seconds of training

BATCH, WARMUP, DECAY, CLIP, EPSILON = 32, 0.1, 0.01, 1.0, 1e-8  # keras_bert's recipe, with larger batches


class NotForThis(Exception):
    """The peer does not have this task."""


def contestant(model: str) -> Callable[..., Trained]:
    """The function that trains one of finetuning.MODELS."""
    if model.startswith("hf"):
        from finetuning_hugging_face import hugging_face

        return hugging_face
    return {"keras-hub": keras_hub, "words": linear_head, "vectors": linear_head}.get(model, ours)


# === Ours ===


def ours(run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, clock: Any) -> Trained:
    """A task of keras_bert, trained by `fit` with its recipe."""
    from keras_bert.tasks.metrics.scores import scores

    task, seconds = fine_tuned(run, dataset, train, labels, clock)
    return lambda: scores(task, test.x, test.y)[dataset.score], seconds


def fine_tuned(
    run: dict[str, Any], dataset: Any, train: Any, labels: list[str] | None, clock: Any = None
) -> tuple[Any, float]:
    """The task itself, and the seconds of training."""
    import keras

    import keras_bert
    from keras_bert.tasks.finetune_recipe import FinetuneRecipe

    keras.utils.set_random_seed(run["seed"])
    policy = "mixed_bfloat16" if run["model"] == "ours-bf16" else "float32"
    bert = keras_bert.load(run["start"], dtype=policy, seq_length=dataset.seq_length)
    if run["model"] == "random":
        bert = keras_bert.Bert(bert.config, bert.preprocessor)
    frozen = run["model"] == "frozen"
    settings: dict[str, Any] = {"freeze": frozen} | ({"labels": labels} if labels else {})
    if dataset.kind == "tag" and isinstance(train.x[0], str):
        settings["unit"] = "piece"
    if dataset.kind == "answer":
        settings["stride"] = 128
    classes = {
        "classify": keras_bert.TextClassifier,
        "regress": keras_bert.TextRegressor,
        "tag": keras_bert.TokenTagger,
        "answer": keras_bert.QuestionAnswerer,
    }
    task = classes[dataset.kind](bert, **settings)
    learning_rate = 1e-3 if frozen else run["learning_rate"]
    options = {"batch_size": BATCH, **run.get("recipe", {})}
    recipe = FinetuneRecipe(learning_rate=learning_rate, epochs=run["epochs"], **options)
    began = time.perf_counter()
    callbacks = [_keras_clock(clock)] if clock else []
    if "stop_after" in run:
        callbacks.append(_stop_after(run["stop_after"]))
    task.fit(train, recipe=recipe, seed=run["seed"], callbacks=callbacks, verbose=0)
    return task, time.perf_counter() - began


def _keras_clock(clock: Any) -> Any:
    import keras

    class Callback(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if clock.step(self.params["steps"]):
                self.model.stop_training = True

    return Callback()


def _stop_after(epochs: int) -> Any:
    import keras

    class Callback(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch + 1 == epochs:
                self.model.stop_training = True

    return Callback()


# === KerasHub ===


def keras_hub(
    run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, clock: Any
) -> Trained:
    """KerasHub's classifier, with our weights, which it reads from a preset."""
    if dataset.kind != "classify":
        raise NotForThis("KerasHub does not have this head for BERT")
    import keras
    import keras_hub as hub

    import keras_bert
    from keras_bert.tasks import metrics
    from keras_bert.training.optimizer import WarmupLinearDecay
    from keras_bert.weights import keras_hub as preset
    from keras_bert.weights.checkpoint import Checkpoint

    assert labels is not None
    keras.utils.set_random_seed(run["seed"])
    bert = keras_bert.load(run["start"], seq_length=dataset.seq_length)
    if clock and bert.config.hidden_act != "gelu_tanh":  # KerasHub has only this GELU; good enough for timing
        config = dataclasses.replace(bert.config, hidden_act="gelu_tanh", layer_norm_eps=1e-12)
        bert = keras_bert.Bert(config, bert.preprocessor)
    with tempfile.TemporaryDirectory() as folder:
        preset.write_checkpoint(Checkpoint.of(bert), Path(folder))
        backbone = hub.models.BertBackbone.from_preset(folder)
    model = hub.models.BertTextClassifier(backbone, num_classes=len(labels), preprocessor=None)
    numbers = {label: number for number, label in enumerate(labels)}

    def packed(columns: Any) -> dict[str, np.ndarray]:
        x = bert.preprocessor(columns.x)
        names = {"token_ids": "input_word_ids", "padding_mask": "input_mask", "segment_ids": "input_type_ids"}
        return {theirs: np.asarray(x[name]) for theirs, name in names.items()}

    began = time.perf_counter()
    steps = -(-len(train.y) // BATCH) * run["epochs"]
    schedule = WarmupLinearDecay(run["learning_rate"], warmup_steps=int(WARMUP * steps), steps=steps)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=DECAY, epsilon=EPSILON, global_clipnorm=CLIP)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    targets = np.array([numbers[label] for label in train.y])
    callbacks = [_keras_clock(clock)] if clock else []
    model.fit(packed(train), targets, batch_size=BATCH, epochs=run["epochs"], callbacks=callbacks, verbose=0)
    seconds = time.perf_counter() - began

    def score() -> float:
        found = [labels[number] for number in model.predict(packed(test), batch_size=BATCH, verbose=0).argmax(-1)]
        return metrics.label_scores(test.y, found, labels)[dataset.score]

    return score, seconds


# === A linear head on vectors ===


def linear_head(
    run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, clock: Any
) -> Trained:
    """A linear model on the mean of the word table's rows (no context), or on the mean of the encoder's vectors."""
    if dataset.kind not in ("classify", "regress"):
        raise NotForThis("a mean says nothing about a single token")
    from sklearn.linear_model import LogisticRegression, RidgeCV

    import keras_bert
    from keras_bert.tasks import metrics

    bert = keras_bert.load(run["start"], seq_length=dataset.seq_length)
    table = np.asarray(bert.word_embeddings.embeddings)

    def of_words(column: list[str]) -> np.ndarray:
        x = bert.preprocessor(column)
        ids, real = np.asarray(x["input_word_ids"]), np.asarray(x["input_mask"], "float32")
        return np.stack([(r[:, None] * table[i]).sum(0) / r.sum() for i, r in zip(ids, real, strict=True)])

    def of_encoder(column: list[str]) -> np.ndarray:
        return bert.embed(column, pooling="mean", normalize=False)

    vectors = of_words if run["model"] == "words" else of_encoder

    def means(columns: Any) -> np.ndarray:
        found = [vectors(column) for column in pair(columns) if column is not None]
        if len(found) == 2:  # the product and the difference show what two texts share
            found += [found[0] * found[1], np.abs(found[0] - found[1])]
        return np.concatenate(found, axis=-1)

    began = time.perf_counter()
    head: Any = LogisticRegression(max_iter=1000) if dataset.kind == "classify" else RidgeCV(np.logspace(-3, 3, 7))
    head.fit(means(train), train.y)
    seconds = time.perf_counter() - began

    def score() -> float:
        found = head.predict(means(test))
        if dataset.kind == "classify":
            return metrics.label_scores(test.y, list(found), labels or ())[dataset.score]
        return metrics.number_scores(test.y, found)[dataset.score]

    return score, seconds
