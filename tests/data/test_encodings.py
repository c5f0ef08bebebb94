"""Files in other encodings are recognised, and the answer says how to convert them; damaged UTF-8 is not misread."""

import subprocess

import pytest

from regard.cli.text_io import read_lines
from regard.data.encodings import guess_encoding, hint
from regard.data.line_report import LineReport
from regard.data.readers import Corpus, pairs
from regard.data.testset import texts

FRENCH = "Où est la gare ?\nIl a mangé à l'école.\nC'est « déjà » l'été.\n"
ENGLISH = "Where is the station?\nHe ate at school.\nIt is 'already' summer.\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"])
def test_what_a_file_is_in_is_what_iconv_makes_utf_8_of(tmp_path, encoding):
    data = FRENCH.encode(encoding)
    named = guess_encoding(data)
    (tmp_path / "a.txt").write_bytes(data)
    ran = subprocess.run(["iconv", "-f", named, "-t", "UTF-8", tmp_path / "a.txt"], capture_output=True, check=True)
    assert ran.stdout.decode() == FRENCH


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"un \xc3 chat",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\x00\x00",
        b"\x08\x00 caf\xe9",
        "déjà".encode()[:2],
        b"plain",
    ],
)
def test_damage_is_not_taken_for_an_encoding(data):
    assert guess_encoding(data) is None
    assert hint(data) == ""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_corpus_in_utf_16_stops_at_once_with_the_command(tmp_path, encoding):
    (tmp_path / "a.fr").write_bytes(FRENCH.encode(encoding))
    (tmp_path / "a.en").write_text(ENGLISH, encoding="utf-8")
    corpus = Corpus(source=str(tmp_path / "a.fr"), target=str(tmp_path / "a.en"))
    with pytest.raises(
        ValueError, match=r"a\.fr is no UTF-8, it looks like UTF-16(LE)?: iconv -f UTF-16(LE)? -t UTF-8 .*a\.fr"
    ):
        list(pairs(corpus, LineReport()))


def test_a_corpus_in_latin_1_is_refused_line_by_line_with_the_command(tmp_path):
    (tmp_path / "a.fr").write_bytes(FRENCH.encode("latin-1"))
    (tmp_path / "a.en").write_text(ENGLISH, encoding="utf-8")
    corpus, tally = Corpus(source=str(tmp_path / "a.fr"), target=str(tmp_path / "a.en")), LineReport()
    assert list(pairs(corpus, tally)) == []
    with pytest.raises(
        ValueError, match=r"3 invalid UTF-8 .*looks like Latin-1: iconv -f WINDOWS-1252 -t UTF-8 .*a\.fr"
    ):
        tally.check(0.01, corpus.files)


def test_what_is_translated_and_what_is_measured_on_say_the_same(tmp_path):
    path = tmp_path / "new.fr"
    path.write_bytes(FRENCH.encode("latin-1"))
    for read in (lambda: list(read_lines(path)), lambda: texts(str(path))):
        with pytest.raises(ValueError, match=r"new\.fr:1: not UTF-8, .*Latin-1: iconv -f WINDOWS-1252"):
            read()
    path.write_bytes(FRENCH.encode("utf-16"))
    with pytest.raises(ValueError, match=r"new\.fr:1: not UTF-8, .*UTF-16: iconv -f UTF-16"):
        list(read_lines(path))
