"""A real model in action, then from raw text to a served model, in minutes and offline.

Act one loads a real English BERT. It searches, learns from 24 messages to sort others, compares texts, shows its
attention and answers over HTTP. Act two learns a vocabulary from raw text, pretrains a small BERT, fine-tunes it for
two tasks, exports it and serves it.

    make demo
    python examples/demo.py

Expected time: about 5 minutes on 2 cores. Expected score: every score in the table at the end reaches the one that is
needed; otherwise the exit code is 1.

Each step is a command that you can paste after `. .venv/bin/activate`, which puts `keras-bert` on the path. All of them
write below `demo/`, which git ignores. This program empties that folder first.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from urllib.request import urlopen

# Use the `python` and `keras-bert` of the environment that this runs in, and show their output at once. Log level 3
# hides TensorFlow's note on GPUs.
ENVIRONMENT = os.environ | {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    "PYTHONUNBUFFERED": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
GAPS = ("Today it rains at the farm, so Austin takes an [MASK].", "항구에서 어부가 [MASK] 쓴다.")
REVIEWS = ("The bread was bad but the oven was lovely.", "송어는 좋았다 하지만 그물은 별로였다.")
MESSAGES = ("The link in the email says it has expired.", "Why did the monthly fee go up?")
SIMILARITY = """
import keras_bert

bert = keras_bert.load("minilm")
for pair in (
    ("A dog runs across the field.", "A puppy is racing over the grass."),
    ("A dog runs across the field.", "The bank raised its fees."),
):
    one, two = bert.embed(list(pair))
    print(f"{one @ two:.2f}  {pair[0]}  {pair[1]}")
"""
NAMES = ("Florence is the baker and lives in Austin.", "오후에 세종이 나주에서 온다.")
STEPS, NUMBERS, BEGAN = 18, itertools.count(1), time.perf_counter()


def main() -> None:
    os.chdir(Path(__file__).parents[1])
    shutil.rmtree("demo", ignore_errors=True)

    # === Act one: a real model ===
    readme = Path("README.md").read_text(encoding="utf-8")
    code = "\n" + "\n".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[:2])
    step(
        "Act one: a real English BERT. The code of README's first screen searches in support messages, and fine-tunes "
        "a classifier on 24 of them.",
        f"mkdir demo && cd demo && PYTHONPATH=.. python -c {shlex.quote(code)}",
    )
    step(
        "How similar are two texts? Ask the cosine of their vectors, which needs no common word.",
        f"python -c {shlex.quote(SIMILARITY)}",
    )
    step(
        "What does each attention head look at? Draw a page that opens in any browser, without a network.",
        'keras-bert attention "The cat sat down, for it was tired." --model minilm --output demo/attention.html',
    )
    step(
        "Export the classifier that the first step saved, in the layout that TF Serving expects.",
        "keras-bert export demo/support.keras --name support --output demo/saved_models",
    )
    serve("demo/saved_models/support", {"instances": MESSAGES})

    # === Act two: text ===
    step(
        "Act two: a BERT of your own. Write stories about a small world, in English and Korean.",
        "python examples/small_world.py demo/world",
    )
    step(
        "Learn a vocabulary from them. With --keep-accents, lower-casing leaves Hangul syllables whole.",
        "keras-bert vocab demo/world/corpus.txt --size 1000 --keep-accents --output demo/vocab.txt",
    )

    # === Pretraining ===
    options = "--vocab demo/vocab.txt --keep-accents --seq-length 64 --sentences line"
    step(
        "Write examples: pairs of texts, half of them consecutive. Words are masked later, differently in every epoch.",
        f"keras-bert examples demo/world/corpus.txt {options} --output demo/corpus",
    )
    step(
        "Write examples from the held-out documents too.",
        f"keras-bert examples demo/world/held_out.txt {options} --output demo/held_out",
    )
    step(
        "Pretrain a 2-layer BERT on masked words and next sentences. Watch the held-out accuracies rise.",
        "keras-bert pretrain --data demo/corpus --validation demo/held_out --recipe tiny-laptop --steps 2000 "
        "--batch-size 32 --learning-rate 3e-3 --dropout 0 --validate-every 500 --output demo/run",
    )
    pretrained = step(
        "How good is it on documents it never saw? Compare with always guessing the most frequent piece.",
        "keras-bert evaluate demo/run --data demo/held_out",
    )
    step("Let it fill in two masked words.", f'keras-bert fill-mask "{GAPS[0]}" "{GAPS[1]}" --model demo/run --top-k 3')

    # === Tasks ===
    files = "--train demo/world/{0}.train.{1} --valid demo/world/{0}.valid.{1} --output demo/{0}"
    bag = step(
        'Reviews: the part after "but" or before "although" decides. A bag of words cannot see the order.',
        "python examples/bag_of_words.py demo/world/reviews.train.tsv demo/world/reviews.valid.tsv",
    )
    options = "--model demo/run --epochs 2 --batch-size 32 --lr 1e-3"
    reviews = step("BERT sees the order.", f"keras-bert finetune classify {files.format('reviews', 'tsv')} {options}")
    names = step(
        "Find people and towns. They share their names, so only the context can decide.",
        f"keras-bert finetune tag {files.format('names', 'conll')} {options}",
    )
    step("Ask it about two sentences.", "printf '" + "\\n".join(NAMES) + "\\n' | keras-bert predict demo/names")

    # === Serving ===
    step(
        "Export your own model, too.",
        "keras-bert export demo/reviews --name reviews --output demo/saved_models",
    )
    serve("demo/saved_models/reviews", {"instances": REVIEWS})

    # === Compare with the scores that are needed ===
    frequent, words, verdicts = pretrained["most_frequent_accuracy"], bag["accuracy"], reviews["accuracy"]
    table = (
        ("masked words", pretrained["masked_lm_accuracy"], 3 * frequent, f"the most frequent piece: {frequent:.3f}"),
        ("next sentences", pretrained["next_sentence_accuracy"], 0.9, "chance: 0.5"),
        ("verdicts of reviews", verdicts, max(0.95, words + 0.1), f"a bag of words: {words:.3f}"),
        ("people and towns, F1", names["entity_f1"], 0.9, ""),
    )
    print(f"\n{'─' * 100}\nFinished after {clock()}. Act two on texts that it never saw:\n")
    print(f"{'held out':24}{'measured':>8}{'needed':>8}{'':11}compare with")
    for what, measured, needed, remark in table:
        print(f"{what:24}{measured:8.3f}{needed:8.3f}  {'met' if measured >= needed else 'NOT MET':9}{remark}")
    print(NEXT)
    sys.exit(any(measured < needed for _, measured, needed, _ in table))


def step(why: str, command: str) -> dict[str, float]:
    """Run a command in a shell, show its output, and return the figures in it."""
    announce(why, f"$ {command}")
    began, said = time.perf_counter(), ""
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            said += line
    if process.returncode:
        sys.exit(f"The step failed with exit code {process.returncode}.")
    print(f"\n({time.perf_counter() - began:.0f} s)", flush=True)
    return {name: float(value) for name, value in re.findall(r"^(\w+)\t(\d[\d.]*)$", said, re.MULTILINE)}


def serve(export: str, question: dict) -> None:
    """Start the development server, send it a request over HTTP, and stop it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = f"keras-bert serve {export} --port {port}"
    url, body = f"http://127.0.0.1:{port}/v1/models/{Path(export).name}", json.dumps(question, ensure_ascii=False)
    announce(
        "Start a development server, send it a request, and ask for its page to play with, which README shows.",
        f"$ {command} &\n$ curl {url}:predict -d '{body}'\n$ curl http://127.0.0.1:{port}/ | wc -c",
    )
    with subprocess.Popen(command.split(), env=ENVIRONMENT) as server:
        try:
            while server.poll() is None and not answers(url):
                time.sleep(0.2)
            with urlopen(f"{url}:predict", body.encode()) as answer:
                print(json.dumps(json.load(answer), ensure_ascii=False, indent=2), flush=True)
            with urlopen(f"http://127.0.0.1:{port}/") as page:
                print(f"\nThe page is one HTML file of {len(page.read()) // 1000} kB.", flush=True)
        finally:
            server.terminate()


def answers(url: str) -> bool:
    """Whether the server answers."""
    try:
        with urlopen(url):
            return True
    except OSError:
        return False


def announce(why: str, command: str) -> None:
    """Print the number of a step, the time since the beginning, what the step is for, and its command."""
    number = next(NUMBERS)
    print(
        f"\n─── Step {number} of {STEPS} · {clock()} {'─' * 78}\n{textwrap.fill(why, 100)}\n\n{command}\n", flush=True
    )


def clock() -> str:
    """Minutes and seconds since the beginning."""
    minutes, seconds = divmod(int(time.perf_counter() - BEGAN), 60)
    return f"{minutes}:{seconds:02}"


NEXT = """
What next? Put keras-bert on the path of your shell: . .venv/bin/activate
  look inside   demo/attention.html, in a browser
  play          keras-bert play demo/support.keras, and open the address that it prints
  your texts    keras-bert finetune classify --train train.tsv --valid valid.tsv --model base --output runs/mine
  in Korean     the same with --model hf://klue/bert-base; README.ko.md
  your corpus   the steps above with your files; docs/pretraining.md
  serving       demo/saved_models/reviews/serving/README.md, for TF Serving"""


if __name__ == "__main__":
    main()
