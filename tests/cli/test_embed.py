"""`regard embed` and `regard search`: vectors of texts as others read them, and an index that is never stale."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from regard import recipe
from regard.cli import run
from regard.tasks.embedding import searching
from regard.tasks.embedding.embedder import Embedder
from tests.interop.test_bert import lay

LINES = ["A B C", "", "D E F", "  ", "A B C D", "X Y Z", "A B C"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[Path]:
    """Two small BERTs that give other vectors, by other settings."""
    place = tmp_path_factory.mktemp("models")
    lay(place / "theirs", "bert without a head")
    assert run(["import", str(place / "theirs"), str(place / "own")]) == 0
    lay(place / "others", "bert that fills in")
    assert run(["import", str(place / "others"), str(place / "other")]) == 0
    return [place / "own", place / "other"]


@pytest.fixture
def file(tmp_path) -> Path:
    place = tmp_path / "lines.txt"
    place.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return place


def test_a_matrix_and_json_lines_hold_the_same_vectors(models, file, tmp_path, capsys):
    words = ["embed", str(models[0]), "--device", "cpu", "-i", str(file)]
    assert run([*words, "-o", str(tmp_path / "a.npy")]) == 0
    assert run([*words, "-o", str(tmp_path / "a.jsonl")]) == 0
    matrix = np.load(tmp_path / "a.npy", allow_pickle=False)
    np.testing.assert_array_equal(matrix, Embedder.load(recipe.open_model(models[0])).embed(LINES))
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["text"] for record in records] == LINES
    np.testing.assert_array_equal(np.array([record["embedding"] for record in records], np.float32), matrix)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.npy", "lines.txt"]
    capsys.readouterr()
    assert run(["embed", str(models[0]), "A B C", "--device", "cpu", "-s", "pool=class"]) == 0
    assert len(json.loads(capsys.readouterr().out)["embedding"]) == 24


def search_hits(file: Path, model: Path, capsys, *more: str) -> tuple[list[dict], bool]:
    """What a search finds, and whether the index was made anew."""
    words = ["search", str(file), "A B C", "--model", str(model), "--device", "cpu", "--json", *more]
    assert run(words) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out)["hits"], "indexed" in captured.err


def test_the_best_lines_are_found_exactly_with_their_numbers(models, file, capsys):
    hits, anew = search_hits(file, models[0], capsys, "--top", "10")
    assert anew
    assert [hit["line"] for hit in hits[:2]] == [1, 7], "equals in their order"
    assert sorted(hit["line"] for hit in hits) == [1, 3, 5, 6, 7], "blank lines are not found"
    assert all(hit["text"] == LINES[hit["line"] - 1] for hit in hits)
    vectors = Embedder.load(recipe.open_model(models[0])).embed([hit["text"] for hit in hits]).astype(np.float64)
    query = vectors[0]
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    np.testing.assert_allclose([hit["score"] for hit in hits], cosines, atol=2e-6)
    assert list(cosines.round(5)) == sorted(cosines.round(5), reverse=True)


def test_an_index_is_kept_and_made_anew_when_anything_changes(models, file, capsys):
    index = file.with_name("lines.txt.index.safetensors")
    assert search_hits(file, models[0], capsys)[1]
    assert load_file(index)["vectors"].shape == (5, 24), "anybody can read it"
    assert not search_hits(file, models[0], capsys)[1]
    assert search_hits(file, models[0], capsys, "-s", "pool=class")[1]
    assert not search_hits(file, models[0], capsys, "-s", "pool=class")[1]
    assert search_hits(file, models[1], capsys, "-s", "pool=class")[1]
    file.write_text("X Y Z\nA B C\n", encoding="utf-8")
    hits, anew = search_hits(file, models[1], capsys)
    assert anew
    assert hits[0]["line"] == 2
    broken = bytearray(index.read_bytes())
    broken[-3] ^= 1
    index.write_bytes(broken)
    assert search_hits(file, models[1], capsys) == (hits, True), "a damaged index is no index"
    assert [path.name for path in file.parent.iterdir() if "part" in path.name] == []


def test_blocks_change_nothing(models, file, capsys, monkeypatch, tmp_path):
    whole, _ = search_hits(file, models[0], capsys, "--top", "4")
    monkeypatch.setattr(searching, "BLOCK_LINES", 2)
    monkeypatch.setattr(searching, "COMPARED_LINES", 2)
    parts, anew = search_hits(file, models[0], capsys, "--top", "4", "--index", str(tmp_path / "elsewhere"))
    assert anew
    assert [hit["line"] for hit in parts] == [hit["line"] for hit in whole]
    np.testing.assert_allclose([hit["score"] for hit in parts], [hit["score"] for hit in whole], atol=1e-6)


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("\n \n", ["A"], "has no line that is not blank"),
        ("A\n", [" "], "the query is empty"),
        ("A\n", ["A", "-s", "pool=middle"], "pool"),
        (b"A\n\xff\xfe\n", ["A"], "lines.txt:2: not UTF-8"),
    ],
)
def test_what_cannot_be_searched_is_said_in_a_line(models, file, capsys, content, words, message):
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run(["search", str(file), *words, "--model", str(models[0]), "--device", "cpu"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in file.parent.iterdir()] == ["lines.txt"], "nothing is left behind"


def test_a_file_that_is_no_index_is_never_overwritten(models, file, tmp_path, capsys):
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    words = ["search", str(file), "A", "--model", str(models[0]), "--device", "cpu", "--index", str(mine)]
    assert run(words) == 1
    assert "is no index that Regard wrote" in capsys.readouterr().err
    assert mine.read_text() == "precious"
