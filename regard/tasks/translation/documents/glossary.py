"""Glossaries: terms with prescribed translations.

A file has one term per line, `source TAB target`, or in CSV with a comma or semicolon between them; a heading may name
the columns (source and target, term and translation, or two languages). A lowercase term matches in any case, one with
capitals only as written. Terms match whole words: `cat` is not in `category`. Of overlapping terms, the longest
matches, then the first.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from regard.data.column_names import SOURCES, TARGETS
from regard.data.columns import find_name
from regard.data.language_names import LANGUAGES
from regard.data.readers import suffix
from regard.data.tables import StrictReport, TableFormat, detect_format, read_rows

UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
FRENCH = "français francais anglais allemand espagnol italien portugais néerlandais"
LANGUAGE_NAMES = [{*LANGUAGES}, {name.casefold() for name in LANGUAGES.values()}, {*FRENCH.split()}]
"""Names of languages, as a heading has two of one kind."""
APOSTROPHES = str.maketrans("’ʼ", "''")


@dataclass(frozen=True)
class Match:
    """A term in a text, and its prescribed translation."""

    begin: int
    end: int
    target: str


@dataclass(frozen=True)
class Terms:
    """Terms with their translations, indexed for matching."""

    exact: dict[str, str] = field(default_factory=dict)
    """Terms with capitals, found only as they are written."""
    folded: dict[str, str] = field(default_factory=dict)
    """Terms without, found in any case."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Terms:
        """Return the glossary of these (source, target) terms."""
        exact: dict[str, str] = {}
        folded: dict[str, str] = {}
        for source, target in pairs:
            plain = _unify_spaces(source)
            (folded if plain == _to_lower(plain) else exact)[plain] = target
        return cls(exact, folded)

    def __len__(self) -> int:
        return len(self.exact) + len(self.folded)

    @cached_property
    def _lengths(self) -> list[int]:
        return sorted({*map(len, self.exact), *map(len, self.folded)})

    def matches(self, text: str) -> list[Match]:
        """Return the terms in a text in order, without overlaps; positions are those in the text's NFC form."""
        text = unicodedata.normalize("NFC", text)
        even = _unify_spaces(text)
        small = _to_lower(even)
        candidates = []
        for begin, length in product(_term_starts(even), self._lengths):
            end = begin + length
            if end > len(even) or _is_inside_word(even, end):
                continue
            if (target := self.exact.get(even[begin:end])) is not None:
                candidates.append(Match(begin, end, target))
            elif (target := self.folded.get(small[begin:end])) is not None:
                candidates.append(Match(begin, end, _match_case(target, even, begin, end)))
        selected: list[Match] = []
        for match in sorted(candidates, key=lambda match: (match.begin - match.end, match.begin)):
            if all(match.end <= other.begin or other.end <= match.begin for other in selected):
                selected.append(match)
        return sorted(selected, key=lambda match: match.begin)

    def required_targets(self, text: str) -> list[str]:
        """Return the translations required by the terms of a text, without duplicates."""
        return list(dict.fromkeys(match.target for match in self.matches(text)))

    def missing(self, text: str, answer: str) -> list[str]:
        """Return the required translations that an answer does not have as whole words."""
        return [target for target in self.required_targets(text) if not contains_term(answer, target)]


def load(name: str) -> Terms:
    """Load a glossary from a file; empty lines, a heading, and lines of one cell that starts with # are skipped."""
    pairs: dict[str, tuple[str, int]] = {}
    for number, cells in rows(name):
        where = f"{name}:{number}"
        if not all(cells):
            raise ValueError(f"{where}: an empty term, {_remedy(name)}")
        source, target = _unify_spaces(cells[0]), cells[1]
        earlier_target, earlier_line = pairs.setdefault(source, (target, number))
        if earlier_target != target:
            raise ValueError(
                f"{where}: {cells[0]!r} is to be {target!r} but line {earlier_line} says {earlier_target!r}: keep one"
            )
    if not pairs:
        raise ValueError(f"{name}: no term in it, {_remedy(name)}")
    return Terms.of((source, target) for source, (target, _) in pairs.items())


def rows(name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of every line with a term, and the term with its translation, in the heading's or this order."""
    form = detect_format(name) if suffix(name) == ".csv" else TableFormat("\t", False)
    places: tuple[int, int] | None = None
    for number, row in read_rows(name, StrictReport(path=name), form, empty_cells=True):
        cells = [unicodedata.normalize("NFC", cell).strip() for cell in row]
        if len(cells) == 1 and cells[0].startswith("#"):
            continue
        if places is None and (places := _find_columns(cells)) is not None:
            warnings.warn(f"{name}:{number}: {', '.join(cells)} is a heading and left out", stacklevel=1)
            continue
        places = places or (0, 1)
        if len(cells) <= max(places) or (len(cells) != 2 and places == (0, 1)):
            raise ValueError(f"{name}:{number}: {len(cells)} column{'s' * (len(cells) != 1)}, {_remedy(name)}")
        yield number, [cells[place] for place in places]


def _find_columns(cells: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of term and translation if cells are names of columns; None for a term like the others."""
    source, target = find_name(cells, SOURCES), find_name(cells, TARGETS)
    if source is not None and target is not None:
        return source, target
    lower = [cell.casefold() for cell in cells]
    languages = len(lower) == 2 and any(set(lower) <= names for names in LANGUAGE_NAMES)
    return (0, 1) if languages else None


def _remedy(name: str) -> str:
    between = "a comma or a semicolon" if suffix(name) == ".csv" else "a tab"
    return f"write a term and its translation with {between} between them"


def contains_term(text: str, term: str) -> bool:
    """Return True if a text has a term as whole words; at the start of the text it may be capitalised."""
    text, term = _unify_spaces(text), _unify_spaces(term)
    places = (match.start() for match in re.finditer(f"(?={re.escape(term)})", text))
    if any(not _is_inside_word(text, place) and not _is_inside_word(text, place + len(term)) for place in places):
        return True
    return text.startswith(term[:1].upper() + term[1:]) and not _is_inside_word(text, len(term))


def _unify_spaces(text: str) -> str:
    """Replace spaces and apostrophes by one kind each, keeping the length."""
    return re.sub(r"\s", " ", unicodedata.normalize("NFC", text)).translate(APOSTROPHES)


def _to_lower(text: str) -> str:
    """Convert to lower case; characters whose lower case is longer stay."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _term_starts(text: str) -> Iterator[int]:
    """Yield the positions where a term may start."""
    return (place for place in range(len(text)) if not text[place].isspace() and not _is_inside_word(text, place))


def _is_inside_word(text: str, place: int) -> bool:
    """Return True for a position between two letters or digits of one word, in a script that separates words."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if UNSPACED.match(before) or UNSPACED.match(after):
        return False
    return (before.isalnum() or before == "_") and (after.isalnum() or after == "_" or unicodedata.combining(after) > 0)


def _match_case(target: str, text: str, begin: int, end: int) -> str:
    """Return the translation in the case of the matched term.

    A capital at the start of a text says nothing about the term, whose translation may be elsewhere: it is copied only
    if the text is nothing but the term.
    """
    matched = text[begin:end]
    letters = [c for c in matched if c.isalpha()]
    if len(letters) > 1 and all(c.isupper() for c in letters):
        return target.upper()
    alone = not re.search(r"\w", text[:begin] + text[end:])
    opening = not re.search(r"\w", text[:begin])
    if matched[:1].isupper() and (alone or not opening):
        return target[:1].upper() + target[1:]
    return target
