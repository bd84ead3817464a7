"""Damaged and forged model files: a loader returns a model or one clear error, without much memory.

The loop runs in a process of its own, so that a crash of a library fails the test.
"""

import dataclasses
import json
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.hostile.profile import FACTOR
from tests.subprocesses import fork

if not sys.platform.startswith("linux"):
    pytest.skip("the peak is read from /proc", allow_module_level=True)

FORMATS = ("our folder", "keras", "hugging face", "google", "export")
LIMIT = 400 << 20  # bytes that a file of a few kB may take
HOSTILE = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    1e308,
    "",
    "a",
    "../../etc/passwd",
    [],
    [1],
    {},
    {"a": 1},
    [["a", "b"]],
    "\ud800",
)


def write(kind, folder):
    """A small model in a format."""
    import keras_bert
    from keras_bert.weights import google, hugging_face, our_folder
    from tests.small_exports import leave_out_preprocess
    from tests.tasks.small import small_task
    from tests.weights import small

    checkpoint = small.checkpoint("classifier", num_hidden_layers=1, labels=("bad", "good", "odd"))
    if kind == "our folder":
        our_folder.write_checkpoint(checkpoint, folder)
    elif kind == "hugging face":
        hugging_face.write_checkpoint(checkpoint, folder)
    elif kind == "google":
        google.write_checkpoint(dataclasses.replace(checkpoint, heads={}), folder)
    elif kind == "keras":
        folder.mkdir()
        small_task("classifier").save(folder / "model.keras")
    else:
        with pytest.MonkeyPatch.context() as patch:
            leave_out_preprocess(patch)
            keras_bert.export(small_task("classifier"), folder)
        shutil.rmtree(folder / "serving", ignore_errors=True)


def change_json(path, draw):
    """Put another value in a random place of a JSON file."""
    try:
        data = json.loads(path.read_bytes())
    except ValueError:
        return "already damaged"
    spot = data
    while spot:
        key = draw.choice(list(spot) if isinstance(spot, dict) else range(len(spot)))
        if not spot[key] or not isinstance(spot[key], dict | list) or draw.random() < 0.3:
            spot[key] = draw.choice(HOSTILE)
            path.write_text(json.dumps(data))
            return f"{key}={spot[key]!r}"
        spot = spot[key]
    return "empty"


def damage(folder, draw):
    """Change one file of a folder; returns what was done."""
    path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()) or [folder / "none"])
    if not path.exists():
        return "no file is left"
    content = bytearray(path.read_bytes())
    how = draw.choice(("flip", "cut", "insert", "zeros", "remove", *["json"] * 4 * (path.suffix == ".json")))
    place = draw.randrange(len(content) + 1)
    if how == "remove":
        path.unlink()
    elif how == "json":
        how = change_json(path, draw)
    else:
        if how == "flip" and content:
            for _ in range(draw.choice((1, 1, 20))):
                content[draw.randrange(len(content))] = draw.randrange(256)
        elif how == "cut":
            del content[place:]
        elif how == "insert":
            content[place:place] = draw.randbytes(draw.choice((1, 8, 100)))
        elif how == "zeros":
            content[place : place + 8] = b"\xff" * 8 if draw.random() < 0.5 else bytes(8)
        path.write_bytes(content)
    return f"{path.relative_to(folder)}: {how} at {place}"


def attack(kind, count, seed, base):
    """What went wrong with damaged copies of a small model."""
    import keras_bert
    from tests.hostile.test_memory import status

    base = Path(base)
    write(kind, base / "model")
    load(keras_bert, base / "model")
    before, wrong = status("VmRSS"), []
    for number in range(count):
        draw = random.Random(f"{kind} {seed} {number}")
        folder = base / f"model{number}"
        shutil.copytree(base / "model", folder)
        done = [damage(folder, draw) for _ in range(draw.choice((1, 1, 2)))]
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # resets the peak
        try:
            load(keras_bert, folder)
        except (ValueError, OSError, TypeError, KeyError) as error:
            said = str(error)
            if "Received: " not in said and not isinstance(error, OSError):
                wrong.append(f"{done}: {type(error).__name__} without Received: {said[:300]}")
        except Exception as error:
            wrong.append(f"{done}: {type(error).__name__}: {str(error)[:300]}")
        if (used := status("VmHWM") - before) > LIMIT:
            wrong.append(f"{done}: {used >> 20} MiB")
            before = status("VmRSS")
        shutil.rmtree(folder)
    return wrong


def load(keras_bert, folder):
    source = next(folder.glob("*.keras"), folder)
    keras_bert.load(source)
    if any(folder.rglob("*classifier*")) or (folder / "heads.json").exists() or source.suffix == ".keras":
        keras_bert.TextClassifier.load(source)


@pytest.mark.long
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_models(kind, tmp_path):
    wrong = fork(attack, kind, 40 * max(1, FACTOR), random.randrange(2**32) if FACTOR else 0, tmp_path)
    assert not wrong, "\n".join(wrong)
