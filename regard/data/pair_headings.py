"""First lines of files of pairs that name the two languages, or the two sides, and are no pair themselves."""

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


def is_pair_heading(source: str, target: str) -> bool:
    """True if two cells name two different languages, or the two sides of a pair."""
    first, second = source.strip().lower(), target.strip().lower()
    if (first, second) in SIDES or (second, first) in SIDES:
        return True
    languages = named_language(first), named_language(second)
    return None not in languages and languages[0] != languages[1]


def named_language(cell: str) -> str | None:
    """Return the short code of the language that a cell names, such as English, EN or fr-CA; None for other text."""
    base = REGION.sub("", cell.strip().lower())
    return NAMES.get(base) or (base if CODES.fullmatch(base) else None)


def language_columns(heading: Sequence[str]) -> tuple[int, int] | None:
    """Numbers, counted from 1, of the only two columns that name languages or sides; None if there are none."""
    lower = [cell.strip().lower() for cell in heading]
    if (pair := next((pair for pair in SIDES if set(pair) <= set(lower)), None)) is not None:
        return lower.index(pair[0]) + 1, lower.index(pair[1]) + 1
    named = [number for number, cell in enumerate(lower, start=1) if named_language(cell) is not None]
    return (
        (named[0], named[1]) if len(named) == 2 and is_pair_heading(*(lower[number - 1] for number in named)) else None
    )
