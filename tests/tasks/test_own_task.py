"""A task of the user's own: where it is saved, loaded and trained, and what its errors say."""

import json
import shutil

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.model import with_dtype
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.run_folder import begun, metrics_of, write_metrics
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.weights.our_export import read_task
from tests.small_exports import leave_out_preprocess
from tests.tasks.small import TEXTS, small_bert


@keras.saving.register_keras_serializable("tests")
class Mood(keras_bert.Task):
    """A number for a text."""

    def __init__(self, bert, *, width=1, freeze=False, name=None):
        logits = keras.layers.Dense(width, name="mood")(bert.output["pooled_output"])
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)
        self.width = width

    def get_config(self):
        return {**super().get_config(), "width": self.width}


@keras.saving.register_keras_serializable("tests")
class Deep(keras_bert.Task):
    """With a model and a layer of layers in its head, and a layer that Keras names; export with such layers named."""

    def __init__(self, bert, *, names=True, freeze=False, name=None):
        states = keras.layers.Bidirectional(keras.layers.GRU(3), name="both_ways")(bert.output["sequence_output"])
        name_of = {"name": "last"} if names else {}
        head = keras.Sequential([keras.layers.Dense(4, name="first"), keras.layers.Dense(1, **name_of)], name="head")
        super().__init__(bert, bert.input, head(states), freeze=freeze, name=name)
        self.names = names

    def get_config(self):
        return {**super().get_config(), "names": self.names}


class Scorer(Mood):
    """The same with a loss."""

    def default_loss(self):
        return keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")


def test_a_bert_is_no_task(tmp_path):
    small_bert().save(tmp_path / "bert.keras")
    with pytest.raises(ValueError, match=r"bert.keras holds a Bert, not a task. Name the folder"):
        FinishedTask.load(tmp_path / "bert.keras")


def test_a_class_that_is_not_registered(tmp_path, monkeypatch):
    """The error names the class and leaves out the config, which has the vocabulary."""
    Mood(small_bert()).save(tmp_path / "mood.keras")
    monkeypatch.delitem(keras.saving.get_custom_objects(), "tests>Mood")
    monkeypatch.delattr("tests.tasks.test_own_task.Mood")
    with pytest.raises(ValueError, match=r"mood.keras holds Mood, a class that is not registered here") as error:
        FinishedTask.load(tmp_path / "mood.keras")
    assert len(str(error.value)) < 400


@pytest.mark.usefixtures("without_preprocess")
def test_every_weight_of_a_deep_head(tmp_path):
    """Is in copies, students and exports."""
    keras.utils.set_random_seed(0)
    task = Deep(small_bert(), names=False)
    expected = keras.ops.convert_to_numpy(task(task.bert.preprocessor(TEXTS)))
    for copy in (with_dtype(task, "float32"), task.with_layers(task.bert.config.num_hidden_layers)):
        assert np.abs(keras.ops.convert_to_numpy(copy(task.bert.preprocessor(TEXTS))) - expected).max() <= 1e-6
    keras_bert.export(task, tmp_path / "unnamed")
    with pytest.raises(ValueError, match=r"no weights for the layer 'head/dense_\d+'.* Give each layer a name"):
        Deep.load(tmp_path / "unnamed")
    task = Deep(small_bert())
    expected = keras.ops.convert_to_numpy(task(task.bert.preprocessor(TEXTS)))
    keras_bert.export(task, tmp_path / "named")
    loaded = Deep.load(tmp_path / "named")
    assert np.abs(keras.ops.convert_to_numpy(loaded(task.bert.preprocessor(TEXTS))) - expected).max() <= 1e-6


@pytest.mark.usefixtures("quantizes")
def test_changes_of_layers_in_a_model_in_the_model(tmp_path):
    task = Deep(small_bert())
    inner = task.get_layer("head")
    before = task.predict(TEXTS, verbose=0)
    inner.layers[-1].trainable = False
    task.save(tmp_path / "frozen.keras")
    loaded = keras.models.load_model(tmp_path / "frozen.keras")
    assert [layer.trainable for layer in loaded.get_layer("head").layers] == [layer.trainable for layer in inner.layers]
    assert not all(layer.trainable for layer in inner.layers)
    task.quantize("int8")
    task.save(tmp_path / "small.keras")
    after = keras.models.load_model(tmp_path / "small.keras").predict(TEXTS, verbose=0)
    assert np.array_equal(after, task.predict(TEXTS, verbose=0))
    assert 0 < np.abs(after - before).max() < 0.2


def test_a_weight_outside_of_all_layers():
    class Odd(Mood):
        def __init__(self, bert, **options):
            super().__init__(bert, **options)
            self.scale = self.add_weight(name="scale", shape=())

    with pytest.raises(ValueError, match=r"weights that belong to none of its layers.*Put them into a layer"):
        with_dtype(Odd(small_bert()), "float32")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "mood"
    with pytest.MonkeyPatch.context() as patch:
        leave_out_preprocess(patch)
        keras_bert.export(Mood(small_bert()), folder)
    return folder


def test_an_export_of_a_class_that_is_not_registered(exported, monkeypatch):
    """As for a file: `load` of the same export with the class gives the task."""
    assert isinstance(Mood.load(exported), Mood)
    monkeypatch.delitem(keras.saving.get_custom_objects(), "tests>Mood")
    monkeypatch.delattr("tests.tasks.test_own_task.Mood")
    with pytest.raises(
        ValueError, match=r"holds Mood, a class that is not registered here. Import the module"
    ) as error:
        read_task(exported)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"max_position_embeddings": 10**6}, "position_embeddings/embeddings"),
        ({"num_hidden_layers": 900}, r"layer_\d+_attention_qkv/kernel"),
        ({"max_position_embeddings": 20}, "position_embeddings/embeddings"),
    ],
)
def test_an_export_with_other_sizes_in_its_task(exported, tmp_path, change, name):
    """No model of that size is built."""
    shutil.copytree(exported, tmp_path / "mood")
    for path in tmp_path.glob("mood/**/task.json"):
        task = json.loads(path.read_text())
        task["config"]["bert"]["config"]["config"] |= change
        path.write_text(json.dumps(task))
    with pytest.raises(ValueError, match=rf"mood\S* is damaged: its task and .* of different sizes.* {name} of shape"):
        read_task(tmp_path / "mood")


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("scores", "received"), [({}, r"scores \[\]"), ({"sadness": 0.5}, r"scores \['sadness'\]")])
def test_a_best_score_that_is_not_among_the_scores(tmp_path, scores, received):
    """The first epoch ends the run, with the names of the scores that there are."""

    class Unsure(Scorer):
        best_score = "happiness"

        def report(self, y, answers):
            return scores

    rows = Rows(TEXTS, [0.1, 0.5, 0.2, 0.3], "valid.tsv", [1, 2, 3, 4])
    with pytest.raises(ValueError, match=rf"Unsure.best_score names 'happiness', which .*Received: the {received}"):
        Unsure(small_bert()).fit(rows.x, rows.y, callbacks=[BestEpoch(tmp_path, rows)], verbose=0)
    assert not begun(tmp_path)


@pytest.mark.usefixtures("eager")
def test_an_own_task_keeps_the_arguments_of_its_constructor(tmp_path):
    """Without a get_config: each is an attribute of its name, and tuples are lists in JSON."""

    @keras.saving.register_keras_serializable("tests")
    class Named(keras_bert.Task):
        def __init__(self, bert, names=("story", "acting"), *, freeze=False, name=None):
            logits = keras.layers.Dense(len(names), name="ratings")(bert.output["pooled_output"])
            super().__init__(bert, bert.input, logits, freeze=freeze, name=name)
            self.names = tuple(names)

    assert Named(small_bert()).get_config()["names"] == ["story", "acting"]
    Named(small_bert(), ("music",)).save(tmp_path / "named.keras")
    assert keras.models.load_model(tmp_path / "named.keras").names == ("music",)


def test_a_task_on_top_of_another_keeps_the_arguments_of_both(tmp_path):
    @keras.saving.register_keras_serializable("tests")
    class Careful(TextClassifier):
        def __init__(self, bert, *arguments, least=0.5, **options):
            super().__init__(bert, *arguments, **options)
            self.least = least

    Careful(small_bert(), ("a", "b", "c"), least=0.9).save(tmp_path / "careful.keras")
    loaded = keras.models.load_model(tmp_path / "careful.keras")
    assert (loaded.labels, loaded.multi_label, loaded.least) == (("a", "b", "c"), False, 0.9)


@pytest.mark.usefixtures("eager")
def test_an_own_loss_needs_no_metric():
    task = Scorer(small_bert())
    assert set(task.fit(TEXTS, [0.1, 0.5, 0.2, 0.3], epochs=1, verbose=0).history) == {"loss"}
    assert task.target_scores(None, None) == {}


@pytest.mark.parametrize(
    ("task", "y", "message"),
    [
        (Mood, [0.1, 0.5, 0.2, 0.3], "write Mood.default_loss"),
        (Mood, [[1, 0], [1, 0], [1, 0], [1, 0]], "write Mood.default_loss"),
        (Scorer, ["a", "b", "c", "d"], r"Scorer.target_ids.*Received: y\[0\]='a'"),
        (Scorer, [[1], [1, 2], [1], [1]], "not an array of numbers"),
        (Scorer, [0.1, float("nan"), 0.2, 0.3], "at row 1"),
        (Scorer, [[[1, 0, 1]] * 5] * 4, r"default_loss does not accept.*y of shape \(4, 5, 3\)"),
    ],
)
def test_targets(task, y, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        task(small_bert(), width=2).fit(TEXTS, y, epochs=1, verbose=0)
    assert "\n" not in str(error.value)


def test_an_argument_that_get_config_lacks(tmp_path):
    class Forgetful(Mood):
        def __init__(self, bert, *, height=1, **options):
            super().__init__(bert, **options)

    with pytest.raises(ValueError, match="get_config of Forgetful lacks 'height'"):
        Forgetful(small_bert()).save(tmp_path / "task.keras")


@pytest.mark.usefixtures("eager")
def test_a_loss_of_the_whole_batch(tmp_path):
    """A report of it has no losses of rows."""

    class OfBatch(Scorer):
        def default_loss(self):
            return lambda y, logits: keras.ops.mean(keras.ops.square(y - logits[:, 0]))

    report = OfBatch(small_bert()).write_report(tmp_path / "report", TEXTS, [0.1, 0.5, 0.2, 0.3])
    assert (report["rows"], report["worst"]) == (4, None)


@pytest.mark.usefixtures("eager")
def test_a_score_that_is_not_a_number(tmp_path):
    """It is null in JSON, which has no NaN, and NaN again where a run is resumed."""

    class Undefined(Scorer):
        def report(self, y, answers):
            return {"correlation": float("nan"), "error": np.float32(0.5)}

    scores = Undefined(small_bert()).write_report(tmp_path / "report", TEXTS, [0.1, 0.5, 0.2, 0.3])["scores"]
    write_metrics(tmp_path, {"valid": scores, "epochs": [{"epoch": 1, "scores": scores}]})
    report, metrics = (
        json.loads((tmp_path / file).read_text(), parse_constant=pytest.fail)
        for file in ("report/report.json", "metrics.json")
    )
    expected = {"correlation": None, "error": 0.5}
    assert report["scores"] == metrics["valid"] == metrics["epochs"][0]["scores"] == expected
    assert "<td>nan</td>" in (tmp_path / "report/index.html").read_text()
    read = metrics_of(tmp_path)
    for found in (read["valid"], read["epochs"][0]["scores"]):
        assert found == {"correlation": pytest.approx(np.nan, nan_ok=True), "error": 0.5}
    assert metrics_of(tmp_path / "report") == {}


@pytest.mark.usefixtures("eager")
def test_methods_that_return_no_dict():
    class Bare(Scorer):
        def report(self, y, answers):
            return 0.5

        def answers_in_graph(self, logits, texts):
            return logits

    task = Bare(small_bert())
    with pytest.raises(TypeError, match=r"Bare.report must return the scores by name.*Received: 0.5"):
        task.evaluate(TEXTS, [0.1, 0.5, 0.2, 0.3], return_dict=True, verbose=0)
    with pytest.raises(TypeError, match=r"Bare.answers_in_graph must"):
        task.signatures(task, 16)["serving_default"].function(TEXTS)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("answers", "received"), [([1, 2, 3], "3 answers for 4 rows"), (None, "None for 4 rows"), (iter([]), "iterator")]
)
def test_answers_of_another_number(tmp_path, answers, received):
    """Every path says so: answers, scores and reports."""

    class Short(Scorer):
        def decode(self, examples, logits):
            return answers

    task, rows = Short(small_bert()), (TEXTS, [0.1, 0.5, 0.2, 0.3])
    for path in (
        lambda: task.answers_as_json(TEXTS),
        lambda: task.evaluate(*rows, return_dict=True, verbose=0),
        lambda: task.fit(*rows, validation_data=rows, verbose=0),
        lambda: task.write_report(tmp_path / "report", *rows),
    ):
        with pytest.raises(ValueError, match=rf"Short.decode must return one answer for each row.*{received}"):
            path()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("method", ["target_ids", "default_loss"])
def test_methods_that_return_nothing(method):
    task = type("Silent", (Scorer,), {method: lambda self, *arguments: None})(small_bert())
    for ask in (task.fit, task.evaluate):
        with pytest.raises(TypeError, match=rf"Silent.{method} returned None, but it must return.*Received: None"):
            ask(TEXTS, [0.1, 0.5, 0.2, 0.3], verbose=0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float32(0.5), 0.5), ({"found": (np.int64(1), np.array([True]))}, {"found": [1, [True]]})],
)
def test_answers_of_numpy(value, expected):
    class Numpy(Mood):
        def decode(self, examples, logits):
            return [value] * len(examples)

    found = next(Numpy(small_bert()).answers_as_json(TEXTS))
    assert json.loads(json.dumps(found)) == (expected if isinstance(expected, dict) else {"answer": expected})
