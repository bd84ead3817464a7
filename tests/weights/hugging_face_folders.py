"""Small folders as transformers makes them, and a function that changes their files."""

import json

import pytest

from tests.weights import small

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LABELS = ("bad", "so so", "good")


def bert_of_theirs(kind="BertModel", act="gelu", **settings):
    torch.manual_seed(0)
    if "Classification" in kind:
        settings.setdefault("id2label", dict(enumerate(LABELS)))
    config = transformers.BertConfig(
        vocab_size=24,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=16,
        hidden_act=act,
        attn_implementation="eager",
        **settings,
    )
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(0.2 * torch.randn(weight.shape) + ("LayerNorm.weight" in name))
    return model


def folder_of(path, model):
    model.save_pretrained(path)
    small.VOCABULARY.save(path / "vocab.txt")
    return path


def edit(path, **changes):
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **changes}))
