"""The rows and the commands of a SentenceEmbedder: finetune embed, and search."""

import dataclasses
import json
import os

import numpy as np
import pytest

import keras_bert
from keras_bert import SentenceEmbedder
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.readers import Reading, Rows
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.finished_task import FinishedTask
from tests.tasks.runs import run, train, write
from tests.tasks.small import POSITIVES, QUERIES, small_bert

RECIPE = FinetuneRecipe(learning_rate=0.02, epochs=3, batch_size=4)


@pytest.mark.usefixtures("eager")
def test_the_best_epoch_is_chosen_by_a_score_of_the_held_out_rows(tmp_path):
    """Which may be of another form than the rows that were trained on."""
    best = BestEpoch(tmp_path, Rows((QUERIES, POSITIVES), [1.0, 0.0, 0.5, 0.2], "valid.tsv", []))
    SentenceEmbedder(small_bert()).fit((QUERIES, POSITIVES), recipe=RECIPE, callbacks=[best.averages, best], verbose=0)
    assert (best.record["chosen_by"], best.done) == ("spearman", 3)


def test_rows_of_files(tmp_path, caplog):
    """A bad row is dropped before the names of the columns are known to be right; triples have no label."""
    caplog.set_level("INFO", "keras_bert")
    path = write(tmp_path / "a.tsv", [["a", "b", "c"], ["good", "film", "bad"], ["bad"]])
    pairs = SentenceEmbedder.read_rows(path, Reading(text=("a", "b"), header=True, skip_bad=True))
    assert (pairs.x, len(pairs.y or ())) == ((["good"], ["film"]), 0)
    assert "pairs without scores" in caplog.text
    caplog.clear()
    triple = Reading(text=("a", "b", "c"), header=True, skip_bad=True)
    assert len(SentenceEmbedder.read_rows(path, triple).x) == 3
    assert "pairs without scores" not in caplog.text
    with pytest.raises(ValueError, match=r"`label` was given, but pairs with negatives have no label.* Received: "):
        SentenceEmbedder.read_rows(path, dataclasses.replace(triple, label="score"))


@pytest.mark.long
def test_finetune_embed(bert, tmp_path):
    """Pairs, pairs with scores, pairs with negatives, and texts with labels, by the columns that are named."""
    words = ["good", "bad", "anna", "paul", "seoul", "paris"]
    rows = [[word, f"the {word} film", f"{words[i - 1]} ran", word[0], i % 2] for i, word in enumerate(words)] * 8
    path = write(tmp_path / "a.tsv", [["query", "match", "other", "kind", "score"], *rows])
    pair = ["--text", "query", "--text", "match", "--batch-size", 8]
    train(bert, "embed", path, path, tmp_path / "pairs", *pair, "--epochs", 4)
    metrics = json.loads((tmp_path / "pairs/metrics.json").read_text())
    assert metrics["chosen_by"] == "mrr"
    assert metrics["valid"]["recall@1"] > 0.9
    options = {
        "spearman": [*pair, "--label", "score"],
        "mrr": [*pair, "--text", "other"],
        "neighbour_accuracy": ["--text", "match", "--label", "kind"],
    }
    for number, (score, words) in enumerate(options.items()):
        assert score in train(bert, "embed", path, path, tmp_path / str(number), *words, "--epochs", 1)
    command = ["finetune", "embed", "--train", path, "--split", 0.25, "--output", tmp_path / "held", "--model", bert]
    assert "mrr" in run(*command, *pair, "--epochs", 1).output
    said = run("evaluate", tmp_path / "pairs", "--data", path, "--label", "score").output
    assert "spearman" in said
    answer = json.loads(run("predict", tmp_path / "pairs", input="the film\tis good\n").stdout)
    task = FinishedTask.load(tmp_path / "pairs").task
    assert np.abs(np.array(answer["vector"]) - task.embed("the film\tis good")[0]).max() <= 1e-6
    assert 'task.embed(["some text"])' in (tmp_path / "pairs/README.md").read_text()


def test_search(bert, tmp_path):
    corpus = tmp_path / "corpus.txt"
    texts = ["the film is good", "anna ran", "paul is in seoul", "the film"]
    corpus.write_text("\n".join(texts) + "\n")
    words = ["search", corpus, "--query", "anna", "--query", "seoul", "--model", bert, "--top", 2]
    plain = run(*words).stdout.splitlines()
    vectors = keras_bert.load(bert).embed([*texts, "anna", "seoul"], normalize=True)
    cosines = vectors[4:] @ vectors[:4].T
    expected = []
    for query, row in zip(("anna", "seoul"), cosines, strict=True):
        expected += [query, *(f"{row[i]:.4f}\t{i}\t{texts[i]}" for i in np.argsort(-row)[:2])]
    assert plain == expected
    kept = tmp_path / "vectors.npy"
    assert run(*words, "--vectors", kept).stdout.splitlines() == plain
    assert np.load(kept).shape == (4, 16)
    assert run(*words, "--vectors", kept).stdout.splitlines() == plain
    hits = [json.loads(line) for line in run(*words, "--vectors", kept, "--json").stdout.splitlines()]
    assert [hit["text"] for hit in hits[:2]] == [line.split("\t")[2] for line in plain[1:3]]
    corpus.write_text("\n".join([*texts, "more"]) + "\n")
    with pytest.raises(ValueError, match=r"another shape than \(5, 16\)\. .*shape \(4, 16\) for 5 texts"):
        run(*words, "--vectors", kept)


@pytest.mark.parametrize("writer", ["search", "embed", "another program"])
def test_search_notices_changed_texts(bert, tmp_path, writer):
    """Even one of many, in a file that has the time of the old one."""
    corpus, file = tmp_path / "corpus.txt", tmp_path / "vectors.npy"
    texts = ["anna ran", "paul is in seoul"] * 20
    corpus.write_text("\n".join(texts) + "\n")
    words = ["search", corpus, "--query", "anna", "--model", bert, "--vectors", file]
    if writer == "search":
        run(*words)
    else:
        run("embed", corpus, "--model", bert, "--output", file)
    if writer == "another program":
        (tmp_path / "vectors.npy.json").unlink()
    plain = run(*words).stdout
    os.utime(corpus, (2**33, 2**33))
    if writer == "another program":
        with pytest.raises(ValueError, match="older than"):
            run(*words)
        return
    assert run(*words).stdout == plain
    texts[2] = "the film is good"
    corpus.write_text("\n".join(texts) + "\n")
    os.utime(corpus, (0, 0))
    with pytest.raises(ValueError, match="of other texts"):
        run(*words)


def test_search_in_a_table_with_a_header(bert, tmp_path):
    (tmp_path / "t.csv").write_text("words;kind\n영화;film\nanna ran;run\n", encoding="cp949")
    words = ["search", tmp_path / "t.csv", "--query", "anna", "--model", bert, "--text", 0, "--json"]
    hits = run(*words, "--header", "--delimiter", ";", "--encoding", "cp949").stdout.splitlines()
    assert {json.loads(hit)["text"] for hit in hits} == {"영화", "anna ran"}


def test_search_reads_only_files_of_vectors(bert, tmp_path):
    corpus, file = tmp_path / "corpus.txt", tmp_path / "vectors.npy"
    corpus.write_text("anna ran\n")
    words = ["search", corpus, "--query", "anna", "--model", bert, "--vectors"]
    contents = [b"", b"abc"]
    for array in (np.array([{}], object), np.array([["a"]]), np.ones((1, 16), "float32")):
        np.save(file, array, allow_pickle=True)
        contents.append(file.read_bytes())
    whole = contents.pop()
    for content in (*contents, whole[:-1], whole.replace(b"}", b"("), whole.replace(b"1, 16", b"1,-16")):
        file.write_bytes(content)
        said = rf"vectors\.npy is not a file of vectors .*Received: {len(content)} bytes"
        with pytest.raises(ValueError, match=said):
            run(*words, file)
    with pytest.raises(ValueError, match=r"--vectors must end in \.npy"):
        run(*words, tmp_path / "task.keras")
    with pytest.raises(FileExistsError, match="--vectors must not be a file that the command reads"):
        run(*words, corpus)


@pytest.mark.parametrize("query", ["", " \t"])
def test_an_empty_query_is_refused(bert, tmp_path, query):
    with pytest.raises(ValueError, match="--query must have some text"):
        run("search", tmp_path / "corpus.txt", "--query", "anna", "--query", query, "--model", bert)
