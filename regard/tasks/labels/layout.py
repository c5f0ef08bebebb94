"""How a labelled file is laid out: what separates its columns, whether its first line is a heading, what stands where.

What a recipe names is taken as it says; the rest is recognised from the first lines, and what was recognised is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.config.words import suggest
from regard.data.readers import Refusal, lines, parsed, value_at
from regard.data.table_records import DELIMITERS
from regard.data.tables import TableFormat, detect_format, read_sample

SAMPLE = 2000  # records from which a layout is recognised
FEW = 20  # texts below which nothing can be said of how their labels are spread
LONG = 8  # words of a mean label that is none
TEXTS = (
    *("text", "texts", "sentence", "review", "content", "body", "comment", "message", "tweet", "post", "document"),
    *("description", "headline", "title", "question", "query", "utterance", "input", "name", "word", "abstract"),
    *("texte", "phrase", "avis", "commentaire", "contenu", "titre", "mot", "nom"),
)
LABELS = (
    *("label", "labels", "class", "category", "sentiment", "target", "stars", "rating", "score", "topic", "intent"),
    *("emotion", "language", "lang", "tag", "polarity", "stance", "genre", "type", "output", "y"),
    *("classe", "catégorie", "categorie", "étiquette", "etiquette", "note", "langue", "thème", "theme"),
)


PAIRS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("text1", "text2")),
    *(("sentence_a", "sentence_b"), ("text_a", "text_b"), ("question1", "question2"), ("question", "passage")),
    *(("question", "sentence"), ("question", "context"), ("query", "passage"), ("query", "document")),
    *(("#1 string", "#2 string"), ("s1", "s2"), ("text", "hypothesis"), ("phrase1", "phrase2")),
)
"""What columns are called that hold the two texts of a pair."""
VERDICTS = ("gold_label", "entailment_judgment", "quality", "is_duplicate", "entailment", "answer", "paraphrase")
"""What the label of a pair may be called too."""
DEGREES = ("relatedness_score", "similarity", "similarity_score", "score", "relatedness", "degree", "similarité")
"""What a number is called that says how alike the texts of a pair are."""


class Wanted(NamedTuple):
    """What a recipe says of a file: names or numbers of its columns, and the rest where it is not to be recognised."""

    texts: tuple[str | int, ...] = ()
    label: str | int | None = None
    heading: bool | None = None
    delimiter: str | None = None
    usual: tuple[str, ...] = (*VERDICTS, *LABELS)


class Layout(NamedTuple):
    """Where text and label stand in every record of a table."""

    form: TableFormat
    heading: tuple[str, ...]
    """The names in the first line; none if it is a text like the others."""
    columns: tuple[int, ...]
    """Numbers of text, or both texts of a pair, and label, counted from 1."""

    @property
    def note(self) -> str:
        """What there is to say of it; nothing of the plainest kind."""
        usual = self.form.delimiter in "\t,"
        if usual and not self.heading and self.columns == (1, 2):
            return ""
        words = f"{self.roles}, between {DELIMITERS.get(self.form.delimiter, self.form.delimiter)}"
        return f"{words}, the first line is a heading" if self.heading else words

    @property
    def roles(self) -> str:
        """Which columns are text and label, in words."""
        named = [self.heading[column - 1] if self.heading else f"column {column}" for column in self.columns]
        texts = f"text is {named[0]}" if len(named) == 2 else f"texts are {named[0]} and {named[1]}"
        return f"{texts}, label is {named[-1]}"


def table(path: str, wanted: Wanted) -> Layout:
    """The layout of a file of columns; what was named and is not there is an error."""
    form = detect_format(path, wanted.delimiter)
    sample = read_sample(path, form, SAMPLE)
    first, rows = (tuple(cell.strip() for cell in sample[0]), sample[1:]) if sample else ((), [])
    named = [each for each in (*wanted.texts, wanted.label) if isinstance(each, str)]
    for each in named:
        if each not in first:
            raise ValueError(
                f"{path} has no column named {each!r}{suggest(each, first)}: its first line is {_line(first)}"
            )
    columns = _columns(first, rows, wanted)
    heading = wanted.heading
    if heading is None:
        heading = bool(named) or _is_heading(first, rows, columns[-1])
    return Layout(form, first if heading else (), columns)


def pair_among(names: Sequence[str]) -> tuple[int, int] | None:
    """Which of these columns hold the two texts of a pair, by their names; None where none do."""
    lower = [name.strip().lower() for name in names]
    found = next((pair for pair in PAIRS if all(name in lower for name in pair)), None)
    return None if found is None else (lower.index(found[0]), lower.index(found[1]))


def columns_named(heading: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the columns with these names, whatever their capitals; none unless all of them are there."""
    lower = [cell.strip().casefold() for cell in heading]
    wanted = [name.strip().casefold() for name in names]
    return tuple(lower.index(name) + 1 for name in wanted) if all(name in lower for name in wanted) else ()


def label_among(names: Sequence[str], usual: Sequence[str]) -> int | None:
    """Which of these columns is a label, by its name; None where none is."""
    lower = [name.strip().lower() for name in names]
    return next((lower.index(name) for name in usual if name in lower), None)


def names(path: str, fields: tuple[str, ...], usual_labels: Sequence[str] = ()) -> tuple[str, ...]:
    """What text and label are called in JSON lines: as asked, or as the first record calls them."""
    record = first_record(path)
    known = [name for name in record if isinstance(name, str)] if isinstance(record, dict) else []
    if not known or all(value_at(record, name) is not None for name in fields):
        return fields
    if fields == ("text", "label") and (pair := pair_among(known)) is not None:
        label = label_among(known, usual_labels or (*VERDICTS, *LABELS))
        return (known[pair[0]], known[pair[1]], known[label]) if label is not None else fields
    found = [next((name for name in known if name.lower() in usual), None) for usual in (TEXTS, LABELS)]
    return (found[0], found[1]) if fields == ("text", "label") and found[0] and found[1] else fields


def first_record(path: str) -> Any:
    """What the first line of a file of JSON lines holds; None if it cannot be read."""
    for line in lines(path):
        try:
            return parsed((line or b"").decode("utf-8"))
        except (Refusal, UnicodeDecodeError):
            return None
    return None


def suspicion(labels: Sequence[str]) -> str | None:
    """Why these labels cannot be labels, in a few words: nearly every text has its own, or they are sentences."""
    if len(labels) < FEW:
        return None
    different = len(set(labels))
    if different > len(labels) / 2:
        return f"{different:,} different labels for {len(labels):,} texts"
    words = sum(len(label.split()) for label in labels) / len(labels)
    return f"labels of {words:.0f} words" if words > LONG and different > FEW else None


def _columns(first: tuple[str, ...], rows: list[list[str]], wanted: Wanted) -> tuple[int, ...]:
    """Numbers of texts and label: as named, by the names in the first line, or the first two that can be it."""
    *texts, label = (first.index(each) + 1 if isinstance(each, str) else each for each in (*wanted.texts, wanted.label))
    text = texts[0] if texts else None
    lower = [name.lower() for name in first]
    pair = None if texts else pair_among(first)
    if pair is not None and label is None:
        named = label_among(first, wanted.usual)
        label = None if named is None else named + 1
    if pair is not None and label is not None:
        return pair[0] + 1, pair[1] + 1, label
    if len(texts) == 2:
        others = [number for number in range(1, max(len(first), 3) + 1) if number not in texts]
        return *(int(each or 0) for each in texts), label or others[0]
    if text is None and label is None:
        one, other = (next((lower.index(name) + 1 for name in usual if name in lower), 0) for usual in (TEXTS, LABELS))
        if len(first) == 2 and (one or other):
            one, other = one or 3 - other, other or 3 - one
        return (one, other) if one and other and one != other else _likely(rows) or (1, 2)
    others = [number for number in range(1, max(len(first), 2) + 1) if number not in (text, label)]
    return text or others[0], label or others[0]


def _likely(rows: list[list[str]]) -> tuple[int, int] | None:
    """Of columns without names one that can be a label, and the longest other; nothing if the second can be."""
    width = min((len(row) for row in rows), default=0)
    if width < 2:
        return None
    columns = [[row[number].strip() for row in rows] for number in range(width)]
    odd = [suspicion(column) is not None or len(set(column)) < 2 for column in columns]
    if not odd[1] or all(odd):
        return None
    label = odd.index(False)
    length = [sum(map(len, column)) if number != label else -1 for number, column in enumerate(columns)]
    return length.index(max(length)) + 1, label + 1


def _is_heading(first: tuple[str, ...], rows: list[list[str]], label: int) -> bool:
    """Whether a first line names columns: by usual names, or short cells with a label that never comes again."""
    if len(first) < max(2, label) or not all(first) or len(set(first)) < len(first) or any(map(_number, first)):
        return False
    below = Counter(row[label - 1].strip() for row in rows if len(row) >= label)
    if below[first[label - 1]]:
        return False
    if any(name.lower() in TEXTS + LABELS for name in first) or pair_among(first) is not None:
        return True
    repeated = len(rows) >= FEW and len(below) <= len(rows) / 5 and min(below.values()) > 1
    length = sorted(max(map(len, row)) for row in rows)[len(rows) // 2] if rows else 0
    return repeated and max(map(len, first)) < length / 3


def _number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _line(first: Sequence[str]) -> str:
    shown = ", ".join(first)
    return f"{shown[:100]}..." if len(shown) > 100 else shown or "empty"
