"""Text normalisation before tokenising: one kind of quote, apostrophe, hyphen and blank, and nothing invisible.

Typed, copied and printed text differ in signs that mean the same: `can’t` and `can't`, a no-break space and a space. A
model that has met only one of them reads the other as noise, so all are read alike. How is recorded with the tokenizer.
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
# Control characters that are no white space, soft hyphens, zero-width blanks, marks of direction, byte order marks.
INVISIBLE = re.compile(
    "[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff\ufff9-\ufffb]+"
)
# Joiners shape letters of some scripts and make one emoji of several; beside Latin letters, signs or nothing they are
# as invisible as the others.
NEAR = r"[\s\0-\u036f\u2010-\u205e\uff00-\uff60]"
LOOSE_JOINERS = re.compile(rf"(?:^|(?<={NEAR}))[\u200c\u200d]+|[\u200c\u200d]+(?:(?={NEAR})|$)")


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """How a text is prepared before it is cut into tokens."""

    normalise: Level = "full"
    """Text normalisation before tokenising: full (quotes, apostrophes, hyphens, blanks, and all that is invisible;
    answers keep their typography), clean (only what is invisible) or none."""

    def normal(self, text: str, *, written: bool = False) -> str:
        """The text as it is tokenised; one that is `written`, not read, keeps its typography."""
        return normal(text, "clean" if written and self.normalise == "full" else self.normalise)

    def tidy(self, text: str) -> str:
        """A text of several sentences as they are read, the blanks and lines between and in them left alone."""
        return plain(text) if self.normalise == "full" else normal(text, self.normalise)


def read_text_settings(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The tokenizer settings of a checkpoint; text of those without a record was brought to NFC and nothing else."""
    return {"normalise": "none", **(settings or {})}


def normal(text: str, level: Level) -> str:
    """A text evened out as the level says; the same again if it already is."""
    if level == "none":
        return text
    if level == "clean":
        return remove_invisible(text)
    return " ".join(plain(text).split())


def plain(text: str) -> str:
    """A text with plain quotes, apostrophes and hyphens; its blanks and lines stay as they are."""
    text = remove_invisible(text)
    return text if text.isascii() else TYPOGRAPHIC.sub(lambda match: PLAIN[match[0]], text)


def remove_invisible(text: str) -> str:
    """A text in NFC without what cannot be seen."""
    if text.isascii():
        return text if text.isprintable() else INVISIBLE.sub("", text)
    text = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    if "\u200c" not in text and "\u200d" not in text:
        return text
    return unicodedata.normalize("NFC", LOOSE_JOINERS.sub("", text))
