"""Phrases matched in texts as whole words, in any mixture of cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache


def holds_phrase(text: str, phrases: Sequence[str]) -> bool:
    """Return True if a text contains one of these phrases as whole words, as `Forbidden` does."""
    return any(_pattern(phrase).search(text) is not None for phrase in phrases)


def remove_phrases(text: str, phrases: Sequence[str]) -> str:
    """Return the text without these phrases, and without the spaces that they leave at its ends."""
    left = text
    for phrase in phrases:
        left = _pattern(phrase).sub("", left)
    return text if left == text else left.strip()


@lru_cache(maxsize=256)
def _pattern(phrase: str) -> re.Pattern[str]:
    """Return a pattern for a phrase in any case, with either apostrophe."""
    phrase = phrase.strip()
    forms = "".join(f"(?:{'|'.join(map(re.escape, _forms(letter)))})" for letter in phrase)
    before = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    after = r"(?!\w)" if re.search(r"\w$", phrase) else ""
    return re.compile(f"{before}(?:{forms}){after}")


def _forms(letter: str) -> list[str]:
    """Return the forms of a character: lower and upper case, and for an apostrophe the other kind."""
    others = "'’" if letter in "'’" else ()
    return list(dict.fromkeys((letter, letter.lower(), letter.upper(), *others)))
