"""Characters, words and pieces of running text: a closed list, line ends, and back again."""

import random

import pytest
from tokenizers import models, trainers

from regard import config
from regard.data.roles import SPECIALS
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import UnitsConfig

LINES = ["la présidente", "", "fut réélue,", "la la"]


def made(kind: str, lines=LINES, **settings) -> Tokenizer:
    return units.train(lines, UnitsConfig(kind=kind, **settings), characters=sum(map(len, lines)))


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "unigram"])
def test_a_text_comes_back_from_its_tokens_and_from_the_file(kind):
    lines = LINES * 30 if kind == "unigram" else LINES
    own = made(kind, lines)
    text = "\n".join(LINES) + "\n"
    assert own.decode_lines(own.encode_lines(text)) == text
    assert own.encode_lines(text).count(own.end) == 4
    assert Tokenizer.parse(own.json(), own.how).encode_lines(text) == own.encode_lines(text)


def test_characters_are_those_of_the_text_and_nothing_else():
    own = made("characters", ["masse"])
    assert own.vocab == len(SPECIALS) + 4
    assert len(set(own.encode("masse"))) == 4
    assert own.encode("mé") == [*own.encode("m"), own.unknown]
    assert own.unknown_characters("messe é\nà") == [" ", "à", "é"]


def test_words_stand_between_blanks_and_rare_ones_are_unknown():
    own = made("words", [" mr. <unk> said n't ", "mr. vinken said"], min_frequency=2)
    assert own.vocab == len(SPECIALS) + 2
    assert own.decode_lines(own.encode_lines("said mr. vinken <unk>")) == "said mr. <unk> <unk>"


def test_a_limit_keeps_the_most_frequent_words():
    own = made("words", ["b a b a c", "b"], vocab=6)
    assert own.decode_lines(own.encode_lines("a b c")) == "a b <unk>"


def test_the_order_of_lines_changes_no_unit():
    assert made("words").json() == made("words", LINES[::-1]).json()


def test_letters_words_and_pieces_trade_vocabulary_for_length():
    lines = ["la grande armée avance grandement", "le grand homme est grand"] * 5
    made_of = {kind: made(kind, lines) for kind in ("characters", "words", "bpe")}
    unseen = "le grand avancement"
    lengths = {kind: len(own.encode(unseen)) for kind, own in made_of.items()}
    assert lengths["words"] < lengths["bpe"] < lengths["characters"] == len(unseen)
    assert made_of["words"].decode(made_of["words"].encode(unseen)) == "le grand <unk>"
    assert made_of["bpe"].decode(made_of["bpe"].encode(unseen)) == unseen


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"vocab": 4}, "vocab must be a whole number from 5"), ({"min_frequency": 0}, "min_frequency must be")],
)
def test_impossible_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        config.build(UnitsConfig, settings)


def test_characters_are_counted_and_looked_up_as_the_library_does():
    hard = "Größe e\u0301 é 漢字 \u2028 \x85\x0b 🙂👨‍👩‍👧 עברית \x01\x7f <eos> <unk> \u1100\u1161 ﬁ\u00a0\r\t aab"
    own = units.train([hard, "aab"], UnitsConfig(), characters=len(hard))
    counter = units._engine(models.WordLevel(unk_token="<unk>"), "characters")
    counter.train_from_iterator([hard, "aab"], trainers.WordLevelTrainer(special_tokens=[], show_progress=False))
    known = counter.get_vocab()
    assert [own._names[id] for id in range(4, own.vocab)] == sorted(known, key=known.__getitem__)
    dice = random.Random(0)
    for _ in range(100):
        drawn = (
            dice.choice([dice.randrange(0x80), dice.randrange(0xD800), dice.randrange(0xE000, 0x110000)]) for _ in hard
        )
        text = "".join(map(chr, drawn)) + hard[dice.randrange(len(hard)) :]
        assert own.encode_normal([text]) == [own._engine.encode(text, add_special_tokens=False).ids]
    with pytest.raises(ValueError, match="lone surrogate"):
        own.encode_normal(["\ud800"])
