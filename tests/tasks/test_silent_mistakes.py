"""Mistakes that could go unnoticed, in what users pass and in what they get: each is put right, refused or logged."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert import Preprocessor, export, load
from keras_bert.tasks.columns.text_columns import split_columns
from keras_bert.tasks.decoding.answer_spans import answer_spans
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.readers.conll import tagged_rows
from keras_bert.tasks.readers.squad import read_squad
from keras_bert.tasks.run.run_folder import read_state
from keras_bert.tasks.run.split_rows import split_rows
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger
from keras_bert.training.optimizer import AdamW
from tests.tasks.runs import run
from tests.tasks.small import NO_DROPOUT, TEXTS, small_bert, small_task

# === Texts ===


def test_many_unknown_pieces(caplog):
    """As if the task were learned in another language than that of the vocabulary."""
    task = small_task("classifier")
    for texts in (["Straße", "Öl und Äpfel"], TEXTS[:2]):
        caplog.clear()
        task.fit(texts * 300, ["negative", "positive"] * 300, batch_size=64, epochs=1, verbose=0)
        assert ("% of the pieces of the training rows are [UNK]" in caplog.text) == (texts[0] == "Straße")


def test_many_unknown_pieces_of_a_stream(write, caplog):
    path = write("a.tsv", "text\tlabel\n" + "Öl und Äpfel\tpositive\nStraße\tnegative\n" * 300)
    task = small_task("classifier")
    task.fit(task.stream_rows(path), batch_size=64, epochs=2, verbose=0)
    assert caplog.text.count("% of the pieces of the training rows are [UNK]") == 1


# === Labels ===


def test_negative_numbers_are_names():
    task = TextClassifier(small_bert(), labels=(-1, 0, 1))
    assert task.target_ids(np.array([-1, 0, 1])).tolist() == task.target_ids(["-1", "0", "1"]).tolist() == [0, 1, 2]
    assert task.target_ids([-1.0, 1.0]).tolist() == [0, 2]  # a column that had gaps
    several = TextClassifier(small_bert(), labels=(-1, 0, 1), multi_label=True)
    assert several.target_ids([[-1], [0, 1]]).tolist() == [[1, 0, 0], [0, 1, 1]]


def test_a_number_that_could_be_a_name_or_an_id():
    task = TextClassifier(small_bert(), labels=("1", "2", "unknown"))
    with pytest.raises(ValueError, match=r"row 1 could be the label '1' or the one with the id 1, '2'.*Pass strings"):
        task.target_ids(["unknown", 1])
    assert task.target_ids(["1", "2", "unknown"]).tolist() == [0, 1, 2]
    same = TextClassifier(small_bert(), labels=("0", "1", "unknown"))
    assert same.target_ids([0, 1, 2]).tolist() == [0, 1, 2]  # both readings are the same
    assert TextClassifier(small_bert(), labels=("7", "unknown")).target_ids([7, 1]).tolist() == [0, 1]


def test_a_table_of_labels_is_read_by_its_names():
    task = TextClassifier(small_bert(), labels=("urgent", "spam"), multi_label=True)
    table = pd.DataFrame({"spam": [1, 0], "urgent": [0, 1]})
    for y in (table, {"spam": [1, 0], "urgent": [0, 1]}, table.rename(columns=str).astype(bool)):
        assert task.target_ids(y).tolist() == [[0, 1], [1, 0]]
    assert task.target_ids(pd.DataFrame([[1, 0], [0, 1]])).tolist() == [[1, 0], [0, 1]]  # a matrix without names
    table = pd.DataFrame({"spam": [1, 1, 1, 0], "urgent": [0, 0, 0, 1]})
    for y in (table, table.to_dict("list")):
        _, (_, held_out, _) = split_columns(task._columns(TEXTS, y), 0.5)  # as validation_split cuts rows
        assert task.target_ids(held_out).tolist() == [[0, 1], [1, 0]]
    for names in (["spam", "late"], ["spam", "urgent", "late"], ["spam", "spam"]):
        with pytest.raises(ValueError, match=r"columns are not the task's labels.*'urgent', 'spam'.*Received: 'spam'"):
            task.target_ids(pd.DataFrame([[0] * len(names)], columns=names))


def test_labels_that_look_missing_or_alike(tmp_path, caplog):
    small_bert().save(tmp_path / "bert.keras")
    rows = [("good", "a film"), ("Good", "a good film"), ("NaN", "so what"), ("bad", "no")]
    (tmp_path / "a.tsv").write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows))
    files = ["--train", tmp_path / "a.tsv", "--valid", tmp_path / "a.tsv", "--output", tmp_path / "run"]
    run("finetune", "classify", *files, "--model", tmp_path / "bert.keras", "--epochs", 1)
    assert "a.tsv has the label 'NaN', which often means that a value is missing" in caplog.text
    assert "The labels 'Good', 'good' of" in caplog.text


def test_choices_counted_from_one():
    task = MultipleChoice(small_bert(), choices=2)
    with pytest.raises(ValueError, match=r"right choice at row 1 must be a number from 0 to 1, since the first .*: 2"):
        task.target_ids([1, 2])
    with pytest.raises(ValueError, match=r"Row 0 has 1 choice, but the task needs 2. Correct the row\. Received"):
        task.choose("a", ["b"])


def test_entities_without_prefixes():
    task = TokenTagger(small_bert(), labels=("O", "PER", "LOC"))
    with pytest.raises(ValueError, match=r"Row 0 has entities, for which .* 'B-PER' and 'I-PER'"):
        task.fit(["Anna lives in Rome."], [[(0, 4, "PER")]], verbose=0)


def test_entities_with_an_underscore(caplog):
    task = TokenTagger(small_bert(), labels=("O", "B_PER", "I_PER"))
    task.fit([["anna", "lives"]], [["B_PER", "O"]], epochs=1, verbose=0)
    assert "with a hyphen, such as 'B-PER' in place of 'B_PER'" in caplog.text


def test_the_label_that_other_packages_ignore():
    task = TokenTagger(small_bert(), labels=("NOUN", "VERB"))
    with pytest.raises(ValueError, match=r"position 1 of row 0 is -100, .* give each word one label.* Received: -100"):
        task.fit([["anna", "lives"]], [[0, -100]], verbose=0)


def test_a_row_of_a_table():
    task = TextClassifier(small_bert(), labels=("bad", "good"))
    table = pd.DataFrame({"text": ["good", "bad"], "label": ["good", "bad"]})
    for ask in (task.classify, task.bert.embed):
        with pytest.raises(TypeError, match=r"A row of a table .*row\['text'\].* Received: a Series with"):
            ask(table.iloc[0])
        assert len(ask(table["text"])) == len(ask(table.set_index("label")["text"])) == 2
        assert len(ask(pd.Series(["good", "bad"], index=["text", "title"]))) == 2


def test_texts_in_place_of_true_and_false():
    bert = small_bert()
    for name, make in {
        "normalize": lambda value: bert.embed(["a"], normalize=value),
        "lowercase": lambda value: Preprocessor(bert.preprocessor.vocabulary, lowercase=value),
        "strip_accents": lambda value: Preprocessor(bert.preprocessor.vocabulary, strip_accents=value),
        "split_cjk": lambda value: Preprocessor(bert.preprocessor.vocabulary, split_cjk=value),
        "special_tokens_in_text": lambda value: Preprocessor(
            bert.preprocessor.vocabulary, special_tokens_in_text=value
        ),
        "freeze": lambda value: TextRegressor(bert, freeze=value),
        "weights": lambda value: load("tiny", weights=value),
        "local_only": lambda value: load("tiny", weights=False, local_only=value),
        "overwrite": lambda value: export(bert, "nowhere", overwrite=value),
    }.items():
        with pytest.raises(ValueError, match=f"`{name}` must be True or False. Received: {name}='no'"):
            make("no")


def test_entities_in_small_letters(caplog):
    for labels, example in {
        ("b-per", "i-per", "o"): "'B-per' in place of 'b-per'",
        ("o", "S-PER", "S-LOC"): "'O' in place of 'o'",
        ("noun", "verb", "x"): None,
        ("O", "B-per", "I-per"): None,
    }.items():
        caplog.clear()
        task = TokenTagger(small_bert(), labels=labels)
        task.fit([["anna", "lives"], ["rome"]], [[labels[0], labels[1]], [labels[2]]], epochs=1, verbose=0)
        assert ("To learn entities, write O, B- and I- in capital letters" in caplog.text) == (example is not None)
        assert (example or "") in caplog.text


def test_labels_of_which_each_is_in_one_row(write):
    from keras_bert.tasks.readers import read_labels

    rows = read_labels(write("once.tsv", "text\tlabel\na\tb\nc\td\n"), "text", "label")
    with pytest.raises(ValueError, match="to validate on, since each label has only one row"):
        split_rows(rows, 0.5, enumerate(rows.y))


# === Files ===


@pytest.mark.parametrize("name", ["ner.jsonl", "ner.csv", "ner.parquet"])
def test_a_table_is_no_conll(write, name):
    path = write(name, "Anna\nlives\n")
    with pytest.raises(ValueError, match=r"has the suffix \.\w+, but a tagger reads CoNLL.*line of a \.txt file"):
        tagged_rows(path, Reading(), labels=False)
    assert tagged_rows(path, Reading(format="conll"), labels=False).x == [["Anna", "lives"]]


def test_a_file_that_is_no_parquet(write):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"a\.csv is not in Parquet's format"):
        Reading(format="parquet").table(write("a.csv", "text,label\na,b\n"))


def test_a_state_that_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"epoch-2\.npz is missing, so the run cannot resume.*Delete the folder"):
        read_state(tmp_path / "epoch-2.npz", "the folder")


def test_a_decimal_comma(write):
    with pytest.raises(ValueError, match=r"not a finite float32 number.*decimal point, and thousands without commas"):
        TextRegressor.read_rows(write("a.tsv", "text\tlabel\na\t0,5\nb\t1\n"), Reading())


def test_a_dataset_of_rows():
    rows = tf.data.Dataset.from_tensor_slices({"text": TEXTS, "label": [0, 1, 0, 1]})
    with pytest.raises(TypeError, match=r"must yield \(x, y\)\. Use dataset\.map.*Received: a tf\.data of dicts with "):
        small_task("classifier").fit(rows, verbose=0)


def test_a_dataset_of_columns_and_y():
    rows = tf.data.Dataset.from_tensor_slices(({"text": TEXTS}, [0, 1, 0, 1]))
    with pytest.raises(TypeError, match=r"x of its \(x, y\) must be a text .*lambda row, y: \(row\[\"text\"\], y\)"):
        small_task("classifier").fit(rows, verbose=0)


# === Answers in a context ===

CONTEXT = "철수는 학생이다. 그래서 철수는 공부한다. 철수 만세"
BYTE = len("철수는 학생이다. 그래서 ".encode())  # where the second one begins, in bytes; in characters it is 14


def test_a_start_in_bytes(caplog):
    assert answer_spans([CONTEXT], [("철수", 14)]) == [(14, 16)]
    assert not caplog.text
    answer_spans([CONTEXT, CONTEXT], [None, ("철수", BYTE)])
    assert "1 of 2 answers do not begin at the given start, which counts characters and not bytes" in caplog.text
    assert "The first is '철수' at row 1" in caplog.text


def test_a_start_of_a_file_is_said_once(write, caplog):
    import json

    answer = {"text": "철수", "answer_start": BYTE}
    paragraph = {"context": CONTEXT, "qas": [{"id": "q", "question": "누가?", "answers": [answer]}]}
    rows = read_squad(write("a.json", json.dumps({"data": [{"paragraphs": [paragraph]}]})))
    assert "1 answer is not at the place" in caplog.text
    caplog.clear()
    assert answer_spans(rows.x[1], rows.y) == answer_spans([CONTEXT], [("철수", rows.y[0]["answer_start"][0])])
    assert not caplog.text


def test_whole_numbers():
    for name in ("top_k", "max_answer_length"):
        with pytest.raises(TypeError, match=f"`{name}` must be a whole number"):
            QuestionAnswerer(small_bert()).answer("a", "b c", **{name: 2.0})


# === Training ===


def _learned(numbers, *, from_mean=False, **options):
    keras.utils.set_random_seed(0)
    task = TextRegressor(small_bert(**NO_DROPOUT))
    for weight in task.bert.trainable_variables:  # so that texts differ
        weight.assign(weight * 4 if weight.name in ("kernel", "embeddings") else weight)
    if from_mean:
        task.get_layer("regressor").bias.assign([numbers.mean()])
    recipe = FinetuneRecipe(epochs=15, batch_size=4, learning_rate=0.05, **options)
    task.fit(TEXTS, numbers, recipe=recipe, verbose=0)
    return task, task.score(TEXTS)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("options", "most"),
    [({"clipnorm": 1e9, "weight_decay": 0.0, "epsilon": 1e-12}, 1e-4), ({"layer_decay": 0.5}, 1.0)],
    ids=["without_limits", "layer_decay"],
)
def test_large_numbers_are_learned_as_small_ones(caplog, options, most):
    """As numbers with the standard deviation of STS-B's, if the head for these starts at their mean too.

    Without limits on gradients it is the same; with the recipe's own limit, the result is about the same.
    """
    caplog.set_level("INFO", "keras_bert")
    numbers = np.array([1.5, 4.5, 1.5, 4.5], "float32")
    _, small = _learned(numbers, from_mean=True, **options)
    assert np.corrcoef(small, numbers)[0, 1] > 0.9  # something was learned
    task, large = _learned(10_000 * numbers, **options)
    np.testing.assert_allclose(large / 10_000, small, rtol=0, atol=most)
    assert "The head starts at the mean of the numbers to learn, 30000." in caplog.text
    assert "The learning rate of the head is 10000 times that of the encoder." in caplog.text
    assert AdamW.from_config(task.optimizer.get_config()).layer_rates == {"regressor": 10_000}
    caplog.clear()
    task.start_head(10_000 * numbers)  # the head is trained, so it stays
    assert "starts at" not in caplog.text


@pytest.mark.usefixtures("eager")
def test_numbers_that_are_far_from_0_and_close_to_each_other():
    years = np.array([2004.0, 2006.0, 2005.0, 2005.0], "float32")
    task, answers = _learned(years)
    assert task.optimizer.layer_rates == {"regressor": 1.0}
    np.testing.assert_allclose(answers, years, rtol=0, atol=1)


@pytest.mark.usefixtures("eager")
def test_a_loss_that_diverges(caplog):
    task = TextRegressor(small_bert())
    history = task.fit(TEXTS, [1e30, -1e30, 1e30, -1e30], epochs=3, verbose=0).history
    assert "The loss of epoch 1 is inf, so the weights are damaged, and training stops. Load the" in caplog.text
    assert history["loss"] == [float("inf")]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["classifier", "tagger", "answerer", "regressor", "embedder"])
def test_damaged_weights_answer_nothing(kind):
    task = small_task(kind)
    for variable in task.trainable_variables:
        variable.assign(variable * np.nan)
    x = (["who?"], ["Anna ran."]) if kind == "answerer" else TEXTS[:1]
    with pytest.raises(ValueError, match="outputs of the model are NaN, so its weights are damaged"):
        task.answers(x)


def test_a_loss_of_probabilities(caplog):
    task = small_task("classifier")
    task.compile("adam", task.default_loss())
    assert not caplog.text
    task.compile("adam", "sparse_categorical_crossentropy")
    assert "loss='sparse_categorical_crossentropy' takes probabilities, but a task returns logits" in caplog.text
