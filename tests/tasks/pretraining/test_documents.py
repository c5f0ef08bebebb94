"""Documents from files, folders and JSON lines: where they end, what is refused, and that nothing is held whole."""

import gzip
import json
import tracemalloc
from itertools import groupby

import pytest

from regard import config
from regard.data.line_report import LineReport
from regard.data.readers import TextFile
from regard.tasks.pretraining import documents
from regard.tasks.pretraining.documents import Documents, DocumentsConfig, expand_folders


def read(*paths, end="file", tally=None, field="text") -> list[tuple[str, str]]:
    """Every document of these files with its place."""
    files = expand_folders([TextFile(path=str(path), field=field) for path in paths])
    found = Documents(files, end).pieces(tally)
    return [
        (f"{files[pieces[0].file].path.rsplit('/', 1)[-1]}:{pieces[0].line}", "".join(piece.text for piece in pieces))
        for pieces in (list(group) for _, group in groupby(found, key=lambda piece: piece.document))
    ]


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        ("file", [("a.txt:1", "\none\ntwo\n\n \nthree\n"), ("b.md:1", "four")]),
        ("line", [("a.txt:2", "one"), ("a.txt:3", "two"), ("a.txt:6", "three"), ("b.md:1", "four")]),
        ("blank", [("a.txt:2", "one\ntwo"), ("a.txt:6", "three"), ("b.md:1", "four")]),
    ],
)
def test_a_document_ends_at_a_file_a_line_or_a_blank_line(tmp_path, end, wanted):
    (tmp_path / "a.txt").write_text("\none\ntwo\n\n \nthree\n\n")
    (tmp_path / "b.md").write_text("four")
    assert read(tmp_path / "a.txt", tmp_path / "b.md", end=end) == wanted


def test_pieces_joined_are_the_document_however_long(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "BLOCK", 10)
    text = "\n".join(f"line {number}" + "\n" * (number % 3) for number in range(50))
    (tmp_path / "a.txt").write_text(text + "\n")
    assert read(tmp_path / "a.txt") == [("a.txt:1", text)]
    blocks = [block for block in text.split("\n\n") if block.strip()]
    assert [found.strip() for _, found in read(tmp_path / "a.txt", end="blank")] == [each.strip() for each in blocks]


def test_folders_are_walked_in_order_of_name_and_only_text_counts(tmp_path):
    for name in ("b/two.txt", "a.rst", "b/.hidden.txt", ".git/x.txt", "b/c/three.TXT", "picture.png", "settings.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    with gzip.open(tmp_path / "b" / "four.jsonl.gz", "wt") as file:
        file.write(json.dumps({"text": "packed"}) + "\n")
    names = ["a.rst:1", "three.TXT:1", "four.jsonl.gz:1", "two.txt:1"]
    assert [place for place, _ in read(tmp_path)] == names
    assert read(tmp_path)[2][1] == "packed"
    assert read(tmp_path / "picture.png")[0][1] == "text of picture.png"
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no text in the folder .*empty.*\.txt, \.text"):
        read(tmp_path / "empty")


def test_a_folder_is_found_under_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("found")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert read("notes") == [("a.txt:1", "found")]


def test_records_of_json_lines_are_documents_whatever_they_hold(tmp_path):
    records = [{"body": {"text": "one\n\ntwo"}}, {"body": {"text": " "}}, {"body": {"text": "e\u0301"}}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    tally = LineReport()
    for end in ("file", "line"):
        found = read(tmp_path / "a.jsonl", end=end, tally=tally, field="body.text")
        assert found == [("a.jsonl:1", "one\n\ntwo"), ("a.jsonl:3", "é")]
    assert tally.dropped["empty"].places[0] == (0, 2)


def test_bad_lines_are_counted_and_named_and_the_document_goes_on_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LONGEST", 40)
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\xfe\ntwo\nnul\0\n" + b"x" * 41 + b"\nthree\n")
    lines = ['{"text": "good"}', "{", '{"other": 1}', '{"text": "\\ud800"}', '{"text": "\\u0000"}']
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    tally = LineReport()
    found = read(tmp_path / "a.txt", tmp_path / "b.jsonl", tally=tally)
    assert found == [("a.txt:1", "one\ntwo\nthree"), ("b.jsonl:1", "good")]
    assert (tally.read, tally.kept) == (11, 4)
    places = {reason: refused.places for reason, refused in tally.refused.items()}
    assert places == {
        "invalid UTF-8": [(0, 2)],
        "with a NUL character": [(0, 4), (1, 5)],
        "longer than 40 bytes": [(0, 5)],
        "invalid JSON": [(1, 2)],
        "without a text named text": [(1, 3)],
        "with a lone surrogate": [(1, 4)],
    }


def test_memory_does_not_grow_with_the_file(tmp_path):
    line = "a line of some length, as paragraphs have it, " * 25
    (tmp_path / "a.txt").write_text(f"{line}\n" * 2000)  # 2.3 MB
    files = expand_folders([TextFile(path=str(tmp_path / "a.txt"))])
    tracemalloc.start()
    size = sum(len(piece.text) for piece in Documents(files).pieces())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 2000 * (len(line) + 1) - 1
    assert peak < 700_000


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "give either train, with at least one file or folder, or text"),
        ({"text": "a", "train": "b"}, "give either train"),
        ({"text": "a", "document": "page"}, "document must be"),
        ({"text": "a", "context": 0}, "context must be a whole number from 1"),
        ({"text": "a", "validation_share": 1.0}, "validation_share must be"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(settings, said):
    with pytest.raises(ValueError, match=said) as error:
        config.build(DocumentsConfig, settings)
    assert "\n" not in str(error.value)
