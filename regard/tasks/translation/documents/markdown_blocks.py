"""Markdown blocks that are copied untranslated: front matter, code, formulas, HTML, templates, link definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

QUOTE = re.compile(r"(?:\s*>[ ]?)*")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
FENCE = re.compile(r"(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
DEFINITION = re.compile(
    r"\[[^\[\]^]+\]:\s*(?:<[^<>]*>|\S+)(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*|\[[^\[\]^]+\]:\s*"
)
TITLE = re.compile(r"\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\))\s*")  # of an address, on the next line
ADDRESS = re.compile(r"\s*(?:https?://|\.{0,2}/|#)\S*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*")
RAW = re.compile(
    r"(?:<[^<>]*>\s*)*<(?P<name>pre|script|style|textarea|svg|template|iframe|object|math|code|samp|kbd)\b",
    re.IGNORECASE,
)
OPEN_TAG = re.compile(r"</?[A-Za-z][^<>]*")
ALERT = re.compile(r"\[![\w-]+\][-+]?\s*")
DIRECTIVE = re.compile(r":{3,}.*|(?:!!!|\?\?\?\+?)\s.*|===[!+]?\s+\".*|\.\. [\w-]+::.*|:{2}\w.*")
TEMPLATE = re.compile(r"(?:(?:\{%[^{}%]*%\}|\{\{[^{}]*\}\})\s*)+|\{:[^{}]*\}|\{#.*#\}")
LONG_TEMPLATE = re.compile(r"\{[{%]-?\s*<?\s*(?P<name>highlight|raw|verbatim|comment|code|mermaid|math)\b")
TABLE_OF_CONTENTS = re.compile(r"\[TOC\]|\[\[_?TOC_?\]\]|\{:toc\}", re.IGNORECASE)
LATEX = re.compile(r"\\(?:[A-Za-z]+)\*?(?:[\[{].*)?")
ENVIRONMENT = re.compile(r"\\begin\{(?P<name>[^{}]+)\}")
GRID = re.compile(r"\+(?:[-=:]{2,}\+)+")
YAML = re.compile(r"""\s*(?:#.*)?|(?:["'\w][^:{}]*):(?:\s.*)?|\s+\S.*|-(?:\s.*)?|[\]}],?""")
TOML = re.compile(r"\s*(?:#.*)?|[\w.\"' -]+=.*|\[.*\]|\s+\S.*|[\]}],?")
JAVASCRIPT = re.compile(r"(?:import|export)\b\s*[\w{*\"']")

Finder = Callable[[Sequence[str], int, str], int]
"""Where a block ends that begins in this line, whose words are these; the number of the line itself if none does."""


def strip_marks(line: str) -> str:
    """Return a line without the markers of quotes and list items."""
    quote = QUOTE.match(line)
    rest = line[quote.end() :] if quote else line
    item = ITEM.match(rest)
    return (rest[item.end() :] if item else rest).strip()


def find_copied_block(lines: Sequence[str], place: int, *, jsx: bool = False) -> tuple[int, str]:
    """Return the end of the copied block that starts here, and the reason; the line itself if there is none."""
    words = strip_marks(lines[place].lstrip("\ufeff") if place == 0 else lines[place])
    for find, reason in (*JSX, *BLOCKS) if jsx else BLOCKS:
        if (end := find(lines, place, words)) > place:
            return end, reason
    return (place, "") if any(map(str.isalpha, words)) else (place + 1, "")


def _find(lines: Sequence[str], begin: int, pattern: str | re.Pattern[str], *, within: bool = False) -> int | None:
    """Return the index after the first line from `begin` on with the pattern; `within` stops at the next blank line."""
    compiled = re.compile(pattern)
    for at in range(begin, len(lines)):
        if compiled.search(lines[at]):
            return at + 1
        if within and not QUOTE.sub("", lines[at], count=1).strip():
            return None
    return None


def _front_matter(lines: Sequence[str], place: int, words: str) -> int:
    if place or lines[0].lstrip("\ufeff").rstrip() not in ("---", "+++"):
        return place
    pattern, closing = (YAML, ("---", "...")) if words == "---" else (TOML, ("+++",))
    end = next((at for at in range(1, len(lines)) if lines[at].strip() in closing), None)
    inside = [line.rstrip() for line in lines[1:end]]
    has_key = any(line.strip() and not line.lstrip().startswith("#") for line in inside[:1] or [""])
    comment = bool(inside) and inside[0].startswith("#") and any(re.match(r"\w+\s*[:=]", line) for line in inside)
    if end is None or not (has_key or comment) or not all(map(pattern.fullmatch, inside)):
        return place
    return end + 1


def _code_fence(lines: Sequence[str], place: int, words: str) -> int:
    fence = FENCE.match(words)
    if fence is None:
        return place
    mark = fence["fence"]
    closing = re.compile(rf"\s*(?:>\s?)*\s*{re.escape(mark[0])}{{{len(mark)},}}\s*")
    quoted = lines[place].lstrip().startswith(">")
    for at in range(place + 1, len(lines)):
        if closing.fullmatch(lines[at]):
            return at + 1
        if quoted and not lines[at].lstrip().startswith(">"):
            return at
    return len(lines)


def _formula(lines: Sequence[str], place: int, words: str) -> int:
    if environment := ENVIRONMENT.match(words):
        return _find(lines, place, re.escape(f"\\end{{{environment['name']}}}")) or place + 1
    if words.startswith("\\["):
        if "\\]" in words:
            return place + 1 if words.rstrip(".,;").endswith("\\]") else place
        return _find(lines, place + 1, r"\\\]", within=True) or place
    signs = CODE_SPAN.sub("", words).count("$$")
    if signs == 2 and words.startswith("$$") and re.search(r"\$\$[.,;]?(?:\s*\{#[^{}]*\})?$", words):
        return place + 1
    if signs % 2:
        starts_formula = words.startswith("$$")
        return _find(lines, place + 1, r"\$\$", within=not starts_formula) or place
    return place + 1 if LATEX.fullmatch(words) else place


def _html(lines: Sequence[str], place: int, words: str) -> int:
    if words.startswith("<!--"):
        return _find(lines, place, "-->") or len(lines)
    if words.startswith(("<?", "<![CDATA[")):
        return _find(lines, place, r"\?>" if words.startswith("<?") else r"\]\]>") or len(lines)
    if re.match(r"<![A-Za-z]", words):
        return place + 1
    if raw := RAW.match(words):
        name = raw["name"].lower()
        closing = re.compile(rf"</{name}\s*>", re.IGNORECASE)
        inside_a_line = name in ("code", "samp", "kbd", "math", "svg")
        if inside_a_line and closing.search(words, raw.end()):
            return place
        return _find(lines, place, closing) or (place if inside_a_line else len(lines))
    without_code = CODE_SPAN.sub("", words)
    if "<!--" in without_code and "-->" not in without_code[without_code.rindex("<!--") :]:
        return _find(lines, place + 1, "-->") or place
    if words.startswith("<") and OPEN_TAG.fullmatch(re.sub(r"^(?:<[^<>]*>\s*)+", "", words)):
        return _find(lines, place + 1, ">", within=True) or place
    return place


def _template(lines: Sequence[str], place: int, words: str) -> int:
    if long := LONG_TEMPLATE.match(words):
        end = _find(lines, place, rf"\{{[{{%]-?\s*<?\s*(?:end|/\s*){long['name']}\b")
        return end or place + 1
    if words.startswith("{%") and "%}" not in words:
        return _find(lines, place, r"%\}", within=True) or place + 1
    return place + 1 if TEMPLATE.fullmatch(words) or TABLE_OF_CONTENTS.fullmatch(words) else place


def _directive(lines: Sequence[str], place: int, words: str) -> int:
    alert = ALERT.fullmatch(words) and lines[place].lstrip().startswith(">")
    return place + 1 if alert or DIRECTIVE.fullmatch(words) else place


def _address(lines: Sequence[str], place: int, words: str) -> int:
    if not DEFINITION.fullmatch(words):
        return place
    end = place + 1
    if words.endswith("]:"):
        if end == len(lines) or not ADDRESS.fullmatch(lines[end]):
            return place
        end += 1
    return end + 1 if end < len(lines) and TITLE.fullmatch(lines[end]) else end


def _grid_table(lines: Sequence[str], place: int, words: str) -> int:
    if not GRID.fullmatch(words):
        return place
    return next((at for at in range(place, len(lines)) if not lines[at].lstrip().startswith(("+", "|"))), len(lines))


def _javascript(lines: Sequence[str], place: int, words: str) -> int:
    if not JAVASCRIPT.match(lines[place]) or (
        place and lines[place - 1].strip() and not _ends_script(lines[place - 1])
    ):
        return place
    return next((at for at in range(place, len(lines)) if not lines[at].strip()), len(lines))


def _ends_script(line: str) -> bool:
    return line.rstrip().endswith((";", "'", '"', "}", "---"))


def _element(lines: Sequence[str], place: int, words: str) -> int:
    """Return the end of a JSX element or expression, over all lines of its tag or braces."""
    if not words.startswith(("<", "{")):
        return place
    text = ""
    for at in range(place, len(lines)):
        text += lines[at].rstrip()
        if text.count("{") <= text.count("}") and text.endswith((">", "}")):
            return at + 1
        if not lines[at].strip():
            return at
    return len(lines)


BLOCKS: tuple[tuple[Finder, str], ...] = (
    (_front_matter, "of front matter"),
    (_code_fence, "of code"),
    (_formula, "of formulas"),
    (_html, "of HTML"),
    (_template, "of templates"),
    (_directive, "of directives"),
    (_address, "of addresses"),
    (_grid_table, "of tables drawn with signs"),
)
JSX: tuple[tuple[Finder, str], ...] = ((_javascript, "of JavaScript"), (_element, "of JSX"))
