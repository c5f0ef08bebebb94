"""Where sentences end in tokens, so that texts can be cut there: told from the vocabulary, without any text."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Bool, Int

from regard.data.tokenizers import Tokenizer

CLOSING = r"[\"'”’»)\]」』）]*\s*"  # quotes and brackets that still belong to a sentence, and the blank after it
STOP = re.compile(rf"[.!?…。！？]{CLOSING}$")
REST = re.compile(CLOSING)
UNSPACED = re.compile(r"[。！？][」』”）]*$")  # after which no blank is needed
FAR = 1 << 60


class Sentences:
    """Ends of sentences: a stop and what closes it before a blank; ends of lines where there is none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [(piece or b"").decode("utf-8", errors="replace") for piece in tokenizer.token_bytes]
        words = bool(tokenizer.closed and tokenizer.between)  # every token is one
        self._stop = np.array([STOP.search(text) is not None for text in texts])
        self._rest = np.array([bool(text) and REST.fullmatch(text) is not None for text in texts])
        self._line = np.array([text.endswith("\n") for text in texts])
        self._line[tokenizer.role("end")] = self._rest[tokenizer.role("end")] = (
            True  # which ends lines where tokens are words
        )
        self._opens = np.array([words or text[:1].isspace() for text in texts])
        self._closes = np.array([text[-1:].isspace() or UNSPACED.search(text) is not None for text in texts])

    def begins(self, tokens: Int[np.ndarray, "token"], *, lines: bool = False) -> Bool[np.ndarray, "token"]:
        """Whether a sentence, or a line, begins with each token because another one ended before it."""
        begins_here = np.zeros(len(tokens), bool)
        rest = self._rest[tokens]
        if lines:
            begins_here[1:] = self._line[tokens[:-1]] & ~rest[1:]
            return begins_here
        last = np.maximum.accumulate(np.where(rest, 0, np.arange(len(tokens))))  # of quotes, what they close
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
        """Where a sentence begins inside each piece, or else a line, the nearest to its cut; and whether one does.

        Where none does, the cut stays.
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
