"""The scores beside the official scripts, the libraries and their formulas written out."""

import random

import keras
import numpy as np
import pytest

from keras_bert.tasks import metrics
from keras_bert.tasks.metrics.by_label import one_sided, scores_by_label
from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.metrics.tagging import scores_by_tag
from tests.tasks.small import small_task

dice = random.Random(0)


# === Labels and numbers ===


@pytest.mark.parametrize("labels", [2, 3])
def test_label_scores(labels):
    """Against the formulas, one label at a time."""
    true = [dice.randrange(labels) for _ in range(200)]
    predicted = [label if dice.random() < 0.6 else dice.randrange(labels) for label in true]
    f1 = []
    for label in range(labels):
        hits = sum(a == b == label for a, b in zip(true, predicted, strict=True))
        f1.append(2 * hits / (true.count(label) + predicted.count(label)))
    names = [f"label {number}" for number in range(labels)]
    scores = metrics.label_scores([names[i] for i in true], [names[i] for i in predicted], names)
    assert scores["accuracy"] == pytest.approx(np.mean(np.array(true) == predicted))
    if labels == 2:
        assert scores["f1"] == pytest.approx(f1[1])
        assert scores["matthews"] == pytest.approx(np.corrcoef(true, predicted)[0, 1])
    assert scores["f1_macro"] == pytest.approx(np.mean(f1))
    of_first = metrics.label_scores([names[i] for i in true], [names[i] for i in predicted], names, positive=names[0])
    assert of_first == pytest.approx(scores | {"f1": f1[0]})
    with pytest.raises(ValueError, match=r"--positive\) is 'other', which is not a label.*'label 0', 'label 1'"):
        metrics.label_scores([names[0]], [names[0]], names, positive="other")


def test_scores_by_label():
    """Against scikit-learn, for rows with one label and with several."""
    from sklearn.metrics import precision_recall_fscore_support

    rng = np.random.default_rng(0)
    one = np.eye(4)[rng.integers(0, 3, 50)], np.eye(4)[rng.integers(0, 4, 50)]  # no row has the last label
    for true, predicted in (one, rng.integers(0, 2, (2, 50, 4))):
        found = scores_by_label(true, predicted, ["a", "b", "c", "d"])
        expected = precision_recall_fscore_support(true, predicted, average=None, zero_division=0)
        assert list(found) == ["a", "b", "c", "d"]
        for name, column in zip(("precision", "recall", "f1", "support"), expected, strict=True):
            assert [row[name] for row in found.values()] == pytest.approx(column)
        assert [row["predicted"] for row in found.values()] == predicted.sum(0).tolist()


def test_a_label_that_is_always_or_never_predicted():
    always = scores_by_label(np.eye(2)[[0, 0, 1] * 7], np.eye(2)[[0] * 21], ["no", "yes"])
    (said,) = one_sided({"labels": always}, 21)
    assert said.startswith("Every row is predicted as 'no', although 7 of 21 do not have this label. ")
    assert 'more rows or a weight (class_weight="balanced", --class-weight balanced). ' in said
    assert "Rare labels need more rows. " in one_sided({"labels": always}, 21, weighted=True)[0]
    never = scores_by_label(np.eye(3)[[0, 1, 2] * 7], np.eye(3)[[0, 1, 0] * 7], ["a", "b", "c"])
    assert one_sided({"labels": never}, 21)[0].startswith("No row is predicted as 'c', although")
    right = scores_by_label(np.eye(3)[[0, 1] * 10], np.eye(3)[[0, 1] * 10], ["a", "b", "c"])
    assert not one_sided({"labels": right}, 20)
    few = scores_by_label(np.eye(2)[[0, 1]], np.eye(2)[[0, 0]], ["no", "yes"])
    assert not one_sided({"labels": few}, 2)
    (said,) = one_sided({"labels": always, "labels_of": "words"}, 2)
    assert said.startswith("Every word is predicted as 'no', although 7 of 21 do not have this label. Accuracy hides")
    assert "Accuracy hides this. Rare labels need more rows. " in said
    (said,) = one_sided({"labels": always, "labels_of": "entities"}, 2)  # not "every", since others may be missed
    assert said.startswith("No entity is predicted as 'yes', although some entities have that label. ")


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IO", "BILOU"])
def test_scores_by_tag(scheme):
    """Against the report of seqeval for entities, and against scikit-learn for tags of words."""
    from seqeval.metrics import classification_report
    from sklearn.metrics import classification_report as report_of_words

    rng = np.random.default_rng(0)
    names = [
        "O",
        "O",
        *(f"{letter}-{kind}" for letter in scheme.replace("O", "") for kind in ("PER", "LOC", "weighted")),
    ]
    true, predicted = (rng.choice(names, (50, 8)).tolist() for _ in range(2))
    true = [[*row[:4], *(["O"] * 4)] for row in true]
    found = scores_by_tag(true, predicted)
    letters = {"L": "E", "U": "S"}
    bioes = ([[letters.get(tag[0], tag[0]) + tag[1:] for tag in row] for row in side] for side in (true, predicted))
    expected = classification_report(*bioes, output_dict=True, zero_division=0)
    assert found["labels_of"] == "entities"
    assert [*found["labels"]] == ["LOC", "PER", "weighted"]
    for kind, one in found["labels"].items():
        assert one["f1"] == pytest.approx(expected[kind]["f1-score"])
        assert [one[name] for name in ("precision", "recall", "support")] == pytest.approx(
            [expected[kind][name] for name in ("precision", "recall", "support")]
        )
    words = [[[tag[-1] for tag in row] for row in side] for side in (true, predicted)]
    found = scores_by_tag(*words)
    flat = ([tag for row in side for tag in row] for side in words)
    expected = report_of_words(*flat, output_dict=True, zero_division=0)
    assert found["labels_of"] == "words"
    for tag, one in found["labels"].items():
        assert (one["f1"], one["support"]) == pytest.approx((expected[tag]["f1-score"], expected[tag]["support"]))


def test_label_scores_of_one_label_alone():
    expected = {"accuracy": 1.0, "f1": 0.0, "f1_macro": 0.5, "matthews": 0.0}
    assert metrics.label_scores(["a"] * 3, ["a"] * 3, ["a", "b"]) == expected


def test_multi_label_scores():
    true, predicted = np.array([[1, 0, 1], [0, 1, 0]]), np.array([[1, 0, 0], [0, 1, 0]])
    scores = metrics.multi_label_scores(true, predicted)
    assert scores == pytest.approx({"f1_micro": 4 / 5, "f1_macro": 2 / 3, "accuracy": 1 / 2})
    of_one_label = metrics.multi_label_scores(np.eye(10)[:, :1], np.zeros((10, 1)))
    assert of_one_label == pytest.approx({"f1_micro": 0.0, "f1_macro": 0.0, "accuracy": 0.9})


def test_number_scores():
    true, predicted = np.random.default_rng(0).normal(size=(2, 50)).round(1)
    ranks = [[np.mean(np.flatnonzero(np.sort(x) == value)) for value in x] for x in (true, predicted)]
    scores = metrics.number_scores(true, predicted + true)
    assert scores["pearson"] == pytest.approx(np.corrcoef(true, predicted + true)[0, 1])
    assert metrics.number_scores(true, predicted)["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert metrics.number_scores([1, 2], [3, 3]) == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_keras_metrics_over_batches(labels, weighted):
    from sklearn.metrics import f1_score, matthews_corrcoef

    rng = np.random.default_rng(labels)
    true, logits = rng.integers(0, labels, 100), rng.normal(size=(100, labels)).astype("float32")
    logits[np.arange(100), true] += 1
    weight = rng.random(100).astype("float32") if weighted else None
    f1, matthews = metrics.F1(labels), metrics.Matthews(labels)
    for rows in np.array_split(np.arange(100), 7):
        for metric in (f1, matthews):
            metric.update_state(true[rows], logits[rows], None if weight is None else weight[rows])
    average = "binary" if labels == 2 else "macro"
    predicted = logits.argmax(-1)
    assert float(f1.result()) == pytest.approx(
        f1_score(true, predicted, average=average, sample_weight=weight), abs=1e-6
    )
    assert float(matthews.result()) == pytest.approx(matthews_corrcoef(true, predicted, sample_weight=weight), abs=1e-6)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(f1))
    assert (again.labels, again.name) == (labels, "f1")
    f1.reset_state()
    assert float(f1.result()) == 0.0


# === Tags ===


def _entities(tags):
    """CoNLL's entities as its script says it: where one begins, and where the next tag does not go on."""
    found, begin = set(), None
    for place, tag in enumerate([*tags, "O"]):
        kind = tag[2:]
        before = tags[place - 1] if place else "O"
        goes_on = tag[0] == "I" and before != "O" and before[2:] == kind
        if begin is not None and not goes_on:
            found.add((begin, place, before[2:]))
            begin = None
        if tag != "O" and not goes_on:
            begin = place
    return found


def test_tag_scores():
    kinds = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    true = [[dice.choice(kinds) for _ in range(12)] for _ in range(40)]
    predicted = [[tag if dice.random() < 0.8 else dice.choice(kinds) for tag in tags] for tags in true]
    wanted, found = ([_entities(tags) for tags in side] for side in (true, predicted))
    hits = sum(len(a & b) for a, b in zip(wanted, found, strict=True))
    scores = metrics.tag_scores(true, predicted)
    assert scores["entity_precision"] == pytest.approx(hits / sum(map(len, found)))
    assert scores["entity_recall"] == pytest.approx(hits / sum(map(len, wanted)))
    assert scores["entity_f1"] == pytest.approx(2 * hits / (sum(map(len, wanted)) + sum(map(len, found))))
    assert scores["accuracy"] == pytest.approx(np.mean(np.array(true) == np.array(predicted)))


def test_span_scores():
    true = [[(0, 2, "PS"), (2, 5, "LC")], [], [(3, 4, "PS")]]
    predicted = [[(0, 2, "PS"), (2, 4, "LC")], [(0, 1, "LC")], [(3, 4, "PS")]]
    scores = metrics.span_scores(true, predicted)
    assert scores == pytest.approx({"entity_precision": 2 / 4, "entity_recall": 2 / 3, "entity_f1": 4 / 7})


def test_parts_of_speech_have_no_entities():
    assert metrics.tag_scores([["NOUN", "VERB"]], [["NOUN", "NOUN"]]) == {"accuracy": 0.5}
    assert metrics.tag_scores([["-LRB-", "VERB"]], [["-LRB-", "NOUN"]]) == {"accuracy": 0.5}


def test_a_file_without_entities_has_their_scores():
    found = metrics.tag_scores([["O", "O"]], [["O", "B-PER"]], labels=("O", "B-PER"))
    assert found == {"accuracy": 0.5, "entity_precision": 0.0, "entity_recall": 0.0, "entity_f1": 0.0}


def test_scores_of_tags_by_number():
    task, x = small_task("tagger"), [["Anna", "lives"], ["good"]]
    found = task.tag_words(x)
    ids = [[task.labels.index(tag) for tag in tags] for tags in found]
    assert scores(task, x, ids)["accuracy"] == scores(task, x, found)["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("kind", "x", "y", "counts"),
    [
        ("classifier", ["good"] * 20, ["positive", "negative"] * 10, {"negative": 10, "positive": 10}),
        ("several", ["a film", "bad film"], [["film"], ["film", "bad"]], {"film": 2, "good": 0, "bad": 1}),
        ("tagger", [["Anna", "lives"]], [["B-PER", "O"]], {"PER": 1}),
        ("tagger", ["Anna lives in Rome"], [[(0, 4, "PER"), (14, 18, "LOC")]], {"LOC": 1, "PER": 1}),
    ],
)
def test_scores_by_label_of_a_task(kind, x, y, counts, caplog):
    """As the command line prints them, and from the same answers."""
    task = small_task(kind)
    found = task.scores_by_label(x, y)
    assert {label: one["support"] for label, one in found.items() if one["support"] or label in counts} == counts
    assert ("Every row is predicted as" in caplog.text) == (kind == "classifier")  # all rows have the same text
    if kind == "classifier":
        assert sum(one["f1"] for one in found.values()) / 2 == pytest.approx(scores(task, x, y)["f1_macro"])
        assert task.scores_by_label({"text": x, "label": y}) == found
    if kind == "tagger":
        hits = sum(one["recall"] * one["support"] for one in found.values())
        assert hits / sum(counts.values()) == pytest.approx(scores(task, x, y)["entity_recall"])


def test_a_task_without_labels_has_no_scores_by_label():
    with pytest.raises(ValueError, match=r"TextRegressor has no labels to score\. Call `evaluate`.* Received: "):
        small_task("regressor").scores_by_label(["good"], [1.0])


# === Answers ===

WORDS = ("the", "a", "An", "Red", "red,", "sea", "Sea.", "-", "1990s", "O'Neil", "“quoted”", "é")


def _answer():
    return " ".join(dice.choices(WORDS, k=dice.randrange(1, 5)))


def test_answer_scores():
    """The official scripts of SQuAD v1.1 and v2.0, as Model Garden carries them."""
    v1 = pytest.importorskip("official.nlp.tools.squad_evaluate_v1_1")
    v2 = pytest.importorskip("official.nlp.tools.squad_evaluate_v2_0")
    true = [[_answer() for _ in range(dice.randrange(1, 4))] for _ in range(300)]
    true = [answers for answers in true if all(v1._normalize_answer(answer) for answer in answers)]
    predicted = [dice.choice(answers) if dice.random() < 0.3 else _answer() for answers in true]

    def dataset(true):
        entries = [{"id": str(i), "answers": [{"text": text} for text in texts]} for i, texts in enumerate(true)]
        return [{"paragraphs": [{"qas": entries}]}]

    ours = metrics.answer_scores(true, predicted)
    official = v1.evaluate(dataset(true), {str(i): text for i, text in enumerate(predicted)})
    assert ours == pytest.approx({"exact_match": official["exact_match"], "f1": official["final_f1"]})

    true = [[] if dice.random() < 0.3 else answers for answers in true]
    predicted = ["" if dice.random() < 0.3 else text for text in predicted]
    exact, f1 = v2._get_raw_scores(dataset(true), {str(i): text for i, text in enumerate(predicted)})
    ours = metrics.answer_scores(true, predicted)
    assert ours == pytest.approx({"exact_match": np.mean([*exact.values()]), "f1": np.mean([*f1.values()])})


@pytest.mark.parametrize(
    ("true", "predicted", "exact", "f1"),
    [
        ("1989년 2월 15일", "1989년 2월 15일에", 0, 2 * 10 / (10 + 11)),  # spaces do not count as characters
        ("《호두까기 인형》", "호두까기 인형", 1, 1),
        ("서울(Seoul)", "서울 SEOUL", 1, 1),  # a bracket parts, and case does not matter
        ("서울", "부산", 0, 0),
        ("the 서울", "서울", 0, 2 * 2 / (5 + 2)),  # English articles stay
    ],
)
def test_korquad_scores(true, predicted, exact, f1):
    """By hand, from the rules of its official script."""
    assert metrics.korquad_scores([[true]], [predicted]) == pytest.approx({"exact_match": exact, "f1": f1})


@pytest.mark.parametrize(
    "score",
    [
        metrics.answer_scores,
        metrics.korquad_scores,
        metrics.number_scores,
        metrics.multi_label_scores,
        metrics.tag_scores,
    ],
)
def test_counts_that_differ(score):
    with pytest.raises(ValueError, match="Received: 0 predictions for 1"):
        score([["x"]], [])


def test_tags_that_differ_in_number():
    with pytest.raises(ValueError, match="Received: different numbers in sentence 1"):
        metrics.tag_scores([["O"], ["O"]], [["O"], ["O", "O"]])


@pytest.mark.parametrize("labels", [3, 5, 20])
def test_matthews_of_predictions_that_are_all_one_label(labels):
    """The shares of float32 may add up to more than 1, whose square root is not a number."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        metric = metrics.Matthews(labels)
        true = rng.integers(0, labels, int(rng.integers(1, 1000)))
        metric.update_state(true, np.eye(labels)[np.zeros(len(true), int)])
        assert abs(float(metric.result())) < 1e-2
