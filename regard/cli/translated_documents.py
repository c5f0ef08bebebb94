"""What `regard translate` does with documents, texts with a glossary, and alternatives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.text_io import decode_lines, guess_language, print_note, split_blocks
from regard.data.readers import MARK, open_text

if TYPE_CHECKING:
    from regard.tasks.translation.documents.glossary import Terms
    from regard.tasks.translation.translator import Translator

BLOCK_SIZE = 256  # lines translated at a time


@dataclass(frozen=True)
class DocumentTranslator:
    """A translator with its target language, decoding options and glossary; its methods yield lines of output."""

    translator: Translator
    to: str | None
    """The target language; guessed from the text if None."""
    decoding_options: dict[str, Any]
    glossary: Terms | None = None

    def translate_texts(self, lines: Iterator[str], *, html: bool) -> Iterator[str]:
        """Yield the translations of texts with their markup and placeholders, obeying the glossary."""
        from regard.tasks.translation.documents import document as documents

        to = self.to
        for block in [["\n".join(lines)]] if html else split_blocks(lines, BLOCK_SIZE):
            to = to or guess_language(self.translator, block)
            options = {"html": html, "to": to, "terms": self.glossary, **self.decoding_options}
            answers = documents.translate(self.translator, block, **options)
            for text, answer in zip(block, answers, strict=True):
                yield answer
                for term in self.glossary.missing(text, answer) if self.glossary is not None else []:
                    print_note(f"could not place the term {term!r} in the answer to {text[:40]!r}")

    def translate_document(self, path: Path, document_format: str) -> Iterator[str]:
        """Yield a page of HTML, or the lines of Markdown or subtitles, with only their words translated."""
        from regard.tasks.translation.documents import document_files as files

        mark, lines = read_document(path)
        if document_format == "HTML":
            yield from (f"{mark}{text}" for text in self.translate_texts(iter(lines), html=True))
            return
        parts = files.split_document(lines, document_format)
        if message := files.describe_copied(path, parts):
            print_note(message)
        texts = [text.written for part in parts for text in part.texts]
        to = self.to or (guess_language(self.translator, texts[:BLOCK_SIZE]) if texts else None)
        options = {"to": to, "terms": self.glossary, **self.decoding_options}
        for start in range(0, len(parts), BLOCK_SIZE):
            for line in files.translate_parts(self.translator, parts[start : start + BLOCK_SIZE], **options):
                yield f"{mark}{line}"
                mark = ""

    def list_alternatives(self, lines: Iterator[str], *, as_json: bool) -> Iterator[str]:
        """Yield what else the model considered, sentence by sentence."""
        from regard.tasks.translation.alternatives import consider

        to = self.to
        for text in lines:
            to = to or guess_language(self.translator, [text])
            for sentence in consider(self.translator, text, to=to, **self.decoding_options):
                if as_json:
                    yield json.dumps(sentence.plain(), ensure_ascii=False)
                else:
                    rows = (f"{source:<24} {others}".rstrip() for source, others in sentence.lines())
                    yield "\n".join(rows) + "\n"


def read_document(path: Path) -> tuple[str, list[str]]:
    """Return the byte order mark of a document, if it has one, and its lines with their carriage returns."""
    with open_text(path) as file:
        raw = file.read()
    lines = raw.removeprefix(MARK).removesuffix(b"\n").split(b"\n") if raw else []
    mark = "\ufeff" if raw.startswith(MARK) else ""
    return mark, list(decode_lines((line + b"\r\n" for line in lines), str(path)))
