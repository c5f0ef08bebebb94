"""Markdown split into paragraphs, headings, items, cells and titles to translate, and parts to copy unchanged."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from regard.tasks.translation.documents.inline_markdown import from_html, has_markup, normal_label, to_html
from regard.tasks.translation.documents.markdown_blocks import ITEM, QUOTE, find_copied_block, strip_marks
from regard.tasks.translation.documents.text_formats import TAG, Part, Text, has_letter, wrap

PREFIX = re.compile(
    rf"(?P<quote>{QUOTE.pattern})[ \t]*"
    r"(?P<marker>#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,9}[.)]\s+|\[\^[^\[\]]+\]:\s+|:[ \t]+|\*\[[^\[\]]+\]:\s+"
    r"|(?<=>)\[![\w-]+\][-+]?[ \t]+|(?<=> )\[![\w-]+\][-+]?[ \t]+)?"
)
RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")  # between the heading of a table and its rows
LABEL = re.compile(r"\s{0,3}\[([^\[\]^]+)\]:")
HEADING_END = re.compile(r"(?:\s+#+)?(?:\s*\{[^{}]*\})?\s*")
ADMONITIONS = "note tip info warning danger caution important hint attention error success question seealso details"
TITLES = re.compile(
    r"(?P<before>(?:!!!|\?\?\?\+?)\s+[\w -]+\s\"|===[!+]?\s+\")(?P<title>[^\"]+)(?P<after>\")"
    rf"|(?P<fence>:{{3,}}\s*\{{?(?:{ADMONITIONS.replace(' ', '|')})\}}?(?:\[|\s+))"
    r"(?P<called>[^\[\]{}]*[^\[\]{}\s])(?P<rest>\]?\s*(?:\{[^{}]*\})?)"
)
"""Directives and admonitions that have a title for people."""
INDENTED = 4  # columns of indentation of code, and of the content of an admonition


class _Blocks:
    """The state after the lines read so far: open list items and quotes, and whether a paragraph is open."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        """Where the text of every open list item begins."""
        self.depth = 0
        """How many quotes we are in."""
        self.closed = True
        """True if no paragraph goes on, so that code may begin."""

    def enter(self, line: str) -> tuple[int, int]:
        """Process the next line; return its indentation, and that of the text of its list item."""
        prefix = _prefix(line)
        depth = prefix["quote"].count(">")
        if depth != self.depth:
            self.columns, self.depth, self.closed = [], depth, True
        column = _column(line[prefix.end("quote") :] if depth else line)
        item = bool(prefix["marker"]) and not prefix["marker"].startswith("#")
        if self.closed or item:
            while self.columns and column < self.columns[-1]:
                self.columns.pop()
        return column, self.columns[-1] if self.columns else 0

    def open_item(self, line: str) -> None:
        """Record the indentation of the item's text if this line starts an item."""
        prefix = _prefix(line)
        rest = line[prefix.end("quote") :] if self.depth else line
        marker = prefix["marker"] or ""
        column = _column(rest)
        if strip_marks(line).startswith(("!!!", "???", "===")) or marker.startswith(("[^", ":")):
            self.columns.append(column + INDENTED)
        elif item := ITEM.match(f"{marker} "):
            sign = re.sub(r"\[[ xX]\]\s*", "", item[0].rstrip() if not marker.rstrip().endswith("]") else marker)
            self.columns.append(column + max(len(sign.rstrip()) + 1, len(sign) if len(sign) < 6 else 0))


def split_markdown(lines: Sequence[str], *, jsx: bool = False) -> Iterator[Part]:
    """Split Markdown into parts to translate and parts to copy; `jsx` copies the JavaScript of MDX too."""
    labels = {normal_label(match[1]) for line in lines if (match := LABEL.match(line))}
    state, place = _Blocks(), 0
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            yield Part((line,))
            state.closed, place = True, place + 1
            continue
        column, text_column = state.enter(line)
        if state.closed and column >= text_column + INDENTED:
            end = _indented_end(lines, place, text_column + INDENTED)
            yield Part(tuple(lines[place:end]), "of code")
            place = end
            continue
        if title := _parse_title(line, labels):
            yield title
            state.open_item(line)
            state.closed, place = True, place + 1
            continue
        end, reason = find_copied_block(lines, place, jsx=jsx)
        if end == place:
            end = _paragraph_end(lines, place, jsx=jsx)
            yield _table_row(line, labels) if _is_table_row(lines, place) else _paragraph(lines[place:end], labels)
            state.closed = _prefix(line)["marker"] is not None and "#" in str(_prefix(line)["marker"])
        else:
            yield Part(tuple(lines[place:end]), reason)
            state.closed = True
        state.open_item(line)
        place = end


def _prefix(line: str) -> re.Match[str]:
    match = PREFIX.match(line)
    assert match is not None, "it matches nothing too"
    return match


def _column(text: str) -> int:
    """Return the indentation of a text in columns."""
    text = text.expandtabs(INDENTED)
    return len(text) - len(text.lstrip(" "))


def _indented_end(lines: Sequence[str], place: int, column: int) -> int:
    """Return the end of an indented code block, without the blank lines after it."""
    quoted = _prefix(lines[place])["quote"].count(">")
    end = at = place
    while at < len(lines):
        quote = _prefix(lines[at])["quote"]
        rest = lines[at][len(quote) :] if quoted else lines[at]
        if quote.count(">") != quoted:
            break
        if rest.strip():
            if _column(rest) < column:
                break
            end = at + 1
        at += 1
    return max(end, place + 1)


def _parse_title(line: str, labels: Collection[str]) -> Part | None:
    """Return the title of a directive as a part to translate, or None."""
    start = len(line) - len(line.lstrip())
    match = TITLES.fullmatch(line.strip())
    title = match and (match["title"] or match["called"])
    if not match or not title or not has_letter(title):
        return None
    before = line[:start] + (match["before"] or match["fence"])
    after = line[len(before) + len(title) :]
    return Part(
        (line,), texts=(_inline_text(title, labels),), write=lambda translations: [f"{before}{translations[0]}{after}"]
    )


def _is_table_row(lines: Sequence[str], place: int) -> bool:
    """Return True for a row of a table: it starts with a bar, or is above or below the rule of a table."""
    if strip_marks(lines[place]).startswith("|"):
        return True
    if "|" not in lines[place]:
        return False
    above = place
    while above and "|" in lines[above] and not RULE.fullmatch(lines[above]):
        above -= 1
    below = lines[place + 1] if place + 1 < len(lines) else ""
    return any("|" in line and RULE.fullmatch(line) is not None for line in (lines[above], below))


def _table_row(line: str, labels: Collection[str]) -> Part:
    """Return a table row as a part with one text per cell."""
    start = _prefix(line)[0] if "|" in strip_marks(line)[:1] else ""
    cells = re.split(r"(?<!\\)(\|)", line[len(start) :])
    texts = {place: _inline_text(cell.strip(), labels) for place, cell in enumerate(cells) if has_letter(cell)}
    texts = {place: text for place, text in texts.items() if _has_words(text)}

    def write(translations: Sequence[str]) -> list[str]:
        translated = dict(zip(texts, translations, strict=True))
        row = [
            cell.replace(cell.strip(), translated[at], 1) if at in translated else cell for at, cell in enumerate(cells)
        ]
        return [start + "".join(row)]

    return Part((line,), "" if texts else "of code and pictures", texts=tuple(texts.values()), write=write)


def _paragraph_end(lines: Sequence[str], place: int, *, jsx: bool) -> int:
    """Return the end of the paragraph that starts here."""
    prefix, end = _prefix(lines[place]), place + 1
    if (prefix["marker"] or "").startswith(("#", "[!")) or _is_table_row(lines, place):
        return end
    while end < len(lines) and _continues_paragraph(lines, end, prefix["quote"].count(">"), jsx=jsx):
        end += 1
    return end


def _continues_paragraph(lines: Sequence[str], place: int, depth: int, *, jsx: bool) -> bool:
    """Return True if a line continues the paragraph of the line before it."""
    before = lines[place - 1].removesuffix("\r")
    if before.endswith(("  ", "\\")) or re.search(r"<br\s*/?>\s*$", before, re.IGNORECASE):
        return False
    prefix = _prefix(lines[place])
    if prefix["marker"] or prefix["quote"].count(">") != depth or TAG.match(strip_marks(lines[place])):
        return False
    if find_copied_block(lines, place, jsx=jsx)[0] > place or _parse_title(lines[place], ()):
        return False
    return not _is_table_row(lines, place)


def _paragraph(lines: Sequence[str], labels: Collection[str]) -> Part:
    """Return the lines of a paragraph as one text, after their markers."""
    prefixes = [_prefix(line)[0] for line in lines]
    last = lines[-1].rstrip()
    if prefixes[0].rstrip().endswith("#"):
        end = next(match for match in HEADING_END.finditer(lines[0], len(prefixes[0])) if match.end() == len(lines[0]))
        last = lines[0][: end.start()]
    elif (len(last) - len(last.rstrip("\\"))) % 2:  # a hard line break
        last = last[:-1]
    last = last.rstrip()
    after = lines[-1][len(last) :]
    ending = "\r" if lines[0].endswith("\r") else ""
    inner = [*lines[:-1], last]
    inner = [line[len(prefix) :].strip() for line, prefix in zip(inner, prefixes, strict=True)]
    words, widths = " ".join(inner), [len(line) + 1 for line in inner]

    def write(translations: Sequence[str]) -> list[str]:
        wrapped = wrap(translations[0], widths) if len(lines) > 1 else [translations[0]]
        ends = [ending] * (len(wrapped) - 1) + [after]
        return [f"{prefix}{line}{end}" for prefix, line, end in zip(prefixes, wrapped, ends, strict=False)]

    text = _inline_text(words, labels)
    if not _has_words(text):
        return Part(tuple(lines), "of code and pictures")
    return Part(tuple(lines), texts=(text,), write=write)


def _has_words(text: Text) -> bool:
    """Return True if a text has anything to translate besides its markup."""
    return not text.html or has_letter(re.sub(r"&\w+;", "", TAG.sub("", text.written)))


def _inline_text(text: str, labels: Collection[str]) -> Text:
    """Return a Markdown text, converted to HTML if it has markup."""
    if not has_markup(text, labels):
        return Text(text)
    html, markers = to_html(text, labels)
    return Text(html, True, lambda answer: from_html(answer, markers))
