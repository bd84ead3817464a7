"""What x and y may be: columns of any kind, packed inputs, and what is said of bad ones."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks import readers
from keras_bert.tasks.columns.text_columns import split_columns
from keras_bert.tasks.text_classifier import TextClassifier
from tests.parity.oracles import array
from tests.tasks.small import TEXTS, columns, small_bert, small_task

pytestmark = pytest.mark.usefixtures("eager")


def test_packed_inputs_pass_through():
    task = small_task("classifier")
    x = {name: array(value).astype("int32") for name, value in task.bert.preprocessor(TEXTS).items()}
    assert np.allclose(task.predict(x, verbose=0), task.predict(TEXTS), atol=1e-5)
    task.fit(x, ["negative", "positive", "negative", "positive"], epochs=1, verbose=0)
    assert int(task.optimizer.iterations) == 1
    assert np.isfinite(task.train_on_batch(x, np.array([0, 1, 0, 1]))[0])
    assert np.isfinite(task.evaluate(x, np.array([0, 1, 0, 1]), verbose=0)[0])


class OneBatch(keras.utils.PyDataset):
    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, number):
        return self.batch


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize(
    "batches",
    [OneBatch, lambda batch: (one for one in [batch]), lambda batch: iter([batch])],
    ids=["PyDataset", "generator", "iterator"],
)
def test_batches_of_ids_but_not_of_texts(method, batches):
    task = small_task("classifier")
    task.compile(keras.optimizers.SGD(0.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = {name: array(value).astype("int32") for name, value in task.bert.preprocessor(TEXTS).items()}
    steps = {"steps_per_epoch" if method == "fit" else "steps": 1}
    getattr(task, method)(batches((x, np.array([0, 1, 0, 1]))), verbose=0, **steps)
    with pytest.raises(TypeError, match="yields texts, but it must yield packed ids"):
        getattr(task, method)(batches((np.array(TEXTS), np.array([0, 1, 0, 1]))), verbose=0)
    if method == "fit":
        with pytest.raises(TypeError, match="yields texts, but it must yield packed ids"):
            task.fit(x, np.array([0, 1, 0, 1]), validation_data=batches((np.array(TEXTS), np.zeros(4))), verbose=0)


def test_packed_inputs_keep_label_names():
    task = small_task("classifier")
    x = {name: array(value).astype("int32") for name, value in task.bert.preprocessor(TEXTS).items()}
    y = ["negative", "positive", "negative", "positive"]
    task.compile(keras.optimizers.SGD(0.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = task.fit(x, y, class_weight={"negative": 1e6}, validation_data=(x, y), verbose=0).history
    assert history["loss"][0] > 1e3 > history["val_loss"][0]
    assert task.class_weight_ids({"negative": 3.0}) == {0: 3.0, 1: 1.0}
    task.fit(TEXTS, y, validation_data=(x, y), verbose=0)
    with pytest.raises(ValueError, match="Give sample_weight"):
        small_task("regressor").fit(x, np.ones(4), class_weight={"bad": 2.0}, verbose=0)


def test_ids_of_another_tokenizer_are_not_texts():
    batch = pytest.importorskip("transformers").BatchEncoding
    task = small_task("classifier")
    ids = {"input_ids": [[2, 5, 3]], "token_type_ids": [[0, 0, 0]], "attention_mask": [[1, 1, 1]]}
    for given in ids, batch(ids):
        for ask in task.classify, task.predict, lambda x: task.fit(x, ["positive"]):
            with pytest.raises(
                ValueError,
                match=r"Pass the texts. Only the model itself takes ids.*: Rename input_ids to input_word_ids",
            ):
                ask(given)
        with pytest.raises(ValueError, match=r"without input_mask, input_type_ids, input_word_ids. Rename input_ids"):
            task(given)
        with pytest.raises(TypeError, match=r"Write model\(inputs\), without \*\*"):
            task(**given)
        with pytest.raises(TypeError, match="with the keys input_ids, token_type_ids, attention_mask"):
            task.bert.embed(given)


def test_one_text_as_bytes_and_iterators_of_texts():
    task = small_task("classifier")
    assert task.classify(TEXTS[0].encode()) == task.classify(TEXTS[0])
    assert task.classify(iter(TEXTS)) == task.classify(TEXTS)
    assert task.classify(map(str.encode, TEXTS)) == task.classify(TEXTS)


def test_columns_of_any_kind():
    import datasets
    import pandas
    import tensorflow as tf

    task = small_task("classifier")
    names = ["negative", "positive", "negative", "positive"]
    frame = pandas.DataFrame({"text": TEXTS, "label": names})[::-1][::-1]
    table = datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1, 0, 1]})
    rows = tf.data.Dataset.from_tensor_slices((TEXTS, names))
    kinds = [
        (TEXTS, names),
        (np.array(TEXTS), np.array(names)),
        (frame["text"], frame["label"]),
        (table["text"], table["label"]),
        (tf.constant(TEXTS), tf.constant([0, 1, 0, 1])),
        (rows,),
        (rows.batch(3),),
        (frame,),
        (table,),
    ]
    whole, *halves = [batch(task, *given) for given in ((TEXTS, names), (TEXTS[:2], names[:2]), (TEXTS[2:], names[2:]))]
    for given in kinds:
        assert batch(task, *given) == whole
        assert [batch(task, *part) for part in split_columns(task._columns(*given), 0.5)] == halves
    task.fit(rows.batch(3), validation_split=0.5, epochs=1, verbose=0)
    pairs = tf.data.Dataset.from_tensor_slices((tuple(columns("regressor")[0]), columns("regressor")[1]))
    assert batch(small_task("regressor"), pairs) == batch(small_task("regressor"), *columns("regressor"))


def test_tables_and_datasets_of_answers_and_choices():
    import datasets
    import pandas
    import tensorflow as tf

    task, (x, _) = small_task("answerer"), columns("answerer")
    answers = [{"text": ["Rome"], "answer_start": [x[1][0].find("Rome")]}, {"text": [], "answer_start": []}]
    x = tuple(column[:2] for column in x)
    table = datasets.Dataset.from_dict({"question": x[0], "context": x[1], "answers": answers})
    texts = ["Rome", ""]
    expected = batch(task, x, answers)
    for given in [(table,), (pandas.DataFrame(table),), (tf.data.Dataset.from_tensor_slices((x, texts)),)]:
        assert batch(task, *given) == expected
    ragged = {name: tf.ragged.constant([answer[name] for answer in answers]) for name in answers[0]}
    with_starts = tf.data.Dataset.from_tensor_slices((x, ragged))
    assert batch(task, with_starts) == batch(task, with_starts.batch(2)) == expected
    choices = {"prompt": ["good", "bad"], "choices": [["a", "b", "good"], ["b", "a", "bad"]], "label": [2, 0]}
    task = small_task("choice")
    expected = batch(task, (choices["prompt"], choices["choices"]), choices["label"])
    assert batch(task, pandas.DataFrame(choices)) == expected
    with pytest.raises(
        ValueError,
        match=r"lacks the columns 'prompt', 'choices', 'label'.*Received: columns 'question', 'context'",
    ):
        task.fit(table, verbose=0)


def test_ids_of_a_table_have_its_own_names():
    import datasets

    names = datasets.ClassLabel(names=["positive", "negative"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    table = datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1, 0, 1]}, features=features)
    assert batch(small_task("classifier"), table)[1] == [1, 0, 1, 0]
    table = datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1, -1, 1]}, features=features)
    with pytest.raises(TypeError, match=r"label at row 2 is missing\..*abstain_below.*: None"):  # -1 is no label
        batch(small_task("classifier"), table)
    features["label"] = datasets.List(datasets.ClassLabel(names=["bad", "film", "good"]))
    table = datasets.Dataset.from_dict({"text": TEXTS, "label": [[0], [], [1, 2], [2]]}, features=features)
    assert batch(small_task("several"), table)[1] == [[0, 0, 1], [0, 0, 0], [1, 1, 0], [0, 1, 0]]


def test_of_numerals_a_number_is_a_name():
    task = TextClassifier(small_bert(), labels=("1", "2", "3"))
    assert task.target_ids([1, "2", np.int64(3)]).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"'0' at row 1 is not one of the task's labels: '1', '2', '3'.*Received: '0'"):
        task.target_ids([1, 0])
    with pytest.raises(TypeError, match=r"label at row 1 is a list, .* multi_label=True. Received: \['1', '2'\]"):
        task.target_ids(["1", ["1", "2"]])


def test_labels_as_pandas_and_numpy_have_them():
    assert TextClassifier(small_bert(), labels=[0, np.int64(1)]).labels == ("0", "1")
    assert small_task("classifier").target_ids([1.0, np.float64(0.0)]).tolist() == [1, 0]  # a column that had gaps
    with pytest.raises(TypeError, match=r"`labels` must be strings or whole numbers.*Received: labels=\(0.5, 'a'\)"):
        TextClassifier(small_bert(), labels=(0.5, "a"))


def test_a_matrix_of_labels_stays_one():
    import pandas
    import tensorflow as tf

    task = small_task("several")
    matrix = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]])
    kinds = [
        (TEXTS, matrix),
        (TEXTS, matrix.tolist()),
        (TEXTS, matrix.astype("float32").tolist()),
        (TEXTS, pandas.DataFrame(matrix)),
        (tf.data.Dataset.from_tensor_slices((TEXTS, matrix)),),
    ]
    for given in kinds:
        assert batch(task, *given)[1] == matrix.tolist()
        kept, held_out = split_columns(task._columns(*given), 0.25)
        assert batch(task, *held_out)[1] == matrix[3:].tolist()
        assert batch(task, *kept)[1] == matrix[:3].tolist()
    assert batch(task, TEXTS, [[0, 2], [1], [], [0, 1, 2]])[1] == matrix.tolist()


def batch(task, *given):
    """Ids and targets that a task makes of columns."""
    x, y, _ = next(iter(task.labelled_examples(task._columns(*given)).batches(8)))
    return x["input_word_ids"].numpy().tolist(), y.numpy().tolist()


def test_columns_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow")
    task = small_task("classifier")
    table = pyarrow.table({"text": TEXTS, "label": ["negative", "positive", "negative", "positive"]})
    expected = batch(task, TEXTS, ["negative", "positive", "negative", "positive"])
    assert batch(task, table, None) == batch(task, table["text"], table["label"]) == expected
    assert np.array_equal(task.bert.embed(table["text"]), task.bert.embed(TEXTS))
    with pytest.raises(TypeError, match=r"must be one column of strings. Pass table\[name\]"):
        task.bert.embed(table)


def test_labels_with_an_axis_of_one_in_a_tf_data():
    task = small_task("classifier")
    expected = batch(task, TEXTS, [0, 1, 0, 1])
    rows = tf.data.Dataset.from_tensor_slices((TEXTS, [[0], [1], [0], [1]]))
    assert batch(task, rows, None) == batch(task, rows.batch(2), None) == expected


def test_ragged_words():
    task = small_task("tagger")
    words, tags = [["anna", "lives"], ["rome"]], [["O", "O"], ["O"]]
    assert batch(task, tf.ragged.constant(words), tf.ragged.constant(tags)) == batch(task, words, tags)


def test_bad_columns():
    task = small_task("classifier")
    wrong = {
        "text at index 1 is missing": ([*TEXTS[:1], None], [0, 1]),
        r"text at index 0 is missing. Fill it in, or drop its row\.": ([float("nan"), "a"], [0, 1]),
        "surrogate pair.* at position 1 of the text at index 1": (["a", "b\ud83d"], [0, 1]),
        "`x` of length 3, `y` of length 2": (["a", "b", "c"], [0, 1]),
        "Pass at least one": ([], []),
        "y is missing": (["a"],),
        "'great'.*row 1": (["a", "b"], ["positive", "great"]),
        "whole number": (["a", "b"], [0.5, 1.0]),
        "0 to 1": (["a", "b"], [0, 2]),
        "two different labels": (["a", "b"], [1, 1]),
        "Put a single text in a list": (np.array("one"), ["positive"]),
        "Received: set": ({"a", "b"}, ["positive", "negative"]),  # it has no order
        "but this is no file": ("a good film", ["positive"]),
    }
    for message, given in wrong.items():
        with pytest.raises((ValueError, TypeError, OSError), match=message):
            task.fit(*given, verbose=0)
    for options in ({"batch_size": 0}, {"epochs": 0}):
        with pytest.raises(ValueError, match=r"must be at least 1. .*Received: (batch_size|epochs)=0"):
            task.fit(["a", "b"], [0, 1], **options, verbose=0)
    for ask in (task.predict, task.classify, lambda x, batch_size: task.evaluate(x, [0], batch_size)):
        with pytest.raises(ValueError, match="`batch_size` must be at least 1"):
            ask(["a"], batch_size=0)
    wrong_weights = {"must be a dict": "even", "class_weight names the label 'TYPO'": {"TYPO": 3}} | {
        "finite": {"negative": float("nan")},
        "below 0": {"negative": -2},
    }
    for message, weights in wrong_weights.items():
        with pytest.raises((ValueError, TypeError), match=message):
            task.fit(["a", "b"], [0, 1], class_weight=weights, verbose=0)
    with pytest.raises(ValueError, match=r"sample weight at row \d+ is below 0.*-1"):
        task.fit(["a", "b"], [0, 1], sample_weight=[1, -1], verbose=0)
    with pytest.raises(ValueError, match=r"text at index 1 is bytes that are not UTF-8.*b'\\xc1' at byte 0"):
        task.classify([b"good", "좋다".encode("cp949")])
    assert task.classify("좋다".encode()) == task.classify("좋다")
    with pytest.raises(ValueError, match=r"surrogate pair.*, the label '.ud83d'$"):
        TextClassifier(small_bert(), labels=("a", "\ud83d"))
    with pytest.raises(ValueError, match="different names"):
        TextClassifier(small_bert(), labels=("a", "a"))
    with pytest.raises(TypeError, match="is a set, which has no order"):
        TextClassifier(small_bert(), labels={"a", "b"})
    with pytest.raises(TypeError, match="is a dict, so it is unclear which side has the names"):
        TextClassifier(small_bert(), labels={0: "a", 1: "b"})
    with pytest.raises(ValueError, match="has an empty name"):
        TextClassifier(small_bert(), labels=("", "b"))
    with pytest.raises(TypeError, match="must be a Bert"):
        TextClassifier("base", labels=("a", "b"))


def test_labels_are_given_once(tmp_path):
    import pandas
    import tensorflow as tf

    task = small_task("classifier")
    (tmp_path / "c.tsv").write_text("text\tlabel\na\tpositive\nb\tnegative\n")
    rows = tf.data.Dataset.from_tensor_slices(TEXTS)
    table = pandas.DataFrame({"text": TEXTS, "label": [0, 1, 0, 1]})
    for x, message in ((tmp_path / "c.tsv", "its own labels"), (table, "its own labels"), (rows, "must yield")):
        with pytest.raises(ValueError, match=message):
            task.fit(x, [0, 1], verbose=0)


def test_how_to_name_the_columns_of_a_file(tmp_path):
    """The error may speak of options of the command line, which Python does not have."""
    (tmp_path / "a.csv").write_text("review,stars\na film,positive\n")
    with pytest.raises(ValueError, match="has no column 'text'") as found:
        small_task("classifier").fit(str(tmp_path / "a.csv"))
    (note,) = found.value.__notes__
    assert "task.fit(read_labels(path, text=..., label=..., encoding=...))" in note
    assert all(hasattr(readers, name) for name in re.findall(r"read_\w+", note))


def test_a_batch_of_texts_is_no_list_of_words():
    import tensorflow as tf

    texts = tf.data.Dataset.from_tensor_slices(["Anna ran", "Rome"])
    task = small_task("tagger")
    assert len(task.predict(texts)) == 2
    with pytest.raises(ValueError, match=r"unbatched. Received: 'Anna ran'"):
        task.predict(texts.batch(2))


def test_missing_answers_and_labels_as_tensors():
    import torch

    task, (x, _) = small_task("answerer"), columns("answerer")
    assert np.array_equal(task.examples(x, ["Rome", float("nan")]).targets, task.examples(x, ["Rome", None]).targets)
    assert "exact_match" in task.evaluate(x, ["Rome", float("nan")], return_dict=True, verbose=0)
    assert small_task("classifier").target_ids([torch.tensor(1), np.array(0)]).tolist() == [1, 0]


def test_texts_too_long_are_told(caplog):
    small_task("classifier").classify(["good " * 40, "bad"])
    assert "1 of 2 rows is cut to 16 pieces" in caplog.text
