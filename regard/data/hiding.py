"""Which tokens of a row are hidden, and what is read in their place."""

from __future__ import annotations

import unicodedata
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

from regard.data.tokenizers import Tokenizer

MASKED, RANDOM = 0.8, 0.1  # of what is hidden: replaced by the mask, by any token; the rest stays
LONGEST_WORD = 32  # tokens; a longer run of letters, of writing without blanks, is hidden in parts
SPAN, LONGEST_SPAN = 0.2, 10  # words of a span: geometric up to this many
LENGTHS = np.cumsum(SPAN * (1 - SPAN) ** np.arange(LONGEST_SPAN)) / (1 - (1 - SPAN) ** LONGEST_SPAN)
IDEOGRAPHS = ((0x2E80, 0x31FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))

Group = Int[np.ndarray, "hidden"]


class TokenMasking:
    """Draws hidden tokens for a tokenizer: a share of all that may be hidden, in units of this kind."""

    def __init__(self, tokenizer: Tokenizer, share: float, unit: Literal["tokens", "words", "spans"]) -> None:
        self.share, self.unit, self.mask = share, unit, tokenizer.role("mask")
        self._text = np.array([piece is not None for piece in tokenizer.token_bytes])
        self._text[sorted(tokenizer.special)] = False
        self._ordinary = np.flatnonzero(self._text)
        self._opens, self._closes = _word_boundaries(tokenizer)

    def count(self, tokens: int) -> int:
        """How many of so many tokens are hidden: at least one."""
        return min(tokens, max(1, round(self.share * tokens)))

    def draw(
        self, tokens: Int[np.ndarray, "token"], random: np.random.Generator
    ) -> tuple[Int[np.ndarray, "hidden"], Int[np.ndarray, "hidden"]]:
        """Hidden places in order, and what is read there; whole words may be a few fewer than the share."""
        allowed = self._text[tokens]
        count = self.count(int(allowed.sum()))
        if self.unit == "tokens":
            ranks = np.where(allowed, random.random(len(tokens)), 2.0)
            places = np.sort(np.argsort(ranks, kind="stable")[:count])
            groups = np.arange(count)
        else:
            places, groups = self._whole(tokens, allowed, count, random)
        return places, self._read(tokens[places], groups, random)

    def words(self, tokens: Int[np.ndarray, "token"]) -> Int[np.ndarray, "token"]:
        """The number of the word that each token belongs to: a run of letters and digits; all else is by itself."""
        begins = np.ones(len(tokens), bool)
        begins[1:] = ~(self._opens[tokens[1:]] & self._closes[tokens[:-1]])
        starts = np.flatnonzero(begins)
        within = np.arange(len(tokens)) - starts[np.cumsum(begins) - 1]
        return np.cumsum(begins | (within % LONGEST_WORD == 0)) - 1

    def _whole(
        self,
        tokens: Int[np.ndarray, "token"],
        allowed: Bool[np.ndarray, "token"],
        count: int,
        random: np.random.Generator,
    ) -> tuple[Int[np.ndarray, "hidden"], Group]:
        """Whole words, or spans of them, of so many tokens together; and which were drawn together."""
        words = self.words(tokens)
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
            remaining, lengths = count, 1 + np.searchsorted(LENGTHS[:-1], random.random(len(order)), side="right")
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

    def _read(
        self, truth: Int[np.ndarray, "hidden"], groups: Group, random: np.random.Generator
    ) -> Int[np.ndarray, "hidden"]:
        """The mask, any token, or the token itself, alike for all of a group."""
        draw = random.random(int(groups.max()) + 1 if len(groups) else 0)[groups]
        other = self._ordinary[(random.random(len(truth)) * len(self._ordinary)).astype(np.int64)]
        return np.where(draw < MASKED, self.mask, np.where(draw < MASKED + RANDOM, other, truth))


def _word_boundaries(tokenizer: Tokenizer) -> tuple[Bool[np.ndarray, "vocab"], Bool[np.ndarray, "vocab"]]:
    """Whether each token can go on with a word, and whether a word can go on after it."""
    opens, closes = np.zeros(tokenizer.vocab, bool), np.zeros(tokenizer.vocab, bool)
    if tokenizer.closed and tokenizer.between:  # every token is a word
        return opens, closes
    for token, piece in enumerate(tokenizer.token_bytes):
        if piece:
            text = piece.decode("utf-8", errors="replace")
            opens[token], closes[token] = _letter(text[0]), _letter(text[-1])
    return opens, closes


def _letter(character: str) -> bool:
    """Whether it is part of a word of several; a broken character is, an ideograph is a word of its own."""
    if any(first <= ord(character) <= last for first, last in IDEOGRAPHS):
        return False
    return character in "_\ufffd" or unicodedata.category(character)[0] in "LNM"
