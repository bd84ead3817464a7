"""The losses between a student and its teacher, against torch's and against loops in numpy over single rows."""

import keras
import numpy as np
import pytest

from keras_bert import Bert, BertConfig
from keras_bert.layers.states import recorded_states
from keras_bert.resize import kept_blocks
from keras_bert.tasks.losses.teacher_losses import (
    attention_loss,
    hidden_loss,
    relation_loss,
    softened_binary_kl,
    softened_kl,
    squares,
)
from tests.parity.oracles import array, ragged_batch, randomize
from tests.tasks.small import small_task

pytestmark = pytest.mark.usefixtures("eager")
LENGTHS = (9, 1, 5, 12)


def encoder(layers, width, heads, seed):
    config = BertConfig(
        vocab_size=50,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    return randomize(Bert(config), seed, scale=0.5)


def states(bert, batch):
    with recorded_states() as found:
        bert(batch, training=False)
    return found


def rows_of(bert, batch):
    """For each row by itself, without padding: hidden states of the embeddings and of each block, and each qkv."""
    blocks = range(bert.config.num_hidden_layers)
    names = ["embeddings_norm", *(f"layer_{i}_output_norm" for i in blocks)]
    names += [f"layer_{i}_attention_qkv" for i in blocks]
    model = keras.Model(bert.input, [bert.get_layer(name).output for name in names])
    for row, length in enumerate(LENGTHS):
        found = [array(x) for x in model({name: x[row : row + 1, :length] for name, x in batch.items()})]
        yield found[: len(blocks) + 1], found[len(blocks) + 1 :]  # [S, H], [S, 3H]


def both_rows(teacher, student, batch):
    return zip(rows_of(teacher, batch), rows_of(student, batch), strict=True)


def parts(qkv, heads):
    """Queries, keys and values of one row: 3 x A x [S, D]."""
    return [np.split(x, heads, axis=1) for x in np.split(qkv, 3, axis=1)]


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


@pytest.fixture
def batch():
    return ragged_batch(encoder(1, 8, 2, 0).config, LENGTHS)


def test_softened_probabilities_are_torchs():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    theirs, ours = (3 * rng.standard_normal((2, 6, 5)).astype("float32") for _ in range(2))
    expected = 9 * torch.nn.functional.kl_div(
        torch.log_softmax(torch.tensor(ours) / 3, -1), torch.softmax(torch.tensor(theirs) / 3, -1), reduction="none"
    ).sum(-1)
    assert array(softened_kl(theirs, ours, 3.0)) == pytest.approx(expected.numpy(), rel=1e-5, abs=1e-6)
    yes, no = (torch.stack([torch.tensor(x) / 3, torch.zeros(2, 6, 5)], -1) for x in (theirs, ours))
    pairs = torch.nn.functional.kl_div(torch.log_softmax(no, -1), torch.softmax(yes, -1), reduction="none").sum(-1)
    expected = 9 * pairs.mean(-1).numpy()
    assert array(softened_binary_kl(theirs, ours, 3.0)) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert array(squares(theirs, ours, 3.0)) == pytest.approx((theirs - ours) ** 2, rel=1e-5)


def test_a_task_with_labels_as_vectors_learns_from_probabilities(monkeypatch):
    task = small_task("classifier")
    monkeypatch.setattr(type(task), "default_loss", lambda self: keras.losses.CategoricalCrossentropy())
    theirs, ours = np.array([[[2.0, 0.0]], [[1.0, 1.0]]], "float32")
    assert array(task.soft_loss(theirs, ours, 2.0)) == pytest.approx(array(softened_kl(theirs, ours, 2.0)))


def test_positions_that_are_hidden_count_nothing():
    """A question answerer's logits at padding are -1e9 in both models."""
    logits = np.array([[0.5, 2.0, -1e9]], "float32"), np.array([[1.0, -1.0, -1e9]], "float32")
    short = [x[:, :2] for x in logits]
    assert array(softened_kl(*logits, 2.0)) == pytest.approx(array(softened_kl(*short, 2.0)), rel=1e-6)


def test_blocks_that_are_kept():
    assert kept_blocks(6, 3) == (1, 3, 5)
    assert kept_blocks(4, 4) == (0, 1, 2, 3)
    assert kept_blocks(12, 1) == (11,)


def test_hidden_states(batch):
    teacher, student = encoder(4, 8, 2, 0), encoder(2, 8, 4, 1)
    sums = np.zeros(3)
    for (theirs, _), (ours, _) in both_rows(teacher, student, batch):
        pairs = zip((theirs[0], theirs[2], theirs[4]), ours, strict=True)
        sums += [((t - s) ** 2).mean(-1).sum() for t, s in pairs]
    found = float(hidden_loss(states(teacher, batch), states(student, batch)))
    assert found == pytest.approx(np.mean(sums) / sum(LENGTHS), rel=1e-5)


def test_attention_scores(batch):
    teacher, student = encoder(4, 8, 2, 0), encoder(2, 4, 2, 1)
    squared, count = np.zeros(2), 0
    for (_, theirs), (_, ours) in both_rows(teacher, student, batch):
        for number, block in enumerate((1, 3)):
            (q, k, _), (query, key, _) = parts(theirs[block], 2), parts(ours[number], 2)
            for head in range(2):
                t = q[head] @ k[head].T / np.sqrt(4)
                s = query[head] @ key[head].T / np.sqrt(2)
                squared[number] += ((t - s) ** 2).sum()
        count += 2 * len(theirs[0]) ** 2
    found = float(attention_loss(states(teacher, batch), states(student, batch), 2))
    assert found == pytest.approx(np.mean(squared) / count, rel=1e-5)


def test_relations_of_models_of_other_widths(batch):
    """Four heads and six: relations of two parts of the vectors."""
    teacher, student = encoder(3, 16, 4, 0), encoder(1, 12, 6, 1)
    divergence = np.zeros(3)
    for (_, theirs), (_, ours) in both_rows(teacher, student, batch):
        for number, (xs, ys) in enumerate(zip(parts(theirs[-1], 2), parts(ours[-1], 2), strict=True)):
            for x, y in zip(xs, ys, strict=True):
                t, s = (softmax(z @ z.T / np.sqrt(z.shape[1])) for z in (x, y))
                divergence[number] += (t * np.log(t / s)).sum()
    found = float(relation_loss(states(teacher, batch), states(student, batch), 2))
    assert found == pytest.approx(np.mean(divergence) / (2 * sum(LENGTHS)), rel=1e-5)


def test_equal_models_have_no_loss(batch):
    bert = encoder(2, 8, 2, 0)
    same = states(bert, batch), states(bert, batch)
    assert float(hidden_loss(*same)) == float(attention_loss(*same, 2)) == float(relation_loss(*same, 2)) == 0
