"""`keras-bert export`: the kit's files, its manifest and warm-up."""

import ast
import json
import re
import shutil
import sys

import pytest
import tensorflow as tf
from typer.testing import CliRunner

from keras_bert.serving.write_kit import write_kit
from keras_bert_cli import app
from tests.serving.exported import LABELS, METRICS, NAME

pytest.importorskip("tensorflow_serving.apis", reason="pip install 'keras3-bert[serving]'")


def test_warm_up(kit, expected):
    from tensorflow_serving.apis import prediction_log_pb2

    path = kit / "text" / "1" / "assets.extra" / "tf_serving_warmup_requests"
    seen = set()
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        if log.WhichOneof("log_type") == "classify_log":
            request = log.classify_log.request
            examples = request.input.example_list.examples
            inputs = {"inputs": tf.constant([example.SerializeToString() for example in examples])}
        else:
            request = log.predict_log.request
            inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
        outputs = expected.loaded.signatures[request.model_spec.signature_name](**inputs)
        rows = {len(tensor) for tensor in (*inputs.values(), *outputs.values())}
        assert len(rows) == 1
        assert request.model_spec.name == NAME
        seen.add((request.model_spec.signature_name, rows.pop()))
    signatures = expected.loaded.signatures
    assert seen == {(name, rows) for name in signatures for rows in ((1,) if name == "attention" else (1, 8))}
    assert {"serving_default", "pair", "logits", "classify", "classify_pair", "attention"} == set(
        expected.loaded.signatures
    )
    manifest = json.loads((path.parent / "manifest.json").read_text())
    assert "assets.extra/tf_serving_warmup_requests" in manifest["files"]


def test_manifest(kit):
    """What it was made of and how well that did, without a place on this machine."""
    manifest = json.loads((kit / "text" / "1" / "assets.extra" / "manifest.json").read_text())
    assert manifest["source"] == "model"
    assert manifest["labels"] == list(LABELS)
    assert manifest["metrics"] == METRICS
    assert manifest["seq_length"] == 12
    for file in kit.rglob("*"):
        assert not file.is_file() or str(kit.parent).encode() not in file.read_bytes()


def test_settings(kit):
    import yaml
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    config = text_format.Parse(
        (kit / "serving" / "models.config").read_text(), model_server_config_pb2.ModelServerConfig()
    )
    models = {model.name: model for model in config.model_config_list.config}
    assert set(models) == {NAME, f"{NAME}-preprocess"}
    assert models[NAME].base_path == "/models/text"
    assert dict(models[NAME].version_labels) == {"stable": 1, "canary": 1}
    batching = text_format.Parse((kit / "serving" / "batching.config").read_text(), _batching_parameters())
    assert (batching.max_batch_size.value, batching.pad_variable_length_inputs) == (64, False)
    assert batching.batch_timeout_micros.value < 10_000
    text_format.Parse((kit / "serving" / "monitoring.config").read_text(), _monitoring_config())
    compose = yaml.safe_load((kit / "serving" / "compose.yaml").read_text())
    (service,) = compose["services"].values()
    deployment, _ = yaml.safe_load_all((kit / "serving" / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == service["command"]
    assert deployment["spec"]["replicas"] == 3
    for flag in container["args"]:  # every file that a flag names is in the kit
        name, _, value = flag.partition("=/models/")
        if value:
            assert (kit / value).is_file(), name


def _message(file, **fields):
    """A message of TF Serving's that tensorflow-serving-api leaves out: fields by name, with number and type."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

    pool = descriptor_pool.DescriptorPool()
    wrappers = descriptor_pb2.FileDescriptorProto.FromString(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(wrappers)
    proto = descriptor_pb2.FileDescriptorProto(name=file, package=file, syntax="proto3", dependency=[wrappers.name])
    for message, members in fields.items():
        made = proto.message_type.add(name=message)
        for name, (number, kind) in members.items():
            field = made.field.add(name=name, number=number, label=1)
            if isinstance(kind, str):
                field.type, field.type_name = 11, kind
            else:
                field.type = kind
    pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file}.{next(iter(fields))}"))()


def _batching_parameters():
    """BatchingParameters of TF Serving's session_bundle_config.proto."""
    names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    fields = {name: (number, ".google.protobuf.Int64Value") for number, name in enumerate(names, 1)}
    return _message("batching", BatchingParameters=fields | {"pad_variable_length_inputs": (7, 8)})


def _monitoring_config():
    """MonitoringConfig of TF Serving's monitoring_config.proto."""
    return _message(
        "monitoring",
        MonitoringConfig={"prometheus_config": (1, ".monitoring.PrometheusConfig")},
        PrometheusConfig={"enable": (1, 8), "path": (2, 9)},
    )


@pytest.mark.parametrize(
    ("name", "label"),
    [("film_2", "film-2"), (NAME, "bert-1-small"), ("_A-b-", "a-b"), ("no", "no"), ("a" * 80, "a" * 63)],
)
def test_names_in_kubernetes(kit, tmp_path, name, label):
    import yaml

    (tmp_path / "text" / "1").mkdir(parents=True)
    shutil.copy(kit / "text" / "1" / "saved_model.pb", tmp_path / "text" / "1")
    write_kit(tmp_path, name)
    for one in yaml.safe_load_all((tmp_path / "serving" / "kubernetes.yaml").read_text()):
        assert one["metadata"]["name"] == label
    assert list(yaml.safe_load((tmp_path / "serving" / "compose.yaml").read_text())["services"]) == [label]


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_clients_without_a_server(kit, kind, monkeypatch):
    """And with another number of texts."""
    path = kit / "serving" / f"{kind}_client.py"
    source = re.sub(r"localhost:\d+", "127.0.0.1:1", path.read_text())

    def said(*words):
        monkeypatch.setattr(sys, "argv", [path.name, *words])
        with pytest.raises(SystemExit) as exit:
            exec(compile(source, path, "exec"), {"__name__": "__main__"})
        return exit.value.code

    assert re.search(r"^No server answers at \S*127.0.0.1:1\S*\. Start the server, see README.md", said("A text."))
    assert said() == said("A text.", "Another.") == ast.get_docstring(ast.parse(source), clean=False)


def test_signatures_in_the_readme(kit, expected):
    line = re.search(r"The model has (.+)\.", (kit / "serving" / "README.md").read_text())[1]
    assert set(json.loads(f"[{line}]")) == {*expected.loaded.signatures} - {"classify", "classify_pair"}


def test_names_that_are_none():
    with pytest.raises(ValueError, match="--name must be English letters"):
        CliRunner().invoke(app, ["export", "tiny", "--name", "a/b"], catch_exceptions=False)
    with pytest.raises(ValueError, match="--output is empty"):
        CliRunner().invoke(app, ["export", "tiny", "--name", "a", "--output", ""], catch_exceptions=False)
