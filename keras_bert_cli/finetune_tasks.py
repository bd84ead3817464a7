"""What `keras-bert finetune TASK` offers for each task: its help, its forms of files and its options."""

import dataclasses
from pathlib import Path
from typing import Any

from keras_bert_cli.contents import Command

TABLES = ("tsv", "csv", "jsonl", "parquet", "label-text")
TABLE_OPTIONS = ("format", "text", "label", "header", "delimiter", "encoding", "skip_empty", "skip_bad")
OTHER_OPTIONS = ("number", "category")  # columns beside the text
LONG_OPTIONS = ("long", "pool", "max_windows", "cache_batch", "stream")
LABEL_OPTIONS = ("label_smoothing", "class_weight")
NUMBER_SCORES = ("spearman", "pearson")


@dataclasses.dataclass(frozen=True)
class TaskOptions:
    """What the help of a task says, without importing the task."""

    help: str
    saved_as: str  # the name under which Keras saves the class
    formats: tuple[str, ...]
    options: tuple[str, ...]  # those of only some tasks: its `reading_fields` and `run_fields`, and `cosine`
    example: str  # of the options
    read: str  # the function of keras_bert/tasks that reads its files
    scores: tuple[str, ...]  # those that --best-by can name
    label: str = ""  # what the column of the label holds
    read_training: str = ""  # the same for the training file, if that may have only texts
    check: str = ""  # the function that refuses rows, by the settings of a run, its training and its validation rows
    looked_at: int = 100_000_000  # bytes of a file that is also read before Keras is imported, in a few seconds
    batch_size: int = 16  # this and the next are the task's defaults
    seq_length: int = 128
    windows: bool = False  # whether a long row becomes several rows of a batch


TASKS = {  # by the `command` of the task
    "classify": TaskOptions(
        "Label texts or text pairs.",
        "keras_bert>TextClassifier",
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
        read="readers.columns.labelled_rows",
        scores=("accuracy", "f1", "f1_macro", "f1_micro", "matthews", "answered", "accuracy_answered"),
        label="label",
    ),
    "regress": TaskOptions(
        "Score texts or text pairs with numbers.",
        "keras_bert>TextRegressor",
        TABLES,
        (*TABLE_OPTIONS, *OTHER_OPTIONS, "scale", "cosine", *LONG_OPTIONS),
        "--train train.csv --split 0.1 --text sentence1 --text sentence2 --label score --output similarity",
        read="readers.columns.scored_rows",
        check="columns.value_columns.check_cosine_run",
        scores=NUMBER_SCORES,
        label="score",
    ),
    "tag": TaskOptions(
        "Tag words: names, parts of speech.",
        "keras_bert>TokenTagger",
        ("conll", "conllu", "klue-ner"),
        ("format", "encoding", *LABEL_OPTIONS),
        "--train train.conll --valid valid.conll --output names",
        read="readers.conll.tagged_rows",
        looked_at=20_000_000,
        scores=("entity_f1", "entity_precision", "entity_recall", "accuracy"),
        windows=True,
    ),
    "answer": TaskOptions(
        "Answer questions from a context.",
        "keras_bert>QuestionAnswerer",
        ("squad", "korquad"),
        ("format",),
        "--train train-v1.1.json --valid dev-v1.1.json --output squad",
        read="readers.squad.question_rows",
        scores=("f1", "exact_match"),
        seq_length=384,
        windows=True,
    ),
    "choose": TaskOptions(
        "Choose among answers to a prompt.",
        "keras_bert>MultipleChoice",
        TABLES,
        (*TABLE_OPTIONS, "choices", "stream", "label_smoothing"),
        "--train train.csv --valid valid.csv --text start --choice end0 --choice end1 --output endings",
        read="readers.columns.choice_rows",
        scores=("accuracy",),
        label="number of the right choice, from 0",
    ),
    "embed": TaskOptions(
        "Train vectors of texts on pairs, on pairs with scores or negatives, on labels, or on only texts.",
        "keras_bert>SentenceEmbedder",
        TABLES,
        (*TABLE_OPTIONS, "scale", "lines", "loss", "temperature", "symmetric", "pooling", "cache_batch", "stream"),
        "--train pairs.tsv --valid valid.tsv --text query --text answer --model minilm --output faq",
        read="readers.sentences.read_sentences",
        read_training="readers.sentences.read_training_sentences",
        check="rows.sentence_forms.check_sentence_run",
        scores=("mrr", "recall@1", "recall@5", "recall@10", *NUMBER_SCORES, "neighbour_accuracy"),
        label="score or label",
        batch_size=32,
    ),
}
COMMANDS = {task.saved_as: name for name, task in TASKS.items()}
OF_SOME = {option for task in TASKS.values() for option in task.options}


def known_command(source: str | Path) -> str | None:
    """The command of the task that a path holds; None where only the loader finds it. Called `without_the_package`."""
    from keras_bert.storage import read_json
    from keras_bert.tasks.run.known_task import known_class
    from keras_bert.tasks.run.run_folder import SETTINGS_FILE, folder_of

    return read_json(folder_of(source) / SETTINGS_FILE).get("kind") or COMMANDS.get(known_class(source) or "")


class TaskCommand(Command):
    """A command with the options of its task."""

    def __init__(self, name: str, *, params: list[Any], **settings: Any) -> None:
        task = TASKS[name]
        params = [param for param in params if param.name not in OF_SOME or param.name in task.options]
        for param in params:
            if param.name == "format":
                param.help = f"{', '.join(task.formats[:-1])} or {task.formats[-1]}."
            if param.name == "save_every" and "stream" not in task.options:
                param.show_default = False
            if param.name in ("batch_size", "seq_length"):
                param.show_default = str(getattr(task, param.name))
            if param.name == "best_by":
                param.help = f"Score that decides which epoch is best: {', '.join(task.scores)}."
            if param.name == "label":
                param.help = f"Column with the {task.label}, by name or by number from 0."
        super().__init__(name, params=params, **settings)
