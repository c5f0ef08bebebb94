"""Tests of word vectors as people publish them: pairs of words with a judgement, and questions by analogy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regard.data.readers import lines

Judged = tuple[str, str, float]
Question = tuple[str, str, str, str]


@dataclass(frozen=True)
class Agreement:
    """Spearman's correlation between cosines and human judgements, over the pairs of known words."""

    rho: float
    known_count: int
    asked_count: int


@dataclass(frozen=True)
class SectionScore:
    """The number of right answers in a section, among the questions whose words are all known."""

    name: str
    right: int
    known_count: int
    asked_count: int

    @property
    def share(self) -> float:
        """Return the share of right answers among questions with known words; nan if there are none."""
        return self.right / self.known_count if self.known_count else float("nan")


def read_similarity(name: str) -> list[Judged]:
    """Read tab-separated word pairs with human similarity judgements, as in WordSim-353.

    Lines that begin with # are comments; one line of headings may stand before the pairs.
    """
    pairs: list[Judged] = []
    headings = 0
    for number, line in _iterate_lines(name):
        cells = [cell.strip() for cell in line.split("\t")]
        try:
            first, second, score = cells[0], cells[1], float(cells[2])
        except (IndexError, ValueError):
            headings += 1
            if pairs or headings > 1:
                raise ValueError(f"{name}:{number}: not two words and a number between tabs: {line[:40]!r}") from None
            continue
        pairs.append((first, second, score))
    if len(pairs) < 2:
        raise ValueError(f"{name}: {len(pairs)} pairs of words are too few to correlate anything with")
    return pairs


def is_analogies(name: str) -> bool:
    """True for a file of analogies, not of judged pairs: its first line is a heading or four words."""
    _, line = next(iter(_iterate_lines(name)), (0, ""))
    return line.startswith(":") or ("\t" not in line and len(line.split()) == 4)


def read_analogies(name: str) -> dict[str, list[Question]]:
    """Read analogies by section: lines of four words, of which the last is the answer, under headings `: section`."""
    sections: dict[str, list[Question]] = {}
    section: list[Question] = []
    for number, line in _iterate_lines(name):
        if line.startswith(":"):
            section = sections.setdefault(line[1:].strip(), [])
            continue
        words = line.split()
        if len(words) != 4:
            raise ValueError(f"{name}:{number}: not four words: {line[:40]!r}")
        if not sections:
            sections[""] = section
        section.append((words[0], words[1], words[2], words[3]))
    if not any(sections.values()):
        raise ValueError(f"{name}: has no questions, which are lines of four words")
    return sections


def _iterate_lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, without empty lines and comments."""
    for number, line in enumerate(lines(name), start=1):
        try:
            text = line.decode("utf-8").strip() if line is not None else ""
        except UnicodeDecodeError:
            raise ValueError(f"{name}:{number}: not UTF-8, convert the file first") from None
        if text and not text.startswith("#"):
            yield number, text
