"""Bodies and paths of requests: the application answers what the model answers, or a 4xx with its reason."""

import asyncio
import json
from urllib.parse import quote

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import keras_bert
from keras_bert.serving.batcher import BatchThreads
from keras_bert.serving.server import application
from tests.hostile.inputs import byte_texts, json_values, leaves, texts
from tests.hostile.profile import hostile
from tests.small_exports import leave_out_preprocess
from tests.tasks.small import small_task

pytestmark = pytest.mark.long

pytest.importorskip("starlette", reason="pip install 'keras3-bert[serving]'")
NAMES = ["instances", "inputs", "examples", "context", "signature_name", "text", "text_pair", "b64", "input_word_ids"]
IDS = ("input_word_ids", "input_mask", "input_type_ids")


class Server:
    """The application for two small exports, without a network."""

    def __init__(self, folder):
        from keras_bert.serving.served_version import find_models

        self.models = {}
        for kind in ("classifier", "tagger"):
            with pytest.MonkeyPatch.context() as patch:
                if kind == "tagger":  # `preprocess` of both would be the same
                    leave_out_preprocess(patch)
                keras_bert.export(small_task(kind), folder / kind)
            self.models |= find_models(folder / kind)
        self.application = application(self.models, max_pieces=500)

    def ask(self, path, body, method="POST"):
        """The status and the object of the answer."""
        return asyncio.run(self._ask(path, body, method))

    async def _ask(self, path, body, method):
        threads = BatchThreads()
        for versions in self.models.values():  # whose batchers belong to the loop of another request
            for version in versions.values():
                version.batchers = {name: type(one)(one._run, threads) for name, one in version.batchers.items()}
        scope = {"type": "http", "method": method, "path": path, "raw_path": quote(path).encode(), "headers": []}
        said = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            said.append(message)

        await self.application(scope | {"query_string": b""}, receive, send)
        answer = b"".join(message.get("body", b"") for message in said[1:])
        return said[0]["status"], json.loads(answer)


def check_request(server, path, body, method="POST"):
    status, answer = server.ask(path, body, method)
    if status != 200:
        assert 400 <= status < 500, (status, answer)
        assert set(answer) == {"error"}
        assert answer["error"].strip()
        assert "Traceback" not in answer["error"]
    return status, answer


paths = st.one_of(
    st.tuples(
        st.sampled_from(["/v1/models/classifier", "/v1/models/tagger", "/v1/models/classifier-preprocess"]),
        st.sampled_from(["", "/versions/1", "/versions/2", "/labels/stable", "/labels/\n", "/versions/١"]),
        st.sampled_from([":predict", ":classify", ":regress", "/metadata", ""]),
    ).map("".join),
    texts.map(lambda text: f"/{text}"),
)
column = st.lists(st.one_of(texts, leaves, st.fixed_dictionaries({"b64": leaves})), max_size=3)
ids = st.lists(st.lists(st.one_of(st.integers(-1, 25), leaves), max_size=3), max_size=3)
requests = st.one_of(
    json_values(NAMES),
    st.fixed_dictionaries(
        {},
        optional={
            "instances": st.one_of(column, st.lists(st.fixed_dictionaries({"text": leaves}), max_size=3)),
            "inputs": st.one_of(column, st.dictionaries(st.sampled_from(["text", "text_pair"]), column)),
            "signature_name": st.sampled_from(["serving_default", "pair", "classify", "classify_pair", "logits"]),
        },
    ),
    st.fixed_dictionaries(
        {"signature_name": st.just("logits"), "inputs": st.fixed_dictionaries(dict.fromkeys(IDS, ids))}
    ),
    st.fixed_dictionaries(
        {
            "signature_name": st.sampled_from(["classify", "classify_pair"]),
            "examples": st.lists(st.dictionaries(st.sampled_from(["text", "text_pair", "a"]), leaves), max_size=3),
        },
        optional={"context": st.one_of(leaves, st.dictionaries(st.sampled_from(["text", "text_pair"]), leaves))},
    ),
)


@hostile(150)
@given(
    paths,
    st.one_of(requests.map(json.dumps).map(str.encode), st.binary(max_size=20)),
    st.sampled_from(["POST", "GET", "PUT"]),
)
def test_any_body(server, path, body, method):
    check_request(server, path, body, method)


@hostile(150)
@given(requests, st.sampled_from(["classifier", "tagger"]), st.sampled_from(["predict", "classify"]))
def test_bodies_in_json(server, request, name, verb):
    check_request(server, f"/v1/models/{name}:{verb}", json.dumps(request).encode())


@hostile(50)
@given(st.lists(byte_texts, min_size=1, max_size=4), st.sampled_from(["classifier", "tagger"]))
def test_answers_are_the_models(server, rows, name):
    """Also for text that is not UTF-8, whatever the other rows are."""
    import base64

    body = {"instances": [{"b64": base64.b64encode(row).decode()} for row in rows]}
    status, answer = check_request(server, f"/v1/models/{name}:predict", json.dumps(body).encode())
    assert status == 200
    expected = server.models[name][1].signatures["serving_default"](text=tf.constant(rows))
    for key, values in expected.items():
        values = values.numpy()
        found = [row[key] for row in answer["predictions"]]
        if values.dtype == object:
            values = [[one.decode() for one in row] if values.ndim > 1 else row.decode() for row in values.tolist()]
            assert found == values
        else:
            tf.debugging.assert_near(tf.constant(found, tf.float64), tf.cast(values, tf.float64), atol=1e-5)
