"""Training each task beside HuggingFace's model of the same name: the loss of 20 steps on the same batches."""

import dataclasses

import keras
import numpy as np
import pytest
import torch
import transformers

import keras_bert
from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger
from tests.parity import oracles
from tests.parity.test_encoder import SMALL

CONFIG = BertConfig(**SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
BATCH, LENGTH, CHOICES = 6, 12, 3


def _random(rng, rows=BATCH, whole=False):
    lengths = np.full(rows, LENGTH) if whole else rng.integers(2, LENGTH + 1, rows)
    lengths[0] = LENGTH
    return oracles.ragged_batch(CONFIG, tuple(lengths), seed=int(rng.integers(1 << 30)))


def _of_choices(rng):
    x = {name: value.reshape(BATCH, CHOICES, -1) for name, value in _random(rng, BATCH * CHOICES).items()}
    return x, rng.integers(0, CHOICES, BATCH), np.ones(BATCH)


def _of_tokens(rng):
    x = _random(rng)
    weight = x["input_mask"] * (rng.random(x["input_mask"].shape) < 0.7)
    weight[0, 0] = 1
    return x, rng.integers(0, 5, weight.shape), weight


CASES = {  # ours, theirs with its settings, a batch (x, y, weight), their labels out of it
    "classifier": (
        lambda bert: TextClassifier(bert, labels=("a", "b", "c")),
        ("BertForSequenceClassification", {"num_labels": 3}, "classifier"),
        lambda rng: (_random(rng), rng.integers(0, 3, BATCH), np.ones(BATCH)),
        lambda y, weight: {"labels": torch.tensor(y)},
    ),
    "several labels": (
        lambda bert: TextClassifier(bert, labels=("a", "b", "c"), multi_label=True),
        (
            "BertForSequenceClassification",
            {"num_labels": 3, "problem_type": "multi_label_classification"},
            "classifier",
        ),
        lambda rng: (_random(rng), rng.integers(0, 2, (BATCH, 3)).astype("float32"), np.ones(BATCH)),
        lambda y, weight: {"labels": torch.tensor(y)},
    ),
    "regressor": (
        TextRegressor,
        ("BertForSequenceClassification", {"num_labels": 1}, "classifier"),
        lambda rng: (_random(rng), rng.standard_normal(BATCH).astype("float32"), np.ones(BATCH)),
        lambda y, weight: {"labels": torch.tensor(y)},
    ),
    "tagger": (
        lambda bert: TokenTagger(bert, labels=("O", "B-A", "I-A", "B-B", "I-B")),
        ("BertForTokenClassification", {"num_labels": 5}, "classifier"),
        _of_tokens,
        lambda y, weight: {"labels": torch.tensor(np.where(weight > 0, y, -100))},
    ),
    "answerer": (  # HuggingFace's softmax counts padding in, so there is none here
        QuestionAnswerer,
        ("BertForQuestionAnswering", {}, "qa_outputs"),
        lambda rng: (_random(rng, whole=True), rng.integers(0, LENGTH, (BATCH, 2)), np.ones((BATCH, 2))),
        lambda y, weight: {"start_positions": torch.tensor(y[:, 0]), "end_positions": torch.tensor(y[:, 1])},
    ),
    "choice": (
        lambda bert: MultipleChoice(bert, choices=CHOICES),
        ("BertForMultipleChoice", {}, "classifier"),
        _of_choices,
        lambda y, weight: {"labels": torch.tensor(y)},
    ),
}


def _theirs(task, kind, settings, head):
    encoder = oracles.hugging_face(task.bert)
    config = transformers.BertConfig(**{**encoder.config.to_dict(), **settings, "classifier_dropout": 0.0})
    model = getattr(transformers, kind)(config)
    mine = encoder.state_dict()
    model.bert.load_state_dict({name: mine[name] for name in model.bert.state_dict()})
    kernel, bias = (oracles.array(weight) for weight in task.get_layer(task.heads[0]).weights)
    layer = getattr(model, head)
    layer.weight.data, layer.bias.data = torch.tensor(kernel.T.copy()), torch.tensor(bias.copy())
    return model.train()


def _twenty_steps(case, optimizer, their_optimizer):
    """The losses of 20 steps on the same batches, ours and theirs."""
    keras.utils.set_random_seed(0)  # of the head
    make, (kind, settings, head), batch, labels = CASES[case]
    task = make(oracles.randomize(Bert(CONFIG)))
    theirs = _theirs(task, kind, settings, head)
    task.compile(optimizer, task.default_loss())
    their_optimizer = their_optimizer(theirs)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(20):
        x, y, weight = batch(rng)
        ours = float(np.ravel(task.train_on_batch(x, y, weight.astype("float32")))[0])
        loss = theirs(**oracles.hugging_face_inputs(x), **labels(y, weight)).loss
        their_optimizer.zero_grad()
        loss.backward()
        their_optimizer.step()
        losses.append((ours, loss.item()))
    return np.transpose(losses)


@pytest.mark.parametrize("case", CASES)
def test_sgd_steps(case):
    ours, theirs = _twenty_steps(
        case, keras.optimizers.SGD(0.05), lambda model: torch.optim.SGD(model.parameters(), 0.05)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert len(set(ours)) == 20


@pytest.mark.long
@pytest.mark.parametrize("case", ["classifier", "choice"])  # the others are as near
def test_adamw_steps(case):
    """Not so near: Keras adds epsilon before the bias correction, torch after it, which tells where gradients are 0."""
    settings = {"weight_decay": 0.01, "epsilon": 1e-8}
    ours, theirs = _twenty_steps(case, keras_bert.AdamW(1e-3, **settings), _adamw)
    np.testing.assert_allclose(ours, theirs, rtol=2e-4)


def _adamw(model):
    """HuggingFace's Trainer: no decay of biases and norms."""
    groups = [{"params": [], "weight_decay": decay} for decay in (0.01, 0.0)]
    for name, weight in model.named_parameters():
        groups[name.endswith("bias") or "LayerNorm" in name]["params"].append(weight)
    return torch.optim.AdamW(groups, lr=1e-3, eps=1e-8)


def test_cosine_is_that_of_the_mean_of_the_real_tokens():
    task = TextRegressor(oracles.randomize(Bert(CONFIG)), pairs="cosine")
    x = _random(np.random.default_rng(0), 2 * BATCH)
    theirs = oracles.hugging_face(task.bert)(**oracles.hugging_face_inputs(x)).last_hidden_state.detach()
    mask = torch.tensor(x["input_mask"])[..., None]
    vectors = (theirs * mask).sum(1) / mask.sum(1)
    expected = torch.cosine_similarity(vectors[0::2], vectors[1::2]).numpy()
    pairs = {name: value.reshape(BATCH, 2, -1) for name, value in x.items()}
    assert np.abs(oracles.array(task(pairs))[:, 0] - expected).max() <= 1e-5


def test_padding_is_never_an_answer():
    """Over padded batches: HuggingFace's logits, their padding masked by hand."""
    task = QuestionAnswerer(oracles.randomize(Bert(CONFIG)))
    x = _random(np.random.default_rng(1))
    theirs = _theirs(task, "BertForQuestionAnswering", {}, "qa_outputs").eval()
    found = theirs(**oracles.hugging_face_inputs(x))
    expected = np.stack([found.start_logits.detach().numpy(), found.end_logits.detach().numpy()], 1)
    real = np.broadcast_to(x["input_mask"][:, None] != 0, expected.shape)
    ours = oracles.array(task(x))
    assert np.abs(ours - expected)[real].max() <= 1e-5
    assert ours[~real].max() < -1e8


@pytest.mark.parametrize("case", [case for case in CASES if case != "several labels"])
def test_loads_a_folder_of_theirs_with_its_head(case, tmp_path):
    make, (kind, settings, head), batch, _ = CASES[case]
    task = make(oracles.randomize(Bert(CONFIG)))
    theirs = _theirs(task, kind, settings, head).eval()
    theirs.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(CONFIG.vocab_size - 5))])
    )
    options = {"choices": CHOICES} if case == "choice" else {}
    loaded = type(task).load(tmp_path, **options)
    x, _, _ = batch(np.random.default_rng(0))
    assert np.abs(oracles.array(loaded(x)) - oracles.array(task(x))).max() <= 1e-6
    if case in ("classifier", "tagger"):
        assert loaded.labels == tuple(f"LABEL_{i}" for i in range(settings["num_labels"]))
    wrong = TextClassifier if case != "classifier" else TokenTagger
    with pytest.raises(ValueError, match=task.heads[0]):
        wrong.load(tmp_path)
    assert dataclasses.asdict(loaded.bert.config) == dataclasses.asdict(CONFIG)
