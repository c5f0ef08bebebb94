"""The cache: written whole or not at all, reused while it is intact, found by content."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import shards
from regard.data.shards import Shards, Writer, entry, folder, key, whole


def build(place: Path) -> None:
    (place / "inner").mkdir()
    (place / "inner" / "numbers").write_bytes(b"12345")


def never(place: Path) -> None:
    raise AssertionError("built again")


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if path.name != "one"]


def test_an_entry_is_built_once_and_then_found(tmp_path):
    place = entry(tmp_path / "cache", "one", build)
    assert (place / "inner" / "numbers").read_bytes() == b"12345"
    assert entry(tmp_path / "cache", "one", never) == place
    assert not leftovers(tmp_path / "cache")


@pytest.mark.parametrize("damage", ["truncated", "missing", "manifest", "empty", "nonsense"])
def test_a_damaged_entry_is_noticed_and_built_again(tmp_path, damage):
    place = entry(tmp_path, "one", build)
    file, manifest = place / "inner" / "numbers", place / "manifest.json"
    if damage == "truncated":
        os.truncate(file, 3)
    elif damage == "missing":
        file.unlink()
    elif damage == "manifest":
        manifest.unlink()
    else:
        manifest.write_text("" if damage == "empty" else "[3]")
    assert not whole(place)
    assert (entry(tmp_path, "one", build) / "inner" / "numbers").read_bytes() == b"12345"
    assert whole(place)
    assert not leftovers(tmp_path)


def test_a_build_that_fails_leaves_nothing_behind(tmp_path):
    def fail(place: Path) -> None:
        build(place)
        raise ValueError("bad line")

    with pytest.raises(ValueError, match="bad line"):
        entry(tmp_path, "one", fail)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_clear_line(tmp_path):
    def fail(place: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ValueError, match=r"No space left on device.*REGARD_CACHE"):
        entry(tmp_path, "one", fail)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="REGARD_CACHE"):
        entry(tmp_path / "file", "one", build)


def test_what_a_killed_process_left_is_swept_away_after_a_week(tmp_path):
    old, new = (tmp_path / f"{shards.UNFINISHED}{name}" for name in ("old", "new"))
    for path in (old, new):
        path.mkdir()
        (path / "tokens").write_bytes(b"1")
    os.utime(old, (0, 0))
    entry(tmp_path, "one", build)
    assert leftovers(tmp_path) == [new.name]


def test_two_builders_at_once_agree(tmp_path):
    def slow(place: Path) -> None:
        build(place)
        entry(tmp_path, "one", build)  # somebody else is faster

    assert whole(entry(tmp_path, "one", slow))
    assert not leftovers(tmp_path)


def test_the_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert folder() == tmp_path
    assert folder(tmp_path / "other") == tmp_path / "other"
    monkeypatch.delenv("REGARD_CACHE")
    assert folder() == Path("~/.cache/regard").expanduser()


def test_a_key_depends_on_content_and_not_on_the_order_of_names():
    assert key(a=1, b="é") == key(b="é", a=1)
    assert key(a=1, b="é") != key(a=1, b="e")


def writes(place: Path, corpora, bounds=(4, 8), vocabs=(100, 100)) -> Shards:
    writer = Writer(place, vocabs)
    for corpus in corpora:
        writer.begin()
        for start in range(0, len(corpus), 2):  # in batches of two
            sources, targets, lines = zip(*corpus[start : start + 2], strict=True)
            writer.add(sources, targets, lines)
    writer.finish(bounds)
    return Shards(place)


texts = st.lists(st.integers(0, 99), min_size=1, max_size=8)
corpora = st.lists(st.lists(st.tuples(texts, texts, st.integers(1, 10**12)), max_size=9), min_size=1, max_size=3)


@given(corpora.filter(any), st.integers(1, 4))
def test_shards_give_back_what_was_written_sorted_into_cells(tmp_path, corpora, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "CHUNK", chunk)  # indexing in pieces gives the same index
        written = writes(tmp_path, corpora)
    flat = [(number, *example) for number, corpus in enumerate(corpora) for example in corpus]
    assert written.examples == len(flat)
    order = np.arange(len(flat))[::-1].copy()
    for side, column in (("source", 1), ("target", 2)):
        tokens, lengths = written.gather(side, order)
        expected = [flat[example][column] for example in order]
        assert tokens.tolist() == [token for text in expected for token in text]
        assert lengths.tolist() == [len(text) for text in expected]
    assert [written.origin(example) for example in range(len(flat))] == [(row[0], row[3]) for row in flat]

    def cell_of(source: list[int], target: list[int]) -> bool:
        return max(len(source), len(target)) > 4

    def cell(example: int) -> tuple[bool, int]:
        return cell_of(*flat[example][1:3]), flat[example][0]

    assert written.order.tolist() == sorted(range(len(flat)), key=cell)
    for bound, of_bucket in zip((False, True), written.cells, strict=True):
        for number, found in enumerate(of_bucket):
            inside = [
                (len(source), len(target))
                for c, source, target, _ in flat
                if cell_of(source, target) == bound and c == number
            ]
            assert found.size == len(inside)
            assert found.total == tuple(sum(pair[side] for pair in inside) for side in (0, 1))
            assert found.squares == tuple(sum(pair[side] ** 2 for pair in inside) for side in (0, 1))


@pytest.mark.parametrize(("vocab", "kind"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_tokens_take_two_bytes_while_they_can(tmp_path, vocab, kind):
    written = writes(tmp_path, [[([vocab - 1], [vocab - 1], 1)]], vocabs=(vocab, vocab))
    assert written.tokens["source"].dtype == kind
    assert written.gather("target", np.array([0]))[0].tolist() == [vocab - 1]
    assert json.loads((tmp_path / "meta.json").read_text())["examples"] == 1
