"""What `regard translate` does with lines: reads them, translates blocks of them, and counts what was not usual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from regard.cli.answers import AnswerForm, AnswerRequest, read_file_texts
from regard.cli.text_io import print_note
from regard.cli.translated_documents import BLOCK_SIZE
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.translator import Translator


def read_lines_or_column(
    translator: Translator,
    request: AnswerRequest,
    lines: Iterator[str],
    to: str | None,
    *,
    report: Callable[[str], None] = print_note,
) -> Iterator[str]:
    """Return the lines of a file, or the column of a table in the other language."""
    from regard.data.language_names import LANGUAGES
    from regard.data.tables import is_table
    from regard.tasks.translation.documents.document_files import describe_unknown, describe_wrapped

    assert request.file is not None
    if not is_table(request.file.name) and not request.file.is_file():  # a pipe, which is read once
        return read_file_texts(translator, request) if request.column is not None else lines
    other_languages = [code for code in translator.languages if code != to] if to is not None else []
    texts = read_file_texts(
        translator,
        request,
        usual_names=("source", *other_languages, *(LANGUAGES.get(code, code) for code in other_languages)),
        report=report,
    )
    if is_table(request.file.name):
        return texts
    first_block = list(islice(texts, BLOCK_SIZE))
    for note in filter(None, (describe_unknown(request.file), describe_wrapped(first_block, request.file))):
        report(note)
    return chain(first_block, texts)


def translate_block(
    translator: Translator, block: list[str], first: int, to: str | None, decoding_options: dict[str, Any]
) -> tuple[list[NumberedAnswer], AnswerCounts]:
    """Translate lines, of which the first has this number: each has a seed of its own."""
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.documents.text_formats import has_letter
    from regard.tasks.translation.phrases import remove_phrases

    decoding = translator.settings(**decoding_options)
    copies = decoding.copy != "none"
    texts = ["" if copies and not has_letter(text) else text for text in block]
    answers = translator.answers(texts, to=to, first=first, **decoding_options)
    counts = AnswerCounts.of(answers)
    counts.copied = sum(not text and bool(source.strip()) for source, text in zip(block, texts, strict=True))
    return [
        NumberedAnswer(number, answer if text else Answer(remove_phrases(source, decoding.forbid), 0.0))
        for number, (source, text, answer) in enumerate(zip(block, texts, answers, strict=True), first + 1)
    ], counts


@dataclass(frozen=True)
class NumberedAnswer:
    """The answer to a line, with the number of the line."""

    number: int
    answer: Answer

    def plain(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return self.answer.plain()


def answer_form(translator: Translator, request: AnswerRequest, decoding_options: dict[str, Any]) -> AnswerForm:
    """Return how translations are written."""
    ranked = translator.settings(**decoding_options).nbest > 1
    return AnswerForm("source", partial(_format_answer, whole=request.file is None, ranked=ranked))


@dataclass
class AnswerCounts:
    """How many lines and sentences were not translated as usual, and why."""

    copied: int = 0
    """Lines without a letter."""
    kept: int = 0
    """Sentences that are in the target language already."""
    unfinished: int = 0
    unknown_languages: Counter[str] = field(default_factory=Counter)
    """Lines by their language, if the model does not know it."""

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> AnswerCounts:
        """Count the answers to a block of lines."""
        return cls(
            kept=sum(answer.kept for answer in answers),
            unfinished=sum(answer.unfinished for answer in answers),
            unknown_languages=Counter(answer.foreign for answer in answers if answer.foreign),
        )

    def add(self, other: AnswerCounts) -> None:
        """Add the counts of another block."""
        self.copied += other.copied
        self.kept += other.kept
        self.unfinished += other.unfinished
        self.unknown_languages += other.unknown_languages

    def notes(self, translator: Translator, to: str | None) -> Iterator[str]:
        """Yield a note for each reason."""
        from regard.tasks.translation.answers import describe_unfinished

        if self.copied:
            subject = "line without a letter is" if self.copied == 1 else "lines without a letter are"
            yield f"{self.copied:,} {subject} copied untranslated"
        if self.kept:
            already = "1 sentence is" if self.kept == 1 else f"{self.kept:,} sentences are"
            yield f"{already} already in the target language ({to}) and left as written"
        if self.unfinished:
            yield describe_unfinished(self.unfinished)
        for code, line_count in self.unknown_languages.most_common():
            yield f"{quantity(line_count, 'line')}: {translator.describe_unknown_language(code)}"


def _format_answer(text: str, line: NumberedAnswer, *, whole: bool, ranked: bool) -> str:
    """Return the answer on one line, or `whole` with line feeds; if `ranked`, lines of number, score and text."""
    answer = line.answer
    if not ranked or not text.strip():
        return answer.text if whole else str(answer)
    return "\n".join(f"{line.number}\t{other.score:.4f}\t{other}" for other in (answer, *answer.alternatives))
