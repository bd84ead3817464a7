"""Quotes in tables: around cells, or parts of the texts."""

import csv
import io

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.tasks.readers import read_labels
from keras_bert.tasks.readers.delimited import is_quoted
from keras_bert.tasks.readers.table import read_table


@pytest.mark.parametrize(
    "lines",
    [
        ['"good" film\tyes', "bad\tno"],
        ['the "good" film\tyes'],
        ['a 5" disc\tyes'],
        ['"\tyes', 'film"\tno'],
        ['"open\tyes', 'close"\tno'],  # as many columns as without quotes, so the rows stay two
        ['"Great film"\tyes', "bad\tno"],  # nothing in the cell needs quotes, and other texts have none
        ['""""x\tyes'],
        ['"""A ""good"" film"\tyes', "bad\tno"],  # quoted twice, as NSMC is, which everyone reads as it is
    ],
)
def test_quotes_that_are_parts_of_the_texts(lines):
    assert not is_quoted(lines, "\t")


def test_quotes_in_a_single_column(tmp_path):
    """As pandas writes cells with line breaks; a doubled quote in one of them shows that the quotes enclose cells."""
    texts = ["first\nsecond", "x", 'say "hi"\nyou']
    file = tmp_path / "one.tsv"
    pandas.DataFrame({"text": texts}).to_csv(file, sep="\t", index=False)
    assert read_labels(file, "text", None).x == texts


def test_quotes_that_can_be_either_cause_a_warning(tmp_path, caplog):
    file = tmp_path / "even.tsv"
    file.write_text('label\ttext\nno\t"first\nyes\tsecond"\n')
    assert read_labels(file).x == ['"first', 'second"']
    assert "could also enclose cells of several lines. If they do, add --format csv --delimiter tab." in caplog.text
    assert read_labels(file, format="csv", delimiter="\t").x == ["first\nyes\tsecond"]


CELLS = st.text(st.sampled_from("ab \"'\t\n,;\r1."), min_size=1, max_size=6)


@pytest.mark.parametrize(("name", "delimiter", "without"), [("a.csv", ",", "\r"), ("a.tsv", "\t", "\r\n")])
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(CELLS, min_size=1, max_size=6))
def test_what_a_csv_writer_wrote_is_read(tmp_path_factory, name, delimiter, without, texts):
    path = tmp_path_factory.mktemp("tables") / name
    texts = ["".join(letter for letter in text if letter not in without) or "x" for text in texts]
    if delimiter == "\t":  # see test_quotes_that_are_parts_of_the_texts
        texts = ["x" + text if text.startswith('"') else text for text in texts]
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerows([("text", "label"), *((text, 1) for text in texts)])
    path.write_text(file.getvalue(), newline="")
    assert read_table(path, header=True).column("text") == texts
