"""Which column of a file of pairs is translated into which: by the languages that its heading names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from regard.data.encodings import find_file
from regard.data.line_report import LineReport
from regard.data.pair_headings import columns_by_language, language_columns, named_language
from regard.data.readers import JSON_SUFFIXES, MEMORY_SUFFIX, Corpus, cells_of, lines, read_cells, suffix

REMEDY = "name the columns of source and target with --columns"


@dataclass(frozen=True)
class Direction:
    """What a translator reads and writes."""

    targets: tuple[str, ...] = ()
    """The languages that it can be asked for; none if it writes only one."""
    trained: Sequence[str] | None = None
    """Codes of the two languages of one that writes only one, as its training files named them."""
    reads: tuple[str, ...] = ()
    """Codes of the languages that it reads, where that is known."""
    name: str = "the model"

    def choose_columns(self, path: str, to: str | None) -> tuple[tuple[int, int], str | None]:
        """Return the source and target columns of a file, and the language to translate into.

        A heading that names languages decides; one that names other languages than those wanted is an error.
        """
        heading = read_heading(path)
        by_language, usual = columns_by_language(heading), language_columns(heading)
        if not by_language:
            return usual or (1, 2), to
        if self.targets:
            return self._choose_among_targets(path, by_language, usual, to)
        if self.trained is not None:
            if not set(self.trained) <= set(by_language):
                source, target = self.trained
                raise ValueError(
                    f"{path} has columns of {_join_codes(by_language)}, "
                    f"and {self.name} translates {source} to {target}: {REMEDY}"
                )
            return (by_language[self.trained[0]], by_language[self.trained[1]]), to
        if usual is None:
            raise ValueError(f"{path} has columns of {_join_codes(by_language)}: {REMEDY}")
        return usual, to

    def _choose_among_targets(
        self, path: str, by_language: Mapping[str, int], usual: tuple[int, int] | None, to: str | None
    ) -> tuple[tuple[int, int], str | None]:
        """Return source and target columns and the target tag for a model with several target languages."""
        target = to
        if target is None:
            last = next((code for code, number in by_language.items() if usual and number == usual[1]), None)
            writable = [code for code in by_language if self._tag_of(code) is not None]
            target = last if last in writable else writable[0] if len(writable) == 1 else None
        code = None if target is None else named_language(target)
        if target is None or (code is not None and code not in by_language):
            mismatch = f"none of {to}" if to is not None else f"and {self.name} writes {_join_codes(self.targets)}"
            raise ValueError(f"{path} has columns of {_join_codes(by_language)}, {mismatch}: {REMEDY}")
        if code is None:
            return usual or (1, 2), to  # what is asked for is no language
        sources = [other for other in by_language if other != code]
        known_sources = [other for other in sources if other in self.reads or self._tag_of(other) is not None]
        sources = known_sources if self.reads or len(sources) > 1 else sources
        if len(sources) != 1:
            raise ValueError(f"{path} has columns of {_join_codes(by_language)}: {REMEDY}")
        return (by_language[sources[0]], by_language[code]), to or self._tag_of(code)

    def _tag_of(self, code: str) -> str | None:
        """Return the model's tag for a language."""
        return next((tag for tag in self.targets if named_language(tag) == code), None)


def read_heading(path: str) -> list[str]:
    """Return the cells of the first line of a table; none for JSON lines."""
    if suffix(path) in JSON_SUFFIXES:
        return []
    find_file(path)
    if suffix(path) in (".csv", MEMORY_SUFFIX):
        return next((record for _, record in islice(read_cells(path, LineReport()), 1)), [])
    return next((cells_of(line) for line in islice(lines(path), 1)), [])


def direct_files(sections: Sequence[dict[str, Any]], to: str | None) -> list[dict[str, Any]]:
    """Return the sections of parallel files with a common direction: that of the first, or into the language `to`.

    Only headings that name languages are heeded; files with other languages than the first are an error.
    """
    target = None if to is None else named_language(to)
    first = sections[0]["path"]
    source: str | None = None
    directed = []
    for section in sections:
        by_language = columns_by_language(read_heading(section["path"]))
        numbers = tuple(section.get("columns", (1, 2)))
        codes = [code for number in numbers for code, column in by_language.items() if column == number]
        if len(codes) != 2:
            directed.append(section)
            continue
        if target is None:
            source, target = codes
        if target not in codes:
            reason = f"{to} is asked for" if to is not None else f"{first} is translated to {target}"
            raise ValueError(
                f"{section['path']} has columns of {_join_codes(codes)}, and {reason}: give files of two languages"
            )
        others = [code for code in codes if code != target]
        if to is None and others != [source]:
            raise ValueError(
                f"{section['path']} has columns of {_join_codes(codes)}, and {first} those of {source} and {target}: "
                "name the language to translate into with --to"
            )
        columns = [by_language[others[0]], by_language[target]]
        plain = {key: value for key, value in section.items() if key != "columns"}
        directed.append(plain if columns == [1, 2] else {**plain, "columns": columns})
    return directed


def recorded_direction(corpus: Corpus) -> tuple[str, str] | None:
    """The codes of the two languages of a file without a tag, by its heading, or of two files by their endings."""
    if corpus.tag is not None or corpus.form == "json":
        return None
    if corpus.path is None:
        codes = [named_language(suffix(name).removeprefix(".")) for name in corpus.files]
    else:
        heading = read_heading(corpus.path)
        inside = len(heading) >= max(corpus.columns)
        codes = [named_language(heading[number - 1]) for number in corpus.columns] if inside else []
    source, target = codes if len(codes) == 2 else (None, None)
    return None if source is None or target is None or source == target else (source, target)


def _join_codes(codes: Sequence[str] | Mapping[str, int]) -> str:
    return " and ".join(codes)
