"""The hold-out split: which examples are for validation.

An example has a key, a 64-bit number that depends on its content alone: those with the smallest keys are held out,
independently of their order, and equal examples stay on one side. With `data.seed`, the key depends on it as well.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from regard.data.findings import Finding, describe_finding
from regard.data.packing import number as number_of

NOT_WORD = re.compile(r"\W+")
NOT_WORD_ASCII = bytes(byte for byte in range(128) if NOT_WORD.match(chr(byte)))
Keys = UInt64[np.ndarray, "example"]
Mask = Bool[np.ndarray, "example"]
Example = TypeVar("Example")


def count_to_hold_out(share: float, total: int, *, most: int | None = None, leave: int = 0) -> int:
    """Return how many of `total` examples to hold out: this share, at least one, leaving at least `leave`."""
    count = min(max(1, round(share * total)), total - leave)
    return count if most is None else min(count, most)


def hold_out(keys: Keys, count: int, *, by_group: bool = False) -> Mask:
    """Mark the examples with the smallest keys: `count` of them or, by group, of the distinct keys.

    Examples with equal keys stay together, so there may be a few more.
    """
    if count < 1:
        return np.zeros(len(keys), bool)
    ranked = np.unique(keys) if by_group else np.sort(keys)
    return keys <= ranked[min(count, len(ranked)) - 1]


def split_by_keys(
    examples: Sequence[Example], keys: Keys, share: float, *, by_group: bool = False
) -> tuple[list[Example], list[Example]]:
    """Split examples into those to train on and a held-out share; by group, it is a share of the distinct keys.

    The training part is empty if there are too few distinct keys.
    """
    total = len(np.unique(keys)) if by_group else len(keys)
    held = hold_out(keys, count_to_hold_out(share, total), by_group=by_group)
    train, measured = (list(compress(examples, mask)) for mask in (~held, held))
    return train, measured


def hold_out_of_classes(keys: Keys, labels: Int[np.ndarray, "example"], share: float, *, leave: int = 0) -> Mask:
    """Mark a share of every class to hold out; a class that would be held out entirely is not held out at all."""
    is_held_out = np.zeros(len(keys), bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen = hold_out(keys[members], count_to_hold_out(share, len(members), leave=leave))
        is_held_out[members] = chosen & (not chosen.all())
    return is_held_out


def draw_of_classes(labels: Int[np.ndarray, "example"], num_classes: int, share: float, *, seed: int) -> Mask:
    """Mark a random share of every class to hold out, at most all but one.

    For examples that are identified by their number only, such as the nodes of a graph.
    """
    generator = np.random.default_rng(np.random.PCG64(seed % 2**63))
    is_held_out = np.zeros(len(labels), bool)
    for label in range(num_classes):
        members = generator.permutation(np.flatnonzero(labels == label))
        is_held_out[members[: max(0, min(round(share * len(members)), len(members) - 1))]] = True
    return is_held_out


def leave_out_measured(
    digests: Int[np.ndarray, "example"], measured: Int[np.ndarray, "other"], place: Callable[[int], str]
) -> tuple[Mask, list[str]]:
    """Mark the pictures that equal no validation picture; the others are reported in a line, with their places."""
    shared, finding = np.isin(digests, measured), Finding()
    for number in np.flatnonzero(shared).tolist():
        finding.add(place(number))
    if shared.all():
        raise ValueError(f"{place(0)}: every training picture is also measured on: give others in data.valid")
    line = f"left out of training: {describe_finding(finding, 'equal to pictures that are measured on')}"
    return ~shared, [line] if finding.count else []


def text_keys(texts: Sequence[str]) -> Keys:
    """Return the keys of texts, which ignore case, spaces and punctuation."""
    return np.array([sentence(text) for text in texts], np.uint64)


def row_keys(rows: Float[np.ndarray, "example column"], seed: int) -> Keys:
    """Return the keys of rows of numbers."""
    key = f"held {seed}".encode()
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in rows]
    return np.array([int.from_bytes(digest, "big") for digest in digests], np.uint64)


def picture_keys(digests: Int[np.ndarray, "example"], seed: int) -> Keys:
    """Return the keys of pictures, from the digests of their pixels."""
    mixed = (digests.astype(np.uint64) ^ np.uint64(number_of(seed))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(32))


def sentence(text: str) -> int:
    """Return a 64-bit hash of a text that ignores case, spaces and punctuation."""
    return hash_bytes(letters(text) or text.encode())


def letters(text: str) -> bytes:
    """Return a text without case, spaces and punctuation; that of joined texts is the joined results."""
    if text.isascii():  # the same result, many times faster
        return text.lower().encode().translate(None, NOT_WORD_ASCII)
    return NOT_WORD.sub("", text.casefold()).encode()


def share(source: str, target: str) -> float:
    """Return a pseudo-random number in [0, 1) that depends on the pair alone."""
    return hash_bytes(f"{source}\t{target}".encode()) / 2**64


def hash_bytes(text: bytes) -> int:
    """Return 64 bits of a hash."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Held:
    """The held-out examples: lines by corpus, and the sentences of both sides."""

    lines: frozenset[tuple[int, int]] = frozenset()
    sentences: frozenset[int] = frozenset()

    def touches(self, source: str, target: str) -> bool:
        """True if a pair shares a sentence with the held-out ones."""
        return bool(self.sentences) and (sentence(source) in self.sentences or sentence(target) in self.sentences)


@dataclass
class Choice:
    """A streaming choice of held-out pairs: those whose source sentences have the smallest hashes.

    All pairs of a source sentence are in or out together; one of them, for each language tag, is held out. Memory is
    bounded by `most`.
    """

    most: int
    targets: bool = True
    """Whether what the held-out sources become may not be left in training either."""
    _chosen: dict[int, dict[str | None, tuple[float, int, int, int]]] = field(default_factory=dict)
    _heap: list[int] = field(default_factory=list)  # negated, so that the largest chosen number is on top

    def offer(self, corpus: int, line: int, texts: tuple[str, str], tag: str | None) -> None:
        """Consider a pair from this line of this corpus."""
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
        """Return the held-out pairs: the share `part` of `of` pairs, at least one."""
        count = count_to_hold_out(part, of)
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
