"""What stands beside an export to serve it with TF Serving: settings, ways to start it, and clients."""

import os
from string import Template

FOLDER = "serving"


def write_kit(directory: str | os.PathLike, name: str) -> None:
    """Write the files of `FILES` into the folder `serving` of an export, for the versions that are there.

    In a bucket models.config names the bucket's folders, which TF Serving reads itself; else those of the container.
    """
    import tensorflow as tf

    directory = os.fspath(directory)
    base = directory if "://" in directory else "/models"
    found = {part: _versions(f"{directory}/{part}") for part in ("text", "encoder", "preprocess")}
    configs = "\n".join(
        _model(f"{base}/{part}", name if part == "text" else f"{name}-{part}", versions)
        for part, versions in found.items()
        if versions
    )
    values = {"name": name, "configs": configs, "label": name.lower().replace("_", "-"), "base": base}
    tf.io.gfile.makedirs(f"{directory}/{FOLDER}")
    for file, template in FILES.items():
        with tf.io.gfile.GFile(f"{directory}/{FOLDER}/{file}", "w") as opened:
            opened.write(Template(template).substitute(values))


def _versions(folder: str) -> list[int]:
    """The newest two."""
    import tensorflow as tf

    names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    numbers = [name.rstrip("/") for name in names]  # a bucket's folders end in a slash
    return sorted(int(number) for number in numbers if number.isdecimal())[-2:]


def _model(path: str, name: str, versions: list[int]) -> str:
    """A model of models.config: its newest two versions, labelled stable and canary."""
    labels = {"stable": versions[0], "canary": versions[-1]}
    lines = [f'  name: "{name}"', f'  base_path: "{path}"', '  model_platform: "tensorflow"']
    lines += [f"  model_version_policy {{ specific {{ {' '.join(f'versions: {number}' for number in versions)} }} }}"]
    lines += [f'  version_labels {{ key: "{label}" value: {number} }}' for label, number in labels.items()]
    return "\n".join(f"  {line}" for line in ("config {", *lines, "}"))


_MODELS = """\
# stable takes the traffic, canary the trial: /v1/models/$name/labels/canary:predict. To promote a version or to
# roll back, change the numbers of the labels; TF Serving reads this file again by itself.
model_config_list {
$configs
}
"""

_BATCHING = """\
# Requests that come together run as one batch. Texts are padded to the longest of their batch inside the graph. Ids
# must come padded to one length, which costs nothing: TF Serving's own padding repeats a tensor's first element, and
# a mask padded with ones gives wrong answers, so it stays off.
max_batch_size { value: 64 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 128 }
num_batch_threads { value: 2 }
pad_variable_length_inputs: false
"""

_MONITORING = """\
prometheus_config { enable: true, path: "/monitoring/prometheus/metrics" }
"""

_FLAGS = (
    "--model_config_file=$base/serving/models.config",
    "--model_config_file_poll_wait_seconds=60",
    "--allow_version_labels_for_unavailable_models=true",
    "--enable_batching=true",
    "--batching_parameters_file=$base/serving/batching.config",
    "--monitoring_config_file=$base/serving/monitoring.config",
)

_COMPOSE = f"""\
# docker compose -f serving/compose.yaml up
services:
  $label:
    image: tensorflow/serving:2.19.0
    command: {list(_FLAGS)}
    environment:
      TF_ONEDNN_ASSUME_FROZEN_WEIGHTS: "1"
    ports: ["8500:8500", "8501:8501"]
    volumes: ["..:/models:ro"]
""".replace("'", '"')

_KUBERNETES = f"""\
# kubectl apply -f serving/kubernetes.yaml, once the export lies on a volume claimed as $label-models.
apiVersion: apps/v1
kind: Deployment
metadata: {{name: $label}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: $label}}}}
  template:
    metadata:
      labels: {{app: $label}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8501"
        prometheus.io/path: /monitoring/prometheus/metrics
    spec:
      containers:
        - name: serving
          image: tensorflow/serving:2.19.0
          args: {list(_FLAGS)}
          env: [{{name: TF_ONEDNN_ASSUME_FROZEN_WEIGHTS, value: "1"}}]
          ports: [{{containerPort: 8500}}, {{containerPort: 8501}}]
          resources: {{requests: {{cpu: "2", memory: 2Gi}}, limits: {{memory: 4Gi}}}}
          startupProbe: &alive
            httpGet: {{path: /v1/models/$name, port: 8501}}
            failureThreshold: 60
          readinessProbe:
            httpGet: {{path: /v1/models/$name/labels/stable, port: 8501}}
          livenessProbe:
            tcpSocket: {{port: 8500}}
          volumeMounts: [{{name: models, mountPath: /models, readOnly: true}}]
      volumes: [{{name: models, persistentVolumeClaim: {{claimName: $label-models}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: $label}}
spec:
  selector: {{app: $label}}
  ports: [{{name: grpc, port: 8500}}, {{name: rest, port: 8501}}]
""".replace("'", '"').replace("&alive", "")

_REST = '''\
"""Ask the model over REST: python rest_client.py "A text." "Another text." """

import json
import sys
import urllib.error
import urllib.request

URL = "http://localhost:8501/v1/models/$name:predict"


def predict(**columns):
    """One answer for each row; a column is a list, such as text=["..."]."""
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    body = json.dumps({"instances": rows}).encode()
    request = urllib.request.Request(URL, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["predictions"]
    except urllib.error.HTTPError as error:
        raise ValueError(json.load(error)["error"]) from None


if __name__ == "__main__":
    for row in predict(text=sys.argv[1:]):
        print(json.dumps(row, ensure_ascii=False))
'''

_GRPC = '''\
"""Ask the model over gRPC: python grpc_client.py "A text." ; pip install tensorflow-serving-api """

import sys

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def predict(address="localhost:8500", **columns):
    """Arrays by the name of the output; a column is a list, such as text=["..."]."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "$name"
    request.model_spec.version_label = "stable"
    for name, values in columns.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    with grpc.insecure_channel(address) as channel:
        answer = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=30)
    return {name: tf.make_ndarray(tensor) for name, tensor in answer.outputs.items()}


if __name__ == "__main__":
    print(predict(text=sys.argv[1:]))
'''

_README = f"""\
# Serving $name

Run these in the folder above this one. TF_ONEDNN_ASSUME_FROZEN_WEIGHTS lets the CPU keep its own copy of the weights
in the order it likes best; it is right here, where nothing trains.

    docker run --rm -p 8500:8500 -p 8501:8501 -v "$$PWD:/models:ro" -e TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1 \\\\
        tensorflow/serving:2.19.0 {" ".join(_FLAGS)}

With a GPU: the image tensorflow/serving:2.19.0-gpu, and --gpus all behind --rm.

    python serving/rest_client.py "A text."
    curl localhost:8501/v1/models/$name/metadata

Beyond TensorFlow's own, the graphs hold two ops of TensorFlow Text, FastWordpieceTokenizeWithOffsets and NormalizeUTF8.
TF Serving has TensorFlow Text built in: 2.12.1 as of February 2025 (tensorflow/serving#4057), 2.20.0 on its main
branch. No TF Serving was run when this kit was written: a C program on TensorFlow's library stood in for it.
"""

FILES = {
    "models.config": _MODELS,
    "batching.config": _BATCHING,
    "monitoring.config": _MONITORING,
    "compose.yaml": _COMPOSE,
    "kubernetes.yaml": _KUBERNETES,
    "rest_client.py": _REST,
    "grpc_client.py": _GRPC,
    "README.md": _README,
}
