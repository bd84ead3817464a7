"""The contestants of benchmarks/finetuning.py: ours, HF Trainer, KerasHub, a linear head on static word vectors.

Each trains and gives a function that scores, and the seconds of training. A clock (finetuning_time.py) hears of each
step, and says when to stop.
"""

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from finetuning_data import pair

Trained = tuple[Callable[[], float], float]  # scores, and the seconds of training

BATCH, WARMUP, DECAY, CLIP = 32, 0.1, 0.01, 1.0  # the values of keras_bert's recipe
STRIDE = 128


class NotForThis(Exception):
    """The peer has no such task."""


def contestant(model: str) -> Callable[..., Trained]:
    """Who trains a model of finetuning.MODELS."""
    if model.startswith("hf"):
        return hugging_face
    return {"keras-hub": keras_hub, "words": static_words}.get(model, ours)


# === Ours ===


def ours(run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, clock: Any) -> Trained:
    """A task of keras_bert, by `fit` with its recipe."""
    import keras

    import keras_bert
    from keras_bert.tasks.finetuning import Recipe
    from keras_bert.tasks.metrics.scores import scores

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
    recipe = Recipe(learning_rate=1e-3 if frozen else run["learning_rate"], epochs=run["epochs"])
    began = time.perf_counter()
    callbacks = [_keras_clock(clock)] if clock else []
    task.fit(train, recipe=recipe, seed=run["seed"], callbacks=callbacks, verbose=0)
    seconds = time.perf_counter() - began
    return lambda: scores(task, test.x, test.y)[dataset.score], seconds


def _keras_clock(clock: Any) -> Any:
    import keras

    class Callback(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if clock.step(self.params["steps"]):
                self.model.stop_training = True

    return Callback()


# === HF Trainer ===


def hugging_face(
    run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, clock: Any
) -> Trained:
    """HF's Trainer."""
    import torch
    import transformers

    transformers.set_seed(run["seed"])
    transformers.logging.set_verbosity_error()
    kind, length = dataset.kind, dataset.seq_length
    tokenizer = transformers.AutoTokenizer.from_pretrained(run["start"], model_max_length=length)
    heads = {
        "classify": transformers.BertForSequenceClassification,
        "regress": transformers.BertForSequenceClassification,
        "tag": transformers.BertForTokenClassification,
        "answer": transformers.BertForQuestionAnswering,
    }
    outputs = {} if kind == "answer" else {"num_labels": len(labels) if labels else 1}
    model = heads[kind].from_pretrained(run["start"], **outputs)
    padding = {"padding": "max_length", "max_length": length} if run["model"] == "hf" else {"padding": True}
    if kind == "tag":
        collator: Any = transformers.DataCollatorForTokenClassification(tokenizer, **padding)
    else:
        collator = transformers.DataCollatorWithPadding(tokenizer, **padding)

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        features, _ = _features(tokenizer, kind, train, labels, length, learn=True)
        steps = -(-len(features) // BATCH) * run["epochs"]
        arguments = transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            num_train_epochs=run["epochs"],
            learning_rate=run["learning_rate"],
            warmup_steps=int(WARMUP * steps),
            weight_decay=DECAY,
            max_grad_norm=CLIP,
            bf16=run["model"] == "hf-bf16",
            use_cpu=True,
            seed=run["seed"],
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(model, arguments, data_collator=collator, train_dataset=features)
        if clock:
            trainer.add_callback(_trainer_clock(clock))
        trainer.train()
        seconds = time.perf_counter() - began

    def score() -> float:
        found, places = _features(tokenizer, kind, test, labels, length, learn=False)
        collator.padding = True
        with torch.no_grad():
            logits = trainer.predict(found).predictions
        return _score(dataset, test, labels, logits, places)

    return score, seconds


def _trainer_clock(clock: Any) -> Any:
    import transformers

    class Callback(transformers.TrainerCallback):
        def on_step_end(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = clock.step(state.max_steps // int(arguments.num_train_epochs))

    return Callback()


def _features(
    tokenizer: Any, kind: str, columns: Any, labels: list[str] | None, length: int, *, learn: bool
) -> tuple[list[dict[str, Any]], Any]:
    """A dict for each row, or for each window of one; and what it takes to read the logits."""
    first, second = pair(columns)
    options: dict[str, Any] = {"truncation": True, "max_length": length}
    if kind == "answer":
        options |= {"truncation": "only_second", "stride": length - STRIDE, "return_overflowing_tokens": True}
    as_words = kind == "tag" and not isinstance(first[0], str)
    batch = tokenizer(
        first, second, is_split_into_words=as_words, return_offsets_mapping=kind in ("tag", "answer"), **options
    )
    encodings = batch.encodings
    rows = [{"input_ids": e.ids, "attention_mask": e.attention_mask, "token_type_ids": e.type_ids} for e in encodings]
    numbers = {label: number for number, label in enumerate(labels or ())}
    if kind == "answer":
        samples = batch["overflow_to_sample_mapping"]
        for row, encoding, sample in zip(rows if learn else (), encodings, samples, strict=learn):
            row["start_positions"], row["end_positions"] = _answer_span(encoding, columns.y[sample])
        return rows, (encodings, samples)
    for row, encoding, target in zip(rows if learn else (), encodings, columns.y, strict=learn):
        if kind == "tag":
            tags = _word_tags(encoding, target) if as_words else _piece_tags(encoding, target)
            row["labels"] = [-100 if tag is None else numbers[tag] for tag in tags]
        else:
            row["labels"] = numbers[target] if labels else float(target)
    return rows, encodings


def _word_tags(encoding: Any, tags: list[str]) -> list[str | None]:
    """The first piece of each word has its tag."""
    found: list[str | None] = []
    before = None
    for word in encoding.word_ids:
        found.append(tags[word] if word is not None and word != before else None)
        before = word
    return found


def _piece_tags(encoding: Any, entities: list[tuple[int, int, str]]) -> list[str | None]:
    """Each piece has the tag of the entity that it begins in."""
    found: list[str | None] = []
    before = None
    for (start, end), word in zip(encoding.offsets, encoding.word_ids, strict=True):
        if word is None:
            found.append(None)
            continue
        inside = next((entity for entity in entities if entity[0] < end and start < entity[1]), None)
        found.append("O" if inside is None else f"{'I' if inside is before else 'B'}-{inside[2]}")
        before = inside
    return found


def _answer_span(encoding: Any, answer: dict[str, list[Any]]) -> tuple[int, int]:
    """The first and the last token of the answer in this window, or [CLS] twice."""
    start = answer["answer_start"][0]
    end = start + len(answer["text"][0])
    inside = [
        place
        for place, (segment, offsets) in enumerate(zip(encoding.sequence_ids, encoding.offsets, strict=True))
        if segment == 1 and offsets[0] < end and start < offsets[1]
    ]
    if not inside or encoding.offsets[inside[0]][0] > start or encoding.offsets[inside[-1]][1] < end:
        return 0, 0
    return inside[0], inside[-1]


def _score(dataset: Any, test: Any, labels: list[str] | None, logits: Any, places: Any) -> float:
    from keras_bert.tasks import metrics

    if dataset.kind == "classify":
        assert labels is not None
        found = [labels[number] for number in logits.argmax(-1)]
        return metrics.label_scores(test.y, found, labels)[dataset.score]
    if dataset.kind == "regress":
        return metrics.number_scores(test.y, logits.reshape(-1))[dataset.score]
    if dataset.kind == "tag":
        assert labels is not None
        tags = [[labels[number] for number in row] for row in logits.argmax(-1)]
        if isinstance(test.x[0], str):
            spans = [_spans(encoding, row) for encoding, row in zip(places, tags, strict=True)]
            return metrics.span_scores(test.y, spans)[dataset.score]
        words = []
        for encoding, row, text in zip(places, tags, test.x, strict=True):
            told = ["O"] * len(text)
            for place, (word, before) in enumerate(
                zip(encoding.word_ids, [None, *encoding.word_ids[:-1]], strict=True)
            ):
                if word is not None and word != before:
                    told[word] = row[place]
            words.append(told)
        return metrics.tag_scores(test.y, words)[dataset.score]
    answers = _answers(test, *places, *logits[:2])
    return metrics.answer_scores([answer["text"] for answer in test.y], answers)[dataset.score]


def _spans(encoding: Any, tags: list[str]) -> list[tuple[int, int, str]]:
    """Entities in characters, of a tag for each piece."""
    found: list[tuple[int, int, str]] = []
    before = "O"
    for (start, end), word, tag in zip(encoding.offsets, encoding.word_ids, tags, strict=False):
        if word is None:
            continue
        if tag[0] == "I" and before[2:] == tag[2:]:
            found[-1] = (found[-1][0], end, tag[2:])
        elif tag != "O":
            found.append((start, end, tag[2:]))
        before = tag
    return found


def _answers(test: Any, encodings: Any, samples: list[int], starts: np.ndarray, ends: np.ndarray) -> list[str]:
    """The best span of at most 30 tokens over all windows of a question."""
    best: list[tuple[float, str]] = [(-np.inf, "")] * len(test.y)
    contexts = test.x[1]
    for encoding, sample, start, end in zip(encodings, samples, starts, ends, strict=True):
        inside = np.array([segment == 1 for segment in encoding.sequence_ids])
        size = len(inside)
        table = np.where(inside, start[:size], -np.inf)[:, None] + np.where(inside, end[:size], -np.inf)  # [S, S]
        table = np.where(np.triu(np.ones_like(table)) - np.triu(np.ones_like(table), 30) > 0, table, -np.inf)
        one, other = np.unravel_index(table.argmax(), table.shape)
        if table[one, other] > best[sample][0]:
            text = contexts[sample][encoding.offsets[one][0] : encoding.offsets[other][1]]
            best[sample] = (float(table[one, other]), text)
    return [text for _, text in best]


# === KerasHub ===


def keras_hub(
    run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, clock: Any
) -> Trained:
    """KerasHub's classifier, from our own weights by way of its preset."""
    if dataset.kind != "classify":
        raise NotForThis("KerasHub has no such head for BERT")
    import keras
    import keras_hub as hub

    import keras_bert
    from keras_bert.tasks import metrics
    from keras_bert.tasks.finetuning import Recipe
    from keras_bert.weights import keras_hub as preset
    from keras_bert.weights.checkpoint import Checkpoint

    assert labels is not None
    keras.utils.set_random_seed(run["seed"])
    bert = keras_bert.load(run["start"], seq_length=dataset.seq_length)
    with tempfile.TemporaryDirectory() as folder:
        preset.write_checkpoint(Checkpoint.of(bert), folder)
        backbone = hub.models.BertBackbone.from_preset(folder)
    model = hub.models.BertTextClassifier(backbone, num_classes=len(labels), preprocessor=None)
    numbers = {label: number for number, label in enumerate(labels)}

    def packed(columns: Any) -> dict[str, np.ndarray]:
        x = bert.preprocessor(columns.x)
        names = {"token_ids": "input_word_ids", "padding_mask": "input_mask", "segment_ids": "input_type_ids"}
        return {theirs: np.asarray(x[name]) for theirs, name in names.items()}

    began = time.perf_counter()
    recipe = Recipe(learning_rate=run["learning_rate"], epochs=run["epochs"])
    steps = -(-len(train.y) // BATCH) * run["epochs"]
    schedule = recipe.optimizer(steps).learning_rate_schedule
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=DECAY, epsilon=1e-6, global_clipnorm=CLIP)
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


# === Static word vectors ===


def static_words(
    run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, clock: Any
) -> Trained:
    """A linear head on the mean of the word embedding table's rows: what is known without any context."""
    if dataset.kind not in ("classify", "regress"):
        raise NotForThis("a mean of words tells nothing of a token")
    from sklearn.linear_model import LogisticRegression, Ridge

    import keras_bert
    from keras_bert.tasks import metrics

    bert = keras_bert.load(run["start"], seq_length=dataset.seq_length)
    table = np.asarray(bert.word_embeddings.embeddings)

    def means(columns: Any) -> np.ndarray:
        texts = [column for column in pair(columns) if column is not None]
        found = []
        for column in texts:
            x = bert.preprocessor(column)
            ids, real = np.asarray(x["input_word_ids"]), np.asarray(x["input_mask"], "float32")
            found.append(np.stack([(r[:, None] * table[i]).sum(0) / r.sum() for i, r in zip(ids, real, strict=True)]))
        if len(found) == 2:  # what two texts share is in the product and the difference
            found += [found[0] * found[1], np.abs(found[0] - found[1])]
        return np.concatenate(found, axis=-1)

    began = time.perf_counter()
    head: Any = LogisticRegression(max_iter=1000) if dataset.kind == "classify" else Ridge(alpha=0.01)
    head.fit(means(train), train.y)
    seconds = time.perf_counter() - began

    def score() -> float:
        found = head.predict(means(test))
        if dataset.kind == "classify":
            return metrics.label_scores(test.y, list(found), labels or ())[dataset.score]
        return metrics.number_scores(test.y, found)[dataset.score]

    return score, seconds
