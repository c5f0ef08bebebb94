"""Text normalisation before tokenising: one kind of quote, apostrophe, hyphen and space, no invisible characters.

Typed, copied and printed text differ in characters with the same meaning: `can’t` and `can't`, a no-break space and a
space. A model trained on one of them does not know the other, so all are mapped to one. The level is stored with the
tokenizer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["full", "clean", "none"]

APOSTROPHES, QUOTES, HYPHENS = "‘’‚‛ʼ´′＇", "“”„‟″＂", "‐‑−"
PLAIN = dict.fromkeys(APOSTROPHES, "'") | dict.fromkeys(QUOTES, '"') | dict.fromkeys(HYPHENS, "-") | {"…": "..."}
TYPOGRAPHIC = re.compile(f"[{''.join(PLAIN)}]")
# Control characters other than white space, soft hyphens, zero-width spaces, direction marks, byte order marks.
INVISIBLE = re.compile(
    "[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff\ufff9-\ufffb]+"
)
# Joiners shape letters of some scripts and combine emoji; next to Latin letters, punctuation or nothing they are
# invisible and removed.
NEAR = r"[\s\0-\u036f\u2010-\u205e\uff00-\uff60]"
LOOSE_JOINERS = re.compile(rf"(?:^|(?<={NEAR}))[\u200c\u200d]+|[\u200c\u200d]+(?:(?={NEAR})|$)")


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Text preparation before tokenising."""

    normalise: Level = "full"
    """Text normalisation before tokenising: full (quotes, apostrophes, hyphens, blanks, and all that is invisible;
    answers keep their typography), clean (only what is invisible) or none."""

    def normal(self, text: str, *, written: bool = False) -> str:
        """Return the text as it is tokenised; a `written` text, one to generate, keeps its typography."""
        return normal(text, "clean" if written and self.normalise == "full" else self.normalise)

    def tidy(self, text: str) -> str:
        """Return a text with its characters normalised, but its spaces and lines unchanged."""
        return plain(text) if self.normalise == "full" else normal(text, self.normalise)


def read_text_settings(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the tokenizer settings of a checkpoint; old ones without the setting normalised to NFC only."""
    return {"normalise": "none", **(settings or {})}


def normal(text: str, level: Level) -> str:
    """Normalise a text at this level; normalising it again changes nothing."""
    if level == "none":
        return text
    if level == "clean":
        return remove_invisible(text)
    return " ".join(plain(text).split())


def plain(text: str) -> str:
    """Replace typographic quotes, apostrophes and hyphens by plain ones; spaces and lines stay as they are."""
    text = remove_invisible(text)
    return text if text.isascii() else TYPOGRAPHIC.sub(lambda match: PLAIN[match[0]], text)


def remove_invisible(text: str) -> str:
    """Return a text in NFC without invisible characters."""
    if text.isascii():
        return text if text.isprintable() else INVISIBLE.sub("", text)
    text = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    if "\u200c" not in text and "\u200d" not in text:
        return text
    return unicodedata.normalize("NFC", LOOSE_JOINERS.sub("", text))
