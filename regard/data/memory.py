"""Memory limits: a bound on the distinct words a tokenizer is trained on, and settings of the C library's allocator."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Iterator

LARGE_ARRAY = 12 << 20  # bytes
HELD_AT_MOST = 64 << 20  # bytes of free memory that the C library keeps at the end of its heap
MALLOPT = {"mmap_threshold": -3, "trim_threshold": -1}  # the constants of glibc's malloc.h
DISTINCT_WORDS = 1 << 19
WORD = re.compile(r" ?(\S+)")


class WordLimit:
    """A filter that bounds the number of distinct words in texts, since a tokenizer's trainer stores all of them.

    The first words are kept. In later texts, other words are left out and counted.
    """

    def __init__(self, most: int = DISTINCT_WORDS) -> None:
        self.most = most
        self.left_out = 0
        """Words that were left out, each time they occurred."""
        self._known: set[int] = set()  # hashes, which are smaller than words

    @property
    def distinct(self) -> int:
        """Return the number of distinct words that were passed on."""
        return len(self._known)

    def filter(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield each text, unchanged until the bound is reached."""
        for text in texts:
            words = set(map(hash, text.split()))
            if len(self._known) + len(words) <= self.most or len(self._known | words) <= self.most:
                self._known |= words
                yield text
            elif words <= self._known:
                yield text
            else:
                yield WORD.sub(self._keep_known, text)

    def _keep_known(self, match: re.Match[str]) -> str:
        word = hash(match[1])
        if word not in self._known:
            if len(self._known) >= self.most:
                self.left_out += 1
                return ""
            self._known.add(word)
        return match[0]


def release_freed_memory() -> None:
    """Return freed memory to the system where the C library retains it (glibc)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def map_large_arrays() -> None:
    """Allocate large arrays by mmap instead of from the heap of the C library (glibc).

    In the heap, a small object that stays can block the space of a freed array, so that the next one does not fit and
    the heap grows with every batch. glibc always maps 32 MB and more, and smaller arrays only until one has been freed.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(MALLOPT["mmap_threshold"], LARGE_ARRAY)
            mallopt(MALLOPT["trim_threshold"], HELD_AT_MOST)
