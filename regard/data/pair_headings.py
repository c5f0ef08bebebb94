"""Headings of files with sentence pairs: first lines that name the two languages or sides."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.data.language_names import LANGUAGES

HEADINGS = (
    *("source/target", "src/tgt", "src/trg", "source text/target text", "source/cible", "texte source/texte cible"),
    *("original/translation", "text/translation", "source/translation", "term/translation", "input/output"),
    *("texte/traduction", "original/traduction"),
)
SIDES: tuple[tuple[str, str], ...] = tuple((first, second) for first, second in (pair.split("/") for pair in HEADINGS))
CODES = re.compile(
    "af|am|ar|az|be|bg|bn|bs|ca|cs|cy|da|de|el|en|eo|es|et|eu|fa|fi|fr|ga|gl|gu|he|hi|hr|hu|hy|is|it|ja|ka|kk|km|"
    "ko|la|lb|lo|lt|lv|mk|ml|mn|mr|ms|my|nb|ne|nl|nn|oc|pa|pl|ps|pt|ro|ru|si|sk|sl|sq|sr|sv|sw|ta|te|th|tl|tr|uk|"
    "ur|uz|vi|xh|zh|zu|eng|fra|fre|deu|ger|spa|ita|por|nld|dut|cat|ron|rum|pol|ces|cze|swe|dan|nor|fin|hun|tur|rus"
)
NAMES = {name.lower(): code for code, name in LANGUAGES.items()} | {
    "russian": "ru",
    "chinese": "zh",
    "japanese": "ja",
    "arabic": "ar",
    "greek": "el",
    "korean": "ko",
    "ukrainian": "uk",
    "latin": "la",
    "anglais": "en",
    "français": "fr",
    "francais": "fr",
    "allemand": "de",
    "espagnol": "es",
    "italien": "it",
    "portugais": "pt",
    "néerlandais": "nl",
    "neerlandais": "nl",
    "catalan": "ca",
    "roumain": "ro",
    "polonais": "pl",
    "tchèque": "cs",
    "suédois": "sv",
    "danois": "da",
    "norvégien": "no",
    "finnois": "fi",
    "hongrois": "hu",
    "turc": "tr",
    "russe": "ru",
    "chinois": "zh",
    "japonais": "ja",
    "arabe": "ar",
    "deutsch": "de",
    "englisch": "en",
    "französisch": "fr",
    "español": "es",
    "italiano": "it",
    "português": "pt",
    "nederlands": "nl",
    "polski": "pl",
}
REGION = re.compile(r"[-_](?:[a-z]{2}|[a-z]{4}|[0-9]{3})|\s*\([^()]*\)$")
WORD = re.compile(r"[^\W_]+")
SOURCE_WORD = re.compile("source|src|original|quelle")
TARGET_WORD = re.compile("target|tgt|trg|cible|translation|traduction|ziel")
COLUMN_WORD = re.compile("text|texte|language|langue|lang|sprache|segment")


def is_pair_heading(source: str, target: str) -> bool:
    """True if two cells name two different languages, or the two sides of a pair."""
    first, second = source.strip().lower(), target.strip().lower()
    if (first, second) in SIDES or (second, first) in SIDES:
        return True
    if {_side(first), _side(second)} == {"source", "target"}:
        return True
    languages = named_language(first), named_language(second)
    return None not in languages and languages[0] != languages[1]


def named_language(cell: str) -> str | None:
    """Return the code of the language that a cell names, such as English, fr-CA or Source (EN); else None."""
    base = REGION.sub("", cell.strip().lower())
    if (code := _code(base)) is not None:
        return code
    words = WORD.findall(cell.lower())
    others = _words_beside_names(words)
    return _code(others[0]) if others and len(others) < min(len(words), 3) and _is_label(others) else None


def language_columns(heading: Sequence[str]) -> tuple[int, int] | None:
    """Return the numbers, counted from 1, of the only two columns that name languages or sides, or None."""
    lower = [cell.strip().lower() for cell in heading]
    if (pair := next((pair for pair in SIDES if set(pair) <= set(lower)), None)) is not None:
        return lower.index(pair[0]) + 1, lower.index(pair[1]) + 1
    sides = [_side(cell) for cell in lower]
    if sides.count("source") == sides.count("target") == 1:
        return sides.index("source") + 1, sides.index("target") + 1
    language_numbers = [number for number, cell in enumerate(lower, start=1) if named_language(cell) is not None]
    return (
        (language_numbers[0], language_numbers[1])
        if len(language_numbers) == 2 and is_pair_heading(*(lower[number - 1] for number in language_numbers))
        else None
    )


def columns_by_language(heading: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the columns that name a language, by its code; empty unless there are at least two."""
    numbers: dict[str, int] = {}
    for number, cell in enumerate(heading, start=1):
        if (code := named_language(cell)) is not None:
            numbers.setdefault(code, number)
    return numbers if len(numbers) > 1 else {}


def _code(word: str) -> str | None:
    return NAMES.get(word) or (word if CODES.fullmatch(word) else None)


def _is_label(words: Sequence[str]) -> bool:
    """True if these words are a language, with or without a region: en, or en US."""
    return _code(words[0]) is not None and all(len(word) == 2 for word in words[1:])


def _side(cell: str) -> str | None:
    """Return "source" or "target" if a cell names only that side, with or without its language; else None."""
    words = WORD.findall(cell)
    others = _words_beside_names(words)
    if others and not (len(others) < 3 and _is_label(others)):
        return None
    patterns = {"source": SOURCE_WORD, "target": TARGET_WORD}
    sides = [side for side, pattern in patterns.items() if any(map(pattern.fullmatch, words))]
    return sides[0] if len(sides) == 1 else None


def _words_beside_names(words: Sequence[str]) -> list[str]:
    """Return the words of a cell that do not mean a source, a target or a text column."""
    patterns = (SOURCE_WORD, TARGET_WORD, COLUMN_WORD)
    return [word for word in words if not any(pattern.fullmatch(word) for pattern in patterns)]
