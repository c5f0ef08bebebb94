"""A comparison of two systems as one HTML page without scripts or outside requests; sorting is done in CSS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import groupby

WORD = re.compile(r"\w+|[^\w\s]")
LONGEST = 400  # maximum words of an answer to compare; the time grows with their square


@dataclass(frozen=True)
class Row:
    """One sentence with the answers of both systems and their scores."""

    number: int
    source: str
    reference: str
    answers: tuple[str, str]
    scores: tuple[float, float]

    @property
    def gain(self) -> float:
        """Return by how much the second answer is better."""
        return self.scores[1] - self.scores[0]


ORDERS: dict[str, tuple[str, Callable[[Row], float]]] = {
    "difference": ("largest difference", lambda row: -abs(row.gain)),
    "second": ("{1} better", lambda row: -row.gain),
    "first": ("{0} better", lambda row: row.gain),
    "worst": ("both bad", lambda row: sum(row.scores)),
    "number": ("as in the test set", lambda row: row.number),
}


def page(
    names: tuple[str, str],
    rows: Sequence[Row],
    *,
    summary: Sequence[Sequence[str]] = (),
    score: str = "chrF",
    most: int = 2000,
) -> str:
    """Return the page; `summary` is a table with a header; beyond `most` rows the most similar are left out."""
    shown_rows = sorted(rows, key=ORDERS["difference"][1])[:most]
    ranks = {name: _ranks(shown_rows, key) for name, (_, key) in ORDERS.items()}
    cards = "\n".join(
        _card(row, names, score, {name: rank[i] for name, rank in ranks.items()}) for i, row in enumerate(shown_rows)
    )
    title = escape(f"{names[0]} and {names[1]}")
    left_out = len(rows) - len(shown_rows)
    caption = f"{len(rows):,} sentences" + (f", of which the {left_out:,} most alike are left out" if left_out else "")
    controls = "\n".join(
        f'<input type="radio" name="order" id="by-{name}"{" checked" if name == "difference" else ""}>'
        f'<label for="by-{name}">{escape(label.format(*names))}</label>'
        for name, (label, _) in ORDERS.items()
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{STYLE}{_orders()}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<p>{caption}. {LEGEND}</p>\n{_table(summary)}"
        f'<span class="legend">Order:</span>\n{controls}\n'
        '<input type="checkbox" id="only"><label for="only">only where they differ</label>\n'
        f'<main class="rows">\n{cards}\n</main>\n</body>\n</html>\n'
    )


def mark_differences(answer: str, other: str, reference: str) -> str:
    """Return the answer as HTML, marking words that the other lacks: `right` if in the reference, else `wrong`."""
    tokens = list(WORD.finditer(answer))
    words = [match[0] for match in tokens]
    other_words, reference_words = WORD.findall(other), WORD.findall(reference)
    if max(len(words), len(other_words), len(reference_words)) > LONGEST:
        return escape(answer)
    shared, right = _common(words, other_words), _common(words, reference_words)
    parts, place = [], 0
    for kind, group in groupby(enumerate(tokens), lambda pair: None if pair[0] in shared else pair[0] in right):
        matches = [match for _, match in group]
        begin, end = matches[0].start(), matches[-1].end()
        parts.append(escape(answer[place:begin]))
        text = escape(answer[begin:end])
        parts.append(text if kind is None else f'<mark class="{"right" if kind else "wrong"}">{text}</mark>')
        place = end
    return "".join([*parts, escape(answer[place:])])


def _common(words: Sequence[str], others: Sequence[str]) -> set[int]:
    """Return the indices of the words that match in a diff of both texts."""
    blocks = SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks()
    return {place for block in blocks for place in range(block.a, block.a + block.size)}


def _ranks(rows: Sequence[Row], key: Callable[[Row], float]) -> list[int]:
    order = sorted(range(len(rows)), key=lambda i: (key(rows[i]), rows[i].number))
    ranks = [0] * len(rows)
    for rank, i in enumerate(order):
        ranks[i] = rank
    return ranks


def _card(row: Row, names: tuple[str, str], score: str, ranks: dict[str, int]) -> str:
    first, second = row.answers
    style = ";".join(f"--{name}:{rank}" for name, rank in ranks.items())
    lines = [("source", escape(row.source)), ("reference", escape(row.reference))]
    for name, text, value in (
        (names[0], mark_differences(first, second, row.reference), row.scores[0]),
        (names[1], mark_differences(second, first, row.reference), row.scores[1]),
    ):
        lines.append((f"{escape(name)} <b>{value:.1f}</b>", text))
    listed = "".join(f'<dt>{label}</dt><dd dir="auto">{text}</dd>' for label, text in lines)
    same = ' class="same"' if first == second else ""
    head = f"<h2>{row.number} <small>{escape(score)} {row.gain:+.1f}</small></h2>"
    return f'<article{same} style="{style}">{head}<dl>{listed}</dl></article>'


def _table(summary: Sequence[Sequence[str]]) -> str:
    if not summary:
        return ""
    head, *body = ("".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row) for kind, row in _kinds(summary))
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>\n'


def _kinds(summary: Sequence[Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    yield from (("td" if number else "th", row) for number, row in enumerate(summary))


def _orders() -> str:
    return "".join(f"#by-{name}:checked ~ .rows > article {{ order: var(--{name}) }}\n" for name in ORDERS)


LEGEND = (
    'Words that only one of the two has are marked: <mark class="right">in the reference</mark>, '
    '<mark class="wrong">not in the reference</mark>.'
)
STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --line: #ccc; --pale: #5c5c5c; --right: #0072b2;
  --right-paper: #dceefb; --wrong: #a84300; --wrong-paper: #ffe8d6 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --line: #444; --pale: #a8a8a8;
  --right: #7cc4f2; --right-paper: #0d3550; --wrong: #ffb27a; --wrong-paper: #4a2506 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; overflow-wrap: anywhere }
h2 { font-size: .9rem; margin: 0 0 .25rem }
h2 small, .legend { color: var(--pale); font-weight: normal }
mark { color: inherit; border-radius: 2px; padding: 0 .1em }
mark.right { background: var(--right-paper); border-bottom: 2px solid var(--right) }
mark.wrong { background: var(--wrong-paper); border-bottom: 2px dashed var(--wrong) }
.wide { overflow-x: auto; margin: 1rem 0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); white-space: nowrap }
input { position: absolute; opacity: 0 }
label { display: inline-block; margin: 0 .2rem .3rem 0; padding: 0 .7rem; border: 1px solid var(--line);
  border-radius: 1rem; cursor: pointer; overflow-wrap: anywhere }
:checked + label { color: var(--paper); background: var(--ink) }
:focus-visible + label { outline: 3px solid var(--right); outline-offset: 1px }
.rows { display: flex; flex-direction: column; margin-top: 1rem }
article { border-top: 1px solid var(--line); padding: .6rem 0; content-visibility: auto;
  contain-intrinsic-size: auto 9rem }
dl { display: grid; grid-template-columns: minmax(6rem, 11rem) 1fr; gap: .1rem 1rem; margin: 0 }
dt { color: var(--pale); font-size: .85rem; padding-top: .1rem; overflow-wrap: anywhere }
dt b { color: var(--ink); font-variant-numeric: tabular-nums }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr } dd { margin-bottom: .3rem } }
#only:checked ~ .rows > .same { display: none }
"""
