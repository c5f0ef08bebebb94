"""Memory of text and of arrays: how many different words a tokenizer learns from, and what the C library keeps."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Iterator

LARGE_ARRAY = 12 << 20  # bytes
HELD_AT_MOST = 64 << 20  # bytes that the C library keeps at the end of its heap for later
MALLOPT = {"mmap_threshold": -3, "trim_threshold": -1}  # as malloc.h of glibc has them
DISTINCT_WORDS = 1 << 19
WORD = re.compile(r" ?(\S+)")


class WordLimit:
    """Passes texts on with so many different words at most; a tokenizer's trainer holds a table of them all.

    The words are those that come first. Of later texts, words that are not among them are left out and counted.
    """

    def __init__(self, most: int = DISTINCT_WORDS) -> None:
        self.most = most
        self.left_out = 0
        """Words that were left out, each time they occurred."""
        self._known: set[int] = set()  # hashes, which are smaller than words

    @property
    def distinct(self) -> int:
        """How many different words were passed on."""
        return len(self._known)

    def filter(self, texts: Iterable[str]) -> Iterator[str]:
        """Pass on each text, whole as long as the bound is not reached."""
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
    """Give pages that were freed back to the system, where the C library keeps them (glibc)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def map_large_arrays() -> None:
    """Have large arrays mapped one by one, where the C library would lay them into its heap (glibc).

    There a small thing that stays keeps the hole of a large array open, the next one does not fit, and the heap grows
    with every batch. glibc maps what has 32 MB in any case, and less only until it was freed once.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(MALLOPT["mmap_threshold"], LARGE_ARRAY)
            mallopt(MALLOPT["trim_threshold"], HELD_AT_MOST)
