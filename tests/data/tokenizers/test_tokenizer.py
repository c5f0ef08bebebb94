"""Tokenizers: any NFC text survives, nothing typed becomes a command, the same texts give the same file."""

import json
import os
import subprocess
import sys
import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.data.roles import SPECIALS
from regard.data.tokenizers import Tokenizer, TokenizerConfig, default_vocab_size, excerpt, train

KINDS = ("bpe", "unigram", "words", "characters")
TEXTS = [
    f"{article} {noun} {verb} {place}."
    for article, noun, verb, place in [
        ("Le", "chat", "dort", "là-bas"),
        ("Un", "chien", "mange", "à l'école"),
        ("The", "cat", "sleeps", "over there"),
        ("A", "dog", "doesn't eat", "at school"),
    ]
    for _ in range(5)
]
TRAINED = {
    kind: train(TEXTS, TokenizerConfig(kind=kind, vocab=420, normalise="none"), tags=["fr", "de"]) for kind in KINDS
}

commands = ["<eos>", "<pad>", "<2fr>", "<unk>", "Ġ", "▁"]
awkward = [*commands, " ", "  ", "\n", "\t", "\r", "é", "😀", "\u0301", "\0", "\ufeff", "chat"]
texts = st.text() | st.lists(st.sampled_from(awkward) | st.text(max_size=3)).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@given(texts)
def test_any_nfc_text_survives_and_never_becomes_a_special_token(kind, text):
    text = unicodedata.normalize("NFC", text)
    tokenizer = TRAINED[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(id > max(tokenizer.tags.values()) for id in ids)
    assert tokenizer.decode([tokenizer.begin, *ids, tokenizer.end, tokenizer.pad]) == text


@pytest.mark.parametrize("kind", KINDS)
@given(texts)
def test_pieces_read_as_the_text_and_words_count_up(kind, text):
    text = unicodedata.normalize("NFC", text)
    tokenizer = TRAINED[kind]
    ids = tokenizer.encode(text)
    assert len(tokenizer.pieces(ids)) == len(tokenizer.words(ids)) == len(ids)
    if text.isascii():
        assert "".join(tokenizer.pieces(ids)).removeprefix("" if kind == "characters" else " ") == text
    words = tokenizer.words(ids)
    assert all(after - before >= 0 for before, after in pairwise(words))


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.integers(0, 400)))
def test_ids_of_no_text_can_still_be_shown(kind, ids):
    tokenizer = TRAINED[kind]
    ids = [id for id in ids if id < tokenizer.vocab]
    assert isinstance(tokenizer.decode(ids), str)
    assert all(tokenizer.pieces(ids))
    assert len(tokenizer.words(ids)) == len(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_in_any_order_give_the_same_file(kind):
    again = train(reversed(TEXTS), TokenizerConfig(kind=kind, vocab=420), tags=["de", "fr"])
    assert again.json() == TRAINED[kind].json()
    assert Tokenizer.parse(again.json()).json() == again.json()


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_then_tags(kind):
    tokenizer = TRAINED[kind]
    assert (tokenizer.pad, tokenizer.begin, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert tokenizer.mask is tokenizer.separator is None
    assert tokenizer.pieces(range(6)) == [*SPECIALS, "<2de>", "<2fr>"]
    assert tokenizer.tags == {"de": 4, "fr": 5}
    assert tokenizer.tag("fr") == 5
    assert tokenizer.vocab == len(json.loads(tokenizer.json())["model"]["vocab"])
    with pytest.raises(ValueError, match=r"'es'.*de, fr"):
        tokenizer.tag("es")


@pytest.mark.parametrize("kind", KINDS)
def test_parsed_and_many_at_once_equal_one_by_one(kind):
    tokenizer, parsed = TRAINED[kind], Tokenizer.parse(TRAINED[kind].json())
    odd = ["<eos>", "", " Le chat", "x\ny"]
    assert parsed.encode_many(odd) == [tokenizer.encode(text) for text in odd]


def test_each_kind_cuts_as_its_name_says():
    pieces = {kind: tokenizer.pieces(tokenizer.encode("Le chat dort.")) for kind, tokenizer in TRAINED.items()}
    assert pieces["words"] == [" Le", " chat", " dort", "."]
    assert pieces["characters"] == list("Le chat dort.")
    assert len(pieces["bpe"]) <= 8
    assert len(pieces["unigram"]) <= 10
    assert TRAINED["characters"].pieces(TRAINED["characters"].encode("à😀")) == [
        "à",
        "<0xF0>",
        "<0x9F>",
        "<0x98>",
        "<0x80>",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_grouped_into_the_words_of_the_text(kind):
    tokenizer = TRAINED[kind]
    ids = [tokenizer.begin, *tokenizer.encode("Le chat n'est pas là-bas… dit-il 😀 !"), tokenizer.end]
    words = tokenizer.words(ids)
    assert words[0] is None
    assert words[-1] is None
    grouped = {}
    for id, word in zip(ids[1:-1], words[1:-1], strict=True):
        grouped.setdefault(word, []).append(id)
    shown = [tokenizer.decode(grouped[word]).strip() for word in sorted(grouped)]
    assert shown == ["Le", "chat", "n'est", "pas", "là-bas", "…", "dit-il", "😀", "!"]


def test_text_that_is_no_text_is_an_error():
    with pytest.raises(ValueError, match="lone surrogate"):
        TRAINED["bpe"].encode("a\ud800")


@pytest.mark.parametrize(
    "text", ["", "{}", "not json", json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": []}})]
)
def test_a_file_that_is_no_tokenizer_is_an_error_of_one_line(text):
    with pytest.raises(ValueError) as error:
        Tokenizer.parse(text)
    assert "\n" not in str(error.value)


def test_a_vocabulary_grows_with_the_text():
    assert 1500 < default_vocab_size("bpe", 700_000) < 2500
    sizes = [default_vocab_size("bpe", 10**power) for power in range(10)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 32_000
    assert train(TEXTS, TokenizerConfig(), characters=1000).vocab <= 512


@pytest.mark.parametrize("kind", KINDS)
def test_hardly_any_text_is_enough(kind):
    tokenizer = train(["a"], TokenizerConfig(kind=kind))
    assert tokenizer.decode(tokenizer.encode("zoo é")) == "zoo é"


def test_a_vocabulary_without_room_for_bytes_is_an_error():
    with pytest.raises(ValueError, match="vocab must be a whole number from 300 to 1,000,000"):
        config.build(TokenizerConfig, {"vocab": 100})


def test_forking_after_parallel_work_is_safe_and_silent():
    code = """
import multiprocessing
import os
from regard.data.tokenizers import TokenizerConfig, train
tokenizer = train(["un chat"] * 50, TokenizerConfig())
def work(queue): queue.put((os.environ["TOKENIZERS_PARALLELISM"], tokenizer.encode_many(["un chat"] * 1000)[-1]))
tokenizer.encode_many(["un chat"] * 1000)
context = multiprocessing.get_context("fork")
queue = context.Queue()
child = context.Process(target=work, args=(queue,))
child.start()
print(queue.get(timeout=3600) == ("false", tokenizer.encode("un chat")), "TOKENIZERS_PARALLELISM" in os.environ)
child.join()
"""
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    # Python itself warns of any fork beside threads from 3.12 on
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3600)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("True False\n", "", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_endless_word_is_learnt_from_in_a_moment(kind):
    letters = "abcdefghijklmnopqrstuvwxyz"
    endless = "".join(letters[n * n % 26] + letters[n * 7 % 26] for n in range(100_000))
    started = time.monotonic()
    learnt = train([*TEXTS, endless, f"{endless} fin", "=" * 200_000], TokenizerConfig(kind=kind, vocab=420))
    assert time.monotonic() - started < 60
    assert learnt.decode(learnt.encode("Le chat dort.")) == "Le chat dort."


@given(st.lists(st.sampled_from(["a", "bc", "é", " ", ".", "!?"]) | st.text(max_size=2), max_size=40).map("".join))
def test_what_could_be_a_word_is_learnt_from_whole(text):
    assert excerpt(text * 3) == text * 3 or len(text) > 50
    assert excerpt(f"{text} {'x' * 256} {text}") == f"{text} {'x' * 64} {text}"
    assert excerpt(f"{text} {'x' * 255} {text}") == f"{text} {'x' * 255} {text}"


def test_a_token_reaches_no_further_than_its_bytes():
    tokenizer = TRAINED["words"]
    assert tokenizer.reach == max(len(piece.encode()) for piece in tokenizer.pieces(range(270, tokenizer.vocab)))
    assert TRAINED["characters"].reach == 2
