"""An index of many lines: resumed after a kill, made again where it is damaged, and never made twice of the same."""

import json
from hashlib import sha256
from pathlib import Path
from threading import current_thread

import numpy as np
import pytest
import torch

from regard import recipe
from regard.cli import run
from regard.decoding.batching import by_equal_length
from regard.tasks.embedding import index_file, searching
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.vector_store import KnownVectors, VectorJournal
from tests.interop.test_bert import lay

LINES = ["A B C", "D E F", "A B C D", "X Y Z", "A B C", "B", "C D", "E F X Y"]


class Killed(BaseException):
    """Ends an embedder in the middle of its work."""


class CountingEmbedder(Embedder):
    """Remembers what it embedded, and can be killed after so many blocks."""

    texts: list[str]
    blocks_left: int = 1000

    def embed(self, texts, **options):
        """Embed, unless it is killed before."""
        if self.blocks_left == 0:
            raise Killed
        self.blocks_left -= 1
        self.texts.extend(texts)
        return super().embed(texts, **options)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A small BERT."""
    place = tmp_path_factory.mktemp("model")
    lay(place / "theirs", "bert without a head")
    assert run(["import", str(place / "theirs"), str(place / "own")]) == 0
    return place / "own"


@pytest.fixture
def embedder(model) -> CountingEmbedder:
    """An embedder that counts."""
    embedder = CountingEmbedder.load(recipe.open_model(model))
    embedder.texts = []
    return embedder


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """Eight lines, two of them the same, indexed in blocks of two."""
    monkeypatch.setattr(searching, "BLOCK_LINES", 2)
    place = tmp_path / "lines.txt"
    place.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return place


def build(file: Path, embedder: CountingEmbedder) -> tuple[searching.Index, list[str]]:
    """Open the index of a file with this embedder, and note what was reported."""
    said: list[str] = []
    return searching.open_index(file, embedder, "digest of the model", report=said.append), said


def unfinished(file: Path) -> Path:
    """The file that the vectors of an unfinished index are kept in."""
    return file.with_name(file.name + searching.SUFFIX + searching.UNFINISHED_SUFFIX)


def test_identical_lines_are_embedded_once(file, embedder):
    index, _ = build(file, embedder)
    assert embedder.texts == list(dict.fromkeys(LINES))
    assert len(index.vectors) == len(LINES)
    np.testing.assert_array_equal(index.vectors[0], index.vectors[4])


def test_an_index_stopped_in_the_middle_goes_on_and_equals_one_that_was_not(file, embedder, tmp_path):
    whole, _ = build(file, embedder)
    expected = whole.place.read_bytes()
    whole.place.unlink()
    embedder.texts, embedder.blocks_left = [], 2
    with pytest.raises(Killed):
        build(file, embedder)
    assert len(embedder.texts) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt", unfinished(file).name]
    embedder.texts, embedder.blocks_left = [], 1000
    index, said = build(file, embedder)
    assert len(embedder.texts) == 3, "what two blocks had is not embedded again"
    assert "resuming after 4 lines" in said[0]
    assert index.place.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt", index.place.name]


def test_a_kill_while_a_block_is_written_loses_no_other_block(file, embedder):
    whole, _ = build(file, embedder)
    expected = whole.place.read_bytes()
    whole.place.unlink()
    embedder.blocks_left = 3
    with pytest.raises(Killed):
        build(file, embedder)
    written = unfinished(file).read_bytes()
    unfinished(file).write_bytes(written[:-5])
    embedder.texts, embedder.blocks_left = [], 1000
    index, said = build(file, embedder)
    assert len(embedder.texts) == 7 - 2 * 2, "two blocks are left of three"
    assert "damaged block" in said[0]
    assert index.place.read_bytes() == expected


@pytest.mark.parametrize("place", [80, 150, 300])
def test_a_journal_whose_bytes_changed_is_believed_up_to_there(file, embedder, place):
    embedder.blocks_left = 3
    with pytest.raises(Killed):
        build(file, embedder)
    damaged = bytearray(unfinished(file).read_bytes())
    damaged[len(damaged) - place] ^= 1
    unfinished(file).write_bytes(damaged)
    embedder.blocks_left = 1000
    index, said = build(file, embedder)
    assert any("damaged block" in line for line in said)
    np.testing.assert_allclose(index.vectors, embedder.units(LINES), atol=1e-6)


def test_of_an_appended_or_changed_file_only_new_lines_are_embedded(file, embedder):
    build(file, embedder)
    embedder.texts = []
    file.write_text("\n".join(["Z", *LINES[1:], "Y Z", "D E F"]), encoding="utf-8")
    index, _ = build(file, embedder)
    assert embedder.texts == ["Z", "Y Z"]
    assert index.embedded == 2
    np.testing.assert_allclose(index.vectors, embedder.units(["Z", *LINES[1:], "Y Z", "D E F"]), atol=1e-6)
    assert [line for line, _ in index.places.tolist()] == [*range(1, 11)]


def test_a_damaged_index_is_made_again_and_said(file, embedder):
    whole, _ = build(file, embedder)
    expected = whole.place.read_bytes()
    damaged = bytearray(expected)
    damaged[-3] ^= 1
    whole.place.write_bytes(damaged)
    index, said = build(file, embedder)
    assert "is damaged: making it anew" in said[0]
    assert index.place.read_bytes() == expected


def test_vectors_of_other_settings_are_not_gone_on_with(file, embedder):
    embedder.blocks_left = 2
    with pytest.raises(Killed):
        build(file, embedder)
    embedder.texts, embedder.blocks_left = [], 1000
    searching.open_index(file, embedder, "another model")
    assert len(embedder.texts) == 7


def test_a_file_that_is_no_journal_is_never_overwritten(file, embedder):
    unfinished(file).write_text("precious")
    with pytest.raises(ValueError, match="was not written by Regard"):
        build(file, embedder)
    assert unfinished(file).read_text() == "precious"


def test_a_journal_that_claims_too_much_is_cut_without_reading_it(tmp_path):
    journal, known = VectorJournal(tmp_path / "journal", {"model": "m"}, 4), KnownVectors(4)
    journal.append(np.array([7], np.uint64), np.ones((1, 4), np.float32))
    with journal.path.open("ab") as file:
        file.write((1 << 60).to_bytes(8, "little"))
    assert journal.restore(known)
    assert known.find(np.array([7, 8], np.uint64)).tolist() == [0, -1]
    assert not journal.restore(KnownVectors(4)), "what was damaged is gone"


def test_batches_of_equal_length_hold_every_example_once_within_the_budget():
    lengths = [3] * 11 + [5] * 4 + [2, 9, 40]
    batches = by_equal_length(lengths, budget=12)
    assert sorted(example for batch in batches for example in batch) == [*range(len(lengths))]
    for batch in batches:
        longest = max(lengths[example] for example in batch)
        assert len(batch) * longest <= 12 or len(batch) == 1
    full = [batch for batch in batches if len({lengths[example] for example in batch}) == 1]
    assert sum(map(len, full)) >= 14


@pytest.mark.parametrize("size", [1, 300, 340, 10_000])
def test_an_index_is_checked_in_pieces_and_one_of_an_earlier_version_as_a_whole(file, embedder, size, monkeypatch):
    monkeypatch.setattr(index_file, "PIECE_BYTES", size)
    place = build(file, embedder)[0].place
    for piecewise in (True, False):
        if not piecewise:
            place.write_bytes(as_written_before(place))
        whole, embedder.texts = place.read_bytes(), []
        assert not build(file, embedder)[0].is_new
        assert not embedder.texts
        for at in (len(whole) - 1, len(whole) - 400):
            damaged = bytearray(whole)
            damaged[at] ^= 1
            place.write_bytes(damaged)
            assert index_file.read_index(place) is None
        place.write_bytes(whole)


def as_written_before(place: Path) -> bytes:
    """The same index with one digest of all its numbers."""
    whole = place.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])
    del header["__metadata__"]["piece"]
    header["__metadata__"]["content"] = sha256(whole[end:]).hexdigest()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + whole[end:]


def test_progress_is_told_from_the_beginning_and_within_a_block(file, embedder, monkeypatch):
    monkeypatch.setattr(searching, "BLOCK_LINES", 4)
    monkeypatch.setattr("regard.tasks.embedding.embedder.BUDGET", 1)  # a batch for every text
    told = list[tuple[int, int]]()
    searching.open_index(file, embedder, "model", progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 7) for done in range(8)]


@pytest.mark.parametrize("threads", [1, 3])
def test_vectors_are_the_same_however_many_batches_are_computed_side_by_side(model, threads, monkeypatch):
    monkeypatch.setattr("regard.tasks.embedding.embedder.BUDGET", 8)
    texts = [" ".join(LINES[number % 8] for _ in range(number % 5)) for number in range(40)]
    embedder = Embedder.load(recipe.open_model(model))
    before = torch.get_num_threads()
    at_work, alone = set[str](), [embedder.embed(text)[0] for text in texts]
    embedder.model.register_forward_hook(lambda *_: at_work.add(f"{current_thread().name} {torch.get_num_threads()}"))
    try:
        torch.set_num_threads(threads)
        vectors = embedder.embed(texts)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert {name.split()[-1] for name in at_work} == {"1"}, "batches share no thread"
    assert (len(at_work) > 1) == (threads > 1)
    np.testing.assert_allclose(vectors, np.stack(alone), atol=1e-6)


def test_the_command_says_where_the_index_lies_and_how_far_it_is(file, model, capsys, monkeypatch):
    monkeypatch.setattr("regard.cli.progress.LINE_SECONDS", 0.0)
    words = ["search", str(file), "A B C", "--model", str(model), "--device", "cpu"]
    assert run(words) == 0
    error = capsys.readouterr().err.splitlines()
    index = file.with_name(file.name + searching.SUFFIX)
    assert error[0] == f"regard: {index}: 7 lines to embed; if it is interrupted, the same command resumes"
    assert error[1].startswith("regard: 2 of 7 lines embedded, ")
    assert error[-1] == f"regard: {file}: 8 lines indexed in {index}, 7 of them new"
    assert run(words) == 0
    assert not capsys.readouterr().err
