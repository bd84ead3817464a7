"""The text SavedModel served without Python, by a C program: a stand-in for TF Serving, which no package has."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

import keras_bert

TEXTS = ["w1 w2 É", "", "W3, w4!", "w5 " * 20]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler on this machine")
    library = Path(tf.sysconfig.get_lib())
    path = tmp_path_factory.mktemp("c") / "serve"
    source = Path(__file__).with_name("serve.c")
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-O1", str(source), "-o", str(path)]
    command += ["-isystem", tf.sysconfig.get_include(), f"-L{library}", f"-Wl,-rpath,{library}"]
    subprocess.run([*command, "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"], check=True)
    return path


def _serve(program, folder, output, texts):
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]
    signature = graph.signature_def["serving_default"]
    tensors = [signature.inputs["text"].name, signature.outputs[output].name]
    ops = Path(tensorflow_text.__file__).parent / "python" / "ops"
    command = [str(program), str(ops), str(folder), *tensors, *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_answers(program, exported, little, tmp_path, dtype):
    if dtype == "int8":
        exported = tmp_path
        keras_bert.export(little, exported, dtype="int8")
    folder = exported / "text" / "1"
    expected = tf.saved_model.load(str(folder)).signatures["serving_default"](text=tf.constant(TEXTS))
    for output in ("embedding", "truncated"):
        found = np.array(_serve(program, folder, output, TEXTS), "float32").reshape(expected[output].shape)
        assert np.abs(found - tf.cast(expected[output], tf.float32)).max() <= 1e-6


def test_wrong_model(program, exported, tmp_path):
    command = [str(program), str(tmp_path), str(exported), "text:0", "embedding:0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot open shared object" in done.stderr
