"""docs/migrating.md: every block headed "With keras_bert" runs, on small files in the format of the other package."""

import re
import shlex
import zipfile
from pathlib import Path

import keras
import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert.vectors import Pooling
from keras_bert.weights import google, hugging_face, keras_hub
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert_cli import app

if keras.backend.backend() != "tensorflow":
    pytest.skip("the page is written for TensorFlow", allow_module_level=True)

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]
FIXTURES = {  # which the other packages wrote
    "film-tf": ("transformers_tf.zip", "SequenceClassification"),
    "keras-bert": ("keras_bert_0_89.zip", "pretrainer"),
    "bert4keras": ("bert4keras_0_11_5.zip", "encoder"),
    "bert-for-tf2": ("bert_for_tf2_0_14_9.zip", "encoder"),
}
PAGE = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
START, *SECTIONS = re.split(r"^## (?=.*\n)", PAGE, flags=re.MULTILINE)
OTHERS = {section.splitlines()[0]: section for section in SECTIONS if "With keras_bert:" in section}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIG = keras_bert.BertConfig(
    vocab_size=48,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=20,
    max_position_embeddings=16,
)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A folder with the folders and files that the page names."""
    folder = tmp_path_factory.mktemp("old")
    lines = ["a good film", "a bad film", "the end of it was good", "it was not a bad film", "the film was long"]
    vocabulary = keras_bert.Vocabulary.learn(lines, size=CONFIG.vocab_size, alphabet=20)
    padding = [f"[unused{n}]" for n in range(CONFIG.vocab_size - len(vocabulary))]
    vocabulary = keras_bert.Vocabulary([*vocabulary.tokens, *padding])
    bert = keras_bert.Bert(CONFIG, keras_bert.Preprocessor(vocabulary, seq_length=16))
    encoder = Checkpoint.of(bert)
    google.write_checkpoint(Checkpoint.of(keras_bert.Pretrainer(bert)), folder / "google-bert")
    keras_hub.write_checkpoint(encoder, folder / "preset-bert")
    encoder.pooling = Pooling("mean", True, 16)
    hugging_face.write_checkpoint(encoder, folder / "sentences")
    _model_garden(vocabulary, folder)
    for name, (fixture, part) in FIXTURES.items():
        with zipfile.ZipFile(ROOT / "tests" / "fixtures" / "old" / fixture) as file:
            file.extractall(folder / fixture)
        (folder / fixture / part).rename(folder / name)
    (folder / "corpus.txt").write_text("\n".join([*lines, "", *lines[::-1]] * 3) + "\n")
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("text\tlabel\n" + "".join(f"{line}\t{'bad' in line:d}\n" for line in lines))
    return folder


def _model_garden(vocabulary, folder):
    """A checkpoint and a TF-Hub module, which Model Garden writes."""
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("official", reason="pip install 'keras3-bert[pretrain]'")
    from official.nlp.configs import encoders
    from official.nlp.tools import export_tfhub_lib

    names = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
    sizes = {name: getattr(CONFIG, name) for name in names} | {"num_layers": CONFIG.num_hidden_layers}
    config = encoders.EncoderConfig({"type": "bert", "bert": sizes})
    checkpoint = tf.train.Checkpoint(encoder=encoders.build_encoder(config))
    path = checkpoint.save(str(folder / "garden-bert" / "ckpt"))
    vocabulary.save(folder / "garden-bert" / "vocab.txt")
    CONFIG.to_json(folder / "garden-bert" / "bert_config.json")
    export_tfhub_lib.export_model(
        str(folder / "hub-bert"),
        encoder_config=config,
        model_checkpoint_path=path,
        with_mlm=False,
        vocab_file=str(folder / "garden-bert" / "vocab.txt"),
        do_lower_case=True,
    )


@pytest.mark.parametrize("package", OTHERS)
def test_section(package, old, tmp_path, monkeypatch, eager):
    for path in old.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    names = {}
    kinds = []
    for block in (*BLOCK.finditer(START), *BLOCK.finditer(OTHERS[package])):
        kind, code = block.groups()
        kinds.append(kind)
        if kind == "python":
            exec(compile(code, package, "exec"), names)
        elif kind == "bash":
            for line in code.splitlines():
                program, *words = shlex.split(line)
                assert program == "keras-bert"
                result = CliRunner().invoke(app, words, catch_exceptions=False)
                assert result.exit_code == 0, result.output
    assert kinds in (["python", "py", "python"], ["python", "sh", "bash"])  # the start, theirs, ours


def test_every_package_has_a_section():
    links = re.findall(r"\]\(#([\w-]+)\)", START)
    assert links == [re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-") for name in OTHERS]
    assert len(links) == 9
    assert PAGE.count("Before:") == PAGE.count("With keras_bert:") == 9
