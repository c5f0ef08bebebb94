"""Reports on the lines of a corpus: how many were read, kept and refused for what reason, with the first places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.config.words import quantity
from regard.data.encodings import hint_of

NOT_UTF8 = "invalid UTF-8"
HELD = "held out for validation"
REMEMBERED = 5  # places stored per reason; further ones are only counted
FEW = 4  # files that are all named in a message


class Refusal(Exception):
    """The reason why a line cannot be used, with the number of its file."""

    def __init__(self, reason: str, file: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.file = reason, file


@dataclass
class Occurrences:
    """A count of occurrences with the first places, as (number of the file, line)."""

    count: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)

    def add(self, file: int, line: int) -> None:
        """Count one more occurrence."""
        self.count += 1
        if len(self.places) < REMEMBERED:
            self.places.append((file, line))


@dataclass
class LineReport:
    """Counts of what happened to every line of one corpus."""

    read: int = 0
    kept: int = 0
    refused: dict[str, Occurrences] = field(default_factory=dict)
    """Bad lines by reason; too many of them stop the run."""
    dropped: dict[str, Occurrences] = field(default_factory=dict)
    """Good lines left out on purpose, by reason."""
    cut: Occurrences = field(default_factory=Occurrences)
    """Good lines shortened."""
    tokens: tuple[int, int] = (0, 0)
    """Tokens kept on either side, ends of sentence included."""

    def refuse(self, reason: str, file: int, line: int) -> None:
        """Count a line that cannot be used."""
        self.refused.setdefault(reason, Occurrences()).add(file, line)

    def drop(self, reason: str, file: int, line: int) -> None:
        """Count a usable line that is left out."""
        self.dropped.setdefault(reason, Occurrences()).add(file, line)

    def check(
        self, share: float, files: Sequence[str], *, unit: str = "pair", remedy: str = " or raise data.reject"
    ) -> None:
        """Raise ValueError if no line is usable, or if more than this share of the lines is bad."""
        bad = sum(occurrences.count for occurrences in self.refused.values())
        if self.read == 0:
            raise ValueError(f"{files[0]} is empty: give a file with at least one {unit}")
        if bad > share * self.read:
            allowed, remedy = (f", more than the allowed {share:.2%}", remedy) if share else ("", "")
            bad_files = sorted({file for file, _ in self.refused.get(NOT_UTF8, Occurrences()).places})
            hints = "".join(
                f" ({occurrences})" for occurrences in (hint_of(files[file]) for file in bad_files) if occurrences
            )
            if not hints and self.refused.get(NOT_UTF8, Occurrences()).count > self.read / 2:
                raise ValueError(
                    f"{file_list(files)} is no text: {self.refused[NOT_UTF8].count} of {self.read} lines are no UTF-8; "
                    "save it as plain text (UTF-8)"
                )
            raise ValueError(
                f"{bad} of {self.read} lines of {file_list(files)} are refused{allowed}: "
                f"{'; '.join(describe_reasons(self.refused, files))}; mend them{hints}{remedy}"
            )
        if bad == self.read:
            raise ValueError(
                f"no usable {unit} in {file_list(files)}: {'; '.join(describe_reasons(self.refused, files))}"
            )

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON, without the names of the files."""
        return asdict(self)

    @classmethod
    def parse(cls, plain: dict[str, Any]) -> LineReport:
        """Parse the result of `plain`."""

        def parse_occurrences(entry: dict[str, Any]) -> Occurrences:
            return Occurrences(entry["count"], [(file, line) for file, line in entry["places"]])

        groups = {
            name: {why: parse_occurrences(record) for why, record in plain[name].items()}
            for name in ("refused", "dropped")
        }
        source, target = plain["tokens"]
        return cls(plain["read"], plain["kept"], **groups, cut=parse_occurrences(plain["cut"]), tokens=(source, target))

    def report(self, files: Sequence[str]) -> dict[str, Any]:
        """Return the report as JSON for users, with places as `file:line`."""

        def describe(occurrences: Occurrences) -> dict[str, Any]:
            return {"count": occurrences.count, "places": places(occurrences, files)}

        return {
            "files": list(files),
            "read": self.read,
            "kept": self.kept,
            "refused": {reason: describe(occurrences) for reason, occurrences in self.refused.items()},
            "dropped": {reason: describe(occurrences) for reason, occurrences in self.dropped.items()},
            "cut": describe(self.cut),
            "tokens": {"source": self.tokens[0], "target": self.tokens[1]},
        }

    def lines(self, files: Sequence[str], *, unit: str = "pair") -> list[str]:
        """Return the report as text, one line per item; a `unit` of sentence means that examples span several lines."""
        summary = (
            f"{'sentence' if self.kept == 1 else 'sentences'} in {quantity(self.read, 'line')}"
            if unit == "sentence"
            else f"of {quantity(self.read, unit)} kept"
        )
        words = [f"{file_list(files)}: {self.kept:,} {summary}"]
        words += [f"  refused: {text}" for text in describe_reasons(self.refused, files)]
        dropped = describe_reasons(self.dropped, files, unit=unit)
        words += [f"  {text}" if HELD in text else f"  left out: {text}" for text in dropped]
        return words + [
            f"  shortened: {text}" for text in describe_reasons({"too long": self.cut}, files) if self.cut.count
        ]


def file_list(files: Sequence[str]) -> str:
    """Join the names of files, or name the first of many."""
    few = len(files) <= FEW
    return " and ".join(files) if few else f"{files[0]} and {len(files) - 1:,} other files"


def places(occurrences: Occurrences, files: Sequence[str]) -> list[str]:
    """Return the first places as `file:line`."""
    return [f"{files[file]}:{line}" for file, line in occurrences.places]


def describe_reasons(reasons: dict[str, Occurrences], files: Sequence[str], *, unit: str = "") -> list[str]:
    """Describe the reasons: `2 invalid UTF-8 (a.fr:7, a.fr:9)`, or `2 pairs longer than 9 tokens (...)`."""
    return [
        f"{_count_units(occurrences.count, unit)} {reason} "
        f"({', '.join(places(occurrences, files))}{', ...' * (occurrences.count > len(occurrences.places))})"
        for reason, occurrences in reasons.items()
    ]


def _count_units(count: int, unit: str) -> str:
    """Return a count with its unit: `2`, `1 pair`, `2 pairs`."""
    return f"{count:,} {unit}{'s' * (count != 1)}" if unit else f"{count:,}"
