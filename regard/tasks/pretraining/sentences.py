"""Sentence boundaries in token sequences, derived from the vocabulary alone."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Bool, Int

from regard.data.tokenizers import Tokenizer

CLOSING = r"[\"'”’»)\]」』）]*\s*"  # quotes and brackets that belong to a sentence, and the space after it
STOP = re.compile(rf"[.!?…。！？]{CLOSING}$")
REST = re.compile(CLOSING)
UNSPACED = re.compile(r"[。！？][」』”）]*$")  # no space is needed after these
FAR = 1 << 60


class Sentences:
    """Sentence boundaries: a stop with closing quotes and brackets before a space; line ends where there is none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [(piece or b"").decode("utf-8", errors="replace") for piece in tokenizer.token_bytes]
        words = bool(tokenizer.closed and tokenizer.between)  # every token is a word
        self._stop = np.array([STOP.search(text) is not None for text in texts])
        self._rest = np.array([bool(text) and REST.fullmatch(text) is not None for text in texts])
        self._line = np.array([text.endswith("\n") for text in texts])
        self._line[tokenizer.role("end")] = self._rest[tokenizer.role("end")] = (
            True  # which ends lines if tokens are words
        )
        self._opens = np.array([words or text[:1].isspace() for text in texts])
        self._closes = np.array([text[-1:].isspace() or UNSPACED.search(text) is not None for text in texts])

    def begins(self, tokens: Int[np.ndarray, "token"], *, lines: bool = False) -> Bool[np.ndarray, "token"]:
        """Return for each token whether a sentence, or a line, starts with it after the end of another one."""
        begins_here = np.zeros(len(tokens), bool)
        rest = self._rest[tokens]
        if lines:
            begins_here[1:] = self._line[tokens[:-1]] & ~rest[1:]
            return begins_here
        last = np.maximum.accumulate(np.where(rest, 0, np.arange(len(tokens))))  # of quotes, the token that they close
        after_stop = self._stop[tokens[last]]
        apart = self._opens[tokens[1:]] | self._closes[tokens[:-1]]
        begins_here[1:] = after_stop[:-1] & apart & ~rest[1:]
        return begins_here

    def nearest(
        self,
        tokens: Int[np.ndarray, "token"],
        lengths: Int[np.ndarray, "piece"],
        cuts: Int[np.ndarray, "piece"],
    ) -> tuple[Int[np.ndarray, "piece"], Bool[np.ndarray, "piece"]]:
        """Return for each piece the sentence start, or else line start, nearest to its cut, and whether there is one.

        Otherwise the cut stays.
        """
        stops = np.cumsum(lengths)
        starts = stops - lengths
        targets = best = starts + cuts
        found_any = np.zeros(len(lengths), bool)
        for lines in (True, False):
            places = np.flatnonzero(self.begins(tokens, lines=lines))
            right = np.searchsorted(places, targets) + 1
            places = np.r_[-FAR, places, FAR]
            before = np.where(places[right - 1] > starts, places[right - 1], -FAR)
            after = np.where(places[right] < stops, places[right], FAR)
            near = np.where(targets - before <= after - targets, before, after)
            within = np.abs(near) < FAR
            best, found_any = np.where(within, near, best), found_any | within
        return best - starts, found_any
