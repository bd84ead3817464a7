"""How each package trains and runs a BERT on a GPU: a function per package turns a case into a closure that runs it.

A case has: kind, size, rows, length, dropout, steps. A run does so many steps and returns when all are done.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = {"tiny": (2, 128, 2), "base": (12, 768, 12), "large": (24, 1024, 16)}  # layers, hidden size, heads
HUGGING_FACE = "hugging_face"  # the name of its contestant
VOCAB, RATE, NORM = 30522, 1e-4, 1.0
MEAN = 30  # tokens of the texts of uneven length, before they are cut
GROUP = 50  # batches that HuggingFace's Trainer sorts by length
Run = Callable[[], Any]


def predictions(length: int) -> int:
    """The masked pieces of a row in pretraining."""
    return round(0.15 * length)


def full_rows(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random ids [B, S], the positions of the masked pieces and their ids [B, P]."""
    rng = np.random.default_rng(0)
    rows, length, masked = case["rows"], case["length"], predictions(case["length"])
    ids = rng.integers(1000, VOCAB, (rows, length)).astype("int32")
    positions = np.stack([np.sort(rng.choice(np.arange(1, length), masked, False)) for _ in range(rows)])
    return ids, positions.astype("int32"), rng.integers(1000, VOCAB, (rows, masked)).astype("int32")


def texts(case: dict[str, Any]) -> list[np.ndarray]:
    """Random ids of texts of uneven length, like sentences: a batch for each step."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.normal(MEAN, MEAN / 2, case["steps"] * case["rows"]).round(), 4, case["length"]).astype(int)
    return [rng.integers(1000, VOCAB, length).astype("int32") for length in lengths]


def padded(some: list[np.ndarray], width: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids and the mask [B, width] of texts."""
    mask = np.arange(width) < np.array([len(ids) for ids in some])[:, None]
    ids = np.zeros(mask.shape, "int32")
    ids[mask] = np.concatenate(some)
    return ids, mask.astype("int32")


# === keras_bert on JAX ===


def keras_bert(case: dict[str, Any]) -> Run:
    """Pretraining: the loop of steps that `keras-bert pretrain` runs."""
    import itertools
    from types import SimpleNamespace

    import keras

    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.training.jax_engine import Trainer
    from keras_bert.training.optimizer import AdamW
    from keras_bert.training.strategy import strategy

    ids, positions, wanted = full_rows(case)
    ones = np.ones_like(ids)
    batch = (
        {**_inputs(ids, ones), "masked_lm_positions": positions},
        {"mlm_logits": wanted, "nsp_logits": np.arange(len(ids), dtype="int32") % 2},
        {"mlm_logits": np.ones(wanted.shape, "float32"), "nsp_logits": np.ones(len(ids), "float32")},
    )
    model, optimizer = Pretrainer(_bert(case)), AdamW(RATE)
    optimizer.build(model.trainable_variables)
    trainer = Trainer(
        model,
        optimizer,
        SimpleNamespace(as_numpy_iterator=lambda: itertools.repeat(batch)),
        keras.Variable(0, dtype="int", trainable=False),
        strategy=strategy("one"),
        accumulate=1,
        clip_norm=NORM,
    )
    return lambda: trainer.train(case["steps"])


def keras_bert_shared(case: dict[str, Any], *, shared: bool = True) -> Run:
    """Fine-tuning by `fit`, or vectors by `predict`, of texts that share rows."""
    import keras

    import keras_bert as package
    from keras_bert.model import Model
    from keras_bert.text.shared_rows import SHARED_ROWS, SharedRows

    some, rows = texts(case), case["rows"]
    batches = [some[start : start + rows] for start in range(0, len(some), rows)]
    lengths = [np.array([len(ids) for ids in batch]) for batch in batches]
    layout = SharedRows.of(lengths)

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return len(batches)

        def __getitem__(self, index: int) -> Any:
            x = _inputs(*padded(batches[index], case["length"]))
            if shared:
                x[SHARED_ROWS] = layout.sources(lengths[index], case["length"])
            return (x, np.arange(rows) % 2) if case["kind"] == "finetuning" else (x,)

    bert = _bert(case)
    if case["kind"] == "embedding":
        model = Model(bert.input, bert.output["pooled_output"])
        return lambda: model.predict(Batches(), verbose=0)
    model = package.TextClassifier(bert, labels=("0", "1"))
    model.compile(package.AdamW(RATE), model.default_loss())
    return lambda: model.fit(Batches(), shuffle=False, verbose=0)


def keras_bert_padding(case: dict[str, Any]) -> Run:
    return keras_bert_shared(case, shared=False)


def _inputs(ids: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}


def _bert(case: dict[str, Any]) -> Any:
    from keras_bert.bert import Bert
    from keras_bert.config import BertConfig

    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), case["dropout"])
    return Bert(BertConfig.from_size(case["size"], **rates), dtype="mixed_bfloat16")


# === HuggingFace on torch ===


def hugging_face(case: dict[str, Any]) -> Run:
    """With the defaults of its Trainer: the fused AdamW, and gradients clipped to norm 1."""
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    layers, hidden, heads = SIZES[case["size"]]
    config = transformers.BertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        hidden_dropout_prob=case["dropout"],
        attention_probs_dropout_prob=case["dropout"],
        attn_implementation="sdpa",
    )
    kinds = {
        "pretraining": transformers.BertForPreTraining,
        "finetuning": transformers.BertForSequenceClassification,
        "embedding": transformers.BertModel,
    }
    model = kinds[case["kind"]](config).to(device)
    compiled = torch.compile(model.train(case["kind"] != "embedding"))
    batches = [
        {name: torch.tensor(x, device=device, dtype=torch.int64) for name, x in batch.items()}
        for batch in (_full_batches(case) if case["kind"] == "pretraining" else _sorted_batches(case))
    ]
    autocast = torch.autocast(device, torch.bfloat16)
    if case["kind"] == "embedding":

        def embed() -> Any:
            with torch.inference_mode(), autocast:
                vectors = [compiled(**batch).pooler_output for batch in batches]
            return torch.cat(vectors).float().cpu().numpy()

        return embed
    optimizer = torch.optim.AdamW(model.parameters(), RATE, fused=True)

    def train() -> Any:
        for batch in batches:
            with autocast:
                loss = compiled(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
            optimizer.step()
        return loss.item()

    return train


def _full_batches(case: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    ids, positions, wanted = full_rows(case)
    labels = np.full(ids.shape, -100)
    np.put_along_axis(labels, positions, wanted, 1)
    names = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return [{**names, "labels": labels, "next_sentence_label": np.arange(len(ids)) % 2}] * case["steps"]


def _sorted_batches(case: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    some, rows, found = texts(case), case["rows"], []
    for start in range(0, len(some), GROUP * rows):
        group = sorted(some[start : start + GROUP * rows], key=len)
        for first in range(0, len(group), rows):
            batch = group[first : first + rows]
            ids, mask = padded(batch, -(-len(batch[-1]) // 32) * 32)
            x = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            found.append({**x, "labels": np.arange(rows) % 2} if case["kind"] == "finetuning" else x)
    return found


# === Memory ===


def peak_gib(name: str) -> float:
    """The most memory of the GPU that this process has used."""
    if name == HUGGING_FACE:
        import torch

        return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    import jax

    return ((jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)) / 2**30


def device_name(name: str) -> str:
    """What the driver calls the GPU."""
    if name == HUGGING_FACE:
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    import jax

    return jax.local_devices()[0].device_kind
