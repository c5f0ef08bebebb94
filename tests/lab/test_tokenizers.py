"""Units compared: shorter texts cost larger vocabularies, and only a closed list of words meets the unknown."""

import pytest

from regard.data.tokenizers.units import UnitsConfig, train
from regard.lab import tokenizers

LINES = [f"le {noun} est {how}" for noun in ("roi", "chat", "mur", "pain") for how in ("grand", "grandement petit")] * 4


def test_characters_words_and_pieces_are_measured_by_hand():
    held = ["le roi est grand", "la reine est grande"]
    words = train(LINES, UnitsConfig(kind="words"), characters=100)
    found = tokenizers.measure(words, held, ["grand", "reine"])
    assert (found.per_line, found.unknown) == (4.0, 3 / 8)
    assert found.words == {"grand": ("grand",), "reine": ("<unk>",)}
    characters = train(LINES, UnitsConfig(kind="characters"), characters=100)
    found = tokenizers.measure(characters, held, ["grand"])
    assert (found.per_line, found.per_token) == (sum(map(len, held)) / 2, 1.0)
    assert found.words == {"grand": tuple("grand")}


def test_pieces_of_a_word_put_together_are_the_word():
    for kind in ("bpe", "unigram"):
        made = train(LINES, UnitsConfig(kind=kind, vocab=300), characters=100)
        found = tokenizers.measure(made, LINES, tokenizers.WORDS)
        assert {word: "".join(pieces) for word, pieces in found.words.items()} == {
            word: word for word in tokenizers.WORDS
        }
        assert found.unknown == 0


def test_more_tokens_make_shorter_texts_and_fewer_unknown_words():
    lines = [" ".join(chr(97 + a) * (2 + b % 3) for b in range(a % 7 + 1)) for a in range(26) for _ in range(1 + a)]
    found = tokenizers.compare(lines[::2], lines[1::2], sizes=[300, 310], words=["aa"])
    assert [cut.kind for cut in found if cut.kind == "characters"] == ["characters"]
    pieces = [cut for cut in found if cut.kind == "bpe"]
    assert [cut.vocab for cut in pieces] == sorted({cut.vocab for cut in pieces})
    assert pieces[0].per_line > pieces[-1].per_line
    longest = max(cut.per_line for cut in found)
    assert next(cut for cut in found if cut.kind == "characters").per_line == longest
    unknown = [cut.unknown for cut in found if cut.kind == "words"]
    assert unknown == sorted(unknown, reverse=True)


def test_equal_lines_are_held_out_together_and_chance_decides_nothing():
    lines = [f"line {number % 50}" for number in range(200)]
    kept, held = tokenizers.hold_out(lines)
    assert not set(kept) & set(held)
    assert sorted([*kept, *held]) == sorted(lines)
    assert tokenizers.hold_out(lines) == (kept, held)
    with pytest.raises(ValueError, match="too few to hold some out"):
        tokenizers.hold_out(["one"])


def test_a_column_is_read_and_a_line_without_it_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.tsv").write_text("a\tb\n\tc\nd\t\n", encoding="utf-8")
    assert tokenizers.read("x.tsv", column=2) == ["b", "c"]
    (tmp_path / "x.tsv").write_text("a\tb\nc\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.tsv:2: 1 column, wanted column 2"):
        tokenizers.read("x.tsv", column=2)
