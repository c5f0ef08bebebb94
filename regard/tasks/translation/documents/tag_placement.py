"""Placement of markup in a translation by the alignment of its words: every tag once, with the original nesting.

An element goes around the run of words with the highest difference of links to its own and to other words; siblings
never overlap and children stay inside. A mark without contents goes to the gap that the fewest links cross.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from regard.data.tokenizers import WORD
from regard.tasks.translation.documents.markup import LETTER, Mark, Marked

Links = Iterable[tuple[int, int]]
"""(word of the source, word of the answer), counted from 0 as the tokenizers count words."""
Span = tuple[int, int]


def restore(marked: Marked, answer: str, links: Links | None = None) -> str:
    """Return the translation of `marked.plain` with all markup and placeholders.

    Without links, words are assumed to be in the same order.
    """
    if not marked.plain:
        return marked.left + marked.right
    answer, pairs = _complete_stand_ins(marked, answer.strip() if marked.html else answer, links)
    words = _word_spans(answer)
    page = _Page(marked, answer, words, _Table(_word_spans(marked.plain), words, pairs))
    inner = page.write(None, (0, len(words)), (0, len(answer)))
    return f"{marked.left}{inner}{marked.right}"


def find_stretch(source: str, answer: str, links: Links, place: Span) -> Span | None:
    """Return the span of an answer that is linked to this span of its source; None if nothing is."""
    words = _word_spans(answer)
    source_words = _word_spans(source)
    pairs = [(s, t) for s, t in links if 0 <= s < len(source_words) and 0 <= t < len(words)]
    table = _Table(source_words, words, pairs)
    run = table.run(table.covered_words(Mark("", begin=place[0], end=place[1])), [(0, len(words))])
    return None if run is None else (words[run[1][0]][0], words[run[1][1] - 1][1])


def find_occurrences(name: str, text: str) -> list[Span]:
    """Return the spans where a stand-in occurs as a whole word, in any case."""
    return [match.span() for match in _stand_in_pattern([name]).finditer(text)]


def diagonal_links(source: int, target: int) -> list[tuple[int, int]]:
    """Return links between two numbers of words as if they were in the same order."""
    return [(min(source - 1, (2 * t + 1) * source // (2 * target)), t) for t in range(target)] if source else []


def strongest_links(weights: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return links from a matrix with a row per answer word: each row's maximum, and each unlinked column's."""
    links = {(max(range(len(row)), key=row.__getitem__), target) for target, row in enumerate(weights) if len(row)}
    linked = {source for source, _ in links}
    for source in range(len(weights[0]) if len(weights) else 0):
        if source not in linked:
            links.add((source, max(range(len(weights)), key=lambda target: weights[target][source])))
    return sorted(links)


def _complete_stand_ins(marked: Marked, answer: str, links: Links | None) -> tuple[str, list[tuple[int, int]]]:
    """Return the answer with every stand-in exactly once, and the links of its words."""
    source, words = _word_spans(marked.plain), _word_spans(answer)
    pairs = diagonal_links(len(source), len(words)) if links is None else list(links)
    pairs = [(s, t) for s, t in pairs if 0 <= s < len(source) and 0 <= t < len(words)]
    anchors = [(s, words[t][0]) for s, t in pairs]  # by position, since words are added and removed
    for name in marked.kept:
        source_word = _word_at(source, find_occurrences(name, marked.plain)[0][0])
        while glued := _glued_pattern(name, marked).search(answer):
            spare, apart = (glued.span("digits"), "") if glued["digits"] else ((glued.end(), glued.end()), " ")
            answer, anchors = _replace_span(answer, anchors, spare, apart)
        spans = find_occurrences(name, answer)
        while len(spans) > 1:
            linked = {place for s, place in anchors if s == source_word}
            spare = next((span for span in reversed(spans) if span[0] not in linked), spans[-1])
            begin = spare[0] - (answer[spare[0] - 1 : spare[0]].isspace())
            answer, anchors = _replace_span(answer, anchors, (begin, spare[1]), "")
            spans = find_occurrences(name, answer)
        if spans:
            answer, anchors = _replace_span(answer, anchors, spans[0], name)
            words = _word_spans(answer)
            target_start = words[_word_at(words, spans[0][0])][0]
            anchors = [
                *((s, place) for s, place in anchors if s != source_word and place != target_start),
                (source_word, target_start),
            ]  # certain
        else:
            answer, anchors = _insert_stand_in(answer, anchors, name, source, source_word)
    words = _word_spans(answer)
    return answer, sorted({(s, _word_at(words, place)) for s, place in anchors if words})


def _insert_stand_in(
    answer: str, anchors: list[tuple[int, int]], name: str, source: Sequence[Span], source_word: int
) -> tuple[str, list[tuple[int, int]]]:
    """Insert a stand-in that the model dropped, where the fewest links cross."""
    words = _word_spans(answer)
    table = _Table(source, words, [(s, _word_at(words, place)) for s, place in anchors if words])
    gap = table.gap(source_word, range(len(words) + 1))
    place = words[gap - 1][1] if gap else (words[0][0] if words else len(answer))
    before = " " if gap else ""
    after = " " if (not gap and words) or re.match(r"\w", answer[place:]) else ""
    answer, anchors = _replace_span(answer, anchors, (place, place), f"{before}{name}{after}")
    return answer, [*anchors, (source_word, place + len(before))]


def _replace_span(
    answer: str, anchors: list[tuple[int, int]], span: Span, text: str
) -> tuple[str, list[tuple[int, int]]]:
    """Replace a span of the answer, and shift the anchors; those inside a removed span are dropped."""
    begin, end = span
    shift = len(text) - (end - begin)
    moved = [(s, place + shift if place >= end else place) for s, place in anchors if text or not begin <= place < end]
    return answer[:begin] + text + answer[end:], moved


def _glued_pattern(name: str, marked: Marked) -> re.Pattern[str]:
    """Return a pattern for X1 followed by digits, which are dropped, or letters, unless that is another stand-in.

    Names never match, since a longer word may well contain one.
    """
    if not re.fullmatch(r"X\d+", name):
        return re.compile(r"(?!)")
    others = "".join(rf"(?!{re.escape(other)}(?!\w))" for other in marked.kept if other != name)
    return re.compile(rf"(?<!{LETTER.pattern}){others}{name}(?:(?P<digits>\d+)|(?=[^\W\d_]))", re.IGNORECASE)


def _stand_in_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for any of the stand-ins as whole words."""
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<!{LETTER.pattern})({either})(?!{LETTER.pattern})", re.IGNORECASE)


def _word_spans(text: str) -> list[Span]:
    return [match.span() for match in WORD.finditer(text)]


def _word_at(words: Sequence[Span], place: int) -> int:
    """Return the index of the word at a position, or of the last one before it."""
    return max(0, bisect_right(words, place, key=lambda span: span[0]) - 1)


@dataclass(frozen=True)
class _Table:
    """The links between two texts, and queries on them."""

    source: Sequence[Span]
    target: Sequence[Span]
    pairs: Sequence[tuple[int, int]]

    def gap(self, before: int, allowed: Iterable[int]) -> int:
        """Return the allowed gap that the fewest links cross if the first `before` source words are before it."""
        middle = before * len(self.target) / max(len(self.source), 1)
        steps = [0] * (len(self.target) + 1)
        for s, t in self.pairs:
            steps[t + 1] += 1 if s >= before else -1
        crossed = list(accumulate(steps))
        return min(allowed, key=lambda gap: (crossed[gap], abs(gap - middle)))

    def covered_words(self, mark: Mark) -> range:
        """Return the source words of an element: those mostly inside it, or else those it touches."""
        mostly_inside, touched = [], []
        for number, (begin, end) in enumerate(self.source):
            shared = min(end, mark.end) - max(begin, mark.begin)
            mostly_inside += [number] if 2 * shared > end - begin else []
            touched += [number] if shared > 0 else []
        chosen = mostly_inside or touched
        return range(chosen[0], chosen[-1] + 1) if chosen else range(0)

    def run(self, source_words: range, free: Sequence[Span]) -> tuple[int, Span] | None:
        """Return the run of free words with most links to these source words and fewest to others."""
        value = [0] * len(self.target)
        for s, t in self.pairs:
            value[t] += 1 if s in source_words else -1
        best: tuple[int, int, Span] | None = None
        for low, high in free:
            begin, total = low, 0
            for place in range(low, high):
                if total < 0 or (total == 0 and value[begin] <= 0):
                    begin, total = place, 0
                total += value[place]
                if total > 0 and value[place] > 0 and (best is None or (total, place - begin) > best[:2]):
                    best = (total, place - begin, (begin, place + 1))
        return (best[0], best[2]) if best else None


@dataclass(frozen=True)
class _Page:
    """A translation that is written with its markup."""

    marked: Marked
    answer: str
    words: Sequence[Span]
    table: _Table

    def write(self, parent: int | None, within: Span, places: Span) -> str:
        """Return the text of the span `places`, which has the words `within`, with the marks inside `parent`."""
        written, at = [], places[0]
        for number, span in self._place_marks(parent, within):
            mark = self.marked.marks[number]
            begin, end, before, after = self._edges(mark, span, (at, places[1]))
            inner = self.write(number, span, (begin, end))
            written += [self._text(at, begin), before, mark.opening, inner, mark.closing, after]
            at = end
        return "".join([*written, self._text(at, places[1])])

    def _place_marks(self, parent: int | None, within: Span) -> list[tuple[int, Span]]:
        """Return the marks directly inside `parent` with the words of each, in the order of writing."""
        children = [number for number, mark in enumerate(self.marked.marks) if mark.parent == parent]
        wrapping = {number: words for number in children if (words := self._covered_words(number))}
        free, placed = [within], dict[int, Span]()
        runs = {number: self.table.run(words, free) for number, words in wrapping.items()}
        while open_runs := {number: run for number, run in runs.items() if run is not None}:
            number = max(open_runs, key=lambda number: (open_runs[number][0], -number))
            low, high = placed[number] = open_runs.pop(number)[1]
            free = _subtract_span(free, placed[number])
            runs = {  # only runs that overlap the placed one are computed again
                other: run if run[1][1] <= low or high <= run[1][0] else self.table.run(wrapping[other], free)
                for other, run in open_runs.items()
            }
        used_spans = list(placed.values())
        gaps = [gap for gap in range(within[0], within[1] + 1) if not any(low < gap < high for low, high in used_spans)]
        least = gaps[0]
        for number in children:
            if number not in placed:
                mark = self.marked.marks[number]
                before = sum(end <= mark.begin for _, end in self.table.source)
                gap = self.table.gap(before, [gap for gap in gaps if gap >= least] if mark.loose else gaps)
                least = gap if mark.loose else least
                placed[number] = (gap, gap)
        return sorted(placed.items(), key=lambda pair: (*pair[1], pair[0]))

    def _covered_words(self, number: int) -> range:
        mark = self.marked.marks[number]
        return range(0) if mark.point else self.table.covered_words(mark)

    def _edges(self, mark: Mark, span: Span, room: Span) -> tuple[int, int, str, str]:
        """Return the span of a mark in the answer, and the white space around it."""
        low, high = span
        if low < high:
            begin, end = self.words[low][0], self.words[high - 1][1]
            return max(begin, room[0]), max(end, room[0]), "", ""
        before, after = mark.spaced
        previous_end = self.words[low - 1][1] if low else 0
        next_start = self.words[low][0] if low < len(self.words) else len(self.answer)
        place = min(max(next_start if before and not after else previous_end, room[0]), room[1])
        apart = before and after
        return (
            place,
            place,
            " " if apart and low and not self.answer[:place].endswith(" ") else "",
            " " if apart and re.match(r"\w", self.answer[place:]) else "",
        )

    def _text(self, begin: int, end: int) -> str:
        """Return a span of the answer with its placeholders restored and its signs escaped."""
        text = self.answer[begin:end]
        if not self.marked.kept:
            return _escape_text(text, self.marked.html)
        names = {name.casefold(): raw for name, raw in self.marked.kept.items()}
        parts = _stand_in_pattern(self.marked.kept).split(text)
        return "".join(
            names[part.casefold()] if odd % 2 else _escape_text(part, self.marked.html)
            for odd, part in enumerate(parts)
        )


def _escape_text(text: str, html: bool) -> str:
    return escape(text, quote=False) if html else text


def _subtract_span(free: Sequence[Span], used: Span) -> list[Span]:
    """Subtract a span from the free ones."""
    parts = [((low, min(high, used[0])), (max(low, used[1]), high)) for low, high in free]
    return [(low, high) for both in parts for low, high in both if low < high]
