"""Translation memories as tables: languages are columns, units are rows, whatever a tool has written around them."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from regard.data import testset
from regard.data.line_report import LineReport
from regard.data.readers import Corpus, pairs, read_cells
from regard.data.table_records import LARGEST_CELL


def unit(**versions: str) -> str:
    inner = "".join(
        f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in versions.items()
    )
    return f"<tu>{inner}</tu>\n"


def save(path: Path, *units: str, head: str = "") -> str:
    text = (
        f'<?xml version="1.0"?>\n{head}<tmx version="1.4"><header srclang="en"/><body>\n{"".join(units)}</body></tmx>'
    )
    path.write_text(text, encoding="utf-8")
    return str(path)


CATS = unit(en="The cat", fr="Le chat")


def read(path: str) -> tuple[list[tuple[int, list[str]]], LineReport]:
    report = LineReport()
    return list(read_cells(path, report)), report


def test_languages_are_columns_and_units_rows_with_their_lines(tmp_path):
    file = save(tmp_path / "m.tmx", CATS, unit(de="Der Hund", fr="Le chien", en="The dog"))
    rows, report = read(file)
    assert rows == [(1, ["en", "fr", "de"]), (3, ["The cat", "Le chat", ""]), (4, ["The dog", "Le chien", "Der Hund"])]
    assert (report.read, report.refused, report.dropped) == (2, {}, {})


def test_a_unit_without_both_languages_is_left_out_and_said(tmp_path):
    file = save(tmp_path / "m.tmx", CATS, unit(en="alone", de="allein"), unit(en="", fr=""))
    report = LineReport()
    assert list(pairs(Corpus(path=file), report)) == [(3, "The cat", "Le chat")]
    assert {reason: found.places for reason, found in report.dropped.items()} == {
        "without a text in every language that is read": [(0, 4)],
        "blank": [(0, 5)],
    }
    assert list(pairs(Corpus(path=file, columns=(3, 1)), LineReport())) == [(4, "allein", "alone")]


def test_codes_of_formatting_are_no_text_but_what_they_surround_is(tmp_path):
    english = 'Press <bpt i="1">&lt;b&gt;</bpt><hi>OK</hi><ept i="1">&lt;/b&gt;</ept>\n   now<ph>{0}</ph> &amp; then'
    file = save(tmp_path / "m.tmx", "<tu><note>no text</note>", unit(en=english, fr="Appuyez").removeprefix("<tu>"))
    assert testset.read(Corpus(path=file)) == [("Press OK now & then", "Appuyez")]


def test_regions_are_one_language_unless_a_unit_has_two_of_them(tmp_path):
    file = save(tmp_path / "m.tmx", unit(en_US="color", fr="couleur"), unit(en_GB="lorry", fr="camion"))
    assert [row for _, row in read(file)[0]] == [["en", "fr"], ["color", "couleur"], ["lorry", "camion"]]
    file = save(tmp_path / "n.tmx", unit(en_US="color", en_GB="colour"))
    assert [row for _, row in read(file)[0]] == [["en-US", "en-GB"], ["color", "colour"]]


def test_versions_without_a_language_are_source_and_target(tmp_path):
    file = save(tmp_path / "m.tmx", "<tu><tuv><seg>a cat</seg></tuv><tuv><seg>un chat</seg></tuv></tu>")
    assert testset.read(Corpus(path=file)) == [("a cat", "un chat")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_the_encoding_that_a_memory_declares_is_read_plain_or_gzipped(tmp_path, encoding):
    body = f"<tmx><body>{unit(en='summer', fr='été')}</body></tmx>"
    name = encoding.removesuffix("-sig")
    content = f'<?xml version="1.0" encoding="{name}"?>\n{body}'.encode(encoding)
    (tmp_path / "m.tmx").write_bytes(content)
    (tmp_path / "m.tmx.gz").write_bytes(gzip.compress(content))
    for file in ("m.tmx", "m.tmx.gz"):
        assert testset.read(Corpus(path=str(tmp_path / file))) == [("summer", "été")]


def test_the_doctype_of_omegat_is_harmless_and_an_entity_is_refused(tmp_path):
    assert len(read(save(tmp_path / "m.tmx", CATS, head='<!DOCTYPE tmx SYSTEM "tmx11.dtd">\n'))[0]) == 2
    bomb = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n'
    with pytest.raises(ValueError, match=r"m\.tmx:2: it declares the entity a, which is not read: write out"):
        read(save(tmp_path / "m.tmx", unit(en="&b;", fr="x"), head=bomb))
    outside = f'<!DOCTYPE tmx [<!ENTITY a SYSTEM "{tmp_path / "secret"}">]>\n'
    with pytest.raises(ValueError, match="it declares the entity a"):
        read(save(tmp_path / "m.tmx", unit(en="&a;", fr="x"), head=outside))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<tmx><body><tu></body></tmx>", r"m\.tmx:1: broken XML \(mismatched tag\): mend it"),
        ("<tmx><body>", r"m\.tmx:1: broken XML"),
        ("<xliff><file/></xliff>", r"m\.tmx:1: the XML of xliff, not of a translation memory"),
        ("", r"m\.tmx is empty: give a file with at least one pair"),
        (f"<tmx><body>{unit(en='a')}</body></tmx>", r"m\.tmx has texts in one language only, en: a"),
        (f"<tmx>{'<a>' * 100}", r"m\.tmx:1: more than 64 elements in one another"),
        (f"<tmx><header note='{'x' * (5 << 20)}'/></tmx>", r"m\.tmx:1: nothing begins or ends in 4,194,304 bytes"),
    ],
)
def test_what_is_no_memory_is_refused_with_its_place(tmp_path, text, said):
    (tmp_path / "m.tmx").write_text(text)
    with pytest.raises(ValueError, match=said):
        read(str(tmp_path / "m.tmx"))


def test_a_segment_that_is_too_long_is_refused_alone_and_a_memory_is_never_held_whole(tmp_path):
    file = save(tmp_path / "m.tmx", *[CATS] * 300, unit(en="x" * (LARGEST_CELL + 1), fr="y"), *[CATS] * 60_000)
    report = LineReport()
    tracemalloc.start()
    assert sum(1 for _ in pairs(Corpus(path=file), report)) == 60_300
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {reason: found.places for reason, found in report.refused.items()} == {
        "with a text of more than 1,048,576 characters": [(0, 303)]
    }
    assert peak < Path(file).stat().st_size
