"""Students and their teachers: what a step adds up, what it leaves alone, and which pairs are refused."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert import Distillation
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from tests.parity.oracles import array, randomize
from tests.tasks.small import KINDS, NO_DROPOUT, TEXTS, VOCABULARY, columns, small_bert, small_task
from tests.tasks.test_own_task import Mood, Scorer

pytestmark = pytest.mark.usefixtures("eager")
# Without "pieces", which is the tagger with other weights of its targets.
TASKS = (*(kind for kind in KINDS if kind != "pieces"), "windows")
NO_STATES = {"hidden": 0.0, "attention": 0.0, "relations": 0.0}


def teacher_of(kind, **changes):
    """A teacher of two blocks, by default, with other weights than `small_task` has."""
    keras.utils.set_random_seed(3)
    bert = randomize(small_bert(**{"num_hidden_layers": 2, **changes}), seed=1, scale=0.2)
    return Scorer(bert) if kind == "own" else small_task(kind, bert)


def student_of(kind, **changes):
    keras.utils.set_random_seed(4)
    return small_task(kind, small_bert(**changes))


def a_batch(task, kind):
    """All rows of a kind as one packed batch."""
    return next(iter(task.labelled_examples((*columns(kind), None)).batches(8)))


def loss(task, batch, lesson):
    """The loss of a training step."""
    x, y, weight = (keras.tree.map_structure(keras.ops.convert_to_tensor, part) for part in batch)
    with task.taught(lesson):
        return float(array(task.compute_loss(x, y, task(x, training=True), weight)))


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def soft(kind, theirs, ours, temperature):
    """What the loss of the logits should be, for each target."""
    if kind in ("regressor", "cosine"):
        return ((theirs - ours) ** 2)[:, 0]
    if kind == "embedder":
        return ((theirs - ours) ** 2).sum(-1).reshape(-1, 2).mean(-1)  # of the two texts of a row
    if kind == "several":
        theirs, ours = (np.stack([x, 0 * x], -1) for x in (theirs, ours))
    t, s = (log_softmax(x / temperature) for x in (theirs, ours))
    found = temperature**2 * (np.exp(t) * (t - s)).sum(-1)
    return found.mean(-1) if kind == "several" else found


@pytest.mark.parametrize("kind", TASKS)
def test_a_step_adds_up_its_losses(kind):
    teacher, student = teacher_of(kind), student_of(kind, **NO_DROPOUT)
    student.compile("sgd", student.default_loss())
    batch = a_batch(student, kind)
    own = loss(student, batch, None)
    logits = [array(task(batch[0], training=False)) for task in (teacher, student)]
    values, weight = soft(kind, *logits, 3.0), np.asarray(batch[2])
    expected = 0.3 * own + 0.7 * (values * weight).sum() / weight.sum()
    only = loss(student, batch, student.lesson(teacher, Distillation(3.0, 0.3, 0.7, **NO_STATES)))
    assert only == pytest.approx(expected, rel=1e-5)
    parts = [
        loss(student, batch, student.lesson(teacher, Distillation(3.0, 0.0, 0.0, **(NO_STATES | {name: 1.0}))))
        for name in NO_STATES
    ]
    assert min(parts) > 1e-6
    total = loss(student, batch, student.lesson(teacher, Distillation(3.0, 0.3, 0.7, 1.0, 2.0, 3.0)))
    assert total == pytest.approx(expected + np.dot(parts, [1, 2, 3]), rel=1e-5)
    same = small_task(kind, small_bert(**NO_DROPOUT))
    same.copy_head(student)
    nothing = loss(student, batch, student.lesson(same, Distillation(3.0, 0.0, 1.0, 1.0, 1.0, 1.0)))
    assert nothing == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("kind", ["classifier", pytest.param("own", marks=pytest.mark.long)])
def test_training_changes_only_the_student(kind, tmp_path, monkeypatch):
    """And brings it closer to the teacher, also in a task of the user's own; texts never share rows in it."""
    monkeypatch.setattr(LabelledRows, "shared_in_fit", lambda *_: pytest.fail("The rows of a student are not shared."))
    teacher, y = teacher_of(kind, **NO_DROPOUT), [0.5] * 4 if kind == "own" else columns(kind)[1]
    student = teacher.with_layers(1)
    before, weights = teacher.get_weights(), student.get_weights()
    recipe = keras_bert.FinetuneRecipe(learning_rate=0.01, epochs=8)
    lesson = Distillation(targets=0, hidden=1, attention=1, relations=1)
    losses = student.fit(TEXTS, y, recipe=recipe, teacher=teacher, distillation=lesson, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    assert all(np.array_equal(*pair) for pair in zip(before, teacher.get_weights(), strict=True))
    assert not any(np.array_equal(*pair) for pair in zip(weights, student.get_weights(), strict=True))
    student.save(tmp_path / "student.keras")
    saved = keras.models.load_model(tmp_path / "student.keras", {"Scorer": Scorer})
    assert len(saved.weights) == len(student.weights) < len(teacher.weights)
    assert np.array_equal(saved.predict(TEXTS), student.predict(TEXTS))
    assert student.call(saved.bert.preprocessor(TEXTS), training=True).shape[0] == 4  # logits again, not a dict


@pytest.mark.long
@pytest.mark.parametrize("kind", TASKS)
def test_every_task_learns_from_a_teacher(kind):
    """From its answers and its states, without the labels."""
    teacher, lesson = teacher_of(kind, **NO_DROPOUT), Distillation(targets=0, hidden=1, attention=1, relations=1)
    student = teacher.with_layers(1)
    before, recipe = teacher.get_weights(), keras_bert.FinetuneRecipe(learning_rate=0.01, epochs=3, batch_size=2)
    x, y = columns(kind)
    losses = student.fit(x, y, recipe=recipe, teacher=teacher, distillation=lesson, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert all(np.array_equal(*pair) for pair in zip(before, teacher.get_weights(), strict=True))


def test_a_teacher_makes_no_difference_to_later_training():
    """`fit` without a teacher, on a task that the user compiled, computes its own loss again."""
    x, y = columns("classifier")
    task = student_of("classifier", **NO_DROPOUT)
    task.compile("sgd", task.default_loss())
    task.optimizer.learning_rate = 0.0
    plain = task.fit(x, y, verbose=0).history["loss"]
    taught = task.fit(x, y, teacher=teacher_of("classifier"), verbose=0).history["loss"]
    assert task.fit(x, y, verbose=0).history["loss"] == plain != taught
    packed = task.bert.preprocessor(x)
    assert task.fit(packed, y, teacher=teacher_of("classifier"), verbose=0).history["loss"] == pytest.approx(taught)


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="exports are made on TensorFlow")
@pytest.mark.usefixtures("without_preprocess")
def test_a_student_is_exported_like_any_other(tmp_path):
    import tensorflow as tf

    student = teacher_of("classifier").with_layers(1)
    student.fit(TEXTS, columns("classifier")[1], epochs=1, teacher=teacher_of("classifier"), verbose=0)
    keras_bert.export(student, tmp_path / "student")
    served = tf.saved_model.load(str(tmp_path / "student" / "text" / "1"))
    scores = served.signatures["serving_default"](text=tf.constant(TEXTS))["scores"].numpy()
    expected = [list(answer.scores.values()) for answer in student.classify(TEXTS)]
    assert scores == pytest.approx(np.array(expected), abs=1e-6)


def test_fewer_layers_are_the_teachers():
    teacher = teacher_of("several", num_hidden_layers=4)
    student = teacher.with_layers(2)
    assert (student.labels, student.multi_label) == (teacher.labels, True)
    assert student.bert.config.num_hidden_layers == 2
    for layer in student.layers:
        number = {"layer_0_": "layer_1_", "layer_1_": "layer_3_"}.get(layer.name[:8], layer.name[:8])
        theirs = teacher.get_layer(number + layer.name[8:]).weights
        for mine, other in zip(layer.weights, theirs, strict=True):
            if "seed" not in mine.path:
                assert np.array_equal(array(mine), array(other)), layer.name


# === Refused ===


def other_vocabulary(kind):
    teacher = teacher_of(kind)
    pieces = [*VOCABULARY.tokens[:-1], "other"]
    teacher.bert.preprocessor = keras_bert.Preprocessor(keras_bert.Vocabulary(pieces), strip_accents=False)
    return teacher


@pytest.mark.parametrize(
    ("teacher", "lesson", "message"),
    [
        (lambda: teacher_of("regressor"), {}, "is a TextRegressor, but its student is a TextClassifier"),
        (lambda: "runs/large", {}, "is a str, but its student is a TextClassifier"),
        (
            lambda: keras_bert.TextClassifier(small_bert(), ("bad", "good")),
            {},
            r"differ in `labels`.*Received: \('bad', 'good'\) of the teacher, \('negative', 'positive'\) of the",
        ),
        (
            lambda: keras_bert.TextClassifier(small_bert(), ("negative", "positive"), multi_label=True),
            {},
            "differ in `multi_label`",
        ),
        (lambda: teacher_of("windows"), {}, "another shape .*such as `long`"),
        (
            lambda: other_vocabulary("classifier"),
            {},
            r"different vocabularies, of 21 pieces \(teacher\)",
        ),
        (lambda: teacher_of("classifier", max_position_embeddings=8), {}, r"rows of 16 pieces, but the teacher"),
        (
            lambda: teacher_of("classifier", hidden_size=16),
            {"hidden": 1},
            r"as wide as the student's.*relations=1.*: width 16 of the teacher, width 8 of the",
        ),
        (lambda: teacher_of("classifier", num_attention_heads=4), {"attention": 1}, "as many attention heads"),
        (lambda: None, {}, "`distillation` was passed to `fit` without `teacher`"),
    ],
)
def test_teachers_that_are_refused(teacher, lesson, message):
    with pytest.raises(ValueError, match=message) as error:
        student_of("classifier").fit(
            *columns("classifier"), teacher=teacher(), distillation=Distillation(**lesson), verbose=0
        )
    assert "\n" not in str(error.value)


def test_students_that_are_refused():
    x, y = columns("classifier")
    student = student_of("classifier", num_hidden_layers=3)
    with pytest.raises(ValueError, match=r"teacher has fewer blocks.*Received: 2 blocks of the teacher, 3 of the"):
        student.fit(x, y, teacher=teacher_of("classifier"), distillation=Distillation(hidden=1), verbose=0)
    with pytest.raises(ValueError, match="share weights"):
        student.fit(x, y, teacher=student, verbose=0)
    with pytest.raises(ValueError, match=r"from 1 to 3, the number of blocks.*num_hidden_layers=4"):
        student.with_layers(4)
    with pytest.raises(ValueError, match="cached batches cannot learn from a teacher"):
        student_of("embedder").fit(*columns("embedder"), teacher=teacher_of("embedder"), cache_batch=2)


@pytest.mark.parametrize(
    ("lesson", "message"),
    [
        (
            {"temperature": float("nan")},
            "`temperature` must be a finite number of at least 0. Received: temperature=nan",
        ),
        ({"temperature": 0}, "`temperature` must be above 0"),
        ({"hidden": -1}, "`hidden` must be a finite number"),
        ({"logits": "1"}, "`logits` must be a finite number"),
        ({"logits": 0, "relations": 0}, "Nothing would be learned from the teacher"),
    ],
)
def test_lessons_that_are_refused(lesson, message):
    with pytest.raises(ValueError, match=message):
        Distillation(**lesson)


def test_a_task_that_reads_a_batch_twice():
    """Its logits can be learned, its states cannot be told apart."""

    @keras.saving.register_keras_serializable("tests")
    class Twice(Mood):
        def __init__(self, bert, *, freeze=False, name=None):
            again = keras.Model(bert.input, bert.output["pooled_output"])(bert.input)
            logits = keras.layers.Dense(2, name="mood")(again + bert.output["pooled_output"])
            keras_bert.Task.__init__(self, bert, bert.input, logits, freeze=freeze, name=name)
            self.width = 2

    teacher, student = Twice(small_bert()), Twice(small_bert())
    student.fit(TEXTS, [0, 1, 0, 1], teacher=teacher, distillation=Distillation(relations=0), epochs=1, verbose=0)
    with pytest.raises(ValueError, match="runs its encoder more than once"):
        student.fit(TEXTS, [0, 1, 0, 1], teacher=teacher, distillation=Distillation(relations=1), epochs=1, verbose=0)
