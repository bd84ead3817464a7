"""Numbers and categories beside the text: what the model computes against numpy, and what is said of bad ones."""

import json
import logging
import re
import shlex
from collections import Counter

import keras
import numpy as np
import pytest

from keras_bert import FinetuneRecipe, OtherColumns, TextClassifier, TextRegressor
from keras_bert.tasks.readers import Reading, read_labels
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.parity.oracles import array, randomize
from tests.tasks.runs import run, train, write
from tests.tasks.small import NO_DROPOUT, small_bert

tensorflow_only = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of the TensorFlow backend")
LABELS = ("bad", "good", "so so")
WORDS = ["the", "film", "was", "good", "bad", "lives", "in", "rome", "who", "where"]
NUMBERS, CATEGORIES = ("price", "year"), ("brand", "kind")


def table(count=24, seed=0):
    dice = np.random.default_rng(seed)
    return {
        "text": [" ".join(dice.choice(WORDS, size)) for size in dice.integers(1, 24, count)],
        "price": dice.lognormal(3, 1, count).round(2).tolist(),
        "year": dice.integers(1990, 2026, count).tolist(),
        "brand": dice.choice(["acme", "bolt", "서울"], count).tolist(),
        "kind": dice.integers(0, 4, count).tolist(),
        "label": dice.choice(LABELS, count).tolist(),
    }


def some(rows, *names):
    return {name: rows[name] for name in names or ("text", *NUMBERS, *CATEGORIES)}


TRAIN = table()
UNSEEN = table(7, seed=1) | {
    "brand": ["acme", "none", "", "bolt", "서울", "acme", "ACME"],
    "kind": [0, 9, 1, 2, 3, 3, 3],
}


def learned(**changes):
    return OtherColumns.learn(TRAIN, **({"numbers": NUMBERS, "categories": CATEGORIES} | changes))


def small(kind=TextClassifier, **options):
    bert = small_bert(seq_length=8, **NO_DROPOUT)
    own = {"labels": LABELS} if kind is TextClassifier else {}
    return randomize(kind(bert, **own, other_columns=learned(), **options), scale=0.3)


def expected_logits(task, rows, vectors):
    """The head in numpy on vectors of texts [n, H] and on the other columns, standardised and as 0 and 1."""
    parts = []
    for name in NUMBERS:
        known = np.array(TRAIN[name])
        parts.append(((np.array(rows[name]) - known.mean()) / known.std())[:, None])
    for name in CATEGORIES:
        counts = Counter(map(str, TRAIN[name]))
        known = sorted(counts, key=lambda one: (-counts[one], one))
        places = [known.index(str(one)) + 1 if str(one) in known else 0 for one in rows[name]]
        parts.append(np.eye(len(known) + 1)[places])
    layer, head = task.get_layer("other_columns"), task.get_layer(type(task).heads[0])
    columns = np.tanh(np.concatenate(parts, axis=1) @ array(layer.kernel) + array(layer.bias))
    return np.concatenate([vectors, columns], axis=1) @ array(head.kernel) + array(head.bias)


def pooled(task, texts):
    return array(task.bert(task.bert.preprocessor(texts))["pooled_output"])


# === What is computed ===


def test_numbers_are_standardised_as_by_scikit_learn():
    """Years and seconds since 1970 too, whose mean has more digits than a float32."""
    from sklearn.preprocessing import StandardScaler

    dice = np.random.default_rng(0)
    seconds = 1.7e9 + 256 * dice.integers(0, 100_000, 200)
    numbers = {"price": dice.lognormal(3, 1, 200), "year": dice.integers(1990, 2026, 200), "at": seconds}
    numbers = {name: np.asarray(values, "float32").tolist() for name, values in numbers.items()}
    columns = OtherColumns.learn(numbers, numbers=numbers)
    rows = np.array(list(numbers.values())).T
    scaler = StandardScaler().fit(rows)
    np.testing.assert_allclose([one for one, _ in columns.numbers.values()], scaler.mean_, rtol=1e-12)
    task = TextRegressor(small_bert(), other_columns=columns)
    found = rows.astype("float32")
    for step in task.get_layer("other_columns").steps:
        found = step(found)
    np.testing.assert_allclose(array(found), scaler.transform(rows), atol=1e-6)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("kind", "long"), [(TextClassifier, "truncate"), (TextRegressor, "head-tail")])
def test_logits_are_those_of_a_head_in_numpy(kind, long):
    task = small(kind, long=long)
    if long == "truncate":
        expected = expected_logits(task, UNSEEN, pooled(task, UNSEEN["text"]))
    else:
        x = {name: np.asarray(one) for name, one in next(iter(task.examples(some(UNSEEN)).batches(7))).items()}
        inputs = {name: x[name] for name in task.bert.input}
        expected = expected_logits(task, UNSEEN, array(task.bert(inputs)["pooled_output"]))
        np.testing.assert_allclose(array(task(x)), expected, atol=1e-5)  # the model itself, as in training
    found = [task.predict(some(UNSEEN), size) for size in (1, 3, 32)]
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)
    assert np.ptp(expected_logits(task, UNSEEN, pooled(task, ["bad"] * 7)), axis=0).min() > 0.1  # the columns matter


@pytest.mark.usefixtures("eager")
def test_pairs():
    task, texts = small(), (UNSEEN["text"], UNSEEN["text"][::-1])
    rows = some(UNSEEN) | {"text_pair": texts[1]}
    expected = expected_logits(task, UNSEEN, pooled(task, texts))
    np.testing.assert_allclose(task.predict(rows), expected, atol=1e-5)
    others = [UNSEEN[name] for name in (*NUMBERS, *CATEGORIES)]
    np.testing.assert_allclose(task.predict((*texts, *others)), expected, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_windows():
    """All windows of a text are pooled, and its numbers are read once."""
    task = small(long="windows")
    without = TextClassifier(task.bert, LABELS, long="windows")
    head = without.get_layer("classifier")
    head.kernel.assign(np.eye(8, 3))
    head.bias.assign(np.zeros(3))
    vectors = [without.predict(UNSEEN["text"])]
    for start in (3, 6):
        head.kernel.assign(np.eye(8, 3, -start))
        vectors.append(without.predict(UNSEEN["text"]))
    expected = expected_logits(task, UNSEEN, np.concatenate(vectors, axis=1)[:, :8])
    np.testing.assert_allclose(task.predict(some(UNSEEN)), expected, atol=1e-5)
    x, *_ = next(iter(task.examples(some(UNSEEN), [0] * 7).batches(7)))
    found = task({name: np.asarray(one) for name, one in x.items()})
    np.testing.assert_allclose(array(found), expected, atol=1e-5)  # the model itself, as in training


@pytest.mark.usefixtures("eager")
def test_a_number_that_decides_the_label_is_learned():
    """From texts that say nothing, in 16 steps."""
    dice = np.random.default_rng(0)
    rows = {"text": ["the film"] * 128, "price": dice.normal(100, 30, 128).tolist()}
    labels = np.where(np.array(rows["price"]) > 110, "good", "bad").tolist()
    keras.utils.set_random_seed(0)
    bert = small_bert(**NO_DROPOUT, hidden_size=64, intermediate_size=32)
    columns = OtherColumns.learn(rows, numbers=["price"])
    task = TextClassifier(bert, ("bad", "good"), other_columns=columns)
    recipe = FinetuneRecipe(learning_rate=1e-2, epochs=4)
    task.fit(some(rows, "text", "price"), labels, recipe=recipe, verbose=0)
    assert task.evaluate(some(rows, "text", "price"), labels, return_dict=True, verbose=0)["accuracy"] > 0.95
    answers = task.classify([{"text": "the film", "price": 60}, {"text": "the film", "price": 150}])
    assert [answer.label for answer in answers] == ["bad", "good"]


# === What x may be ===


@pytest.mark.usefixtures("eager")
def test_tables_of_any_kind(tmp_path):
    import datasets
    import pandas

    task, rows = small(), some(UNSEEN)
    expected = task.predict(tuple(rows.values()))
    records = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    kinds = [rows, records, pandas.DataFrame(rows), datasets.Dataset.from_dict(rows), path]
    for x in [*kinds, read_labels(path, label=None, number=NUMBERS, category=CATEGORIES)]:
        assert np.array_equal(task.predict(x), expected)
    assert task.classify(records[3]).scores == pytest.approx(task.classify(records)[3].scores, abs=1e-6)
    labelled = pandas.DataFrame(rows | {"label": UNSEEN["label"]})
    given = [(labelled,), (rows, UNSEEN["label"]), (tuple(rows.values()), UNSEEN["label"])]
    scores = [task.evaluate(*one, return_dict=True, verbose=0) for one in given]
    assert scores[0] == scores[1] == scores[2]
    task.fit(rows, UNSEEN["label"], validation_split=0.3, epochs=1, verbose=0)
    task.fit(labelled, validation_data=(rows, UNSEEN["label"]), epochs=1, verbose=0)
    task.calibrate(rows, UNSEEN["label"])
    with pytest.raises(ValueError, match="its own labels"):
        task.fit(labelled, UNSEEN["label"], verbose=0)


# === Saved and asked elsewhere ===


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("long", ["truncate", "windows"])
def test_saved(long, tmp_path):
    task = small(long=long)
    expected = task.predict(some(UNSEEN))
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert np.array_equal(again.predict(some(UNSEEN)), expected)
    assert again.other_columns == task.other_columns
    assert list(again.other_columns.numbers) == list(NUMBERS)
    assert again.own_settings == (*(["long"] if long == "windows" else []), "other_columns")


def test_onnx_runtime():
    from keras_bert import inference

    pytest.importorskip("onnxruntime")
    task = small()
    fast = inference(task, "onnxruntime")
    np.testing.assert_allclose(fast.predict(some(UNSEEN)), task.predict(some(UNSEEN)), atol=1e-5)
    x = {name: np.asarray(one) for name, one in next(iter(task.examples(some(UNSEEN)).batches(7))).items()}
    np.testing.assert_allclose(fast(x), task.predict(some(UNSEEN)), atol=1e-5)
    found = fast.runner().on_padded(x)["output"]
    np.testing.assert_allclose(found, task.predict(some(UNSEEN)), atol=1e-5)


def signatures_of(task, folder):
    from keras_bert.exports.text_part import answers_to_texts

    task.bert.preprocessor.vocabulary.save(folder / "vocab.txt")
    return answers_to_texts(task, 8, folder / "vocab.txt")


def served(task):
    """The signature that answers texts; the others take long to trace."""
    from keras_bert.exports.encoder_part import trace_all, traced

    root = traced(task, training=False)
    signatures = task.signatures(lambda rows: root.__call__(rows, training=False), 8)
    return root, trace_all({"serving_default": signatures["serving_default"]})


def answers(signature, rows):
    import tensorflow as tf

    strings = {name: tf.constant(list(map(str, values))) for name, values in rows.items()}
    given = strings | {name: tf.constant(rows[name], tf.float32) for name in NUMBERS}
    return {name: one.numpy() for name, one in signature(**given).items()}


def scores_of(task, rows):
    return [list(one.scores.values()) for one in task.classify(rows)]


@tensorflow_only
@pytest.mark.parametrize(("kind", "long"), [(TextClassifier, "windows"), (TextRegressor, "head-tail")])
def test_exported(kind, long):
    task = small(kind, long=long)
    root, signatures = served(task)
    found = answers(signatures["serving_default"], some(UNSEEN))
    del root
    if kind is TextRegressor:
        np.testing.assert_allclose(found["score"], task.score(some(UNSEEN)), atol=1e-5)
    else:
        np.testing.assert_allclose(found["scores"], scores_of(task, some(UNSEEN)), atol=1e-5)


@tensorflow_only
@pytest.mark.long
def test_an_export_on_disk(tmp_path):
    """It is read back bit for bit, TF Serving can warm it up, and the kit's clients have its columns."""
    import tensorflow as tf

    from keras_bert.exports.export import _save
    from keras_bert.exports.manifest import write_manifest
    from keras_bert.exports.warm_up import write_warm_up
    from keras_bert.serving.onnx_signatures import onnx_signatures
    from keras_bert.serving.write_kit import write_kit
    from keras_bert.weights.our_export import write_settings

    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    task, folder = small(), tmp_path / "text" / "1"
    signatures = _save(lambda: signatures_of(task, tmp_path), folder, gradients=False)
    write_settings(task, folder / "assets.extra")
    again = TextClassifier.load(tmp_path)
    assert np.array_equal(again.predict(some(UNSEEN)), task.predict(some(UNSEEN)))
    assert again.other_columns == task.other_columns

    write_manifest(folder, {"seq_length": 8})
    by_onnx = onnx_signatures(folder, int8=False)["serving_default"]
    np.testing.assert_allclose(answers(by_onnx, some(UNSEEN))["scores"], scores_of(task, some(UNSEEN)), atol=1e-5)

    write_warm_up(folder, "film", signatures)
    loaded = tf.saved_model.load(str(folder))
    for name, rows in (("serving_default", some(UNSEEN)), ("pair", some(UNSEEN) | {"text_pair": UNSEEN["text"][::-1]})):
        found = answers(loaded.signatures[name], rows)["scores"]
        np.testing.assert_allclose(found, scores_of(task, rows), atol=1e-5)
    seen = set()
    for record in tf.data.TFRecordDataset(str(folder / "assets.extra" / "tf_serving_warmup_requests")):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        if log.WhichOneof("log_type") == "classify_log":
            examples = log.classify_log.request.input.example_list.examples
            name = log.classify_log.request.model_spec.signature_name
            inputs = {"inputs": tf.constant([example.SerializeToString() for example in examples])}
        else:
            name = log.predict_log.request.model_spec.signature_name
            inputs = {key: tf.constant(tf.make_ndarray(one)) for key, one in log.predict_log.request.inputs.items()}
        loaded.signatures[name](**inputs)
        seen.add(name)
    assert seen == set(loaded.signatures) == {"serving_default", "pair", "classify", "classify_pair", "logits"}

    write_kit(tmp_path, "film")
    client = (tmp_path / "serving" / "rest_client.py").read_text()
    assert "[text, brand, kind, price, year] = sys.argv[1:]" in client
    assert "predict(text=[text], brand=[brand], kind=[kind], price=[float(price)], year=[float(year)])" in client
    words = shlex.split(re.search(r"rest_client.py (.*) \"\"\"", client)[1])
    assert words == ["A text.", "a name", "a name", "1.0", "1.0"]


@tensorflow_only
@pytest.mark.network
def test_served():
    from tests.serving.browser import Traced
    from tests.serving.in_process import serving

    task = small()
    root, signatures = served(task)
    rows = [dict(zip(some(UNSEEN), values, strict=True)) for values in zip(*some(UNSEEN).values(), strict=True)]
    rows = [row | {"kind": str(row["kind"])} for row in rows]
    with serving({"film": {1: Traced("text", signatures)}}, "film") as post:
        status, answer = post({"instances": rows})
        assert status == 200
        found = [row["scores"] for row in answer["predictions"]]
        np.testing.assert_allclose(found, scores_of(task, rows), atol=1e-5)
        bad = {"price": "9.99", "year": None, "kind": 3, "brand": 0.5}
        for name, value in (*bad.items(), ("price", float("nan")), ("price", 1e39), ("price", True)):
            status, answer = post({"instances": [rows[0] | {name: value}]})
            assert status == 400
            assert answer["error"].startswith(f"{name} must hold")
        assert "brand" in post({"instances": [{"text": "a"}]})[1]["error"]
    del root


# === The command line ===


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Reviews whose label is whether the price is above 50 or the brand is bolt."""
    folder, dice = tmp_path_factory.mktemp("priced"), np.random.default_rng(0)

    def rows(count):
        for _ in range(count):
            price, brand = round(dice.uniform(0, 100), 2), dice.choice(["acme", "bolt", "corp"])
            yield "the film is good", price, brand, ("no", "yes")[price > 50 or brand == "bolt"]

    head = [("text", "price", "brand", "label")]
    return [write(folder / name, [*head, *rows(count)]) for name, count in (("train.tsv", 320), ("valid.tsv", 64))]


COLUMNS = ("--number", "price", "--category", "brand")


@pytest.mark.long
def test_a_run(bert, files, tmp_path):
    said = train(bert, "classify", *files, tmp_path / "run", *COLUMNS, "--epochs", 4)
    evaluated = run("evaluate", tmp_path / "run", "--data", files[1]).stdout
    first, second = (float(re.search(r"accuracy\t([\d.]+)", text)[1]) for text in (said, evaluated))
    assert first == second > 0.9
    finished = FinishedTask.load(tmp_path / "run")
    rows = finished.task.read_rows(files[1], finished.reading)
    known = read_labels(files[0], number=["price"], category=["brand"])
    assert finished.task.other_columns.numbers["price"][0] == pytest.approx(np.float32(known.x[1]).mean(), rel=1e-6)
    by_file = [json.loads(line) for line in run("predict", tmp_path / "run", files[1]).stdout.splitlines()]
    lines = "".join(f"{text}\t{price}\t{brand}\n" for text, price, brand in zip(*rows.x, strict=True))
    by_line = [json.loads(line) for line in run("predict", tmp_path / "run", input=lines).stdout.splitlines()]
    assert by_file == by_line
    assert [answer["label"] for answer in by_file] == [one.label for one in finished.task.classify(rows.x)]
    with pytest.raises(ValueError, match=r"Line 2: the number 'price' is not a finite float32 number"):
        run("predict", tmp_path / "run", input="a\t1\tacme\nb\tx\tacme\n")
    alone = FinishedTask.load(tmp_path / "run" / "model.keras")
    assert alone.task.default_reading == Reading(number=("price",), category=("brand",))
    card = (tmp_path / "run" / "README.md").read_text()
    assert "| number columns | `price` |" in card
    assert "| category columns | `brand` |" in card
    assert 'task.classify({"text": "a text", "price": 1.0, "brand": "a name"})' in card


@pytest.mark.long
def test_a_regression_by_number_of_the_column(bert, files, tmp_path):
    """Columns are also named by their number, and rows are split, weighed and trained with two seeds as ever."""
    path = tmp_path / "scores.csv"
    rows = [line.split("\t") for line in files[0].read_text().splitlines()[1:81]]
    path.write_text("".join(f"{text},{price},{float(price) / 50}\n" for text, price, *_ in rows))
    options = ("--text", 0, "--number", 1, "--label", 2, "--seq-length", 16, "--epochs", 1, "--seeds", 2)
    result = run(
        "finetune", "regress", "--train", path, "--split", 0.2, "--model", bert, "-o", tmp_path / "run", *options
    )
    assert "spearman of 2 seeds" in result.stdout
    task = FinishedTask.load(tmp_path / "run").task
    assert list(task.other_columns.numbers) == ["1"]
    assert np.isfinite(task.score((["good"], [20.0])))


# === Bad input ===


def bad_files(tmp_path):
    head = "text\tprice\tbrand\tlabel"
    cells = {"nan": "nan", "text": "cheap", "infinite": "1e99", "empty": "", "comma": "1,5"}
    for name, cell in cells.items():
        path = tmp_path / f"{name}.tsv"
        path.write_text(f"{head}\na\t1\tx\tyes\nb\t{cell}\ty\tno\nc\t3\tz\tno\n")
        yield path


def test_bad_numbers_in_files(tmp_path, caplog):
    for path in bad_files(tmp_path):
        with pytest.raises(ValueError, match=rf"{path.name}, line 3: column 'price' is not a finite float32 number"):
            read_labels(path, number=["price"])
        rows = read_labels(path, number=["price"], category=["brand"], skip_bad=True)
        assert rows.x == (["a", "c"], [1.0, 3.0], ["x", "z"])
        assert rows.y == ["yes", "no"]
        assert "Dropped 1 rows" in caplog.text
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "x", "brand": ["b"]}\n')
    with pytest.raises(ValueError, match=r"a.jsonl, line 1: column 'brand' has a category that is neither"):
        read_labels(path, category=["brand"])
    with pytest.raises(ValueError, match=r"has no column 'price'. Name one of its columns: 'text', 'label', 'brand'"):
        read_labels(path, number=["price"])


def test_bad_settings(bert, files, tmp_path):
    with pytest.raises(ValueError, match="A column is named twice"):
        FinetuneSettings("classify", "a.tsv", "b.tsv", reading=Reading(number=("text",)))
    options = ["finetune", "classify", "--train", files[0], "--valid", files[1], "-o", tmp_path / "run"]
    with pytest.raises(ValueError, match=r"train.tsv has no column 'prize'"):  # before anything is loaded
        run(*options, "--model", "none", "--number", "prize")
    path = tmp_path / "same.tsv"
    path.write_text("text\tyear\tlabel\na\t2020\tyes\nb\t2020\tno\n")
    options = ["finetune", "classify", "--train", path, "--valid", path, "--model", bert, "-o", tmp_path / "run"]
    with pytest.raises(ValueError, match=r"All rows of .*same.tsv have the same number in column 'year'.*: 2020"):
        run(*options, "--number", "year")
    with pytest.raises(ValueError, match=r'Use pairs="together"'):
        TextRegressor(small_bert(), pairs="cosine", other_columns=learned())
    with pytest.raises(TypeError, match=r"must be an OtherColumns.*Received: other_columns=\['price'\]"):
        TextRegressor(small_bert(), other_columns=["price"])


def test_bad_columns():
    for names in ({"numbers": ["text"]}, {"numbers": ["a b"], "categories": ["a_b"]}, {}):
        rows = {name: [1, 2] for name in ("text", "a b", "a_b")}
        with pytest.raises(ValueError, match="names that differ from each other"):
            OtherColumns.learn(rows, **names)
    for unit in (1e-9, 1e30):
        with pytest.raises(ValueError, match=r"'a' of the table are too small or too large for float32.*deviation of"):
            OtherColumns.learn({"a": [unit, 2 * unit]}, numbers=["a"])
    with pytest.raises(ValueError, match="no rows in the table"):
        OtherColumns.learn({"a": []}, numbers=["a"])
    with pytest.raises(ValueError, match=r"does not have the columns b"):
        OtherColumns.learn({"a": [1]}, numbers=["b"])
    task, rows = small(), some(UNSEEN)
    wrong = {
        r"number in column 'price' at row 2 is a string": {"price": [1.0, 2.0, "3", 4.0, 5.0, 6.0, 7.0]},
        r"number in column 'year' at row 0 is not a finite": {"year": [None, 1, 2, 3, 4, 5, 6]},
        r"number in column 'year' at row 1 is not a finite": {"year": [1, float("inf"), 2, 3, 4, 5, 6]},
        r"category in column 'kind' at row 1 is neither": {"kind": [1, 0.5, 2, 3, 4, 5, 6]},
        r"differ in length.*7 text, 6 price": {"price": [1.0] * 6},
    }
    for message, change in wrong.items():
        with pytest.raises((ValueError, TypeError), match=message):
            task.predict(rows | change)
    for x in (["a text"], ("a", "b"), ["a text"] * 2):
        with pytest.raises(ValueError, match=r"and then the columns price, year, brand, kind. Pass a tuple"):
            task.predict(x)
    with pytest.raises(ValueError, match="does not have the columns text, price, year, brand, kind"):
        task.predict({"text": ["a"], "price": [1.0]})


@pytest.mark.usefixtures("eager")
def test_unknown_categories_are_counted_once(caplog):
    task = small()
    task.predict(some(UNSEEN))
    said = [record.getMessage() for record in caplog.records if "unknown category" in record.getMessage()]
    assert said[0].startswith("3 of 7 rows have an unknown category in column 'brand', the first at row 1: 'none'.")
    assert said[1].startswith("1 of 7 rows have an unknown category in column 'kind', the first at row 1: '9'.")
    assert len(said) == 2


def test_categories_without_end_are_bounded(caplog):
    """Of a column with a name for each row, the model knows some, and has weights for no more."""
    caplog.set_level(logging.WARNING)
    names = ["often", *map(str, range(300_000))] * 2 + ["often"]
    columns = OtherColumns.learn({"id": names}, categories=["id"])
    assert len(columns.categories["id"]) == 1000
    assert columns.categories["id"][0] == "often"
    assert "Column 'id' has 300001 categories. The model knows the 1000 most frequent ones" in caplog.text
    task = TextRegressor(small_bert(), other_columns=columns)
    assert task.get_layer("other_columns").kernel.shape == (1001, 8)
