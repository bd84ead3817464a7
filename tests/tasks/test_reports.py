"""Reports: their numbers against scikit-learn, every task, and the rows and folders that are wrong."""

import json
import re

import keras
import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix

from keras_bert.tasks.columns.other_columns import OtherColumns
from keras_bert.tasks.decoding.entities import Entity
from keras_bert.tasks.reports.label_findings import label_findings, several_labels_findings
from keras_bert.tasks.reports.number_findings import cosine_findings, pair_findings
from keras_bert.tasks.reports.write_report import write_report
from keras_bert.tasks.text_regressor import TextRegressor
from tests.parity.oracles import randomize
from tests.tasks.runs import run
from tests.tasks.small import KINDS, PAIRS, QUESTIONS, TEXTS, columns, small_bert, small_task
from tests.tasks.test_own_task import Mood, Scorer

LABELS = ["a", "b", "c", "d"]


def random_scores(count, classes, seed=0):
    dice = np.random.default_rng(seed)
    scores = dice.dirichlet(np.full(classes, 0.3), count)
    return dice.integers(0, classes, count), scores


def curve_of(part):
    return [one["accuracy"] for one in part["bins"]], [one["confidence"] for one in part["bins"]]


def read(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "report.json"]
    return json.loads((folder / "report.json").read_text(encoding="utf-8")), (folder / "index.html").read_text("utf-8")


# === Numbers ===


def test_one_label():
    true, scores = random_scores(500, 4)
    found = label_findings({"text": [""] * 500}, true, scores, LABELS)
    assert found.parts["confusion"]["counts"] == confusion_matrix(true, scores.argmax(1)).tolist()
    right = scores.argmax(1) == true
    expected = calibration_curve(right, scores.max(1), n_bins=15)
    assert np.array_equal(curve_of(found.parts["calibration"]), expected)
    mistakes = np.flatnonzero(~right)
    worst = mistakes[scores.max(1)[mistakes].argmax()]
    assert found.badness.argmax() == worst
    assert np.array_equal(found.badness > 0, ~right)
    shown = found.show(worst)
    assert (shown.true, shown.answer) == (LABELS[true[worst]], LABELS[scores[worst].argmax()])
    least = np.median(scores.max(1))
    unsure = label_findings({"text": [""] * 500}, true, scores, LABELS, abstain_below=least)
    answer = unsure.show(scores.max(1).argmin()).answer
    assert answer == f"no label (most likely: {LABELS[scores[scores.max(1).argmin()].argmax()]})"
    assert unsure.show(worst) == shown
    note = unsure.parts["confusion"]["note"]
    assert f"250 of 500 rows get no label: the most likely one has a probability below {least:g}." in note
    explained, label = found.explain(worst), np.eye(4, dtype="float32")
    weights = [float(explained.value(one)) for one in label]
    assert np.array_equal(weights, label[scores[worst].argmax()] - label[true[worst]])
    assert explained.example == worst


def test_several_labels():
    dice = np.random.default_rng(1)
    true, scores = dice.integers(0, 2, (300, 4)), dice.random((300, 4))
    answered = scores > [0.5, 0.3, 0.9, 0.5]
    found = several_labels_findings({"text": [""] * 300}, true, answered, scores, LABELS)
    matrices = multilabel_confusion_matrix(true, answered)
    for (label, *counts), ((tn, fp), (fn, tp)) in zip(found.parts["confusion"]["rows"], matrices, strict=True):
        assert label in LABELS
        assert counts == [tp, fn, fp, tn]
    expected = calibration_curve(true.ravel(), scores.ravel(), n_bins=15)
    assert np.array_equal(curve_of(found.parts["calibration"]), expected)
    assert np.array_equal(found.badness > 0, (true != answered).any(1))


def test_pairs_of_vectors():
    """The worst pairs are those whose places among all differ most, and the positives that are found last."""
    angles = np.array([0.1, 0.2, 0.3, 1.5])
    vectors = np.stack([np.stack([angles * 0, angles * 0 + 1], 1), np.stack([np.sin(angles), np.cos(angles)], 1)], 1)
    found = cosine_findings({"a": TEXTS, "b": TEXTS}, np.array([5.0, 3.0, 2.0, 4.0]), vectors)
    assert found.badness == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3])
    vectors = np.stack([np.eye(4)[[0, 1, 2, 3]], np.eye(4)[[0, 1, 2, 3]] + 2 * np.eye(4)[[0, 1, 3, 2]]], 1)
    found = pair_findings({"a": ["p", "q", "r", "s"], "b": ["1", "2", "3", "4"]}, vectors)
    assert found.values.tolist() == [1, 1, 0.5, 0.5]


# === Every task ===


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", [*KINDS, "windows"])
def test_every_task(kind, tmp_path):
    keras.utils.set_random_seed(0)
    task = randomize(small_task(kind), scale=0.3)
    x, y = columns(kind)
    if kind in ("classifier", "windows"):  # so that there are mistakes, whatever the weights are
        y = ["negative" if answer.label == "positive" else "positive" for answer in task.classify(x)]
    elif kind == "several":
        y = [[label for label in task.labels if label not in answer.above()] for answer in task.classify(x)]
    elif kind == "choice":
        y = [(answer.index + 1) % 3 for answer in task.choose(*x)]
    returned = task.write_report(tmp_path / "report", x, y, train=x)
    report, page = read(tmp_path / "report")
    assert report == json.loads(json.dumps(returned))
    assert report["scores"] == pytest.approx(task.report_logits(y, task.examples(x), task.logits(task.examples(x))))
    assert report["duplicates"]["exact"] == report["rows"] == len(y)
    assert f"In the training rows too: {len(y)} of {len(y)} rows" in page
    groups = report["lengths"]["groups"]
    assert sum(group["rows"] for group in groups) == len(y)
    assert report["parts"].keys() == {
        "classifier": {"confusion", "calibration"},
        "several": {"confusion", "calibration"},
        "windows": {"confusion", "calibration"},
        "choice": {"calibration"},
        "tagger": {"confusion", "kinds"},
        "pieces": {"confusion", "kinds"},
        "answerer": set(),
    }.get(kind, {"points"})
    if "calibration" in report["parts"]:
        assert report["parts"]["calibration"]["error"] == pytest.approx(report["scores"]["calibration_error"])
    if kind in ("classifier", "windows", "choice"):
        mean = sum(group["rows"] * group["mean"] for group in groups) / len(y)
        assert mean == pytest.approx(report["scores"]["accuracy"])
    for label, one in report["details"].get("labels", {}).items():
        assert re.search(rf">{label}<.*>{one['support']}<.*>{one['predicted']}<", page, re.DOTALL)
    assert report["worst"]["rows"]
    for row in report["worst"]["rows"]:
        assert row["true"] in page
        if kind not in ("tagger", "pieces", "answerer"):
            assert len(row["pieces"]) == len(row["added"]) > 2
            assert f"against (−) {row['for']}: " in page
    if kind not in ("tagger", "pieces", "answerer"):
        assert any(any(row["added"]) for row in report["worst"]["rows"])


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("missing", [float("nan"), None, pd.NA])
def test_a_question_without_an_answer(tmp_path, missing):
    """Pandas has NaN or NA for it."""
    task = small_task("answerer")
    report = task.write_report(tmp_path / "report", QUESTIONS, ["Rome", missing])
    assert {row["true"] for row in report["worst"]["rows"]} <= {"Rome", "no answer"}


@pytest.mark.usefixtures("eager")
def test_forms_of_an_embedder(tmp_path):
    task = small_task("embedder")
    pairs = task.write_report(tmp_path / "pairs", PAIRS)
    assert pairs["lengths"]["measure"] == "mean reciprocal rank"
    labels = task.write_report(tmp_path / "labels", TEXTS, ["a", "b", "a", "b"])
    right = [group["mean"] * group["rows"] for group in labels["lengths"]["groups"]]
    assert sum(right) / 4 == pytest.approx(labels["scores"]["neighbour_accuracy"])


@pytest.mark.usefixtures("eager")
def test_entities(tmp_path):
    """Where an entity is right, of another type, too short, missing, and where there should be no entity."""
    task = small_task("pieces")
    text, true = "Anna lives in Rome.", [(0, 4, "PER"), (14, 18, "LOC")]
    answers = [(0, 4, "PER"), (0, 4, "LOC"), (0, 2, "PER"), None, (5, 10, "LOC")]

    def decode(examples, logits):
        return [[Entity(one[2], text[one[0] : one[1]], *one[:2], 0.9)] if one else [] for one in answers]

    object.__setattr__(task, "decode", decode)
    report = task.write_report(tmp_path / "report", [text] * 5, [true[:1]] * 5)
    assert dict(report["parts"]["kinds"]["rows"]) == {
        "right": 1, "another type": 1, "another start or end": 1, "not found": 2, "should not be there": 1,
    }  # fmt: skip
    assert report["parts"]["confusion"]["true"] == ["LOC", "PER", "(none)"]
    assert report["parts"]["confusion"]["counts"] == [[0, 0, 0], [1, 1, 3], [1, 1, 0]]
    worst = report["worst"]["rows"][0]  # two mistakes: one that is missing, and one too many
    assert [mark["right"] for text in worst["texts"] for mark in text["marks"]] == [False, False]


@pytest.mark.usefixtures("eager")
def test_a_task_of_ones_own(tmp_path):
    """The rows with the highest loss; for the loss of label ids too."""
    task = Scorer(small_bert())
    y = [0.1, 0.5, 9.0, 0.3]
    report = task.write_report(tmp_path / "scorer", TEXTS, y, train=[*"abcde", *TEXTS[:2]])
    assert report["worst"]["rows"][0]["row"] == 2
    assert report["lengths"]["measure"] == "mean loss"
    assert [one["training_row"] for one in report["duplicates"]["rows"]] == [5, 6]
    report = Mood(small_bert(), width=2).write_report(tmp_path / "mood", TEXTS, [0, 1, 0, 1])
    assert report["worst"]["title"] == "Rows with the highest loss"


@pytest.mark.usefixtures("eager")
def test_a_task_whose_examples_are_not_its_rows(tmp_path):
    class Halves(Scorer):
        def examples(self, x, y=None, sample_weight=None, class_weight=None):
            return super().examples([half for text in x for half in (text[:4], text[4:])], y and np.repeat(y, 2))

        def decode(self, examples, logits):
            return logits[::2]

    report = Halves(small_bert()).write_report(tmp_path / "report", TEXTS, [0.1, 0.2, 0.3, 0.4])
    assert report["worst"] is None
    assert report["lengths"]["measure"] == ""


# === Rows ===


class Known:
    """A task whose scores are known."""

    other_names = ()

    def __init__(self, texts, true, scores):
        self.columns, self.true, self.scores = {"text": texts}, true, scores

    def labelled_examples(self, columns, held_out):
        assert held_out

    def logits(self, examples, batch_size):
        return []

    def report_logits(self, *arguments):
        return {"accuracy": float((self.scores.argmax(1) == self.true).mean())}

    def details(self, *arguments):
        return {}

    def findings(self, *arguments):
        found = label_findings(
            self.columns, self.true, self.scores, [f"label {n}" for n in range(self.scores.shape[1])]
        )
        object.__setattr__(found, "explain", None)
        return found


def known_report(folder, texts, true, scores, training=None):
    options = {"file": "", "batch_size": 32, "options": {}}
    write_report(Known(texts, true, scores), folder, (texts, true), training, (None, None), **options)
    return read(folder)


def test_a_hundred_thousand_rows(tmp_path):
    true, scores = random_scores(100_000, 60)
    _, page = known_report(tmp_path / "report", ["<" * 3000] * 100_000, true, scores)
    assert len(page.encode()) <= 2_000_000
    assert "The 30 of 60 with the most mistakes." in page


def test_text_is_text(tmp_path):
    """HTML in a row is shown, Korean is readable, a long text is cut, and half a character does no harm."""
    texts = ["</p><script>alert(1)</script>", "영화가 재미있었다", "x" * 1_000_000, "\ud800 half"]
    report, page = known_report(tmp_path / "report", texts, np.zeros(4, int), np.tile([0.1, 0.9], (4, 1)), texts)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "영화가 재미있었다" in page
    assert "999,000 characters after this are left out" in page
    assert len(page) < 50_000
    assert "영화가" in (tmp_path / "report" / "report.json").read_text("utf-8")
    assert report["duplicates"]["exact"] == 4


def test_no_mistakes(tmp_path):
    report, page = known_report(tmp_path / "report", ["a", "b"], np.arange(2), np.eye(2), ["c", "d"])
    assert report["worst"]["number"] == 0
    assert "There are none among these rows." in page
    assert "None of these rows is among the 2 training rows" in page
    assert "warning" not in page.split("</style>")[1]


@pytest.mark.usefixtures("eager")
def test_one_row_and_one_label(tmp_path):
    task = small_task("classifier")
    _, page = (
        task.write_report(tmp_path / "one", TEXTS[:1], ["positive"]),
        (tmp_path / "one/index.html").read_text("utf-8"),
    )
    assert "All rows have the label &#x27;positive&#x27;, so mistakes on other labels cannot be seen here." in page
    for kind in ("regressor", "embedder"):
        x, y = columns(kind)
        first = tuple(column[:1] for column in x) if isinstance(x, tuple) else x[:1]
        small_task(kind).write_report(tmp_path / kind, first, y[:1])


# === Folders and files ===


@pytest.mark.usefixtures("eager")
def test_folders(tmp_path):
    task = small_task("classifier")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"new or empty folder.*Received: .*full"):
        task.write_report(tmp_path / "full", TEXTS, [0, 1, 0, 1])
    with pytest.raises(OSError, match=r"notes\.txt"):
        task.write_report(tmp_path / "full" / "notes.txt" / "report", TEXTS, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="'neither'"):  # nothing is left of a report that failed
        task.write_report(tmp_path / "new", TEXTS, ["positive", "neither", "positive", "positive"])
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    with pytest.raises(ValueError, match=r"training rows have other columns.*without text, text_pair"):
        task.write_report(tmp_path / "new", (TEXTS, TEXTS), [0, 1, 0, 1], train=TEXTS)
    (tmp_path / "empty").mkdir()
    task.write_report(tmp_path / "empty", TEXTS, [0, 1, 0, 1])
    read(tmp_path / "empty")


@pytest.mark.usefixtures("eager")
def test_the_command(tmp_path, write):
    keras.utils.set_random_seed(0)
    small_task("classifier").save(tmp_path / "film.keras")
    rows = [f"{text}\t{('positive', 'negative')[number % 2]}\n" for number, text in enumerate(TEXTS)]
    test = write("test.tsv", "text\tlabel\n" + "".join(rows))
    train = write("train.tsv", "text\tlabel\n" + rows[1] + "another film\tpositive\n")
    command = ["evaluate", tmp_path / "film.keras", "--data", test, "--text", "text", "--label", "label"]
    plain = run(*command).output
    assert run(*command, "--report", tmp_path / "report", "--train", train).output == plain
    report, page = read(tmp_path / "report")
    assert report["file"] == "test.tsv"
    (found,) = report["duplicates"]["rows"]
    assert (found["row"], found["training_row"], found["equal"]) == (3, 2, True)  # lines of the files
    assert {row["row"] for row in report["worst"]["rows"]} <= {2, 3, 4, 5}  # lines of the file
    assert "Report of a TextClassifier" in page
    assert {heading.split()[0] for heading in re.findall("<h3>(.*?)</h3>", page)} == {"Line"}
    assert ">line</th>" in page
    assert ">training line</th>" in page
    task = keras.models.load_model(tmp_path / "film.keras")
    assert task.write_report(tmp_path / "python", str(test), train=str(train))["duplicates"] == report["duplicates"]

    for words, said in (
        (["--train", train], "--train is for the page of --report"),
        (["--report", tmp_path / "report"], "new or empty folder"),
        (["--report", tmp_path / "more", "--train", tmp_path / "none.tsv"], "no file at the path of --train"),
        (["--report", tmp_path / "more", "--train", write("other.tsv", "words\tlabel\na\tb\n")], r"no column.*'text'"),
    ):
        with pytest.raises((ValueError, OSError), match=said):
            run(*command, *words)
    assert not (tmp_path / "more").exists()


@pytest.mark.usefixtures("eager")
def test_other_columns(tmp_path):
    table = {"price": [1.0, 2.0, 3.0, 4.0], "brand": ["a", "b", "a", "b"]}
    others = OtherColumns.learn(table, numbers=("price",), categories=("brand",))
    task = TextRegressor(small_bert(), other_columns=others)
    report = task.write_report(tmp_path / "report", (TEXTS, *table.values()), [1.0, 2.0, 3.0, 4.0])
    worst = report["worst"]["rows"][0]
    assert [text["name"] for text in worst["texts"]] == ["text", "price", "brand"]
    assert len(worst["pieces"]) == len(worst["added"]) > 2
    moved = {"price": [5.0, 6.0, 7.0, 8.0], "brand": ["b", "a", "b", "a"]}  # of the same texts
    y = [1.0, 2.0, 3.0, 4.0]
    report = task.write_report(tmp_path / "leaked", (TEXTS, *table.values()), y, train=(TEXTS, *moved.values()))
    assert report["duplicates"]["exact"] == len(TEXTS)
