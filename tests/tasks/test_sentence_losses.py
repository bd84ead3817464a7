"""The losses of sentence vectors against those of sentence-transformers, values and gradients."""

import keras
import numpy as np
import pytest

from keras_bert.tasks.losses import BatchHardTriplet, CoSENT, CosineMSE, MultipleNegativesRanking

if keras.backend.backend() != "tensorflow":
    pytest.skip("gradients by tf.GradientTape", allow_module_level=True)
torch = pytest.importorskip("torch")
library = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
Ranking = library.MultipleNegativesRankingLoss
tf = pytest.importorskip("tensorflow")

BOTH = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
RNG = np.random.default_rng(0)
SCORES = RNG.choice([0.0, 0.2, 0.6, 1.0], 12).astype("float32")  # some are the same
LABELS = np.arange(12, dtype="float32") % 3


@pytest.mark.parametrize(
    ("ours", "theirs", "texts", "targets"),
    [
        (MultipleNegativesRanking(), Ranking(None), 2, np.arange(12)),
        (MultipleNegativesRanking(0.1), Ranking(None, scale=10), 3, np.arange(12)),
        (MultipleNegativesRanking(symmetric=True), Ranking(None, **BOTH), 3, np.arange(12)),
        (CosineMSE(), library.CosineSimilarityLoss(None), 2, SCORES),
        (CoSENT(), library.CoSENTLoss(None), 2, SCORES),
        (CoSENT(0.2), library.CoSENTLoss(None, scale=5), 2, SCORES),
        (BatchHardTriplet(5.0), library.BatchHardTripletLoss(None), 1, LABELS),
        (BatchHardTriplet(0.1), library.BatchHardTripletLoss(None, margin=0.1), 1, LABELS),
    ],
)  # fmt: skip
def test_values_and_gradients(ours, theirs, texts, targets):
    vectors = RNG.standard_normal((12, texts, 8)).astype("float32")
    columns = [torch.tensor(vectors[:, number], requires_grad=True) for number in range(texts)]
    expected = theirs.compute_loss_from_embeddings(columns, torch.tensor(targets))
    expected.backward()
    for shape in ((12 * texts, 8), (12, texts, 8)):
        x = tf.constant(vectors.reshape(shape))
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = ours(targets, x, np.ones(12))
        assert float(loss) == pytest.approx(expected.item(), rel=1e-5)
        gradient = tape.gradient(loss, x).numpy().reshape(vectors.shape)
        for number, column in enumerate(columns):
            assert np.abs(gradient[:, number] - column.grad.numpy()).max() <= 1e-5


def test_the_same_positive_is_no_negative():
    """Two rows with one positive: the loss of each is that of a batch without the other."""
    vectors = RNG.standard_normal((3, 2, 8)).astype("float32")
    vectors[1, 1] = vectors[0, 1]
    for symmetric in (False, True):  # a temperature of 1, since small ones magnify the last bits of the cosines
        loss = MultipleNegativesRanking(temperature=1.0, symmetric=symmetric, reduction=None)
        found = np.asarray(loss(np.array([0, 0, 1]), vectors))
        for row in (0, 1):
            without = np.asarray(loss(np.array([0, 1]), vectors[[row, 2]]))
            assert found[row] == pytest.approx(without[0], rel=1e-5)


@pytest.mark.parametrize("loss", [MultipleNegativesRanking(), CosineMSE(), CoSENT(), BatchHardTriplet()])
def test_equal_vectors(loss):
    """A batch in which all texts are the same: finite, and so are the gradients."""
    x = tf.ones((4, 8) if loss.form == "labels" else (8, 8))
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = loss(np.array([0, 0, 1, 1], "float32"), x)
    assert np.isfinite(float(found))
    assert np.isfinite(tape.gradient(found, x)).all()


def test_weights_and_config():
    loss = CosineMSE()
    vectors = RNG.standard_normal((2, 2, 8)).astype("float32")
    first = float(loss(np.array([0.5]), vectors[:1]))
    assert float(loss(np.array([0.5, 0.1]), vectors, np.array([2.0, 0.0]))) == pytest.approx(first, rel=1e-6)
    for loss in (MultipleNegativesRanking(0.1, symmetric=True), CoSENT(0.2), BatchHardTriplet(1.0), CosineMSE()):
        again = keras.losses.deserialize(keras.losses.serialize(loss))
        assert again.get_config() == loss.get_config()
    for loss in (MultipleNegativesRanking, CoSENT):
        for temperature in (0, -1.0, float("nan"), "low"):
            with pytest.raises(ValueError, match="`temperature` must be above 0 and finite"):
                loss(temperature)
    with pytest.raises(ValueError, match="`symmetric` must be True or False"):
        MultipleNegativesRanking(symmetric="no")
