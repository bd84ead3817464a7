"""A task that the package does not have, in one file: which sentences of a document belong in its summary?

    python examples/own_task.py

The class `SummarySelector` below is all that it takes: it trains, saves, loads, exports and is served like the tasks of
the package. The documents are generated: minutes of meetings, in which decisions belong in the summary, and small talk
does not. Without --model, the encoder is a tiny one with random weights and a vocabulary learned from the documents.
Expected time on two cores: a minute; F1 of the chosen sentences: above 95 %.
"""

import argparse
import dataclasses
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.tasks.signature import Signature, pack_texts, strings

# === The task ===


def split_sentences(documents: Any) -> tf.RaggedTensor:
    """Sentences [n, (sentences)], in TensorFlow ops, so that the export splits in the same way."""
    return tf.strings.split(tf.strings.regex_replace(documents, r"([.!?])\s+", "\\1\n"), "\n")


@dataclasses.dataclass(frozen=True)
class Summary:
    """The numbers of the chosen sentences, from 0, and the sentences."""

    numbers: list[int]
    sentences: list[str]


@keras.saving.register_keras_serializable("own_task")
class SummarySelector(keras_bert.Task):
    """Logits [sentences, 2]: each sentence is read together with its document, and belongs in the summary or not.

    `x` is a column of documents, `y` a column of lists with the numbers of the sentences that belong.
    """

    def __init__(self, bert: Any, *, most: int = 2, freeze: bool = False, name: str | None = None) -> None:
        logits = keras.layers.Dense(2, name="belongs")(bert.output["pooled_output"])
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)
        self.most = most  # sentences in a summary; saved, since an argument has its name

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> Any:
        """A row is a sentence and its document."""
        sentences = split_sentences(x)
        counts = sentences.row_lengths().numpy()
        if y is not None:
            y = [int(number in chosen) for chosen, count in zip(y, counts, strict=True) for number in range(count)]
        pairs = sentences.values.numpy(), np.repeat(x, counts)
        return dataclasses.replace(super().examples(pairs, y), decoding=sentences.to_list())

    def decode(self, examples: Any, logits: list[np.ndarray]) -> list[Summary]:
        rows = iter(logits)
        answers = []
        for sentences in examples.decoding:
            scores = [row[1] - row[0] for row in itertools.islice(rows, len(sentences))]
            numbers = sorted(np.argsort(scores)[::-1][: self.most].tolist())
            answers.append(Summary(numbers, [sentences[number].decode() for number in numbers]))
        return answers

    def report(self, y: Any, answers: list[Summary]) -> dict[str, float]:
        """F1 of the chosen sentences over all documents."""
        common = sum(len({*chosen} & {*answer.numbers}) for chosen, answer in zip(y, answers, strict=True))
        return {"f1": 2 * common / (sum(map(len, y)) + sum(len(answer.numbers) for answer in answers))}

    def signatures(self, logits: Any, seq_length: int) -> dict[str, Signature]:
        """Documents in; their sentences out, and the probability [B, sentences] that each belongs in the summary."""

        def answer(document: tf.Tensor) -> dict[str, tf.Tensor]:
            sentences = split_sentences(document)
            documents = tf.repeat(document, sentences.row_lengths())
            rows, _ = pack_texts(self.bert.preprocessor, [sentences.values, documents], seq_length)
            scores = tf.nn.softmax(logits(rows))[:, 1]
            return {"sentences": sentences.to_tensor(), "scores": sentences.with_values(scores).to_tensor()}

        return {"serving_default": Signature(answer, strings("document"))}


# === The documents ===

PLACES = ("bridge", "school", "library", "market", "harbour", "station", "museum", "theatre")
DECISIONS = (
    "The council decided to close the {place}.",
    "They voted to rebuild the {place} in spring.",
    "The {place} will cost {number} million.",
    "The mayor signed the plan for the {place}.",
)
SMALL_TALK = (
    "The mayor walked past the {place} that morning.",
    "There was coffee for {number} people.",
    "Somebody told a story about the {place}.",
    "It rained on the {place} all day.",
    "The council met at {number} in the evening.",
)


def minutes(count: int, seed: int) -> tuple[list[str], list[list[int]]]:
    """Documents of five sentences, two of which are decisions, and the numbers of these two."""
    dice = random.Random(seed)
    documents, chosen = [], []
    for _ in range(count):
        lines = [*dice.sample(DECISIONS, 2), *dice.sample(SMALL_TALK, 3)]
        dice.shuffle(lines)
        place, number = dice.choice(PLACES), dice.randrange(2, 20)
        documents.append(" ".join(line.format(place=place, number=number) for line in lines))
        chosen.append([number for number, line in enumerate(lines) if line in DECISIONS])
    return documents, chosen


def ask(folder: str, document: str) -> dict[str, Any]:
    """The answer of `keras-bert serve`, which knows the export and not the class above."""
    command = [sys.executable, "-m", "keras_bert_cli", "serve", folder, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            urls = (line.split("\t")[0] for line in server.stderr if line.startswith("http"))
            url = next(url for url in urls if not url.endswith("preprocess"))
            body = json.dumps({"instances": [{"document": document}]}).encode()
            while server.poll() is None:
                try:
                    with urllib.request.urlopen(f"{url}:predict", body) as response:
                        return json.load(response)["predictions"][0]
                except urllib.error.URLError:  # it does not listen yet
                    time.sleep(0.1)
            raise RuntimeError(f"The server ended with exit code {server.returncode}.")
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="anything that keras_bert.load accepts; by default a new, tiny encoder")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--limit", type=int, default=400, help="generate this many documents")
    arguments = parser.parse_args()

    # === Data ===
    documents, chosen = minutes(arguments.limit, seed=0)
    held_out = minutes(max(arguments.limit // 8, 2), seed=1)

    # === Model ===
    if arguments.model:
        bert = keras_bert.load(arguments.model)
    else:
        vocabulary = keras_bert.Vocabulary.learn(documents, size=200)
        config = keras_bert.BertConfig.from_size("tiny", vocab_size=len(vocabulary), max_position_embeddings=128)
        bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    task = SummarySelector(bert)

    # === Training ===
    recipe = keras_bert.FinetuneRecipe(learning_rate=1e-3)  # a small encoder that starts at random needs a high rate
    task.fit(documents, chosen, recipe=recipe, epochs=arguments.epochs, validation_data=held_out)
    print(task.evaluate(*held_out, return_dict=True, verbose=0))

    # === Saved, loaded, exported, served ===
    document = held_out[0][0]
    with tempfile.TemporaryDirectory() as folder:
        task.save(f"{folder}/task.keras")
        loaded = keras.models.load_model(f"{folder}/task.keras")
        keras_bert.export(loaded, f"{folder}/minutes")
        answer = ask(f"{folder}/minutes", document)
    print(f"Document: {document}")
    print(f"In Python: {next(loaded.answers_as_json([document]))}")
    print("Served:")
    for sentence, score in zip(answer["sentences"], answer["scores"], strict=True):
        print(f"  {score:.2f}  {sentence}")


if __name__ == "__main__":
    main()
