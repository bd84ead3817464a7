"""A contestant of benchmarks/finetuning.py: transformers, with its Trainer and its own features and scores."""

import tempfile
import time
from typing import Any

import numpy as np
from finetuning_data import pair
from finetuning_peers import BATCH, CLIP, DECAY, EPSILON, WARMUP, Trained

STRIDE = 128  # pieces that neighbouring windows share


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
            adam_epsilon=EPSILON,
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
    """A dict for each row or window, and what is needed to read the logits."""
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
    """The first piece of each word gets the word's tag."""
    found: list[str | None] = []
    before = None
    for word in encoding.word_ids:
        found.append(tags[word] if word is not None and word != before else None)
        before = word
    return found


def _piece_tags(encoding: Any, entities: list[tuple[int, int, str]]) -> list[str | None]:
    """Each piece gets the tag of the entity that it starts in."""
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
    """The first and the last token of the answer in this window, or [CLS] twice if it is not there."""
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
            word_tags = ["O"] * len(text)
            for place, (word, before) in enumerate(
                zip(encoding.word_ids, [None, *encoding.word_ids[:-1]], strict=True)
            ):
                if word is not None and word != before:
                    word_tags[word] = row[place]
            words.append(word_tags)
        return metrics.tag_scores(test.y, words)[dataset.score]
    answers = _answers(test, *places, *logits[:2])
    return metrics.answer_scores([answer["text"] for answer in test.y], answers)[dataset.score]


def _spans(encoding: Any, tags: list[str]) -> list[tuple[int, int, str]]:
    """The entities, in characters, from one tag per piece."""
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
