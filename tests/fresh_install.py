"""A new user's first minute, in an environment with nothing but the wheel and its requirements: `make wheel-check`.

It is not part of the test suite, since it installs TensorFlow once more.
"""

import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

import keras

import keras_bert


def main() -> None:
    """Loads a model, fits it on raw text, exports and serves it; runs two commands."""
    environment = Path(sys.prefix)
    assert Path(keras_bert.__file__).is_relative_to(environment), keras_bert.__file__
    files = importlib.metadata.files("keras3-bert") or []
    assert files
    assert not [file for file in files if "tests" in file.parts or file.name.startswith("test")]

    texts, labels = ["a good film", "a bad film", "a good play", "a bad play"] * 8, ["good", "bad"] * 16
    vocabulary = keras_bert.Vocabulary.learn(texts, size=60)
    bert = keras_bert.load("tiny", weights=False)
    bert.preprocessor = keras_bert.Preprocessor(vocabulary)
    task = keras_bert.TextClassifier(bert, labels=("bad", "good"))
    task.compile(keras.optimizers.Adam(1e-3), task.default_loss())
    task.fit(texts, labels, epochs=20, verbose=0)
    assert [answer.label for answer in task.classify(texts)] == labels

    with tempfile.TemporaryDirectory() as folder:
        keras_bert.export(task, folder)
        serve = """if True:
            import sys, tensorflow as tf, tensorflow_text
            answers = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(sys.argv[2:]))
            print(*(label.decode() for label in answers["label"].numpy()))"""
        served = subprocess.run(
            [sys.executable, "-c", serve, f"{folder}/text/1", *texts], check=True, capture_output=True, text=True
        )
        assert served.stdout.split() == labels, served.stdout
        task.save(f"{folder}/task.keras")
        command = [environment / "bin" / "keras-bert", "export", f"{folder}/task.keras", "--name", "again"]
        made = subprocess.run([*command, "--output", folder], check=True, capture_output=True, text=True)
        assert "keras3-bert[serving]" in made.stderr, made.stderr

    for word, expected in (("--help", "finetune"), ("models", "klue/bert-base")):
        command = [environment / "bin" / "keras-bert", word]
        assert expected in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sys.stdout.write(f"The wheel's {len(files)} files load, fit, export, serve and run commands.\n")


if __name__ == "__main__":
    main()
