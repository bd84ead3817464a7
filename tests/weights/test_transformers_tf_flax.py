"""Files that TensorFlow and Flax classes of transformers wrote, with the outputs that they computed."""

import numpy as np
import pytest

from keras_bert.weights import weights_h5
from tests.weights import small
from tests.weights.old_files import ours, unpacked

HEADS = {
    "PreTraining": {"mlm": "prediction_logits", "nsp": "seq_relationship_logits"},
    "MaskedLM": {"mlm": "logits"},
    "SequenceClassification": {"classifier": "logits"},
    "TokenClassification": {"tagger": "logits"},
    "QuestionAnswering": {"qa": "start_logits"},
    "MultipleChoice": {"choice": "logits"},
}
FIXTURES = ("transformers_tf", "transformers_tf_2021", "transformers_flax")
FOLDERS = [
    *((fixture, kind) for fixture in FIXTURES for kind in HEADS),
    ("transformers_tf", "SequenceClassification/saved_model/1"),
    ("transformers_tf", "MaskedLM-sharded"),
    ("transformers_tf", "PreTraining-safetensors"),
    ("transformers_tf", "TokenClassification-safetensors"),
    ("transformers_flax", "PreTraining-safetensors"),
    ("transformers_flax", "PreTraining-sharded"),
]


@pytest.mark.parametrize(("fixture", "path"), FOLDERS)
def test_every_head(opened, fixture, path):
    if "flax" in fixture and "safetensors" not in path:
        pytest.importorskip("msgpack", reason="pip install 'keras3-bert[flax]'")
    if "saved_model" in path:
        pytest.importorskip("tensorflow")
    folder, theirs = unpacked(fixture)
    checkpoint = opened(folder / path)
    kind = path.split("/")[0].split("-")[0]
    found, mask = ours(checkpoint, theirs)
    assert set(checkpoint.heads) == set(HEADS[kind])
    for head, name in HEADS[kind].items():
        expected = theirs[f"{kind}.{name}"]
        if head == "qa":
            expected = np.stack([expected, theirs[f"{kind}.end_logits"]], -1)
        assert found[head].size == expected.size
        by_token = head in ("mlm", "tagger", "qa")
        assert small.close(found[head], expected.reshape(found[head].shape), mask if by_token else None) <= 1e-5
    if kind == "SequenceClassification":
        assert checkpoint.heads["classifier"].labels == ("bad", "so so", "good")
    assert len(checkpoint.vocabulary) == 24


def test_kernels_of_three_axes():
    """Those of queries, keys and values in transformers before 4.3."""
    folder, _ = unpacked("transformers_tf_2021")
    shapes = {len(entry.shape) for entry in weights_h5.stored_weights(folder / "MaskedLM" / "tf_model.h5").values()}
    assert shapes == {1, 2, 3}
