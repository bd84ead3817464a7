"""Compare this checkout with another one of the same project: has a change made anything slower?

    git worktree add ../before COMMIT
    python benchmarks/commits.py --before ../before            about six minutes on two cores

Each case runs in two processes, one for each checkout, which take turns. The table shows the medians of the rounds and
the median ratio of a round: above 1, this checkout is faster.
"""

import argparse
import atexit
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from interleave import Contestant, assemble, race, ratio, serve
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parents[1]
TEXTS = 512
SENTENCES = ("The cat went into the garden and slept there.", "서울에서 본 영화는 정말 좋았다!", "Good.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=CASES, nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    table = Table("case", "before, ms", "now, ms", "ratio")
    for case in arguments.only:
        folders = {"before": arguments.before.resolve(), "now": HERE}
        environments = {name: {"PYTHONPATH": str(folder)} for name, folder in folders.items()}
        contestants = assemble(__file__, environments, {"case": case})
        race(contestants, arguments.rounds)
        before, now = contestants
        table.add_row(case, *(f"{1000 * one.median:.1f}" for one in contestants), f"{ratio(before, now):.2f}")
        close(contestants)
    Console().print(table)


def close(contestants: list[Contestant]) -> None:
    for contestant in contestants:
        contestant.close()


# === The cases, each a function that prepares and returns what is timed ===


def texts() -> list[str]:
    return [" ".join(SENTENCES[: 1 + number % 3]) + f" {number}" for number in range(TEXTS)]


def preprocessor(seq_length: int = 128) -> "keras_bert.Preprocessor":  # noqa: F821
    import keras_bert

    words = sorted({*"abcdefghijklmnopqrstuvwxyz0123456789.!", *"서울에본영화는정말좋았다", "the", "cat", "garden"})
    pieces = [*words, *(f"##{word}" for word in words)]
    vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces])
    return keras_bert.Preprocessor(vocabulary, strip_accents=False, seq_length=seq_length)


def bert(size: str) -> "keras_bert.Bert":  # noqa: F821
    import keras

    import keras_bert

    keras.utils.set_random_seed(0)
    return keras_bert.Bert(keras_bert.BertConfig.from_size(size), preprocessor())


def encoder() -> Callable[[], None]:
    import numpy as np
    import tensorflow as tf

    model = bert("base")
    ids = np.random.default_rng(0).integers(5, 100, (8, 128), "int32")
    inputs = {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0}
    call = tf.function(lambda x: model(x)["pooled_output"])
    return lambda: call(inputs).numpy()


def one_text(size: str) -> Callable[[], None]:
    """Sixteen pieces, as ids, to a model that was loaded from a transformers folder."""
    import tensorflow as tf
    import transformers
    from encoder_peers import SHAPES, batch

    import keras_bert

    layers, hidden, heads = SHAPES[size]
    shape = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    config = transformers.BertConfig(**shape, intermediate_size=4 * hidden)
    with tempfile.TemporaryDirectory() as folder:
        transformers.BertModel(config).save_pretrained(folder)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(30517))]
        Path(folder, "vocab.txt").write_text("\n".join(words))
        model = keras_bert.load(folder)
    inputs = batch(1, 16, None)
    call = tf.function(lambda x: model(x)["pooled_output"])
    return lambda: [call(inputs).numpy() for _ in range(10)]


def one_text_base() -> Callable[[], None]:
    return one_text("base")


def one_text_minilm() -> Callable[[], None]:
    return one_text("minilm")


def tokenizer() -> Callable[[], None]:
    layer, given = preprocessor(), texts() * 8
    return lambda: layer.tokenize_with_offsets(given)


def ids() -> Callable[[], None]:
    layer, given = preprocessor(), texts() * 8
    return lambda: layer.tokenize(given)


def embed() -> Callable[[], None]:
    model, given = bert("mini"), texts()
    return lambda: model.embed(given)


def classifier() -> "keras_bert.TextClassifier":  # noqa: F821
    import keras_bert

    return keras_bert.TextClassifier(bert("mini"), labels=("no", "yes"))


def fit() -> Callable[[], None]:
    task, given = classifier(), texts()[:256]
    labels = ["no", "yes"] * (len(given) // 2)
    return lambda: task.fit(given, labels, batch_size=32, validation_data=(given, labels), epochs=1, verbose=0)


def classify_one() -> Callable[[], None]:
    task = classifier()
    return lambda: [task.classify(SENTENCES[0]) for _ in range(20)]


def tag_one() -> Callable[[], None]:
    import keras_bert

    task = keras_bert.TokenTagger(bert("mini"), labels=("O", "B-PER", "I-PER"))
    return lambda: [task.tag(SENTENCES[0]) for _ in range(20)]


def answer_one() -> Callable[[], None]:
    import keras_bert

    task = keras_bert.QuestionAnswerer(bert("mini"))
    return lambda: [task.answer("Where is the cat?", SENTENCES[0] * 3) for _ in range(10)]


def requests() -> Callable[[], None]:
    """Fifty requests, one after another, to `keras-bert serve`."""
    import keras_bert

    folder = tempfile.TemporaryDirectory()
    keras_bert.export(classifier(), f"{folder.name}/film")
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    command = ["-m", "keras_bert.cli", "serve", f"{folder.name}/film", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, *command], cwd=folder.name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(folder.cleanup)
    atexit.register(server.kill)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"instances": [SENTENCES[0]]})

    def ask() -> None:
        connection.request("POST", "/v1/models/film:predict", body)
        answer = connection.getresponse()
        if "predictions" not in json.loads(answer.read()):
            raise OSError(f"The server did not answer: {answer.status}")

    for _ in range(600):  # until it has loaded the model
        with contextlib.suppress(OSError):
            ask()
            break
        connection.close()
        time.sleep(0.1)

    def fifty() -> None:
        connection.close()  # the server may have, while the other contestant ran
        for _ in range(50):
            ask()

    return fifty


CASES = {
    case.__name__: case
    for case in (
        *(encoder, one_text_base, one_text_minilm, ids, tokenizer, embed, fit),
        *(classify_one, tag_one, answer_one, requests),
    )
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        sys.path.insert(0, os.environ["PYTHONPATH"])
        serve(CASES[json.loads(sys.argv[3])["case"]])
    else:
        main()
