"""Writing examples: shards, and resuming."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

from keras_bert.pretraining import read_examples, write_examples
from keras_bert.pretraining.examples.examples_directory import finish
from keras_bert.pretraining.examples.masking import Masking
from keras_bert.pretraining.examples.read_examples import ExampleReader
from keras_bert.pretraining.examples.shard_writer import Shard, ShardWriter
from keras_bert.text.vocabulary import Vocabulary
from tests.pretraining.corpus import SPECIAL, VOCABULARY, document
from tests.pretraining.small_examples import batches, contents, same, unmasked, write

module = sys.modules["keras_bert.pretraining.examples.write_examples"]
SEP, MASK = (VOCABULARY[token] for token in ("[SEP]", "[MASK]"))


@pytest.mark.long
def test_same_bytes_whatever_the_number_of_workers(source, tmp_path):
    options = {"mode": "static", "dupe_factor": 2}
    one = write(source, tmp_path / "one", **options)
    two = write(source, tmp_path / "two", workers=2, **options)
    assert one[:4] == two[:4]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(contents(tmp_path / "one")) > 5


def test_many_unknown_pieces(tmp_path, caplog):
    """As if the text were in another language than the vocabulary."""
    chance = random.Random(0)
    for number, letters in enumerate(("abcdefghij", "klmnopqrst")):
        words = [["".join(chance.choices(letters, k=2)) for _ in range(8)] for _ in range(400)]
        (tmp_path / f"{number}.txt").write_text("\n\n".join(" ".join(line) + "." for line in words))
        caplog.clear()
        write(tmp_path / f"{number}.txt", tmp_path / f"examples-{number}", nsp=False)
        assert ("of the pieces of the examples are [UNK]" in caplog.text) == bool(number)
    assert "77 % of the pieces" in caplog.text


def test_another_seed_gives_other_examples(source, dynamic, tmp_path):
    write(source, tmp_path / "a", seed=1)
    names = [name for name in contents(dynamic) if name.endswith(".tfrecord")]
    assert all(contents(dynamic)[name] != contents(tmp_path / "a")[name] for name in names)


def test_examples_json_describes_the_directory(source, dynamic):
    summary = json.loads((dynamic / "examples.json").read_text())
    assert {path.name for path in dynamic.iterdir()} == {
        "examples.json", "vocab.txt", "tokenizer_config.json", *(shard["name"] for shard in summary["shards"])
    }  # fmt: skip
    written = write(source, dynamic)  # already finished
    assert "MB/s" not in str(written)
    assert written.documents == 90
    assert written.examples == len(ExampleReader.open(dynamic)) == sum(shard["examples"] for shard in summary["shards"])
    assert written.sentences == sum(path.read_text().count(".") for path in source.iterdir())
    assert Vocabulary.from_file(dynamic / "vocab.txt") == VOCABULARY


@pytest.mark.long
@pytest.mark.parametrize("seconds", [5, 60], ids=["importing", "writing"])
def test_ctrl_c_ends_the_workers_too(source, tmp_path, seconds):
    """A terminal sends it to all processes, also to a worker that is still importing. None prints a traceback."""
    code = f"""
        import sys, time
        from keras_bert.pretraining import write_examples
        from keras_bert.pretraining.examples.shard_writer import ShardWriter
        from keras_bert.text.vocabulary import Vocabulary

        def wait(*_):
            print("ready", flush=True)
            time.sleep({seconds})

        if __name__ == "__main__":
            options = {{"vocabulary": Vocabulary({list(VOCABULARY.tokens)!r}), "workers": 2, "shard_size": 1}}
            write_examples({str(source)!r}, {str(tmp_path / "examples")!r}, **options)
        elif {seconds} < 10:
            wait()
        else:
            ShardWriter.write = wait
    """
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(code))
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=40)
    assert process.returncode != 0
    assert said.count("Traceback") == 1  # that of the script itself


def test_writing_resumes_after_an_interruption(source, dynamic, tmp_path, monkeypatch):
    write_shard = ShardWriter.write

    def interrupted(self, number, unit):
        if number == 3:
            raise KeyboardInterrupt
        return write_shard(self, number, unit)

    with monkeypatch.context() as patch:
        patch.setattr(ShardWriter, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(source, tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="not finished"):
        read_examples(tmp_path / "a", batch_size=1)
    with pytest.raises(FileExistsError, match=r"seed=1 \(was 0\)"):
        write(source, tmp_path / "a", seed=1)
    kept = tmp_path / "a" / "examples-00001.tfrecord"
    before = kept.stat().st_mtime_ns
    (tmp_path / "a" / ".examples-00003.tfrecord.1.partial").write_text("an incomplete shard")
    (tmp_path / "a" / "vocab.txt").unlink()  # as after a kill before they are written
    (tmp_path / "a" / "tokenizer_config.json").unlink()
    write(source, tmp_path / "a")
    assert kept.stat().st_mtime_ns == before
    assert contents(tmp_path / "a") == contents(dynamic)


def test_shards_are_listed_by_number(tmp_path):
    """Also beyond 99,999, however many processes wrote them."""
    names = [f"examples-{number:05d}.tfrecord" for number in (2, 99_999, 100_000, 100_001)]
    shards = [Shard(name, 1, 1, 1, 1, 1, 1, 1) for name in names]
    for given in (shards, shards[::-1], sorted(shards)):
        finish(str(tmp_path), {"settings": {"nsp": False, "seq_length": 8}}, given)
        found = json.loads((tmp_path / "examples.json").read_text())
        assert [shard["name"] for shard in found["shards"]] == names


@pytest.mark.long
def test_two_at_once_in_one_directory(tmp_path):
    """The second one is refused, and the first one is not disturbed."""
    vocabulary = Vocabulary([*SPECIAL, "a"])
    texts = ["a a.\na a."] * 4

    def corpus():
        yield from texts[:3]
        with pytest.raises(RuntimeError, match=f"{tmp_path / 'examples'} is in use by another process"):
            write_examples(iter(texts), tmp_path / "examples", vocabulary=vocabulary)
        yield from texts[3:]

    write_examples(corpus(), tmp_path / "examples", vocabulary=vocabulary, shard_size=1, workers=1)
    assert not (tmp_path / "examples" / ".lock").exists()
    write_examples(iter(texts), tmp_path / "again", vocabulary=vocabulary, shard_size=1, workers=1)
    assert contents(tmp_path / "examples") == contents(tmp_path / "again")


def test_a_changed_corpus_is_refused_on_resuming(source, tmp_path, monkeypatch):
    changed = tmp_path / "corpus"
    shutil.copytree(source, changed)
    write_shard = ShardWriter.write
    with monkeypatch.context() as patch:
        patch.setattr(ShardWriter, "write", lambda *a: write_shard(*a) if a[1] < 2 else (_ for _ in ()).throw(OSError))
        with pytest.raises(OSError):  # noqa: PT011  the one raised above
            write(changed, tmp_path / "a")
    text = (changed / "0.txt").read_text()
    (changed / "0.txt").write_text(text[:100].swapcase() + text[100:])  # of the same size
    with pytest.raises(ValueError, match=r"changed since .*examples-00000\.tfrecord was made"):
        write(changed, tmp_path / "a")


def test_another_corpus_in_memory(tmp_path, monkeypatch):
    """It is refused in a finished directory. In an unfinished one, no shard of the other corpus stays."""
    texts = ["A b. C d."] * 4
    options = {"shard_size": 1}
    written = write(iter(texts), tmp_path / "a", **options)
    assert write(iter(texts), tmp_path / "a", **options) == written._replace(seconds=0)
    for other in (["B a. D c."] * 4, texts[:2]):
        with pytest.raises(FileExistsError, match="a holds the examples of another corpus"):
            write(iter(other), tmp_path / "a", **options)
    with monkeypatch.context() as patch:
        patch.setattr("keras_bert.pretraining.examples.write_examples.finish", lambda *_: (tmp_path / "b").read_text())
        with pytest.raises(IsADirectoryError):
            write(iter(texts), tmp_path / "b", **options)
    write(iter(texts[:2]), tmp_path / "b", **options)
    write(iter(texts[:2]), tmp_path / "c", **options)
    assert contents(tmp_path / "b") == contents(tmp_path / "c")


def test_too_little_text_leaves_nothing(tmp_path, monkeypatch):
    """So that the corrected command is not refused."""
    monkeypatch.setattr(ShardWriter, "_rows", lambda *_: [])
    with pytest.raises(ValueError, match="too little text"):
        write(iter(["A b. C d."] * 2), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_directories_with_other_content(source, dynamic, tmp_path):
    for change in ({"seq_length": 64}, {"nsp": False}, {"masking": Masking(rate=0.2)}, {"lowercase": False}):
        with pytest.raises(FileExistsError, match="holds other examples"):
            write(source, dynamic, **change)
    with pytest.raises(FileExistsError, match="other corpus"):
        write(source / "0.txt", dynamic)
    older = shutil.copytree(dynamic, tmp_path / "older")
    facts = json.loads((older / "examples.json").read_text())
    del facts["settings"]["encoding"], facts["settings"]["masking"]["whole_word"]
    (older / "examples.json").write_text(json.dumps(facts))
    write(source, older)
    assert same(batches(older, 1), batches(dynamic, 1))
    facts["settings"]["newer"] = True
    (older / "examples.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match=r"of another release.*Received: format 1 with the settings .*newer"):
        read_examples(older, batch_size=8)
    (tmp_path / "model.keras").write_text("")
    with pytest.raises(FileExistsError, match=r"is not empty.*model\.keras"):
        write(source, tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sequence_length": 64}, TypeError, r"write_examples\(\) has no argument `sequence_length`.*seq_length.*=64"),
        ({"seq_length": 4}, ValueError, "`seq_length` must be at least 5"),
        ({"seq_length": 2}, ValueError, "`seq_length` must be at least 5"),
        ({"seq_length": 2, "nsp": False}, ValueError, "`seq_length` must be at least 3"),
        ({"mode": "fixed"}, ValueError, "`mode` must be one of dynamic, static"),
        ({"sentences": "words"}, ValueError, "`sentences` must be one of rules, line"),
        ({"boundary": "page"}, ValueError, "`boundary`"),
        ({"dupe_factor": 0}, ValueError, "`dupe_factor` must be at least 1"),
        ({"short_seq_prob": 2}, ValueError, "`short_seq_prob` must be between 0 and 1"),
        ({"seed": 2**63}, ValueError, "`seed`"),
        ({"workers": 4, "beam": []}, ValueError, "`workers` cannot be used with `beam`.*Received: workers=4"),
        ({"workers": 0}, ValueError, "`workers` must be at least 1"),
    ],
)
def test_options_out_of_range(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        write(iter(["A b. C d."] * 2), tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_corpora_without_pairs(tmp_path, caplog):
    with pytest.raises(ValueError, match="no text"):
        write(iter([]), tmp_path / "a")
    with pytest.raises(ValueError, match=r"no text\..*no document$"):
        write(iter(["", " \n"]), tmp_path / "a")
    with pytest.raises(ValueError, match=r"has one document.*--no-nsp"):
        write(iter(["A b. C d."]), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert write(iter(["A b. C d."]), tmp_path / "a", nsp=False).examples == 1
    caplog.clear()
    assert write(iter(["A b."] * 20), tmp_path / "b").examples == 20  # of one sentence each
    assert "In 100 % of the pairs the second segment is random" in caplog.text
    (tmp_path / "short.txt").write_text("A b.\n\n" * 20)
    write(tmp_path / "short.txt", tmp_path / "c")
    assert "In 100 % of the pairs from short.txt the second segment is random" in caplog.text


def test_a_vocabulary_that_cannot_be_used_leaves_nothing(source, tmp_path):
    with pytest.raises(ValueError, match=r"no \[MASK\]"):
        write(source, tmp_path / "a", vocabulary=Vocabulary(token for token in VOCABULARY if token != "[MASK]"))
    assert not (tmp_path / "a").exists()


def test_paragraphs_as_documents_are_warned_of(tmp_path, caplog):
    """By two books in the form of Project Gutenberg: blank lines between paragraphs, and hard-wrapped lines."""
    chance = random.Random(0)
    for name in "ab":
        paragraphs = ["\n".join(textwrap.wrap(document(chance, 3), 40)) for _ in range(200)]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(paragraphs))
    source = [tmp_path / "a.txt", tmp_path / "b.txt"]
    options = {"seq_length": 128, "short_seq_prob": 0}
    short = write(source, tmp_path / "short", **options)
    assert "--documents file" in caplog.text
    assert short.real_share < 0.5
    assert short.sentences == sum(path.read_text().count(".") for path in source)  # across the ends of lines
    caplog.clear()
    long = write(source, tmp_path / "long", boundary="file", **options)
    assert not caplog.text
    assert long.real_share > 0.95
    assert 0.4 < long.random_share < 0.6
    batch = next(iter(read_examples(tmp_path / "long", batch_size=long.examples)))
    assert long.real_share == pytest.approx(np.mean(batch[0]["input_mask"]))


def test_a_shard_has_at_least_two_documents(tmp_path):
    chance = random.Random(0)
    texts = [document(chance, 400) for _ in range(5)]  # each larger than a shard
    write(iter(texts), tmp_path / "a", shard_size=100)
    labels = np.concatenate([batch["y/nsp_logits"] for batch in batches(tmp_path / "a", batch_size=1, epochs=1)])
    assert 0.3 < labels.mean() < 0.7
    assert len(list((tmp_path / "a").glob("*.tfrecord"))) == 2


def test_sentences_longer_than_the_row(tmp_path):
    long = " ".join("abcdefghij" * 10)
    for nsp in (True, False):
        write(iter([f"{long}. {long}.", long]), tmp_path / str(nsp), nsp=nsp)
        (batch,) = batches(tmp_path / str(nsp), batch_size=len(ExampleReader.open(tmp_path / str(nsp))), epochs=1)
        assert (batch["x/input_mask"].sum(1) <= 32).all()
        if not nsp:  # nothing is lost
            pieces = sum(len(row) - 1 - row.count(SEP) for row in unmasked(batch))
            assert pieces == 302


def test_the_shortest_rows(tmp_path):
    for length, nsp in ((5, True), (3, False)):
        assert write(iter(["A b. C d."] * 2), tmp_path / str(length), seq_length=length, nsp=nsp).examples


def test_a_binary_file_is_named_and_nothing_is_written(source, tmp_path):
    shutil.copytree(source, tmp_path / "corpus")
    (tmp_path / "corpus" / "1.txt").write_bytes(b"\x89PNG\xff\0\0")
    with pytest.raises(ValueError, match=r"1\.txt, line 1, is not UTF-8.*or no text at all\."):
        write(tmp_path / "corpus", tmp_path / "a", shard_size=10**9)
    assert not (tmp_path / "a").exists()


def test_a_full_disk_leaves_only_complete_shards(source, dynamic, tmp_path):
    """A limit on the size of files has the effect of a full disk."""
    size = (dynamic / "examples-00000.tfrecord").stat().st_size
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 100, limit[1]))
    try:
        with pytest.raises(
            OSError, match=r"Could not write .*/a/examples-00000\.tfrecord: File too large\. .*Free some space"
        ):
            write(source, tmp_path / "a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list((tmp_path / "a").glob("*.tfrecord"))
    assert not list((tmp_path / "a").glob(".*.partial"))
    write(source, tmp_path / "a")
    assert contents(tmp_path / "a") == contents(dynamic)


def test_a_worker_that_is_killed(source, tmp_path, monkeypatch):
    killed = Future()
    killed.set_exception(BrokenProcessPool("terminated abruptly"))
    monkeypatch.setattr(ProcessPoolExecutor, "submit", lambda *_: killed)
    with pytest.raises(RuntimeError, match=r"worker process ended .*a, probably.*--workers.*Received: workers=2"):
        write(source, tmp_path / "a", workers=2)


def test_a_remote_directory(source, dynamic):
    write(source, "ram://examples/a")
    assert same(batches("ram://examples/a", 4), batches(dynamic, 4))
