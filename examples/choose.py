"""Choose how a story continues: one of four endings, each with a score.

    python examples/choose.py --model base --train train.csv --valid val.csv

Files: SWAG's CSV with the columns startphrase, ending0 to ending3, and label (the number of the right ending).
Default: generated rows. Four endings to choose from: the next sentence of a story of examples/small_world.py, and three
sentences of other stories. With --model demo/run, which `make demo` pretrains, on one core: a minute, accuracy 79 %
(chance: 25). Not run on SWAG.
"""

import argparse
import random
from pathlib import Path

from small_world import english_document

import keras_bert
from keras_bert.tasks.readers import Rows, read_choices

ENDINGS = ("ending0", "ending1", "ending2", "ending3")


def made(count: int, seed: int) -> Rows:
    """Prompts, four possible next sentences for each, and the number of the right one."""
    dice = random.Random(seed)
    prompts, choices, right = [], [], []
    for _ in range(count):
        story = english_document(dice)
        place = dice.randrange(len(story) - 1)
        prompts.append(story[place])
        right.append(dice.randrange(len(ENDINGS)))
        choices.append([dice.choice(english_document(dice)) for _ in ENDINGS])
        choices[-1][right[-1]] = story[place + 1]
    return Rows((prompts, choices), right, "made", range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path)
    parser.add_argument("--valid", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read (or generate) only this many rows of each file")
    arguments = parser.parse_args()
    if bool(arguments.train) != bool(arguments.valid):
        parser.error("--train and --valid must both be files with the columns startphrase, ending0..3 and label")

    # === Data: prompts, lists of choices, and the numbers of the right ones ===
    if arguments.train:
        files = (arguments.train, arguments.valid)
        train, valid = (read_choices(path, "startphrase", ENDINGS)[: arguments.limit] for path in files)
    else:
        train, valid = made(arguments.limit or 2000, seed=0), made(arguments.limit or 400, seed=1)

    # === Model ===
    bert = keras_bert.load(arguments.model)
    task = keras_bert.MultipleChoice(bert, choices=len(ENDINGS))

    # === Training, with the paper's settings ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    few = valid[:3]
    for prompt, answer in zip(few.x[0], task.choose(*few.x), strict=True):
        print(f"{prompt} ... {answer.text} ({answer.score:.2f})")


if __name__ == "__main__":
    main()
