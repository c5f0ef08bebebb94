"""Masking for masked language models: which tokens of a row are masked, and by what they are replaced."""

from __future__ import annotations

import unicodedata
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

from regard.data.tokenizers import Tokenizer

MASK_SHARE, RANDOM_SHARE = 0.8, 0.1  # of masked tokens: replaced by the mask, by random tokens
MAX_WORD_TOKENS = 32  # a longer run of letters, as in scripts without spaces, is masked in parts
SPAN_PROBABILITY, MAX_SPAN = 0.2, 10  # words of a span: geometric distribution, up to MAX_SPAN
SPAN_LENGTH_CDF = np.cumsum(SPAN_PROBABILITY * (1 - SPAN_PROBABILITY) ** np.arange(MAX_SPAN)) / (
    1 - (1 - SPAN_PROBABILITY) ** MAX_SPAN
)
IDEOGRAPHS = ((0x2E80, 0x31FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))

Group = Int[np.ndarray, "hidden"]


class TokenMasking:
    """A selector of the tokens to mask: a share of all ordinary tokens, as single tokens, whole words or spans."""

    def __init__(self, tokenizer: Tokenizer, share: float, unit: Literal["tokens", "words", "spans"]) -> None:
        self.share, self.unit, self.mask = share, unit, tokenizer.role("mask")
        self._text = np.array([piece is not None for piece in tokenizer.token_bytes])
        self._text[sorted(tokenizer.special)] = False
        self._ordinary = np.flatnonzero(self._text)
        self._continues, self._can_continue = _word_boundaries(tokenizer)

    def hidden_count(self, tokens: int) -> int:
        """Return how many of this number of tokens are masked: at least one."""
        return min(tokens, max(1, round(self.share * tokens)))

    def sample(
        self, tokens: Int[np.ndarray, "token"], random: np.random.Generator
    ) -> tuple[Int[np.ndarray, "hidden"], Int[np.ndarray, "hidden"]]:
        """Return the masked positions in order, and their input tokens; whole words may be fewer than the share."""
        allowed = self._text[tokens]
        count = self.hidden_count(int(allowed.sum()))
        if self.unit == "tokens":
            ranks = np.where(allowed, random.random(len(tokens)), 2.0)
            places = np.sort(np.argsort(ranks, kind="stable")[:count])
            groups = np.arange(count)
        else:
            places, groups = self._sample_words(tokens, allowed, count, random)
        return places, self._replace_tokens(tokens[places], groups, random)

    def number_words(self, tokens: Int[np.ndarray, "token"]) -> Int[np.ndarray, "token"]:
        """Return the number of the word that each token belongs to: a run of letters and digits, or one sign."""
        begins = np.ones(len(tokens), bool)
        begins[1:] = ~(self._continues[tokens[1:]] & self._can_continue[tokens[:-1]])
        starts = np.flatnonzero(begins)
        within = np.arange(len(tokens)) - starts[np.cumsum(begins) - 1]
        return np.cumsum(begins | (within % MAX_WORD_TOKENS == 0)) - 1

    def _sample_words(
        self,
        tokens: Int[np.ndarray, "token"],
        allowed: Bool[np.ndarray, "token"],
        count: int,
        random: np.random.Generator,
    ) -> tuple[Int[np.ndarray, "hidden"], Group]:
        """Sample whole words, or spans of words, with `count` tokens in total; return positions and their groups."""
        words = self.number_words(tokens)
        first = np.flatnonzero(np.r_[True, words[1:] != words[:-1]])
        sizes, usable = np.diff(np.r_[first, len(tokens)]), allowed[first]
        chosen = np.full(len(sizes), -1)  # the group of each word
        order = np.argsort(random.random(len(sizes)), kind="stable")
        order = order[usable[order]]
        if self.unit == "words":
            fit = int(np.searchsorted(np.cumsum(sizes[order]), count, side="right"))
            chosen[order[:fit]] = np.arange(fit)
            remaining, order = count - int(sizes[order[:fit]].sum()), order[fit:]
            lengths = np.ones(len(order), np.int64)
        else:
            remaining, lengths = (
                count,
                1 + np.searchsorted(SPAN_LENGTH_CDF[:-1], random.random(len(order)), side="right"),
            )
        for group, (word, span) in enumerate(zip(order.tolist(), lengths.tolist(), strict=True), start=len(sizes)):
            if remaining == 0:
                break
            for position in range(word, min(word + span, len(sizes))):
                if not usable[position] or chosen[position] >= 0 or sizes[position] > remaining:
                    break
                chosen[position] = group
                remaining -= int(sizes[position])
        hidden = np.repeat(chosen, sizes)
        places = np.flatnonzero(hidden >= 0)
        together = hidden[places] if self.unit == "spans" else np.arange(len(places))
        return places, together

    def _replace_tokens(
        self, hidden_tokens: Int[np.ndarray, "hidden"], groups: Group, random: np.random.Generator
    ) -> Int[np.ndarray, "hidden"]:
        """Return the mask, a random token, or the token itself, by one random number per group."""
        draw = random.random(int(groups.max()) + 1 if len(groups) else 0)[groups]
        other = self._ordinary[(random.random(len(hidden_tokens)) * len(self._ordinary)).astype(np.int64)]
        return np.where(draw < MASK_SHARE, self.mask, np.where(draw < MASK_SHARE + RANDOM_SHARE, other, hidden_tokens))


def _word_boundaries(tokenizer: Tokenizer) -> tuple[Bool[np.ndarray, "vocab"], Bool[np.ndarray, "vocab"]]:
    """Return which tokens can continue a word, and which can be continued."""
    continues, can_continue = np.zeros(tokenizer.vocab, bool), np.zeros(tokenizer.vocab, bool)
    if tokenizer.closed and tokenizer.between:  # every token is a word
        return continues, can_continue
    for token, piece in enumerate(tokenizer.token_bytes):
        if piece:
            text = piece.decode("utf-8", errors="replace")
            continues[token], can_continue[token] = _is_word_character(text[0]), _is_word_character(text[-1])
    return continues, can_continue


def _is_word_character(character: str) -> bool:
    """True if a character can be part of a longer word; a broken character can, an ideograph is a word by itself."""
    if any(first <= ord(character) <= last for first, last in IDEOGRAPHS):
        return False
    return character in "_\ufffd" or unicodedata.category(character)[0] in "LNM"
