"""Readers: whatever bytes are in a file, pairs never shift and every bad line is counted with its place."""

import gzip
import json
import os
import re
import tracemalloc
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.data import readers
from regard.data.binary_files import HEAD, binary_kind
from regard.data.encodings import find_file
from regard.data.line_report import LineReport
from regard.data.public_sets import SETS
from regard.data.readers import Corpus, pairs


def read(corpus: Corpus) -> tuple[list[tuple[int, str, str]], LineReport]:
    tally = LineReport()
    return list(pairs(corpus, tally)), tally


def written(path: Path, data: bytes | str) -> str:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def aligned(folder: Path, source: bytes | str, target: bytes | str) -> Corpus:
    return Corpus(source=written(folder / "a.fr", source), target=written(folder / "a.en", target))


def reasons(tally: LineReport) -> dict[str, int]:
    return {reason: found.count for reason, found in tally.refused.items()}


def test_two_files_give_their_lines_pair_by_pair(tmp_path):
    found, tally = read(aligned(tmp_path, "un\ndeux\n", "one\r\ntwo"))
    assert found == [(1, "un", "one"), (2, "deux", "two")]
    assert tally.read == 2
    assert not tally.refused


def test_only_a_newline_ends_a_line(tmp_path):
    odd = "a\u2028b\x0bc\x85d\x0ce\rf"
    found, _ = read(aligned(tmp_path, f"{odd}\nx\n", "one\ntwo\n"))
    assert found == [(1, odd, "one"), (2, "x", "two")]


def test_one_carriage_return_is_dropped_and_a_mark_at_the_start_too(tmp_path):
    path = written(tmp_path / "a.tsv", b"\xef\xbb\xbfun\tone\r\n\xef\xbb\xbfdeux\ttwo\r\n")
    assert read(Corpus(path=path))[0] == [(1, "un", "one"), (2, "\ufeffdeux", "two")]


def test_texts_come_in_nfc_without_surrounding_space(tmp_path):
    found, _ = read(aligned(tmp_path, " e\u0301te\u0301 \n", "\u00a0summer\t\n"))
    assert found == [(1, "\u00e9t\u00e9", "summer")]


def test_columns_are_chosen_by_number_and_others_ignored(tmp_path):
    path = written(tmp_path / "a.tsv", "one\tun\tby somebody\ntwo\nthree\ttrois\n")
    found, tally = read(Corpus(path=path, columns=(2, 1)))
    assert found == [(1, "un", "one"), (3, "trois", "three")]
    assert reasons(tally) == {"fewer than 2 columns": 1}


def test_json_lines_are_read_by_field_also_inside_others(tmp_path):
    records = [{"translation": {"fr": "un", "en": "one"}}, {"translation": {"fr": "deux"}}, {"translation": 3}, ["x"]]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)))
    found, tally = read(Corpus(path=path, fields=("translation.fr", "translation.en")))
    assert found == [(1, "un", "one")]
    assert sum(reasons(tally).values()) == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"source": "a", "target": "b"', "invalid JSON"),
        (b"[" * 100_000, "invalid JSON"),
        (b'{"source": ' + b"9" * 5000 + b', "target": "b"}', "invalid JSON"),
        (b'{"source": "\\ud800", "target": "b"}', "with a lone surrogate"),
        (b'{"source": "a", "target": "\\u0000"}', "with a NUL character"),
        (b'{"source": "a", "target": 3}', "without a text named target"),
        (b'{"source": "a", "target": " "}', "empty on one side"),
        (b'{"source": "\xff", "target": "b"}', "invalid UTF-8"),
        (b"\xff\xfe{\x00", "invalid UTF-8"),
        (b"", "invalid JSON"),
    ],
)
def test_a_bad_json_line_is_refused_for_its_reason(tmp_path, line, reason):
    good = b'{"source": "un", "target": "one"}\n'
    path = written(tmp_path / "a.jsonl", good + line + b"\n" + good)
    found, tally = read(Corpus(path=path))
    assert [number for number, *_ in found] == [1, 3]
    assert reasons(tally) == {reason: 1}
    assert tally.refused[reason].places == [(0, 2)]


def test_refusals_name_the_file_that_is_to_blame(tmp_path):
    corpus = aligned(tmp_path, b"a\nb\nc\xff\nd\n", b"a\n\0\nc\n\n")
    found, tally = read(corpus)
    assert found == [(1, "a", "a")]
    with pytest.raises(ValueError) as error:
        tally.check(0.01, corpus.files)
    for part in ("3 of 4 lines", "1.00%", "a.en:2", "a.fr:3", "a.en:4", "data.reject"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)
    tally.check(0.75, corpus.files)


def test_only_the_first_places_are_remembered(tmp_path):
    corpus = aligned(tmp_path, "\n" * 1000, "x\n" * 1000)
    _, tally = read(corpus)
    assert tally.refused["empty on one side"].count == 1000
    assert len(tally.refused["empty on one side"].places) == 5
    with pytest.raises(ValueError, match="no usable pair"):
        tally.check(1.0, corpus.files)


@pytest.mark.parametrize(("source", "target", "counts"), [(3, 2, "3 lines .* 2"), (0, 4, "0 lines .* 4")])
def test_files_of_different_lengths_are_an_error_with_both_counts(tmp_path, source, target, counts):
    with pytest.raises(ValueError, match=counts):
        read(aligned(tmp_path, "a\n" * source, "b\n" * target))


def test_an_empty_file_is_an_error(tmp_path):
    corpus = aligned(tmp_path, "", "")
    _, tally = read(corpus)
    with pytest.raises(ValueError, match=r"a\.fr is empty"):
        tally.check(1.0, corpus.files)


def test_missing_files_and_folders_are_errors_of_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(ValueError, match=r"no file nowhere\.tsv"):
        read(Corpus(path="nowhere.tsv"))
    with pytest.raises(ValueError, match="not a regular file"):
        read(Corpus(path=str(tmp_path)))


def test_files_are_also_looked_up_in_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    written(tmp_path / "deep" / "a.tsv", "un\tone\n")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert find_file("deep/a.tsv") == tmp_path / "deep" / "a.tsv"
    assert read(Corpus(path="deep/a.tsv"))[0] == [(1, "un", "one")]
    with pytest.raises(ValueError, match="REGARD_DATA="):
        find_file("deep/b.tsv")


def test_without_a_variable_the_folder_data_is_looked_into(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "deep").mkdir(parents=True)
    written(tmp_path / "data" / "deep" / "a.tsv", "un\tone\n")
    assert find_file("deep/a.tsv") == Path("data/deep/a.tsv")
    written(tmp_path / "b.tsv", "un\tone\n")
    assert find_file("b.tsv") == Path("b.tsv")
    with pytest.raises(ValueError, match=r"no file c\.tsv here or under data .*: check the path"):
        find_file("c.tsv")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match="or under REGARD_DATA="):
        find_file("deep/a.tsv")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("planetoid/cora.npz", "github.com/kimiyoung/planetoid, saved as arrays"),
        ("multiomics-rosmap/1_tr.csv", "github.com/txWang/MOGONET"),
        ("flickr8k/captions.csv.gz", "on request"),
        ("data/cifar10.npz", "scripts/make_cifar10.py"),
    ],
)
def test_a_missing_public_set_is_named_with_its_source(tmp_path, monkeypatch, name, source):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=re.escape(source)) as error:
        find_file(name)
    assert "docs/data.md" in str(error.value)
    assert "\n" not in str(error.value)


def test_every_public_set_that_a_recipe_names_is_known():
    root = Path(__file__).parents[2]
    text = "".join(path.read_text(encoding="utf-8") for path in (root / "recipes").glob("*.yaml"))
    named = set(re.findall(r"(?:path|folder|only|labels|features|source|target): ([\w.-]+)/", text))
    assert named - {"data", "regard"} <= SETS.keys()
    assert "Where public data comes from" in (root / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a.tsv.gz", "a.tsv"])
def test_gzipped_files_are_read_whatever_their_name(tmp_path, name):
    path = written(tmp_path / name, gzip.compress(b"un\tone\ndeux\ttwo\n"))
    assert read(Corpus(path=path))[0] == [(1, "un", "one"), (2, "deux", "two")]


def test_a_damaged_gzip_file_is_an_error_with_its_name(tmp_path):
    data = gzip.compress(os.urandom(5000).hex().encode())
    for name, broken in {
        "cut": data[:-50],
        "flipped": data[:60] + b"\0\0\0" + data[63:],
        "plain": b"un\tone\n",
    }.items():
        with pytest.raises(ValueError, match=rf"{name}\.tsv\.gz is a damaged"):
            read(Corpus(path=written(tmp_path / f"{name}.tsv.gz", broken)))


def test_an_endless_line_is_passed_over_in_bounded_memory(tmp_path):
    path = tmp_path / "a.tsv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"un\tone\n")
        for _ in range(40):
            file.write(b"x" * 1_000_000)
        file.write(b"\ndeux\ttwo\n")
    tracemalloc.start()
    try:
        found, tally = read(Corpus(path=str(path)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [(1, "un", "one"), (3, "deux", "two")]
    assert reasons(tally) == {"longer than 1,048,576 bytes": 1}
    assert peak < 8_000_000


def expected(data: bytes, longest: int) -> list[str | None]:
    """An independent reading: None where a line must be refused."""
    inner = data.removeprefix(b"\xef\xbb\xbf")
    lines = inner.split(b"\n")
    if lines[-1] == b"" and (len(lines) > 1 or not data):
        lines.pop()
    texts: list[str | None] = []
    for line in (line.removesuffix(b"\r") for line in lines):
        try:
            text = unicodedata.normalize("NFC", line.decode()).strip()
        except UnicodeDecodeError:
            text = ""
        texts.append(text if text and "\0" not in text and len(line) <= longest else None)
    return texts


pieces = st.sampled_from([b"\n", b"\n\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"\xff", b"\0", b"abc", b" ", "é".encode()])
files = st.lists(pieces | st.binary(max_size=12), max_size=30).map(b"".join)


@given(files, files, st.integers(1, 12))
def test_arbitrary_bytes_never_shift_the_pairs(tmp_path, source, target, longest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "LINE", longest)
        corpus = aligned(tmp_path, source, target)
        left, right = expected(source, longest), expected(target, longest)
        if len(left) != len(right) or source.startswith(b"\x1f\x8b") or target.startswith(b"\x1f\x8b"):
            with pytest.raises(ValueError):
                read(corpus)
            return
        if any(binary_kind(each[:HEAD], "a.en") is not None for each in (source, target)):
            with pytest.raises(ValueError, match="not text"):
                read(corpus)
            return
        found, tally = read(corpus)
    both = enumerate(zip(left, right, strict=True), start=1)
    assert found == [(number, one, two) for number, (one, two) in both if one and two]
    assert tally.read == len(left) == len(found) + sum(reasons(tally).values())


@given(files, st.sampled_from(["a.tsv", "a.jsonl", "a.jsonl.gz"]))
def test_arbitrary_bytes_never_crash_a_reader(tmp_path, data, name):
    corpus = Corpus(path=written(tmp_path / name, data))
    if data and (name.endswith(".gz") or data.startswith(b"\x1f\x8b")):
        with pytest.raises(ValueError, match="gzip"):
            read(corpus)
        return
    found, tally = read(corpus)
    assert tally.read == len(found) + sum(reasons(tally).values())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "either source and target or path"),
        ({"source": "a"}, "either source and target or path"),
        ({"source": "a", "target": "b", "path": "c"}, "either source and target or path"),
        ({"path": "a", "weight": 0}, "weight must be a number above 0 and at most 1e30, not 0"),
        ({"path": "a", "columns": [1, 1]}, "columns must be two different numbers"),
        ({"path": "a", "tag": "<eos>"}, "tag must be a short code"),
    ],
)
def test_a_wrong_corpus_says_what_is_wrong(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        config.build(Corpus, settings, where="train")


def test_a_tally_survives_being_written_and_read(tmp_path):
    _, tally = read(aligned(tmp_path, b"a\n\xff\n", b"b\nc\n"))
    tally.drop("longer than 3 tokens", 0, 1)
    tally.cut.add(0, 1)
    assert LineReport.parse(json.loads(json.dumps(tally.plain()))) == tally
    assert any("a.fr:2" in line for line in tally.lines(["a.fr", "a.en"]))
    assert tally.report(["a.fr", "a.en"])["refused"]["invalid UTF-8"] == {"count": 1, "places": ["a.fr:2"]}


@pytest.mark.parametrize("first", ["English\tFrench", "en\tfr-CA", "Source\tTarget", "\ufeffAnglais\tFrançais"])
def test_a_first_line_that_names_languages_or_sides_is_left_out_and_counted(first, tmp_path):
    corpus = Corpus(path=written(tmp_path / "a.tsv", f"{first}\nun\tone\n"))
    found, tally = read(corpus)
    assert found == [(2, "un", "one")]
    assert (tally.read, tally.dropped["that names the columns"].places) == (2, [(0, 1)])
    assert readers.has_heading(corpus)
    kept = Corpus(path=corpus.path, heading=False)
    assert len(read(kept)[0]) == 2
    assert not readers.has_heading(kept)


@pytest.mark.parametrize(
    "first", ["English\tAnglais", "no\tnon", "French fries\tfrites", "id\tidem", "the source\ttarget"]
)
def test_a_pair_that_speaks_of_languages_is_no_heading(first, tmp_path):
    assert len(read(Corpus(path=written(tmp_path / "a.tsv", f"{first}\nun\tone\n")))[0]) == 2


@pytest.mark.parametrize("mark", [",", ";"])
def test_pairs_of_a_spreadsheet_keep_their_lines_and_bad_records_do_not_shift_others(mark, tmp_path):
    rows = ["id,English,French", '1,"one, two","un\ndeux"', "2,three", "3,,quatre", "4,five,cinq"]
    text = "\n".join(row.replace(",", mark).replace(f"one{mark}", "one,") for row in rows) + "\n"
    found, tally = read(Corpus(path=written(tmp_path / "a.csv", text), columns=(2, 3)))
    assert found == [(2, "one, two", "un\ndeux"), (6, "five", "cinq")]
    assert reasons(tally) == {"fewer than 3 columns": 1, "empty on one side": 1}
    assert tally.read == 5


def test_a_cell_of_many_letters_is_read_whatever_was_read_before(tmp_path):
    long = "word " * 50_000
    [(_, source, _)], _ = read(Corpus(path=written(tmp_path / "a.csv", f'"{long}",mot\n')))
    assert len(source) == len(long) - 1
