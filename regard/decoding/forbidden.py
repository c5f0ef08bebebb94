"""Forbidden phrases, however they are split into tokens: a finite automaton over the bytes of text.

A phrase is forbidden as whole words (`occuper` also in "s'occuper", not in "préoccuper") and in small letters, capitals
or any mixture of them, whichever it is given in. A match that ends in a letter is complete only when another character
than a letter, or the end, follows: then that is what may not be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

SIGNS = (0xC2, 0xE2)  # first bytes of non-ASCII characters that are mostly no letters: « » … and spaces


class _Begun(NamedTuple):
    """A match in progress: how many characters of a phrase are written, and some bytes of the next one."""

    phrase: int
    characters: int
    part: bytes = b""


class _State(NamedTuple):
    """A state of the automaton: the matches in progress, and whether the text ends inside a word."""

    begun: frozenset[_Begun] = frozenset()
    """The matches; one with all characters of its phrase is waiting for the end of a word."""
    word: bool = False


@dataclass(frozen=True)
class Forbidden:
    """The constraint that none of these phrases occurs in an answer, however it is split into tokens."""

    spelled: tuple[bytes | None, ...]
    """The bytes of each token; None for special tokens, which have no text."""
    phrases: tuple[str, ...]

    def check(self, examples: int, vocab: int) -> None:
        """Check that no phrase is empty."""
        if not all(phrase.strip() for phrase in self.phrases):
            raise ValueError("a forbidden phrase is empty: give at least one character")
        assert len(self.spelled) <= vocab, f"{len(self.spelled)} tokens are spelled, the model knows {vocab}"

    def forbid(
        self,
        scores: Float[Tensor, "batch beam vocab"],
        written: Int[Tensor, "batch beam length"],
        rows: Int[Tensor, "batch"],
        eos: int,
    ) -> None:
        """Set the scores of tokens that would complete a phrase to -inf, in place."""
        after, banned, unended = self._there(scores.device)
        state = torch.zeros(written.shape[:2], dtype=torch.int64, device=scores.device)
        tail = max(0, written.shape[-1] - self._reach)
        for token in written[..., tail:].unbind(-1):
            state = torch.where(token < 0, state, after[state, token.clamp(min=0)])
        scores[..., : len(self.spelled)].masked_fill_(banned[state], float("-inf"))
        if eos >= 0:
            scores[..., eos].masked_fill_(unended[state], float("-inf"))

    @cached_property
    def _bytes(self) -> list[list[list[bytes]]]:
        """The characters of every phrase, each with all its spellings in bytes."""
        plain = dict.fromkeys(phrase.strip() for phrase in self.phrases)
        return [[[form.encode() for form in _forms(letter)] for letter in phrase] for phrase in plain]

    @property
    def _reach(self) -> int:
        """The number of latest tokens that the state depends on; each is at least one byte."""
        return max(sum(max(map(len, forms)) for forms in phrase) for phrase in self._bytes) + 2

    def _there(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the tables on a device; they are copied there once, since a captured round may not wait for them."""
        if device not in self._sent:
            self._sent[device] = tuple(table.to(device) for table in self._tables)
        return self._sent[device]

    @cached_property
    def _sent(self) -> dict[torch.device, tuple[Tensor, ...]]:
        return {}

    @cached_property
    def _tables(self) -> tuple[Int[Tensor, "state token"], Bool[Tensor, "state token"], Bool[Tensor, "state"]]:
        """For every state: the next state after each token, whether that token is banned, and whether the end is."""
        states, after, banned = self._automaton()
        longest = max(len(piece or b"") for piece in self.spelled)
        letters = np.zeros((len(self.spelled), longest), np.int64)
        sizes = np.array([len(piece or b"") for piece in self.spelled])
        for number, piece in enumerate(self.spelled):
            letters[number, : sizes[number]] = list(piece or b"")
        state = np.repeat(np.arange(len(states))[:, None], len(self.spelled), 1)
        wrong = np.zeros(state.shape, bool)
        for place in range(longest):
            goes_on = place < sizes
            wrong |= goes_on & banned[state, letters[:, place]]
            state = np.where(goes_on, after[state, letters[:, place]], state)
        unended = [any(map(self._is_whole, automaton_state.begun)) for automaton_state in states]
        return torch.from_numpy(state), torch.from_numpy(wrong), torch.tensor(unended)

    def _automaton(self) -> tuple[list[_State], Int[np.ndarray, "state byte"], Bool[np.ndarray, "state byte"]]:
        """Return all reachable states, the next state after each byte, and whether that byte is banned."""
        states, numbers = [_State()], {_State(): 0}
        after, banned = [], []
        for state in states:  # the list grows during the loop
            steps = [self._step(state, byte) for byte in range(256)]
            for next_state, _ in steps:
                if next_state not in numbers:
                    numbers[next_state] = len(states)
                    states.append(next_state)
            after.append([numbers[next_state] for next_state, _ in steps])
            banned.append([wrong for _, wrong in steps])
        return states, np.array(after), np.array(banned)

    def _step(self, state: _State, byte: int) -> tuple[_State, bool]:
        """Return the state after one more byte, and True if that byte is banned."""
        inside = 0x80 <= byte < 0xC0  # a continuation byte of UTF-8
        word = state.word if inside else _letter(byte)
        begun = {progress for progress in state.begun if not self._is_whole(progress)}
        wrong = not inside and not word and len(begun) < len(state.begun)
        if not inside:
            heads = [phrase[0][0][0] for phrase in self._bytes]
            begun |= {_Begun(n, 0) for n, head in enumerate(heads) if not (state.word and _letter(head))}
        grown = {after for progress in begun for after in self._grow(progress, byte)}
        whole = {progress for progress in grown if self._is_whole(progress)}
        if not word:
            wrong, grown = wrong or bool(whole), grown - whole
        return _State(frozenset(grown), word), wrong

    def _grow(self, begun: _Begun, byte: int) -> Iterator[_Begun]:
        """Yield the match after one more byte, if the byte continues it."""
        written = begun.part + bytes([byte])
        for form in self._bytes[begun.phrase][begun.characters]:
            if form == written:
                yield _Begun(begun.phrase, begun.characters + 1)
            elif form.startswith(written):
                yield begun._replace(part=written)

    def _is_whole(self, begun: _Begun) -> bool:
        """True if all characters of the phrase are written."""
        return begun.characters == len(self._bytes[begun.phrase])


def _forms(letter: str) -> list[str]:
    """Return the spellings of a character: in lower case, in upper case, and both kinds of an apostrophe."""
    others = "'’" if letter in "'’" else ()
    return list(dict.fromkeys((letter, letter.lower(), letter.upper(), *others)))


def _letter(byte: int) -> bool:
    """True if a character that begins with this byte is part of a word."""
    return chr(byte).isalnum() or byte == ord("_") if byte < 0x80 else byte not in SIGNS
