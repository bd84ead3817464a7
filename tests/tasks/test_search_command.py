"""`keras-bert search`: the nearest texts, and files that keep the vectors of a corpus."""

import json
import os

import numpy as np
import pytest

import keras_bert
from tests.tasks.runs import run


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
    with pytest.raises(ValueError, match=r"of these texts, which are 5 and not 4\. .*shape \(4, 16\)"):
        run(*words, "--vectors", kept)


def test_search_notices_a_model_that_has_changed_a_little(bert, tmp_path):
    corpus, file = tmp_path / "corpus.txt", tmp_path / "vectors.npy"
    corpus.write_text("anna ran\n")
    words = ["search", corpus, "--query", "anna", "--model", bert, "--vectors", file]
    run(*words)
    record = tmp_path / "vectors.npy.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"sha256_of_model": "of other weights"}))
    with pytest.raises(ValueError, match="of another model"):
        run(*words)


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
    file.write_bytes(whole)
    corpus.write_text("anna ran\nanna\n")
    with pytest.raises(ValueError, match=r"vectors\.npy is not of these texts, which are 2 and not 1"):
        run(*words, file)
    with pytest.raises(ValueError, match=r"--vectors must end in \.npy"):
        run(*words, tmp_path / "task.keras")
    with pytest.raises(FileExistsError, match="--vectors must not be a file that the command reads"):
        run(*words, corpus)


def test_empty_lines_are_no_answer(bert, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("anna ran\n\n \t \nthe film\n\n")
    words = ["search", corpus, "--query", "anna", "--model", bert, "--json"]
    assert sorted(json.loads(line)["row"] for line in run(*words).stdout.splitlines()) == [0, 3]
    assert len(run(*words, "--top", 1).stdout.splitlines()) == 1
    corpus.write_text("\n \t \n")
    with pytest.raises(ValueError, match=r"corpus.txt has only empty texts"):
        run(*words)


@pytest.mark.parametrize("query", ["", " \t", "\u200b"])
def test_an_empty_query_is_refused(bert, tmp_path, query):
    with pytest.raises(ValueError, match="--query must have some text"):
        run("search", tmp_path / "corpus.txt", "--query", "anna", "--query", query, "--model", bert)


def test_search_in_standard_input(bert, tmp_path):
    """The vectors are kept too. Those of another program are refused, because their age cannot be compared."""
    file = tmp_path / "vectors.npy"
    words = ["search", "-", "--query", "anna", "--model", bert, "--vectors", file]
    plain = run(*words, input="anna ran\nthe film\n").stdout
    assert len(plain.splitlines()) == 3
    assert run(*words, input="anna ran\nthe film\n").stdout == plain
    with pytest.raises(ValueError, match=r"or has vectors of other texts.* for standard input"):
        run(*words, input="anna ran\nthe actor\n")
    (tmp_path / "vectors.npy.json").unlink()
    with pytest.raises(ValueError, match="was not written by keras-bert"):
        run(*words, input="anna ran\nthe film\n")


def test_each_text_found_is_one_line(bert, tmp_path):
    (tmp_path / "t.csv").write_text('text\n"anna\n\tran"\n')
    found = run("search", tmp_path / "t.csv", "--query", "anna\nran", "--model", bert).stdout.splitlines()
    assert found[0] == r"anna\nran"
    assert found[1].split("\t")[1:] == ["0", r"anna\n\tran"]


@pytest.mark.parametrize("name", ["t.ndjson", "t.parquet", "t.JSONL"])
def test_search_in_every_table(bert, tmp_path, name):
    if name == "t.parquet":
        pyarrow, parquet = (pytest.importorskip(one) for one in ("pyarrow", "pyarrow.parquet"))
        parquet.write_table(pyarrow.table({"text": ["anna ran", None]}), tmp_path / name)
    else:
        (tmp_path / name).write_text('{"text": "anna ran"}\n{"text": null}\n{"kind": "film"}\n')
    words = ["search", tmp_path / name, "--query", "anna", "--model", bert, "--json"]
    assert [json.loads(hit)["text"] for hit in run(*words).stdout.splitlines()] == ["anna ran"]


def test_a_text_that_is_a_number(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "anna ran"}\n{"text": 5}\n')
    for words in (["search", "--query", "anna"], ["embed", "--json"]):
        with pytest.raises(ValueError, match=r"t\.jsonl, line 2: the text in column 'text' is not a string.*: 5"):
            run(words[0], tmp_path / "t.jsonl", *words[1:], "--model", "tiny")
