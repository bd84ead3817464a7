"""The readers of words with tags, on the shared data and on small files, and what each says of a bad one."""

import re
import unicodedata

import pytest

from keras_bert import TokenTagger
from keras_bert.tasks.readers import Reading, Rows, read_conll, read_conllu, read_klue_ner
from keras_bert.tasks.readers.conll import tagged_rows


def test_conll(write):
    text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nGermany NNP B-LOC\n"
    examples = read_conll(write("a.conll", text))
    assert examples.x == [["EU", "rejects"], ["Germany"]]
    assert examples.y == [["B-ORG", "O"], ["B-LOC"]]
    assert examples.ids == [3, 7]
    assert read_conll(write("a.conll", text), tag=1).y == [["NNP", "VBZ"], ["NNP"]]


def test_conll_uneven(write):
    with pytest.raises(ValueError, match=r"a.conll, line 4, has 3 columns instead of 2.*Received: 3 columns"):
        read_conll(write("a.conll", "a O\n\nb O\nc d O\n"))


def test_conll_without_a_word(write):
    with pytest.raises(ValueError, match=r"a.conll, line 2: the word is empty"):
        read_conll(write("a.conll", "a\tO\n\tO\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Anna\nran\n", "a.conll, line 1, has a word but no tag.*Received: 'Anna'"),
        ("a\tB-PER\n\nb\tO\nc\tVERB\n", "a.conll, line 4: this tag has no prefix.*Received: 'VERB'"),
        ("a\tI-PER\nb\tB_PER\n", "a.conll, line 2: this tag .*Received: 'B_PER'"),
        ("a\tO\n \tO\n", "a.conll, line 2: the word is white space.*klue-ner.*Received: ' '"),
    ],
)
def test_bad_conll(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write("a.conll", text))


def test_a_table_of_texts_is_no_sentence(write):
    table = write("a.tsv", "text\tlabel\na good film\tyes\na bad film\tno\n")
    with pytest.raises(ValueError, match=r"a.tsv looks like a table of texts.*Received: 'a good film' as a word"):
        TokenTagger.read_rows(table, Reading())
    assert TokenTagger.read_rows(table, Reading(format="conll")).x == [["text", "a good film", "a bad film"]]
    words = write("b.tsv", "New York\tB-LOC\nis\tO\nbig\tO\n")
    assert TokenTagger.read_rows(words, Reading()).x == [["New York", "is", "big"]]


def test_conll_tags_of_one_scheme(write):
    assert read_conll(write("a.conll", "a\nb\n"), tag=None).x == [["a", "b"]]
    for tags in ("O\nO", "B-PER\nE-PER", "PER\nO", "NOUN\nVERB"):
        first, second = tags.split()
        assert read_conll(write("a.conll", f"a\t{first}\nb\t{second}\n")).y == [[first, second]]


def test_conllu(write):
    def row(number, form, upos):
        return "\t".join([number, form, form.lower(), upos, *"______"]) + "\n"

    text = "# text = Vámonos ya\n" + row("1-2", "Vámonos", "_") + row("1", "Vamos", "VERB") + row("2", "nos", "PRON")
    text += row("2.1", "se", "PRON") + row("3", "ya", "ADV") + "\n# text = Sí\n" + row("1", "Sí", "INTJ")
    examples = read_conllu(write("a.conllu", text))
    assert examples.x == [["Vamos", "nos", "ya"], ["Sí"]]
    assert examples.y == [["VERB", "PRON", "ADV"], ["INTJ"]]
    with pytest.raises(ValueError, match=r"b.conllu, line 1, has 2 columns instead of 10"):
        read_conllu(write("b.conllu", "1\tgo\n"))


def test_spaces_beside_tags(write):
    """They are no part of a tag, although a word may be a space."""
    assert read_conll(write("a.conll", "Anna\tB-PER \nran\t O\n")).y == [["B-PER", "O"]]
    with pytest.raises(ValueError, match=r"a\.conll, line 1: the tag is empty"):
        read_conll(write("a.conll", "Anna\t \n"))


def test_klue_ner(write):
    examples = read_klue_ner(write("a.tsv", "## c\n## id\t<박:PS>씨\n박\tB-PS\n씨\tO\n \tO\n3\tB-QT\n명\tI-QT\n\n"))
    assert examples.x == ["박씨 3명"]
    assert examples.y == [[(0, 1, "PS"), (3, 5, "QT")]]


def test_klue_ner_with_decomposed_syllables(write):
    """As macOS writes them, a syllable is two or three characters, which looked like a word."""
    text = "서\tB-LC\n울\tI-LC\n은\tO\n \tO\n각\tB-PS\n"
    decomposed = read_klue_ner(write("a.tsv", unicodedata.normalize("NFD", text)))
    assert decomposed.x == ["서울은 각"]
    assert decomposed.y == [[(0, 2, "LC"), (4, 5, "PS")]]
    with pytest.raises(ValueError, match="a line with several characters"):
        read_klue_ner(write("b.tsv", unicodedata.normalize("NFD", "서울\tB-LC\n")))


def test_a_word_file_of_single_syllables_is_warned_of(write, caplog):
    """It trains and scores well, and then every Korean word of a text is read as no word of the training."""
    text = "서\tB-LC\n울\tI-LC\n은\tO\n.\tO\n\n각\tB-PS\n"
    tagged_rows(write("a.conll", text), Reading())
    assert "a.conll is a single character" in caplog.text
    assert "--format klue-ner" in caplog.text
    caplog.clear()
    tagged_rows(write("b.conll", text), Reading(format="klue-ner"))
    tagged_rows(write("c.conll", "서울은\tB-LC\n.\tO\n"), Reading())
    tagged_rows(write("d.conll", "中\tB-LC\n国\tI-LC\n"), Reading())  # in a text too, each is a word
    tagged_rows(write("e.conll", "가\n나\n"), Reading(), labels=False)
    assert not caplog.text


@pytest.mark.parametrize("tags", [["I"], ["I-"], ["B-PS", "O", "I"], ["NNG"]])
def test_bad_klue_ner(write, tags):
    text = "가\tO\n\n" + "".join(f"가\t{tag}\n" for tag in tags)
    with pytest.raises(ValueError, match=rf"a.tsv:3: .* neither 'O' nor a prefix.*Received: '{tags[-1]}'"):
        read_klue_ner(write("a.tsv", text))


def test_klue_ner_spans_are_seqeval_s(write):
    from seqeval.metrics.sequence_labeling import get_entities

    tags = ["I-A", "I-A", "B-A", "I-B", "I-B", "O", "I-B", "B-B", "O", "I-A", "B-B", "I-A"]
    text = "".join(f"x\t{tag}\n" for tag in tags)
    assert read_klue_ner(write("a.tsv", text)).y == [
        [(start, end + 1, kind) for kind, start, end in get_entities(tags)]
    ]


def test_shared_words(shared):
    wnut = read_conll(shared / "en/wnut17.dev.conll")
    assert len(wnut) == 1009
    assert "I-location" in {tag for tags in wnut.y for tag in tags}


def test_shared_klue_ner(shared):
    """The file carries its sentences with the entities marked, beside the characters."""
    path = shared / "ko/klue-ner.dev.tsv"
    examples = read_klue_ner(path)
    marked = [line.split("\t", 1)[1] for line in path.read_text().split("\n") if line.startswith("## klue-ner")]
    assert len(examples) == len(marked) == 5000
    pattern = re.compile(r"<([^<>]*?):(PS|LC|OG|DT|TI|QT)>")
    for text, spans, line in zip(examples.x, examples.y, marked, strict=True):
        assert text == pattern.sub(r"\1", line)
        if "<" not in text:  # where the text has one of its own, the marks do not tell which
            assert [(text[start:end], kind) for start, end, kind in spans] == pattern.findall(line)


def test_a_file_without_an_entity():
    with pytest.raises(ValueError, match=r"No row of a.tsv has an entity.* Received: 2 rows"):
        TokenTagger.check_rows(Rows(["one", "two"], [[], []], "a.tsv", [1, 2]))
