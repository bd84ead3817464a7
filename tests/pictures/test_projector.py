"""Tables for TensorBoard's projector, read by TensorBoard."""

import json

import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from werkzeug.test import Client

from keras_bert.pictures.projector import write_projector

TEXTS = ["one", "a\ttab and\r\na line", "", "영화\u2028를 \x85보았다", "  "]
SHOWN = ["one", "a tab and a line", "(empty)", "영화 를  보았다", "(empty)"]
VECTORS = np.random.default_rng(0).standard_normal((5, 3)).astype("float32") * 1e-3


@pytest.mark.parametrize("labels", [None, ["a", "b\t", "", "d", "e"]])
def test_tensorboard_reads_it(tmp_path, labels):
    write_projector(tmp_path / "projector", VECTORS, TEXTS, labels)
    assert {path.name for path in tmp_path.iterdir()} == {"projector"}
    plugin = ProjectorPlugin(TBContext(logdir=str(tmp_path / "projector"), multiplexer=EventMultiplexer()))
    pages = plugin.get_plugin_apps()

    def get(page, **query):
        return Client(pages[page]).get("/", query_string={"run": ".", **query}).data

    info = json.loads(get("/info"))["embeddings"]
    assert [tensor["tensorShape"] for tensor in info] == [[5, 3]]
    name = info[0]["tensorName"]
    vectors = np.frombuffer(get("/tensor", name=name), "float32").reshape(5, 3)
    np.testing.assert_array_equal(vectors, VECTORS)
    lines = get("/metadata", name=name).decode().split("\n")[:-1]
    assert (lines if labels is None else [line.split("\t")[0] for line in lines[1:]]) == SHOWN
    if labels is not None:
        assert [line.split("\t")[1] for line in lines] == ["label", "a", "b", "(empty)", "d", "e"]
    assert all(line.strip() for line in lines)  # the page skips blank lines
