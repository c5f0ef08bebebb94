"""Tokens know which characters of the original they stand for, whatever was normalised on the way."""

import functools
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.offsets import Locator
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig, train_tokenizer

HARD = (
    "Le  roi d’été e\u0301te\u0301\n 👨‍👩‍👧 日本語の テキスト… “can’t”  \u200bx\u00ad-y \tΟΔΟΣ "
    "İstanbul [SEP] <br /> end."
)
TEXT = st.text(
    st.one_of(
        st.sampled_from("ab .,'’“”…-\t\n  éÉßΣİ日本語\u0301\u0327\u200d\u200b\u00a0👩👧ﬁ한ᄒ\u1161\u11ab"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
)


def wordpiece(how: TextTokenizerConfig) -> Tokenizer:
    """As BERT's: small letters without accents, blanks around Chinese ones, [UNK] for a word it cannot spell."""
    names = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *"abcdeilnorsty",
        *(f"##{each}" for each in "abcdeilnorsty"),
        "日",
        ".",
    ]
    engine = Engine(models.WordPiece({name: n for n, name in enumerate(names)}, unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.add_special_tokens(names[:4])
    return Tokenizer(engine, how)


@functools.cache
def tokenizer(name: str) -> Tokenizer:
    kind, *levels = name.split()
    if kind == "wordpiece":
        return wordpiece(TextTokenizerConfig(kind="words", normalise=levels[0]))
    more = {"pattern": r"\w+|[^\w\s]", "ignore": "<[^>]+>", "lowercase": True} if "tidy" in levels else {}
    how = TextTokenizerConfig(kind=kind, normalise=levels[0], **more)
    return train_tokenizer([how.normal(HARD)] * 2, how)


NAMES = [
    *("wordpiece none", "wordpiece full", "bpe none", "bpe full", "unigram full"),
    *("words full tidy", "words none", "characters full", "characters none"),
]
named = pytest.mark.parametrize("name", NAMES)


@named
@settings(max_examples=50, deadline=None)
@given(text=TEXT)
@example(HARD)
@example("e\u0301")
@example("ΟΔΟΣ")
@example("")
def test_tokens_are_those_that_are_read_and_their_characters_go_on_from_left_to_right(name, text):
    own = tokenizer(name)
    [found] = Locator(own).locate([text])
    assert found.ids == own.encode(text)
    assert len(found.ids) == len(found.spans)
    for begin, end in found.spans:
        assert 0 <= begin < end <= len(text)
        assert not unicodedata.category(text[begin]).startswith("M") or begin == 0 or not text[begin - 1].strip()
    assert found.spans == sorted(found.spans)


@named
@settings(max_examples=50, deadline=None)
@given(text=TEXT, data=st.data())
def test_any_part_of_a_text_comes_back_as_the_smallest_run_of_tokens_that_covers_it(name, text, data):
    [found] = Locator(tokenizer(name)).locate([text])
    first = data.draw(st.integers(0, max(len(text) - 1, 0)))
    last = data.draw(st.integers(first + 1, max(len(text), first + 1)))
    span = found.covering(first, last)
    touching = [n for n, (begin, end) in enumerate(found.spans) if begin < last and end > first]
    if span is None:
        assert not touching
        return
    begin, end = found.characters(*span)
    assert span == (min(touching), max(touching))
    covered = [place for place in range(first, last) if any(a <= place < b for a, b in found.spans)]
    assert begin <= min(covered)
    assert max(covered) < end
    if begin == first and end == last:
        assert text[begin:end] == text[first:last]


@named
def test_words_of_hard_text_come_back_as_they_were_written(name):
    [found] = Locator(tokenizer(name)).locate([HARD])
    for word in ("roi", "e\u0301te\u0301", "日本語の", "テキスト", "ΟΔΟΣ", "İstanbul", "👨‍👩‍👧"):
        first = HARD.index(word)
        span = found.covering(first, first + len(word))
        if span is None:
            assert name.startswith("wordpiece")
            assert word.startswith("👨")
            continue
        begin, end = found.characters(*span)
        whole = name == "words none" or (name == "words full tidy" and word.startswith(("日", "テ")))
        assert HARD[begin:end] == word if not whole else word in HARD[begin:end], name


def test_what_looks_like_a_special_token_is_text():
    [found] = Locator(tokenizer("bpe none")).locate(["a [SEP] b <eos>"])
    assert not set(found.ids) & tokenizer("bpe none").special
    covered = {place for begin, end in found.spans for place in range(begin, end)}
    assert {0, *range(2, 7), 8, *range(10, 15)} <= covered
