"""The cache: written whole or not at all, found by content, reused only while every byte is as it was."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import cache
from regard.data.cache import Builder, cache_folder, cached_arrays, ensure_entry, find_damage, key
from regard.data.readers import Corpus, TextFile
from regard.data.tokenizers import TokenizerConfig
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.rnn_lm import streams
from regard.tasks.translation.pairs import PairsConfig, Prepared, prepare
from regard.tasks.word2vec import corpus as words


def build(place: Path) -> None:
    (place / "inner").mkdir()
    (place / "inner" / "numbers").write_bytes(b"12345")
    (place / "empty").write_bytes(b"")


def never(place: Path) -> None:
    raise AssertionError("built again")


def leftovers(home: Path) -> list[str]:
    return [path.name for path in home.iterdir() if path.name != "one"]


def test_an_entry_is_built_once_and_then_found(tmp_path):
    made = ensure_entry(tmp_path / "cache", "one", build)
    assert (made.place / "inner" / "numbers").read_bytes() == b"12345"
    assert ensure_entry(tmp_path / "cache", "one", never) == made
    assert made.notes == ()
    assert not leftovers(tmp_path / "cache")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [flip, lambda path: os.truncate(path, 3), Path.unlink], ids=["bit", "cut", "gone"])
@pytest.mark.parametrize("name", ["inner/numbers", "manifest.json"])
def test_a_damaged_entry_is_noticed_built_again_and_spoken_of(tmp_path, harm: Callable[[Path], None], name: str):
    place = ensure_entry(tmp_path, "one", build).place
    harm(place / name)
    assert find_damage(place) == name
    made = ensure_entry(tmp_path, "one", build)
    assert made.notes == (f"cached data was damaged ({place / name}): prepared again",)
    assert (made.place / "inner" / "numbers").read_bytes() == b"12345"
    assert find_damage(place) is None
    assert ensure_entry(tmp_path, "one", never).notes == ()
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("text", ["", "[3]", "null", "{}", '{"format": 4}', "[" * 100_000, '{"format": 4, "files": 3}'])
def test_a_manifest_that_is_none_is_damage(tmp_path, text: str):
    place = ensure_entry(tmp_path, "one", build).place
    (place / "manifest.json").write_text(text)
    assert find_damage(place) == "manifest.json"
    assert find_damage(ensure_entry(tmp_path, "one", build).place) is None


def test_an_entry_of_an_older_version_is_built_again_in_silence(tmp_path):
    build((tmp_path / "one").mkdir() or tmp_path / "one")
    old = {"format": 3, "sizes": {"inner/numbers": 5, "empty": 0}}
    (tmp_path / "one" / "manifest.json").write_text(json.dumps(old))
    assert ensure_entry(tmp_path, "one", build).notes == ()
    assert find_damage(tmp_path / "one") is None


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 35])
def test_large_files_are_checked_in_pieces_and_no_byte_is_left_out(tmp_path, monkeypatch, size: int):
    monkeypatch.setattr(cache, "PIECE", 10)
    monkeypatch.setattr(cache, "BUFFER", 4)
    data = bytes(range(size))
    place = ensure_entry(tmp_path, "one", lambda place: (place / "file").write_bytes(data) and None).place
    assert find_damage(place) is None
    for number in range(size):
        (place / "file").write_bytes(data[:number] + bytes([data[number] ^ 128]) + data[number + 1 :])
        assert find_damage(place) == "file"


def test_a_build_that_fails_leaves_nothing_behind(tmp_path):
    def fail(place: Path) -> None:
        build(place)
        raise ValueError("bad line")

    with pytest.raises(ValueError, match="bad line"):
        ensure_entry(tmp_path, "one", fail)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_clear_line(tmp_path):
    def fail(place: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ValueError, match=r"No space left on device.*REGARD_CACHE"):
        ensure_entry(tmp_path, "one", fail)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="REGARD_CACHE"):
        ensure_entry(tmp_path / "file", "one", build)


def test_what_a_killed_process_left_is_swept_away_after_a_week(tmp_path):
    old, new = (tmp_path / f"{cache.UNFINISHED}{name}" for name in ("old", "new"))
    for path in (old, new):
        path.mkdir()
        (path / "tokens").write_bytes(b"1")
    lock = tmp_path / f"{cache.UNFINISHED}pairs-1.lock"
    lock.touch()
    for path in (old, lock):
        os.utime(path, (0, 0))
    ensure_entry(tmp_path, "one", build)
    assert leftovers(tmp_path) == [new.name]


def test_of_two_that_want_the_same_one_builds_and_the_other_waits(tmp_path):
    begun, built, made = threading.Event(), [], []

    def slow(place: Path) -> None:
        begun.set()
        threading.Event().wait(0.3)  # long enough for the other to come and find nothing
        build(place)
        built.append(place)

    def want() -> None:
        made.append(ensure_entry(tmp_path, "one", slow))

    threads = [threading.Thread(target=want) for _ in range(2)]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(30)
    assert len(made) == 2
    assert len(built) == 1
    assert not leftovers(tmp_path)


def test_where_there_are_no_locks_the_first_to_finish_is_believed(tmp_path, monkeypatch):
    import filelock

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)

    def slow(place: Path) -> None:
        build(place)
        ensure_entry(tmp_path, "one", build)  # somebody else is faster

    assert find_damage(ensure_entry(tmp_path, "one", slow).place) is None
    assert not leftovers(tmp_path)


def test_a_builder_that_was_killed_does_not_lock_others_out(tmp_path):
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom regard.data.cache import ensure_entry\n"
        "ensure_entry(Path(sys.argv[1]), 'one', lambda place: os._exit(9))"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root, timeout=3600)
    assert done.returncode == 9
    assert find_damage(ensure_entry(tmp_path, "one", build).place) is None


def test_the_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    assert cache_folder(tmp_path / "other") == tmp_path / "other"
    monkeypatch.delenv("REGARD_CACHE")
    assert cache_folder() == Path("~/.cache/regard").expanduser()


def test_a_key_depends_on_content_and_not_on_the_order_of_names():
    assert key(a=1, b="é") == key(b="é", a=1)
    assert key(a=1, b="é") != key(a=1, b="e")


# Arrays by name


def fill(builder: Builder) -> None:
    for start in range(0, 10, 3):
        builder.add("tokens", np.arange(start, min(start + 3, 10), dtype=np.uint16))
    builder.add("matrix", np.ones((2, 3), np.float32))
    builder.add("matrix", np.zeros((4, 3), np.float32))
    builder.add("nothing", np.zeros((0, 5), np.int64))
    builder.add("yes", np.array([True, False]))
    builder.facts["labels"] = ["neg", "pos", "é"]


def test_arrays_come_back_as_they_were_added_mapped_and_for_reading_only(tmp_path):
    made = cached_arrays("labels", {"files": ["1a"], "version": 1}, fill, cache=tmp_path)
    again = cached_arrays("labels", {"version": 1, "files": ["1a"]}, never, cache=tmp_path)
    assert again.place == made.place
    for found in (made, again):
        assert set(found) == {"tokens", "matrix", "nothing", "yes"}
        assert found["tokens"].dtype == np.uint16
        assert found["tokens"].tolist() == list(range(10))
        assert found["matrix"].tolist() == [[1] * 3] * 2 + [[0] * 3] * 4
        assert found["nothing"].shape == (0, 5)
        assert found["yes"].tolist() == [True, False]
        assert found.facts == {"labels": ["neg", "pos", "é"]}
        with pytest.raises(ValueError, match="read-only"):
            found["tokens"][0] = 3


def test_other_contents_have_another_place(tmp_path):
    places = {
        cached_arrays(kind, contents, fill, cache=tmp_path).place
        for kind in ("labels", "words")
        for contents in ({"files": ["1a"]}, {"files": ["1b"]}, {"files": ["1a"], "lowercase": True})
    }
    assert len(places) == 6


def test_arrays_that_cannot_be_kept_are_refused(tmp_path):
    builder = Builder(tmp_path)
    builder.add("tokens", np.zeros(2, np.int64))
    for name, piece in (
        ("tokens", np.zeros(2, np.int32)),
        ("tokens", np.zeros((2, 2), np.int64)),
        ("texts", np.array(["a"], object)),
        ("scalar", np.array(3)),
        ("../tokens", np.zeros(2)),
    ):
        with pytest.raises(AssertionError):
            builder.add(name, piece)
    builder.close()


# Damage to what is learnt from: noticed or harmless, never another token, never a traceback


SMALL = TokenizerConfig(vocab=300)


def told(prepared: Prepared) -> list:
    """Everything a training reads of its data."""
    both = []
    for pairs in (prepared.train, prepared.valid):
        rows = [pairs.batch(row) for row in range(pairs.rows)]
        tensors = [(row.source.tolist(), row.target.tolist(), row.labels.tolist()) for row in rows]
        places = [pairs.places(row.examples) for row in rows]
        both.append((tensors, places, pairs.report, [tally.plain() for tally in pairs.tallies]))
    return [both, prepared.valid.texts(), prepared.source_tokenizer.json(), prepared.target_tokenizer.json()]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two aligned files of a few dozen lines."""
    place = tmp_path_factory.mktemp("files")
    (place / "a.fr").write_text("".join(f"le chat {number} dort {'bien ' * (number % 7)}\n" for number in range(60)))
    (place / "a.en").write_text("".join(f"the cat {number} sleeps {'well ' * (number % 5)}\n" for number in range(60)))
    return place


def pairs(files: Path, home: Path) -> Prepared:
    corpus = Corpus(source=str(files / "a.fr"), target=str(files / "a.en"))
    return prepare(PairsConfig(train=(corpus,), batch_tokens=64, max_length=32), SMALL, seed=0, cache=home)


def stream(files: Path, home: Path) -> list:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(home))
        found = streams.prepare(
            streams.StreamConfig(train=(TextFile(path=str(files / "a.en")),)), UnitsConfig(kind="words")
        )
    tokens = [part.tokens.tolist() for part in (found.train, found.valid)]
    return [tokens, found.tokenizer.json(), found.report], found.summary


def vectors(files: Path, home: Path) -> list:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(home))
        found = words.prepare(words.WordsConfig(train=(words.TextFile(path=str(files / "a.en")),), min_count=1))
    return [found.words, found.counts.tolist(), found.tokens.tolist(), found.report], found.summary


def both(files: Path, home: Path) -> tuple:
    found = pairs(files, home)
    return told(found), found.train.summary


@pytest.fixture(scope="module", params=[both, stream, vectors], ids=["pairs", "stream", "words"])
def kept(request: pytest.FixtureRequest, files: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    home = tmp_path_factory.mktemp("kept") / "cache"
    expected, _ = request.param(files, home)
    return request.param, files, home, expected


@settings(max_examples=40)
@given(st.data())
def test_damage_anywhere_in_the_cache_is_noticed_or_harmless(kept: tuple, data: st.DataObject):
    read, files, home, expected = kept
    copy = home.with_name("copy")
    shutil.copytree(home, copy)
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda descriptor: None)  # nobody pulls the plug meanwhile
    try:
        path = data.draw(st.sampled_from(sorted(path for path in copy.rglob("*") if path.is_file())))
        good = path.read_bytes()
        how = data.draw(st.sampled_from(["flipped", "cut", "longer", "zeros", "gone"]))
        place = data.draw(st.integers(0, max(len(good) - 1, 0)))
        if how == "gone":
            path.unlink()
        else:
            bit = bytes([good[place] ^ 1 << data.draw(st.integers(0, 7))]) if good else b""
            bad = {"flipped": bit, "cut": b"", "longer": b"\x01" + good[place : place + 1], "zeros": bytes(99)}[how]
            path.write_bytes(good[:place] + bad + (b"" if how == "cut" else good[place + 1 :]))
        changed = not path.exists() or path.read_bytes() != good
        found, summary = read(files, copy)
        assert found == expected
        noted = any("cached data was damaged" in line for line in summary)
        assert noted == changed or (changed and path.name == "manifest.json"), "it may read as an older version's"
    finally:
        patch.undo()
        shutil.rmtree(copy)
