"""Files whose form must survive translation: which they are, their parts translated, and what is copied, counted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.readers import suffix
from regard.tasks.translation.documents import document
from regard.tasks.translation.documents.markdown import split_markdown
from regard.tasks.translation.documents.text_formats import Part, copied_lines, split_subtitles

if TYPE_CHECKING:
    from regard.tasks.translation.documents.glossary import Terms
    from regard.tasks.translation.translator import Translator

FORMS = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "HTML"),
    **dict.fromkeys((".md", ".markdown"), "Markdown"),
    **dict.fromkeys((".srt", ".vtt"), "subtitles"),
}
STRUCTURED = {
    **dict.fromkeys((".tmx", ".xlf", ".xliff"), "a translation memory"),
    **dict.fromkeys((".po", ".pot", ".properties", ".resx", ".strings"), "a catalogue of messages"),
    **dict.fromkeys((".xml", ".yaml", ".yml", ".ipynb"), "structured data"),
    **dict.fromkeys((".tex", ".rst", ".adoc"), "a document with markup of its own"),
}
"""Files that would come out broken, by their names."""
MID_SENTENCE = 0.5  # share of lines that end inside a sentence in text that was wrapped by hand
FEWEST = 4  # such lines
ENDS = tuple(".!?…:;。！？\"'”’»)]")


def document_form(path: Path | None) -> str | None:
    """Return the form of a file that is translated as a document, by its name; one that would break is an error."""
    if path is None:
        return None
    kind = suffix(path.name)
    if kind in STRUCTURED:
        raise ValueError(
            f"{path} is {STRUCTURED[kind]}, whose form would be lost: save its text as .txt, .md or .html, "
            f"or translate its lines one by one with - < {path}"
        )
    return FORMS.get(kind)


def split_document(lines: Sequence[str], form: str) -> list[Part]:
    """Cut the lines of Markdown or subtitles into what is translated and what is copied."""
    return list((split_markdown if form == "Markdown" else split_subtitles)(lines))


def translate_parts(
    translator: Translator, parts: Sequence[Part], *, to: str | None, terms: Terms | None, **settings: Any
) -> Iterator[str]:
    """Yield the lines of a document with its texts translated, all texts of these parts at once."""
    texts = [text for part in parts for text in part.texts]
    answers: dict[int, str] = {}
    for html in (False, True):
        numbers = [number for number, text in enumerate(texts) if text.html == html]
        written = [texts[number].written for number in numbers]
        found = document.translate(translator, written, html=html, to=to, terms=terms, **settings) if written else []
        answers |= dict(zip(numbers, found, strict=True))
    ordered = iter([answers[number] for number in range(len(texts))])
    for part in parts:
        yield from part.render([next(ordered) for _ in part.texts])


def describe_copied(path: Path, parts: Sequence[Part]) -> str:
    """Return how many lines of a document are copied, and why; nothing if none is."""
    reasons = copied_lines(parts)
    why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    total = reasons.total()
    return f"{path}: {total:,} line{'s' * (total != 1)} copied untranslated: {why}" if total else ""


def describe_wrapped(lines: Sequence[str], path: Path) -> str:
    """Return a note that lines are translated one by one where most of them end in mid-sentence; else nothing."""
    followed = [(line.rstrip(), after.lstrip()) for line, after in pairwise(lines) if line.strip() and after.strip()]
    inside = sum(not line.endswith(ENDS) and after[:1].islower() for line, after in followed)
    if inside < FEWEST or inside <= MID_SENTENCE * len(followed):
        return ""
    join = f"awk -v RS= -v ORS='\\n\\n' '{{$1=$1}}1' {shlex.quote(str(path))}"
    told = f"most lines of {path} end in mid-sentence, and lines are translated one by one"
    return f"{told}; to join paragraphs first: {join}"
