"""SentenceEmbedder: what it learns from each form of rows, its scores, and where it is kept."""

import keras
import numpy as np
import pytest
from keras import ops
from sklearn.metrics import label_ranking_average_precision_score, top_k_accuracy_score
from sklearn.neighbors import NearestNeighbors

import keras_bert
from keras_bert import SentenceEmbedder
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.losses import LOSSES, BatchHardTriplet, CoSENT, CosineMSE, MultipleNegativesRanking
from keras_bert.tasks.metrics.retrieval import neighbour_scores, retrieval_scores
from keras_bert.tasks.readers import Reading, Rows
from keras_bert.tasks.rows.sentence_forms import check_sentences
from keras_bert.vectors import Pooling
from keras_bert.weights.convert import convert
from tests.parity.oracles import array
from tests.tasks.small import NEGATIVES, NO_DROPOUT, PAIRS, POSITIVES, QUERIES, TEXTS, small_bert

RECIPE = FinetuneRecipe(learning_rate=0.02, epochs=3, batch_size=4)


# === Vectors ===


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False), ("max", True)])
def test_embed_is_that_of_the_bert(pooling, normalize):
    bert = small_bert()
    expected = bert.embed(TEXTS, pooling=pooling, normalize=normalize)
    task = SentenceEmbedder(bert, pooling, normalize=normalize)
    for found in (task.embed(TEXTS), task.predict(TEXTS), task.bert.embed(TEXTS), task.answers(TEXTS)):
        assert np.abs(found - expected).max() <= 1e-6
    assert task.embed("good").shape == (1, 8)
    assert task.embed([]).shape == (0, 8)
    assert task.predict((TEXTS, TEXTS)).shape == (4, 2, 8)
    with pytest.raises(ValueError, match="pooling='middle'"):
        SentenceEmbedder(bert, "middle")
    with pytest.raises(ValueError, match="normalize='no'"):
        SentenceEmbedder(bert, normalize="no")


def test_the_limit_is_that_of_the_preprocessor():
    """Texts that are too long, empty texts, and the pooling of the Bert."""
    bert = small_bert(seq_length=8)
    bert.pooling = Pooling("cls")
    task = SentenceEmbedder(bert)
    assert bert.pooling == Pooling("cls", True, 8)
    texts = ["", "good " * 50, "good " * 6]
    found = task.embed(texts)
    assert np.abs(found - task.predict(texts)).max() <= 1e-6
    assert np.abs(found[1] - found[2]).max() <= 1e-6
    assert np.isfinite(found).all()


# === Learning ===


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        ((QUERIES, POSITIVES), None, {}),
        ((QUERIES, POSITIVES, NEGATIVES), None, {"loss": MultipleNegativesRanking(0.1, symmetric=True)}),
        ((QUERIES, POSITIVES), [1.0, 0.0, 0.5, 0.2], {}),
        ((QUERIES, POSITIVES), [5, 0, 3, 1], {"loss": "cosent"}),
        ([*POSITIVES, *NEGATIVES], ["a", "a", "b", "b"] * 2, {"loss": "triplet", "batch_size": 8}),
    ],
)
def test_learns(x, y, options):
    task = SentenceEmbedder(small_bert(**NO_DROPOUT))
    history = task.fit(x, y, recipe=RECIPE, verbose=0, validation_data=(x, y), **options).history
    assert history["loss"][-1] < history["loss"][0]
    before = SentenceEmbedder(small_bert(**NO_DROPOUT)).evaluate(x, y, return_dict=True, verbose=0)
    after = task.evaluate(x, y, return_dict=True, verbose=0)
    score = task.best_score
    assert after[score] >= before[score]
    assert after[score] == pytest.approx(history[f"val_{score}"][-1])
    assert after["loss"] == pytest.approx(history["val_loss"][-1], abs=1e-5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("loss", ["ranking", "cosine", "cosent"])
def test_a_batch_of_the_same_pair(loss):
    """Nothing can be learned from it, but the weights stay finite."""
    task = SentenceEmbedder(small_bert())
    x = ["good"] * 4 + ["bad", "rome", "film", "who"], ["good"] * 4 + ["the film", "in rome", "was", "where"]
    task.compile("sgd", task.default_loss() if loss == "ranking" else LOSSES[loss]())
    y = None if loss == "ranking" else [0.5] * 4 + [0.1, 0.2, 0.3, 0.4]
    history = task.fit(x, y, batch_size=4, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert all(np.isfinite(weight).all() for weight in task.get_weights())


@pytest.mark.usefixtures("eager")
def test_sim_cse():
    """A text is its own positive under another dropout: texts move apart."""
    task = SentenceEmbedder(small_bert(hidden_dropout_prob=0.2))

    def mean_cosine():
        vectors = task.embed(TEXTS)
        return (vectors @ vectors.T)[np.triu_indices(4, 1)].mean()

    before = mean_cosine()
    history = task.fit(TEXTS, recipe=RECIPE, verbose=0, validation_data=(PAIRS, [1.0, 0.0, 0.5, 0.2])).history
    assert mean_cosine() < before
    assert "val_spearman" in history
    with pytest.raises(ValueError, match="the Bert needs dropout"):
        SentenceEmbedder(small_bert(**NO_DROPOUT)).fit(TEXTS, verbose=0)
    with pytest.raises(ValueError, match="To evaluate, pass pairs"):
        task.evaluate(TEXTS)


@pytest.mark.usefixtures("eager")
def test_scores_do_not_depend_on_the_batch_size():
    task = SentenceEmbedder(small_bert())
    texts = [f"{'good ' * (i % 9)}{'film ' * (i % 4)}was" for i in range(36)]
    others = [*texts[1:], texts[0]]
    for x, y in (
        ((texts, others), None),
        ((texts, others), np.linspace(0, 1, 36)),
        (texts, [i % 3 for i in range(36)]),
    ):
        one, *rest = (task.evaluate(x, y, batch_size, verbose=0, return_dict=True) for batch_size in (1, 4, 32, 300))
        for other in rest:
            assert other == pytest.approx(one, abs=1e-6)


# === Scores ===


def test_retrieval_scores():
    """Against scikit-learn, for queries that each have one positive."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((30, 3, 8))
    columns = [[f"{name}{row}" for row in range(30)] for name in "qpn"]
    found = retrieval_scores(columns, vectors)
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    cosines = unit[:, 0] @ np.concatenate([unit[:, 1], unit[:, 2]]).T
    true = np.arange(30)
    assert found["mrr"] == pytest.approx(label_ranking_average_precision_score(np.eye(30, 60), cosines))
    for most in (1, 5, 10):
        expected = top_k_accuracy_score(true, cosines, k=most, labels=range(60))
        assert found[f"recall@{most}"] == pytest.approx(expected)


def test_retrieval_of_equal_texts_and_equal_vectors():
    """A query with two positives, of which one is the nearest; and vectors that are all the same find nothing."""
    vectors = np.eye(4)[[[0, 0], [0, 1], [2, 2]]]
    found = retrieval_scores([["a", "a", "b"], ["c", "d", "e"]], vectors)
    assert (found["recall@1"], found["mrr"]) == (0.75, 1.0)
    same = retrieval_scores([["a", "b"], ["c", "d"]], np.ones((2, 2, 3)))
    assert (same["recall@1"], same["mrr"]) == (0.0, 0.5)


def test_retrieval_of_a_single_text(caplog):
    assert retrieval_scores([["a", "a"], ["b", "b"]], np.ones((2, 2, 3)))["mrr"] == 1
    assert "only one text to find" in caplog.text


def test_neighbour_scores():
    rng = np.random.default_rng(0)
    vectors, labels = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    neighbour = NearestNeighbors(n_neighbors=2, metric="cosine").fit(vectors).kneighbors(vectors)[1][:, 1]
    assert neighbour_scores(labels, vectors)["neighbour_accuracy"] == np.mean(labels[neighbour] == labels)


# === Bad input ===


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ((QUERIES, ["good"] * 4), None, {}, r"same positive, .*only 'good'"),
        ((QUERIES, POSITIVES, POSITIVES), None, {}, r"row 0: the negative is .*, or drop the row\. 4 of 4 rows"),
        ((QUERIES, POSITIVES, NEGATIVES), [0.5] * 4, {}, r"queries, positives and negatives"),
        ((QUERIES, POSITIVES, NEGATIVES, QUERIES), None, {}, r"Received: 4 columns"),
        ((QUERIES, POSITIVES[:3]), None, {}, r"differ in length"),
        ((QUERIES, POSITIVES), [5, 0, 3, 1], {}, r"row 0 is not between -1 and 1.*y / 5"),
        ((QUERIES, POSITIVES), [0.5] * 4, {"loss": "cosent"}, r"All scores are the same"),
        ((QUERIES, POSITIVES), [0, 1, 2, 3], {"loss": "cosent", "sample_weight": [1, 2, 1, 1]}, "one loss for"),
        ((QUERIES, POSITIVES), [0.5, float("nan"), 0, 0], {}, r"score at row 1"),
        ((QUERIES, POSITIVES), None, {"loss": "cosine"}, r"learns from scores, but pairs were passed.*'ranking'"),
        ((QUERIES, POSITIVES), None, {"loss": "softmax"}, r"loss='softmax'"),
        (QUERIES, POSITIVES, {}, r"a different label for each text.*4 labels for 4 texts"),
        (QUERIES, ["a"] * 4, {}, r"so there are no texts to tell apart.*Received: 1 label for 4 texts"),
        (QUERIES, ["a", None, "a", "b"], {}, r"Row 1 has no label"),
        (QUERIES, ["a", "a", "b", "b"], {"class_weight": {"a": 2}}, r"class_weight"),
        ((QUERIES, [*POSITIVES[:3], None]), None, {}, r"text at index 3 is missing"),
        ((QUERIES, POSITIVES), None, {"batch_size": 1}, r"one row is too few.*Received: batch_size=1"),
        (QUERIES, ["a", "a", "b", "b"], {"batch_size": 1}, r"one row is too few"),
        ((QUERIES, POSITIVES), None, {"loss": keras.losses.MeanSquaredError()}, r"Use loss='ranking' or MultipleNega"),
        ((QUERIES, POSITIVES), [0, 1, 2, 3], {"loss": "mse"}, r"loss='mse'"),
        ({"text": QUERIES, "text_pair": POSITIVES, "score": [0, 1, 0, 1]}, None, {}, r"lacks the column 'label'"),
    ],
)  # fmt: skip
def test_bad_rows(x, y, options, message):
    with pytest.raises(ValueError, match=message) as error:
        SentenceEmbedder(small_bert()).fit(x, y, verbose=0, **options)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("eager")
def test_one_row_in_a_batch():
    """A loss that compares no rows learns from it, and so does the ranking if the row has a negative of its own."""
    task = SentenceEmbedder(small_bert(**NO_DROPOUT))
    for x, y in (((QUERIES, POSITIVES), [1.0, 0.0, 0.5, 0.2]), ((QUERIES, POSITIVES, NEGATIVES), None)):
        assert task.fit(x, y, batch_size=1, epochs=1, recipe=RECIPE, verbose=0).history["loss"][0] > 0


@pytest.mark.usefixtures("eager")
def test_a_table_of_pairs():
    """Without labels its pairs are matches."""
    table, scores = {"text": QUERIES, "text_pair": POSITIVES}, [1.0, 0.0, 0.5, 0.2]
    task = SentenceEmbedder(small_bert())
    assert np.abs(task.predict(table) - task.predict((QUERIES, POSITIVES))).max() <= 1e-6
    for one, columns in (
        (table, ((QUERIES, POSITIVES), None)),
        ({**table, "label": scores}, ((QUERIES, POSITIVES), scores)),
    ):
        found, expected = (task.evaluate(*x, return_dict=True, verbose=0) for x in ((one,), columns))
        assert found == pytest.approx(expected, abs=1e-6)
    task.fit(table, epochs=1, verbose=0)
    assert task.form == "pairs"


@pytest.mark.usefixtures("eager")
def test_scores_that_are_all_the_same(caplog):
    found = SentenceEmbedder(small_bert()).evaluate((QUERIES, POSITIVES), [0.5] * 4, return_dict=True, verbose=0)
    assert found["spearman"] == 0
    assert "All rows to evaluate have the score 0.5, so the correlations are undefined" in caplog.text


def test_a_class_of_losses():
    task = SentenceEmbedder(small_bert())
    with pytest.raises(TypeError, match=r"is the class CoSENT.*Add parentheses: loss=CoSENT\(\)"):
        task.fit((QUERIES, POSITIVES), [0, 1, 2, 3], loss=CoSENT, verbose=0)
    with pytest.raises(TypeError, match="is the class CoSENT"):
        task.compile("sgd", CoSENT)


@pytest.mark.parametrize("margin", [float("nan"), float("inf"), -0.1, "0.2", None])
def test_a_bad_margin(margin):
    with pytest.raises(ValueError, match=r"`margin` must be a finite number of at least 0.*Received: margin="):
        BatchHardTriplet(margin)


def test_bad_options():
    task = SentenceEmbedder(small_bert())
    task.bert.freeze()
    with pytest.raises(ValueError, match="nothing to train"):
        task.fit((QUERIES, POSITIVES), verbose=0)
    task.compile("sgd", CoSENT())
    with pytest.raises(ValueError, match="compiled with another"):
        task.fit((QUERIES, POSITIVES), loss="ranking", verbose=0)
    task.bert.unfreeze()
    with pytest.raises(ValueError, match="The loss cosent learns from scores"):
        task.fit((QUERIES, POSITIVES), verbose=0)
    for options in ({}, {"loss": "ranking"}):  # a recipe compiles again
        task.compile("sgd", CoSENT())
        task.recipe = None
        task.fit((QUERIES, POSITIVES), recipe=FinetuneRecipe(), epochs=1, verbose=0, **options)
        assert isinstance(task.loss, MultipleNegativesRanking)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a strategy of TensorFlow")
def test_refused_on_several_devices(monkeypatch):
    monkeypatch.setattr(SentenceEmbedder, "is_distributed", True)
    task = SentenceEmbedder(small_bert())
    with pytest.raises(ValueError, match=r"works only on one device.*Received: cache_batch=2"):
        task.fit((QUERIES, POSITIVES), cache_batch=2, verbose=0)
    task.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"only with the losses of keras_bert\.tasks\.losses.*Received: 'mse'"):
        task.fit((QUERIES, POSITIVES), verbose=0)


@pytest.mark.parametrize(
    "loss",
    [MultipleNegativesRanking(), MultipleNegativesRanking(symmetric=True), CosineMSE(), CoSENT(), BatchHardTriplet()],
    ids=["ranking", "symmetric", "cosine", "cosent", "triplet"],
)
def test_rows_that_fill_up_a_batch(loss):
    """They are in the batch of a replica, and nothing is compared with them."""
    random = np.random.default_rng(0)
    columns = {"pairs": 3, "scores": 2, "labels": 1}[loss.form]
    vectors = random.normal(size=(6, columns, 4)).astype("float32")
    targets = np.array([0.5, 0.1, 0.2, 0.7, 0.5, 0.9] if loss.form == "scores" else [0, 1, 0, 1, 0, 2], "float32")
    found = array(loss.call(ops.convert_to_tensor(targets), ops.convert_to_tensor(vectors), np.arange(6) < 4))
    expected = array(loss.call(ops.convert_to_tensor(targets[:4]), ops.convert_to_tensor(vectors[:4])))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:4], expected, rtol=0, atol=1e-6)


# === Files ===


@pytest.mark.usefixtures("eager")
def test_saved_and_loaded(tmp_path):
    task = SentenceEmbedder(small_bert(), "max", normalize=False)
    task.fit((QUERIES, POSITIVES), loss=MultipleNegativesRanking(0.1), epochs=1, verbose=0)
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert (again.pooling, again.normalize, again.loss.temperature) == ("max", False, 0.1)
    assert np.array_equal(again.embed(TEXTS), task.embed(TEXTS))
    assert np.array_equal(keras_bert.load(tmp_path / "task.keras").embed(TEXTS), task.embed(TEXTS))
    assert keras_bert.load(tmp_path / "task.keras").pooling == Pooling("max", False, 16)


@pytest.mark.long
def test_converted(tmp_path):
    """Our folder, and a folder that sentence-transformers loads."""
    task = SentenceEmbedder(small_bert(seq_length=8), "cls")
    task.save(tmp_path / "task.keras")
    texts = [*TEXTS, "good " * 20]
    expected = task.embed(texts)
    for form in ("keras-bert", "hf"):
        convert(tmp_path / "task.keras", form, tmp_path / form)
        assert np.abs(keras_bert.load(tmp_path / form).embed(texts) - expected).max() <= 1e-6
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(tmp_path / "hf"), device="cpu", local_files_only=True)
    assert theirs.max_seq_length == 8
    assert theirs.similarity_fn_name == "cosine"
    assert np.abs(theirs.encode(texts) - expected).max() <= 1e-5


@pytest.mark.long
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="exports are TensorFlow's")
@pytest.mark.usefixtures("without_preprocess")
def test_exported(tmp_path):
    import tensorflow as tf

    task = SentenceEmbedder(small_bert())
    keras_bert.export(task, tmp_path / "texts")
    served = tf.saved_model.load(tmp_path / "texts" / "text" / "1").signatures
    assert set(served) == {"serving_default", "logits"}
    found = served["serving_default"](text=tf.constant([*TEXTS, ""]))
    assert np.abs(found["embedding"] - task.embed([*TEXTS, ""])).max() <= 1e-6
    assert not found["truncated"].numpy().any()
    again = SentenceEmbedder.load(tmp_path / "texts")
    assert np.array_equal(again.embed(TEXTS), task.embed(TEXTS))


def test_a_negative_that_is_the_positive_names_its_line():
    rows = Rows((["a", "b"], ["c", "d"], ["e", "d"]), [], "pairs.tsv", [2, 3])
    with pytest.raises(ValueError, match=r"pairs.tsv:3: the negative is the same text.*1 of 2 rows are like this.*'d'"):
        check_sentences(rows, None)


def test_skipped_negatives_that_are_the_positive(tmp_path, caplog):
    (tmp_path / "pairs.tsv").write_text("q\tp\tn\na\tb\tb\nc\td\te\nf\tg\tg\n")
    reading = Reading(text=("q", "p", "n"), skip_bad=True)
    rows = SentenceEmbedder.read_training_rows(tmp_path / "pairs.tsv", reading)
    assert (rows.x, rows.ids) == ((["c"], ["d"], ["e"]), [3])
    assert "Dropped 2 rows of" in caplog.text
    (tmp_path / "pairs.tsv").write_text("q\tp\tn\na\tb\tb\nc\td\td\n")
    rows = SentenceEmbedder.read_training_rows(tmp_path / "pairs.tsv", reading)
    with pytest.raises(ValueError, match="2 of 2 rows are like this"):  # and not an empty file
        check_sentences(rows, None)
