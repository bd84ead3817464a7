"""What `keras-bert finetune TASK` offers for each task: its help, its forms of files and its options."""

import dataclasses
from typing import Any

from keras_bert_cli.contents import Command

TABLES = ("tsv", "csv", "jsonl", "parquet", "label-text")
TABLE_OPTIONS = ("format", "text", "label", "header", "delimiter", "encoding", "skip_empty", "skip_bad")
OTHER_OPTIONS = ("number", "category")  # columns beside the text
LONG_OPTIONS = ("long", "pool", "max_windows", "stream")
LABEL_OPTIONS = ("label_smoothing", "class_weight")


@dataclasses.dataclass(frozen=True)
class TaskOptions:
    """What the help of a task says, without importing the task."""

    help: str
    formats: tuple[str, ...]
    options: tuple[str, ...]  # those of only some tasks: its `reading_fields` and `run_fields`, and `cosine`
    example: str  # of the options
    label: str = ""  # what the column of the label holds
    texts_without_label: tuple[int, ...] = ()  # so many columns of texts need no label
    reads_tables: bool = True  # whether its files have the columns that the options name
    learns_texts: bool = False  # whether it can train on a file that has only texts
    batch_size: int = 16  # this and the next are the task's defaults
    seq_length: int = 128


TASKS = {  # by the `command` of the task
    "classify": TaskOptions(
        "Label texts or text pairs.",
        TABLES,
        (
            *TABLE_OPTIONS,
            *OTHER_OPTIONS,
            "separator",
            "positive",
            *LONG_OPTIONS,
            *LABEL_OPTIONS,
            "calibrate",
            "abstain_below",
        ),
        "--train nsmc-train.tsv --valid nsmc-test.tsv --text document --skip-empty --model hf://klue/bert-base "
        "--output nsmc",
        "label",
    ),
    "regress": TaskOptions(
        "Score texts or text pairs with numbers.",
        TABLES,
        (*TABLE_OPTIONS, *OTHER_OPTIONS, "scale", "cosine", *LONG_OPTIONS),
        "--train train.csv --split 0.1 --text sentence1 --text sentence2 --label score --output similarity",
        "score",
    ),
    "tag": TaskOptions(
        "Tag words: names, parts of speech.",
        ("conll", "conllu", "klue-ner"),
        ("format", "encoding", *LABEL_OPTIONS),
        "--train train.conll --valid valid.conll --output names",
        reads_tables=False,
    ),
    "answer": TaskOptions(
        "Answer questions from a context.",
        ("squad", "korquad"),
        ("format",),
        "--train train-v1.1.json --valid dev-v1.1.json --output squad",
        reads_tables=False,
        seq_length=384,
    ),
    "choose": TaskOptions(
        "Choose among answers to a prompt.",
        TABLES,
        (*TABLE_OPTIONS, "choices", "stream", "label_smoothing"),
        "--train train.csv --valid valid.csv --text start --choice end0 --choice end1 --output endings",
        "number of the right choice, from 0",
    ),
    "embed": TaskOptions(
        "Train vectors of texts on pairs, on pairs with scores or negatives, on labels, or on only texts.",
        TABLES,
        (*TABLE_OPTIONS, "scale", "lines", "loss", "temperature", "symmetric", "pooling", "cache_batch"),
        "--train pairs.tsv --valid valid.tsv --text query --text answer --model minilm --output faq",
        "score or label",
        (2, 3),
        learns_texts=True,
        batch_size=32,
    ),
}
OF_SOME = {option for task in TASKS.values() for option in task.options}


class TaskCommand(Command):
    """A command with the options of its task."""

    def __init__(self, name: str, *, params: list[Any], **settings: Any) -> None:
        task = TASKS[name]
        params = [param for param in params if param.name not in OF_SOME or param.name in task.options]
        for param in params:
            if param.name == "format":
                param.help = f"{', '.join(task.formats[:-1])} or {task.formats[-1]}."
            if param.name in ("batch_size", "seq_length"):
                param.show_default = str(getattr(task, param.name))
            if param.name == "label":
                param.help = f"Column with the {task.label}, by name or by number from 0."
        super().__init__(name, params=params, **settings)
