import json
import shutil

import numpy as np
import pytest

from keras_bert.pretraining import read_examples, write_examples
from tests.pretraining.corpus import VOCABULARY, corpus
from tests.pretraining.small_examples import contents

pytest.importorskip("apache_beam", reason="pip install 'keras3-bert[beam]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own, of which a release has a dozen


def statistics(directory):
    rows = masks = chosen = pieces = random_next = 0
    for x, y, weight in read_examples(directory, batch_size=1, epochs=1):
        rows += 1
        random_next += int(y["nsp_logits"][0])
        pieces += int(np.sum(x["input_mask"])) - 3
        chosen += int(np.sum(weight["mlm_logits"]))
        shown = np.take_along_axis(x["input_word_ids"].numpy(), x["masked_lm_positions"].numpy(), axis=1)
        masks += int(np.sum((shown == VOCABULARY["[MASK]"]) & (weight["mlm_logits"].numpy() > 0)))
    return {
        "rows": rows,
        "pieces": pieces / rows,
        "chosen": chosen / pieces,
        "masks": masks / chosen,
        "random": random_next / rows,
    }


def test_beam_and_the_local_writer_give_the_same_statistics(tmp_path):
    source = corpus(tmp_path, documents=60)
    options = {"vocabulary": VOCABULARY, "seq_length": 32, "shard_size": 8000}
    local = write_examples(source, tmp_path / "local", workers=1, **options)
    beam = write_examples(source, tmp_path / "beam", beam=["--runner=DirectRunner"], **options)
    assert beam[:2] == local[:2]
    assert beam.megabytes == local.megabytes
    ours, theirs = statistics(tmp_path / "local"), statistics(tmp_path / "beam")
    rows, pieces = ours["rows"], ours["rows"] * ours["pieces"]
    assert abs(ours["rows"] - theirs["rows"]) < 0.05 * rows
    assert abs(ours["pieces"] - theirs["pieces"]) < 0.05 * ours["pieces"]
    for name, want, count in (("chosen", 0.15, pieces), ("masks", 0.8, 0.15 * pieces), ("random", 0.5, rows)):
        assert abs(ours[name] - theirs[name]) < 3 * np.sqrt(2 * want * (1 - want) / count)
    write_examples(source, tmp_path / "again", beam=[], **options)
    names = [path.name for path in (tmp_path / "beam").glob("*.tfrecord")]
    assert len(names) > 2
    for name in names:
        assert (tmp_path / "beam" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_stopped_run_is_resumed_from_the_same_text(tmp_path):
    source = corpus(tmp_path, documents=60)
    options = {"vocabulary": VOCABULARY, "seq_length": 32, "shard_size": 20_000, "beam": []}
    write_examples(source, tmp_path / "complete", **options)
    shutil.copytree(tmp_path / "complete", tmp_path / "stopped")
    summary = json.loads((tmp_path / "stopped" / "examples.json").read_text())
    kept, *others = summary.pop("shards")
    for name in ("examples.json", "vocab.txt", *(shard["name"] for shard in others)):
        (tmp_path / "stopped" / name).unlink()
    (tmp_path / "stopped" / "unfinished.json").write_text(json.dumps(summary))
    (tmp_path / "stopped" / kept["name"]).with_suffix(".json").write_text(json.dumps(kept))
    shutil.copytree(tmp_path / "stopped", tmp_path / "changed")
    write_examples(source, tmp_path / "stopped", **options)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "complete")
    for file in source.iterdir():
        file.write_text(file.read_text().swapcase())  # of the same size
    with pytest.raises(
        Exception, match=r"changed since .*examples-00000\.tfrecord was made"
    ):  # of a class that Beam chooses
        write_examples(source, tmp_path / "changed", **options)


def test_one_document(tmp_path):
    (tmp_path / "a.txt").write_text("A b. C d.")
    with pytest.raises(ValueError, match=r"has one document.*--no-nsp"):
        write_examples(tmp_path / "a.txt", tmp_path / "a", vocabulary=VOCABULARY, beam=[])
