"""Files whose format is preserved: which ones, how they are split and translated, and what is copied."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.language_names import LANGUAGES
from regard.data.readers import suffix
from regard.tasks.translation.documents import document
from regard.tasks.translation.documents.markdown import split_markdown
from regard.tasks.translation.documents.text_formats import Part, copied_lines, split_subtitles

if TYPE_CHECKING:
    from regard.tasks.translation.documents.glossary import Terms
    from regard.tasks.translation.translator import Translator

FORMS = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "HTML"),
    **dict.fromkeys((".md", ".markdown", ".mkd", ".mdown", ".qmd", ".rmd"), "Markdown"),
    ".mdx": "MDX",
    **dict.fromkeys((".srt", ".vtt"), "subtitles"),
}
PANDOC = "save it as Markdown, with pandoc for instance"
FFMPEG = "save them as .srt, with ffmpeg for instance"
TEXTS = "save its text as .txt, .md or .html"
COPIED = "copy the texts to translate from it into a .txt file"
CODE = """c cc cpp cxx h hpp hxx cs java kt kts scala groovy go rs swift m mm py pyi pyx pyw rb pl pm php phtml lua r jl
sql hs mli fs fsx vb pas d dart ex exs erl clj cljs lisp scm zig nim asm s f f90 f95 v sv vhd cu proto js mjs cjs jsx
ts tsx mts cts css scss sass less coffee vue svelte astro sh bash zsh fish bat cmd ps1 awk sed cmake gradle tf diff
patch"""
DATA = "yaml yml toml ini cfg conf env json5 xml xsd xsl xslt plist rss atom opml kml gpx svg ipynb lock sgm sgml"
TEMPLATES = "jinja jinja2 j2 ejs hbs mustache erb twig liquid pug haml slim asp aspx jsp cshtml tpl tmpl"
MESSAGES = "po pot properties resx strings stringsdict xcstrings arb ftl lang"
REFUSED: dict[str, tuple[str, str]] = {
    **{f".{name}": ("source code", COPIED) for name in CODE.split()},
    **{f".{name}": ("structured data", COPIED) for name in DATA.split()},
    **{f".{name}": ("a template", COPIED) for name in TEMPLATES.split()},
    **{f".{name}": ("a catalogue of messages", COPIED) for name in MESSAGES.split()},
    **dict.fromkeys((".ass", ".ssa"), ("subtitles in SubStation Alpha", FFMPEG)),
    **dict.fromkeys((".ttml", ".dfxp", ".itt"), ("subtitles in TTML", FFMPEG)),
    **dict.fromkeys((".sub", ".sbv", ".smi", ".lrc", ".stl"), ("subtitles in a form of their own", FFMPEG)),
    **dict.fromkeys((".tex", ".ltx", ".sty", ".cls"), ("LaTeX", PANDOC)),
    ".bib": ("a bibliography", COPIED),
    ".rst": ("reStructuredText", PANDOC),
    **dict.fromkeys((".adoc", ".asciidoc"), ("AsciiDoc", "save it as Markdown or HTML, with asciidoctor for instance")),
    **dict.fromkeys((".wiki", ".mediawiki"), ("wiki markup", PANDOC)),
    **dict.fromkeys((".org", ".textile", ".typ", ".muse", ".opml"), ("a document with markup of its own", PANDOC)),
    **dict.fromkeys((".texi", ".pod", ".man", ".fb2", ".docbook"), ("a document with markup of its own", TEXTS)),
    **dict.fromkeys((".eml", ".mbox", ".emlx"), ("an e-mail with its headers", TEXTS)),
    **dict.fromkeys((".conll", ".conllu"), ("text with a word in each line", "give a sentence in each line (.txt)")),
    **dict.fromkeys((".ics", ".vcf"), ("a calendar or an address book", COPIED)),
    **dict.fromkeys((".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff"), ("a translation memory", COPIED)),
}
"""Files that would come out broken: by their names, what they are and what to do."""
PLAIN = frozenset(("", ".txt", ".text", ".log", ".src", ".tgt", ".ref", ".hyp", ".in", ".out", ".tok", ".lines"))
"""Names of plain text, beside the codes of languages (news.en)."""
MID_SENTENCE = 0.5  # share of lines ending inside a sentence in hand-wrapped text
FEWEST = 4  # minimum number of such lines
ENDS = tuple(".!?…:;。！？\"'”’»)]")


def document_form(path: Path | None) -> str | None:
    """Return the document format of a file by its name, None for plain text; unsupported formats are an error."""
    if path is None:
        return None
    kind = suffix(path.name)
    if kind in REFUSED and kind[1:] not in LANGUAGES:
        what, remedy = REFUSED[kind]
        raise ValueError(
            f"{path} is {what}, whose form would be lost: {remedy}, "
            f"or translate its lines one by one with - < {shlex.quote(str(path))}"
        )
    return FORMS.get(kind)


def describe_unknown(path: Path) -> str:
    """Return a note if a file is read as plain text although its name does not say so; else an empty string."""
    kind = suffix(path.name)
    if kind in REFUSED:  # the ending is a language code too, or it would have been refused
        what, remedy = REFUSED[kind]
        return f"{path} is read as plain text, line by line; if it is {what}, {remedy}"
    if kind in PLAIN or re.split("[-_]", kind[1:])[0] in LANGUAGES or kind[1:].isdigit():
        return ""
    return f"{path} is read as plain text, line by line: what its name ends in ({kind}) is not known"


def split_document(lines: Sequence[str], form: str) -> list[Part]:
    """Split the lines of Markdown or subtitles into parts to translate and parts to copy."""
    if form == "subtitles":
        return list(split_subtitles(lines))
    return list(split_markdown(lines, jsx=form == "MDX"))


def translate_parts(
    translator: Translator, parts: Sequence[Part], *, to: str | None, terms: Terms | None, **settings: Any
) -> Iterator[str]:
    """Yield the lines of a document with its texts translated in one batch."""
    texts = [text for part in parts for text in part.texts]
    answers: dict[int, str] = {}
    for html in (False, True):
        numbers = [number for number, text in enumerate(texts) if text.html == html]
        written = [texts[number].written for number in numbers]
        translations = (
            document.translate(translator, written, html=html, to=to, terms=terms, **settings) if written else []
        )
        answers |= dict(zip(numbers, translations, strict=True))
    ordered = iter([answers[number] for number in range(len(texts))])
    for part in parts:
        yield from part.render([next(ordered) for _ in part.texts])


def describe_copied(path: Path, parts: Sequence[Part]) -> str:
    """Return how many lines of a document are copied, and why; empty if none is."""
    reasons = copied_lines(parts)
    why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    total = reasons.total()
    return f"{path}: {total:,} line{'s' * (total != 1)} copied untranslated: {why}" if total else ""


def describe_wrapped(lines: Sequence[str], path: Path) -> str:
    """Return a note if most lines end in mid-sentence, since lines are translated one by one; else an empty string."""
    followed = [(line.rstrip(), after.lstrip()) for line, after in pairwise(lines) if line.strip() and after.strip()]
    inside = sum(not line.endswith(ENDS) and after[:1].islower() for line, after in followed)
    if inside < FEWEST or inside <= MID_SENTENCE * len(followed):
        return ""
    join = f"awk -v RS= -v ORS='\\n\\n' '{{$1=$1}}1' {shlex.quote(str(path))}"
    message = f"most lines of {path} end in mid-sentence, and lines are translated one by one"
    return f"{message}; to join paragraphs first: {join}"
