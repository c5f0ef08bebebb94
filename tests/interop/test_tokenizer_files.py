"""Tokenizer files that are odd, damaged or dangerous: read as they are meant, or refused in one line."""

import base64
import json
import math
import time

import pytest

from regard.data.tokenizers import Tokenizer
from regard.interop.sentencepiece import Piece
from regard.interop.tokenizers import read
from tests.interop.spelling import END, UNKNOWN, charsmap, llama2c, model
from tests.interop.vocabularies import (
    FOLDED,
    HARD,
    byte_pairs,
    joined,
    parsed,
    scored,
    shell,
)


def test_tokens_that_were_added_later_have_their_ids(tmp_path):
    folder = byte_pairs(tmp_path / "gpt2", ["<|endoftext|>"])
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    (folder / "added_tokens.json").write_text(json.dumps({"<sep>": size + 1, "<pad>": size}), encoding="utf-8")
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"pad_token": "<pad>", "sep_token": {"content": "<sep>"}, "mask_token": "<nowhere>"}),
        encoding="utf-8",
    )
    ours = parsed(folder, "gpt2")
    assert (ours.pad, ours.separator, ours.mask, ours.vocab) == (size, size + 1, None, size + 2)
    (folder / "added_tokens.json").write_text(json.dumps({"<pad>": 5}), encoding="utf-8")
    with pytest.raises(ValueError, match='added token "<pad>" should have id 5'):
        read(folder, kind="gpt2")


def test_explosive_expressions_are_refused(tmp_path):
    cut = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}
    (tmp_path / "tokenizer.json").write_text(json.dumps(shell(pre_tokenizer=cut)), encoding="utf-8")
    with pytest.raises(ValueError, match="exponential time"):
        read(tmp_path, kind="gpt2")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no tokenizer"),
        ({"tokenizer.json": b"{"}, "tokenizer.json: cannot be read"),
        ({"tokenizer.json": b"[1]"}, "expected a JSON object"),
        ({"tokenizer.json": b"{}"}, "the tokenizer has no vocabulary"),
        ({"tokenizer.json": b'{"model": {"vocab": {"a": 4000000000}}}'}, "id of \"a\" is 4000000000"),
        ({"tokenizer.json": b'{"model": {"vocab": {"a": 1, "b": 1}}}'}, "two tokens have the same id"),
        ({"tokenizer.json": b'{"model": {"vocab": {"a": 1}}}'}, "json: the tokenizer cannot be used: "),
        ({"tokenizer.json": b"[" * 100_000}, "too deep"),
        ({"vocab.json": b'{"a": 0}'}, "merges.txt: no such file"),
        ({"vocab.json": b'{"a": 0}', "merges.txt": b"a b c\n"}, "merges.txt:1: expected two pieces"),
        ({"vocab.json": b'{"a": 0}', "merges.txt": b"a b\n"}, 'joins "a" and "b", and the vocabulary lacks "b"'),
        ({"vocab.json": b'{"a": "b"}', "merges.txt": b""}, 'the id of "a" is "b"'),
        ({"vocab.txt": b"a\na\n"}, '"a" is there twice'),
        ({"vocab.txt": b"\xff\n"}, "is not UTF-8"),
        ({"vocab.txt": b"a\n", "tokenizer_config.json": b'{"do_lower_case": 3}'}, "do_lower_case must be true"),
        ({"vocab.txt": b"a\n", "tokenizer_config.json": b'{"pad_token": 3}'}, "must be a text"),
        ({"vocab.txt": b"a\n", "tokenizer_config.json": b'{"added_tokens_decoder": {"x": "<a>"}}'}, "is no id"),
        ({"tokenizer.model": b""}, "0 pieces stand for the unknown"),
        ({"tokenizer.model": b"\x0a\xff"}, "ends in the middle"),
        ({"tokenizer.model": b"\xff" * 20}, "has no end"),
        ({"spiece.model": b"\x00" * (1 << 24) + b"\x00"}, "larger than"),
        ({"tokenizer.bin": b"\x01\x00\x00\x00\x00\x00\xc0\x7f\x01\x00\x00\x00a"}, "no finite number"),
        ({"tokenizer.bin": b"\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}, "length of -1"),
        ({"source.spm": b""}, "0 pieces stand for the unknown"),
    ],
)  # fmt: skip
def test_bad_files_are_answered_with_one_line(files, message, tmp_path):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, kind="gpt2")
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_scores_must_be_finite(score, tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(model([UNKNOWN, Piece("a", score)]))
    with pytest.raises(ValueError, match="the score of 'a' is no finite number"):
        read(tmp_path, kind="llama")


def test_a_damaged_map_of_characters_is_refused_wherever_it_stands(tmp_path):
    sound = charsmap(FOLDED)
    size = int.from_bytes(sound[:4], "little")
    for bad in (
        sound[:-1],  # the last replacement has no end
        sound[:4] + b"\xff\xff\x1f\xff" + sound[8:],  # the trie leads out of itself
        (size + 2).to_bytes(4, "little") + sound[4:],
        (1 << 30).to_bytes(4, "little") + sound[4:],
        sound[: 4 + size],
    ):
        (tmp_path / "spiece.model").write_bytes(model([UNKNOWN, Piece("a", -1.0)], charsmap=bad))
        with pytest.raises(ValueError, match="map of characters is damaged"):
            read(tmp_path, kind="t5")
        folding = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bad).decode()}
        nested = {"type": "Sequence", "normalizers": [folding]}
        other = tmp_path / "other"
        other.mkdir(exist_ok=True)
        (other / "tokenizer.json").write_text(json.dumps(shell(normalizer=nested)), encoding="utf-8")
        with pytest.raises(ValueError, match="map of characters is damaged"):
            read(other, kind="t5")


def test_a_panic_of_the_library_is_one_line_too(monkeypatch):
    folding = {"type": "Precompiled", "precompiled_charsmap": "="}
    monkeypatch.setattr("regard.data.tokenizers.tokenizer.check_tokenizer", lambda document: None)
    with pytest.raises(ValueError, match=r"not a tokenizer\.json"):
        Tokenizer.parse(json.dumps(shell(normalizer=folding)))


@pytest.mark.parametrize("name", ["spiece.model", "tokenizer.model", "tokenizer.bin", "tokenizer.json"])
def test_changed_bytes_give_a_tokenizer_or_one_line(name, tmp_path):
    from random import Random

    small = charsmap({"\u00a0": " ", "é": "e"})
    sound = {
        "spiece.model": model([UNKNOWN, END, *scored()[:40]], charsmap=small),
        "tokenizer.model": model(joined(330)[0], bpe=True, byte_fallback=True),
        "tokenizer.bin": llama2c(joined(330)[0]),
    }
    (tmp_path / "sound").mkdir()
    (tmp_path / "sound" / "spiece.model").write_bytes(sound["spiece.model"])
    data = sound.get(name) or read(tmp_path / "sound", kind="t5").encode()
    random, kinds = Random(13), {"spiece.model": "t5"}
    path = tmp_path / name
    answers = set()
    start = time.perf_counter()
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(random.choice((1, 1, 2, 8))):
            place = random.randrange(len(changed))
            how = random.random()
            if how < 0.6:
                changed[place] = random.randrange(256)
            elif how < 0.8:
                del changed[place : place + random.randrange(1, 9)]
            else:
                changed[place:place] = bytes(random.randrange(256) for _ in range(random.randrange(1, 9)))
        path.write_bytes(changed[: random.randrange(len(changed))] if random.random() < 0.1 else changed)
        try:
            tokenizer = parsed(tmp_path, kinds.get(name, "llama"))
        except ValueError as error:
            lines = str(error).split("\n")
            answers.add(len(lines) > 1)
            continue
        assert all(0 <= id < tokenizer.vocab for text in HARD for id in tokenizer.encode(text))
        answers.add("a tokenizer")
        if len(answers) > 1 and time.perf_counter() - start > 1:
            break
    assert answers == {False, "a tokenizer"}, "an error has one line"
