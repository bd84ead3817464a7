"""The commands that are disturbed, what they read, and which bytes of what they write must be the same again."""

import io
import json
import random
import re
import sys
import zipfile
from pathlib import Path

import h5py

DOWNLOAD = "2020_02_20/uncased_L-2_H-128_A-2"

# Of each command, the words after `keras-bert`. They run in a folder with `inputs`, and write below `out`.
COMMANDS = {
    "vocab": "vocab inputs/corpus --size 60 --output out/vocab.txt",
    "examples": "examples inputs/corpus --vocab inputs/vocab.txt --output out/examples --seq-length 16 "
    "--shard-size 3000 --workers 1",
    "examples-on-two": "examples inputs/corpus --vocab inputs/vocab.txt --output out/examples --seq-length 16 "
    "--shard-size 3000 --workers 2",
    "convert-hf": "convert inputs/source out/model --to hf",
    "convert-google": "convert inputs/source out/model --to google",
    "convert-keras-bert": "convert inputs/source out/model --to keras-bert",
    "download": "",
    "download-hub": "",
    "pretrain": "pretrain --data inputs/examples --data-512 inputs/longer --output out/run --from inputs/source "
    "--steps 8 --batch-size 8 --strategy one --checkpoint-every 2 --steps-per-loop 1 --keep 2 --seed 1",
    "finetune": "finetune classify --train inputs/train.tsv --valid inputs/valid.tsv --output out/run "
    "--model inputs/source --epochs 2 --seq-length 16 --batch-size 8 --save-every 2",
    "export": "export inputs/source --name small --output out",
}


def run(name: str) -> int:
    """The exit code of a command, in the current folder."""
    if name in ("download", "download-hub"):
        from keras_bert.weights import download, hugging_face_download

        try:
            if name == "download":
                download.google(DOWNLOAD, Path("out"))
            else:
                hugging_face_download.snapshot("org/model", Path("out"))
        except (OSError, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    import keras

    import keras_bert_cli

    keras.utils.set_random_seed(0)  # an export keeps the states of dropout, which each process draws anew
    sys.argv = ["keras-bert", *COMMANDS[name].split()]
    try:
        keras_bert_cli.main()
    except SystemExit as end:
        return end.code or 0
    return 0


def prepare() -> int:
    """Write `inputs`: a corpus, its vocabulary, examples of it, a model, the same for the hub, and labelled reviews."""
    from keras_bert.pretraining import write_examples
    from keras_bert.weights.convert import convert
    from tests.pretraining.corpus import VOCABULARY, corpus
    from tests.pretraining.small_source import write_source

    texts = corpus(Path("inputs"), files=2, documents=12)
    for name, length in (("examples", 16), ("longer", 24)):
        options = {"seq_length": length, "shard_size": 3000, "workers": 1}
        write_examples([texts], f"inputs/{name}", vocabulary=VOCABULARY, **options)
    write_source(Path("inputs/source"), VOCABULARY, positions=24)
    convert("inputs/source", "hf", "inputs/hub")
    chance = random.Random(0)
    for name, count in (("train", 24), ("valid", 8)):
        rows = [(f"{chance.choice('abc')} {label}", label) for label in chance.choices("de", k=count)]
        Path(f"inputs/{name}.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return 0


# === What is compared ===

SAME_RESULT = {"examples-on-two": "examples"}
PROBE = re.compile(r"^huggingface/.*/tmp(_[0-9a-f-]{36}$|\w{8}$|\w{8}/dummy_file)")
HUB = re.compile(rf"{PROBE.pattern}|^huggingface/(CACHEDIR.TAG|.*/blobs/[0-9a-f]{{40}})$")
TIMED = ("seconds_per_step", "examples_per_second", "tokens_per_second", "share_of_peak")


def contents(folder: Path) -> dict[str, object]:
    """Every file below a folder by its name, with what must be the same in each run.

    Not compared:
    - of huggingface_hub, the empty files by which it finds out what the file system can do, the file by which it marks
      a cache for backup programs, which it writes only once, and its blobs: if the disk was full when it tried to make
      a link to one, the snapshot has the file itself;
    - TensorBoard's files, of which a resumed run has one for each start;
    - the time stamps in TensorFlow's record of its checkpoints, in the members of a .keras file and in a manifest;
    - the names in a .keras file that Keras makes by counting;
    - speeds, and the picture of a pretraining run that shows them, but for its first and last bytes;
    - the graphs of a SavedModel, the map of its objects and their digests: TensorFlow orders them anew each time.
    """
    return dict(
        entry
        for path in sorted(folder.rglob("*"))
        for entry in [_entry(path.relative_to(folder).as_posix(), path)]
        if entry is not None
    )


def _entry(name: str, path: Path) -> tuple[str, object] | None:
    if path.is_dir() and not PROBE.search(name):
        return f"{name}/", None
    if "events.out.tfevents" in name or HUB.search(name):
        return None
    if path.name in ("saved_model.pb", "fingerprint.pb", "variables.index"):
        return name, None
    if path.name.startswith("variables.data"):
        return name, _variables(path.with_name("variables"))
    data = path.read_bytes()
    if name.endswith(".keras") and zipfile.is_zipfile(path):  # otherwise its process was stopped in the middle of it
        return name, _members(data)
    if path.name == "checkpoint":
        return name, re.sub(rb".*timestamp.*\n", b"", data)
    if path.name == "metrics.jsonl":
        *lines, torn = data.split(b"\n")  # torn: of a process that was stopped in the middle of a line
        records = map(json.loads, lines)
        return name, [*({key: one[key] for key in one if key not in TIMED} for one in records), torn]
    if path.name == "curve.png" and path.with_name("run.json").exists():
        return name, (data[:8], data[-8:])
    if path.name == "manifest.json":
        facts = json.loads(data)
        files = {
            file: None if file.endswith((".pb", ".index")) or ".data-" in file else digest
            for file, digest in facts["files"].items()
        }
        return name, {**facts, "made": None, "files": files}
    return name, data


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        found = {name: opened.read(name) for name in opened.namelist()}
    arrays: dict[str, bytes] = {}
    with h5py.File(io.BytesIO(found.pop("model.weights.h5"))) as file:
        file.visititems(lambda name, x: arrays.update({name: x[()].tobytes()} if isinstance(x, h5py.Dataset) else {}))
    return found | arrays | {"metadata.json": b""}


def _variables(prefix: Path) -> dict[str, bytes]:
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(str(prefix))
    except tf.errors.OpError as error:  # it was cut off
        return {"damaged": str(error).encode()}
    names = set(reader.get_variable_to_shape_map()) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
    return {name: reader.get_tensor(name).tobytes() for name in names}
