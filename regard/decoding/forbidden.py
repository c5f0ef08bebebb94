"""Words that no answer may contain, whatever pieces they are cut into: a finite automaton over the bytes of text.

A phrase is forbidden as whole words: `occuper` also in "s'occuper", not in "préoccuper"; in small letters, in capitals
and in any mixture, whichever of them it is given in. A match that ends in a letter
is complete only when something else than a letter, or the end, follows: then that is what may not be written.
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

SIGNS = (0xC2, 0xE2)  # bytes with which characters outside ASCII begin that are mostly no letters: « » … and blanks


class _Begun(NamedTuple):
    """How much of a phrase is written: so many of its characters, and some bytes of the next one."""

    phrase: int
    characters: int
    part: bytes = b""


class _State(NamedTuple):
    """Where the automaton is: how much of which phrases has been written, and whether a word goes on."""

    begun: frozenset[_Begun] = frozenset()
    """All characters of a phrase are written where only the end of a word is awaited."""
    word: bool = False


@dataclass(frozen=True)
class Forbidden:
    """None of these phrases occurs in an answer, however it is spelled in tokens."""

    spelled: tuple[bytes | None, ...]
    """The bytes of text that each token stands for; None for those that stand for no text."""
    phrases: tuple[str, ...]

    def check(self, examples: int, vocab: int) -> None:
        """Refuse phrases of nothing."""
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
        """Set to -inf, in place, what would complete a phrase."""
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
        """The characters of every phrase, each in all forms in which it may be written."""
        plain = dict.fromkeys(phrase.strip() for phrase in self.phrases)
        return [[[form.encode() for form in _forms(letter)] for letter in phrase] for phrase in plain]

    @property
    def _reach(self) -> int:
        """Tokens after which nothing is known of what was before; each is at least a byte."""
        return max(sum(max(map(len, forms)) for forms in phrase) for phrase in self._bytes) + 2

    def _there(self, device: torch.device) -> tuple[Tensor, ...]:
        """The tables on a device, sent there once: a captured round may not wait for them."""
        if device not in self._sent:
            self._sent[device] = tuple(table.to(device) for table in self._tables)
        return self._sent[device]

    @cached_property
    def _sent(self) -> dict[torch.device, tuple[Tensor, ...]]:
        return {}

    @cached_property
    def _tables(self) -> tuple[Int[Tensor, "state token"], Bool[Tensor, "state token"], Bool[Tensor, "state"]]:
        """Of every state: the next one after each token, whether that token is banned, and whether the end is."""
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
        """All states that can be reached, and what every byte does in each."""
        states, numbers = [_State()], {_State(): 0}
        after, banned = [], []
        for state in states:  # which grows meanwhile
            steps = [self._step(state, byte) for byte in range(256)]
            for next_state, _ in steps:
                if next_state not in numbers:
                    numbers[next_state] = len(states)
                    states.append(next_state)
            after.append([numbers[next_state] for next_state, _ in steps])
            banned.append([wrong for _, wrong in steps])
        return states, np.array(after), np.array(banned)

    def _step(self, state: _State, byte: int) -> tuple[_State, bool]:
        """The state after one more byte, and whether that byte may not be written."""
        inside = 0x80 <= byte < 0xC0  # of a character that has begun
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
        """What has been written of a phrase after one more byte, where that goes on with it."""
        written = begun.part + bytes([byte])
        for form in self._bytes[begun.phrase][begun.characters]:
            if form == written:
                yield _Begun(begun.phrase, begun.characters + 1)
            elif form.startswith(written):
                yield begun._replace(part=written)

    def _is_whole(self, begun: _Begun) -> bool:
        """Whether all characters of a phrase are written."""
        return begun.characters == len(self._bytes[begun.phrase])


def _forms(letter: str) -> list[str]:
    """A character as it may be written: small, as a capital, and for an apostrophe the other one."""
    others = "'’" if letter in "'’" else ()
    return list(dict.fromkeys((letter, letter.lower(), letter.upper(), *others)))


def _letter(byte: int) -> bool:
    """Whether a character that begins with this byte is part of a word."""
    return chr(byte).isalnum() or byte == ord("_") if byte < 0x80 else byte not in SIGNS
