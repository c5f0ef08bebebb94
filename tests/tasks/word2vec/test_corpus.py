"""Text becomes word numbers: counted, rare words gone, phrases joined, every bad line named."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from regard.config import build
from regard.data.readers import TextFile
from regard.tasks.word2vec import corpus as module
from regard.tasks.word2vec.corpus import WordsConfig, prepare, split_words


def config(*paths: Path, **settings) -> WordsConfig:
    """Settings that read these files and keep every word."""
    return WordsConfig(train=tuple(TextFile(path=str(path)) for path in paths), **{"min_count": 1, **settings})


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def lines_of(found) -> list[list[str]]:
    """The text back from its numbers."""
    lines, line = [], []
    for token in found.tokens.tolist():
        if token < 0:
            lines.append(line)
            line = []
        else:
            line.append(found.words[token])
    assert not line
    return lines


def test_a_text_comes_back_from_its_numbers(tmp_path):
    text = ["The cat, the dog; l'été!", "", "Don’t 'stop' at U+2028:\u2028here", "one"]
    found = prepare(config(written(tmp_path / "a.txt", text)))
    assert lines_of(found) == [
        ["the", "cat", "the", "dog", "l'été"],
        ["don’t", "stop", "at", "u", "2028", "here"],
        ["one"],
    ]
    assert found.words[0] == "the"
    assert found.counts.tolist() == sorted(found.counts.tolist(), reverse=True)
    assert found.report["train"]["corpora"][0]["dropped"]["empty"]["places"] == [f"{tmp_path / 'a.txt'}:2"]


def test_rare_words_are_as_if_they_were_not_there(tmp_path):
    path = written(tmp_path / "a.txt", ["a b a c", "a b", "d", "b a"])
    found = prepare(config(path, min_count=2))
    assert (found.words, found.counts.tolist()) == (["a", "b"], [4, 3])
    assert lines_of(found) == [["a", "b", "a"], ["a", "b"], [], ["b", "a"]]
    assert prepare(config(path, vocab=2)).words == ["a", "b"]


def test_json_lines_gzip_and_several_files_are_read(tmp_path):
    records = [{"review": {"text": "Good<br />film"}}, {"review": {"text": "bad film"}}]
    zipped = tmp_path / "a.jsonl.gz"
    zipped.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))
    files = (TextFile(path=str(zipped), field="review.text"), TextFile(path=str(written(tmp_path / "b.txt", ["good"]))))
    found = prepare(WordsConfig(train=files, min_count=1, ignore="<[^>]+>"))
    assert lines_of(found) == [["good", "film"], ["bad", "film"], ["good"]]


def test_bad_lines_are_counted_with_their_places_and_too_many_stop(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good words here\n\xff\xfe\nmore good words\nnul\0\n")
    found = prepare(config(path, reject=0.5))
    assert lines_of(found) == [["good", "words", "here"], ["more", "good", "words"]]
    refused = found.report["train"]["corpora"][0]["refused"]
    assert refused["invalid UTF-8"]["places"] == [f"{path}:2"]
    assert refused["with a NUL character"]["places"] == [f"{path}:4"]
    with pytest.raises(ValueError, match=r"2 of 4 lines .*a\.txt:2.*raise data\.reject"):
        prepare(config(path))


def test_two_passes_join_phrases_of_three_words(tmp_path):
    chance = random.Random(0)
    filler = [f"w{number}" for number in range(40)]
    planted = ["new york city", "new york", "city"]
    text = [
        " ".join([*chance.choices(filler, k=8), planted[line % 3], *chance.choices(filler, k=2)]) for line in range(90)
    ]
    twice = prepare(config(written(tmp_path / "a.txt", text), phrases=(8.0, 4.0)))
    assert [word for word in twice.words if "_" in word] == ["new_york", "new_york_city"]
    assert lines_of(twice)[0][8] == "new_york_city"
    once = prepare(config(tmp_path / "a.txt", phrases=(8.0,)))
    assert [word for word in once.words if "_" in word] == ["new_york"]


def test_phrases_that_read_the_same_are_one_word(tmp_path):
    path = written(tmp_path / "a.txt", ["a_b c", "a b_c", "d"])
    found = prepare(config(path, pattern=r"\S+", phrases=(0.5,), discount=0))
    assert (found.words, found.counts.tolist()) == (["a_b_c", "d"], [2, 1])


def test_a_word_of_the_users_own_pattern_holds_no_blank(tmp_path):
    assert split_words("New  York, Los\tAngeles", config(tmp_path, pattern="[^,]+")) == ["new_york", "los_angeles"]


def test_blocks_are_whole_lines_that_cover_the_text_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 20)
    monkeypatch.setattr(module, "PIECE", 64)
    text = [" ".join(["a", "b", "c"] * (number % 5 + 1)) for number in range(50)]
    found = prepare(config(written(tmp_path / "a.txt", text)))
    blocks = [found.block(number).tolist() for number in range(found.blocks)]
    assert [token for block in blocks for token in block] == found.tokens.tolist()
    assert all(block[-1] == -1 for block in blocks)
    assert all(20 <= len(block) < 20 + 16 for block in blocks[:-1])


def test_pieces_make_no_difference(tmp_path, monkeypatch):
    path = written(tmp_path / "a.txt", [f"new york {number} new york city" for number in range(30)])
    whole = prepare(config(path, phrases=(1.0, 1.0), min_count=1, discount=1))
    monkeypatch.setattr(module, "PIECE", 32)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "other"))
    pieces = prepare(config(path, phrases=(1.0, 1.0), min_count=1, discount=1))
    assert (whole.words, whole.tokens.tolist()) == (pieces.words, pieces.tokens.tolist())
    assert Counter(pieces.words).most_common(1)[0][1] == 1


def test_mistakes_are_said_in_one_line(tmp_path):
    path = written(tmp_path / "a.txt", ["word"])
    wrong = [
        ({"pattern": "("}, "pattern is no regular expression"),
        ({"min_count": 0}, "min_count must be"),
        ({"phrases": (0.0,)}, r"phrases\[0\] must be a number above 0"),
        ({"reject": 2.0}, "from 0 to 1"),
    ]
    for settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            build(WordsConfig, {"train": {"path": str(path)}, **settings})
    with pytest.raises(ValueError, match="only 1 words occur 1 times or more"):
        prepare(config(path))
    with pytest.raises(ValueError, match="is empty: give a file with at least one text"):
        prepare(config(written(tmp_path / "b.txt", [])))
    with pytest.raises(ValueError, match="no file"):
        prepare(config(tmp_path / "none.txt"))
