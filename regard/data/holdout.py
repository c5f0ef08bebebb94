"""A validation set taken from the training pairs so that none of its sentences is left in training.

Which pairs are held out depends on their content alone: on no seed and not on the order of the lines.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from dataclasses import dataclass, field

NOT_WORD = re.compile(r"\W+")
NOT_WORD_ASCII = bytes(byte for byte in range(128) if NOT_WORD.match(chr(byte)))


def sentence(text: str) -> int:
    """A 64-bit number alike for texts that differ in case, spaces and punctuation only."""
    return hash_bytes(letters(text) or text.encode())


def letters(text: str) -> bytes:
    """What is left of a text without case, spaces and punctuation; that of two texts joined is that of each, joined."""
    if text.isascii():  # the same, many times faster
        return text.lower().encode().translate(None, NOT_WORD_ASCII)
    return NOT_WORD.sub("", text.casefold()).encode()


def share(source: str, target: str) -> float:
    """A number in [0, 1) that looks random and depends on the pair alone."""
    return hash_bytes(f"{source}\t{target}".encode()) / 2**64


def hash_bytes(text: bytes) -> int:
    """64 bits of a hash."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Held:
    """What was held out: lines by corpus, and the sentences on either side of them."""

    lines: frozenset[tuple[int, int]] = frozenset()
    sentences: frozenset[int] = frozenset()

    def touches(self, source: str, target: str) -> bool:
        """Whether a pair shares a sentence with the held-out ones."""
        return bool(self.sentences) and (sentence(source) in self.sentences or sentence(target) in self.sentences)


@dataclass
class Choice:
    """Sees every pair once and keeps those whose source sentence has one of the smallest numbers.

    All pairs of a source sentence stand or fall together; one of them, for each language tag, is held out. Memory is
    bounded by `most`.
    """

    most: int
    targets: bool = True
    """Whether what the held-out sources become may not be left in training either."""
    _chosen: dict[int, dict[str | None, tuple[float, int, int, int]]] = field(default_factory=dict)
    _heap: list[int] = field(default_factory=list)  # negated, so that the largest number chosen is on top

    def offer(self, corpus: int, line: int, texts: tuple[str, str], tag: str | None) -> None:
        """One more pair of this line of this corpus."""
        number = sentence(texts[0])
        if number not in self._chosen:
            if len(self._heap) >= self.most:
                if number > -self._heap[0]:
                    return
                del self._chosen[-heapq.heappop(self._heap)]
            heapq.heappush(self._heap, -number)
            self._chosen[number] = {}
        best = self._chosen[number].get(tag)
        rank = share(*texts)
        if best is None or rank < best[0]:
            self._chosen[number][tag] = (rank, corpus, line, sentence(texts[1]))

    def held(self, part: float, *, of: int) -> Held:
        """The pairs of at most `most` sentences and about this part of so many pairs, but at least one."""
        count = max(1, round(part * of))
        lines: set[tuple[int, int]] = set()
        sentences: set[int] = set()
        for number in sorted(self._chosen):
            if len(lines) >= count:
                break
            sentences.add(number)
            for _, corpus, line, target in self._chosen[number].values():
                lines.add((corpus, line))
                if self.targets:
                    sentences.add(target)
        return Held(frozenset(lines), frozenset(sentences))
