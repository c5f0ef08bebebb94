"""The command that translates texts, files and documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import AnswerForm, AnswerRequest, open_answer_writer, read_file_texts
from regard.cli.grammar import (
    Answers,
    Column,
    Input,
    Json,
    Ray,
    Settings,
    Words,
    parse_settings,
    resolve_model,
    split_ensemble,
)
from regard.cli.text_io import (
    PICTURE_FORMATS,
    expand_arguments,
    guess_language,
    open_writer,
    print_note,
    read_lines,
    split_blocks,
)
from regard.cli.translated_documents import BLOCK_SIZE, DocumentTranslator
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.translator import Translator

CPU_LIMIT = 50_000  # characters times megabytes of weights that do not pay for waking a GPU


def translate(
    words: Words = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    to: Annotated[str | None, typer.Option(help="Target language, of several; guessed if not given.")] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy.")] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Answers per line.")] = None,
    settings: Settings = None,
    html: Annotated[
        bool, typer.Option("--html", help="The input is HTML, as files named .html are: tags are kept.")
    ] = False,
    terms: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Glossary to obey: a term and its translation per line, .tsv or .csv."),
    ] = None,
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="What else the model considered, word by word.")
    ] = False,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps; auto leaves little text to the CPU.")
    ] = "auto",
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Translate text; line counts always match. Several models are an ensemble, which decodes together."""
    from regard import recipe
    from regard.tasks.translation.documents import glossary as glossaries
    from regard.tasks.translation.documents.document_files import document_form

    model, texts = resolve_model(words or [], "translate")
    companions, texts = split_ensemble(texts)
    if bool(texts) == (input is not None):
        raise ValueError("give either texts, or - for standard input, or -i FILE")
    request = AnswerRequest(texts, input, output, settings, as_json, model, column, tuple(companions), ray, device)
    request.check(inputs=[terms] if terms is not None else [], text=True)
    document_format = "HTML" if html else document_form(input)
    _check_format(request, document_format, terms, one_answer=nbest is None, alternatives=alternatives)
    lines = read_lines(input) if input is not None else expand_arguments(texts, option="-i")
    decoding_options = _decoding_options(settings, beams, nbest)
    load = partial(recipe.load, [model, *companions], task="translation")
    if ray is not None:
        from regard.cli.translated_parts import translate_in_parts

        plain = document_format is None and terms is None and not alternatives
        return translate_in_parts(load, request, to, decoding_options, is_plain=plain)
    device, lines = choose_device(device, model, lines)
    translator = load(device=device)
    if companions:
        print_note(f"translating with {len(companions) + 1} models together: {translator.name}")
    to = None if to is None else translator.language([], to)
    if input is not None and document_format is None:
        lines = read_lines_or_column(translator, request, lines, to)
    if document_format is None and terms is None and not alternatives:
        return _translate_lines(translator, lines, to, decoding_options, request)
    glossary = glossaries.load(str(terms)) if terms is not None and not alternatives else None
    documents = DocumentTranslator(translator, to, decoding_options, glossary)
    if alternatives:
        output_lines = documents.list_alternatives(lines, as_json=request.format == "jsonl")
    elif input is not None and document_format is not None:
        output_lines = documents.translate_document(input, document_format)
    else:
        output_lines = documents.translate_texts(lines, html=html)
    with open_writer(output) as write:
        for line in output_lines:
            write(line)


def _decoding_options(settings: list[str] | None, beams: int | None, nbest: int | None) -> dict[str, Any]:
    """Return the decoding options; several answers need as many beams, and four at least."""
    options = parse_settings(settings, beams=beams, nbest=nbest)
    if nbest and "beams" not in options and not options.get("sample"):
        options["beams"] = max(nbest, 4)
    return options


def _check_format(
    request: AnswerRequest, document_format: str | None, terms: Path | None, *, one_answer: bool, alternatives: bool
) -> None:
    """Refuse answers that cannot be written in the form asked for."""
    if request.format in PICTURE_FORMATS:
        raise ValueError(f"{request.output}: translations are written as text: choose txt, jsonl or csv")
    if (document_format or terms is not None) and (request.format in ("jsonl", "csv") or not one_answer):
        subject = (
            f"{request.file} ({document_format}) gives"
            if document_format and request.file is not None
            else "--html and --terms give"
        )
        raise ValueError(f"{subject} one answer as text: leave JSON, CSV and --nbest out")
    if document_format and alternatives:
        raise ValueError(f"--alternatives is for plain text, not for {document_format}: leave it out")
    if document_format and request.column is not None:
        raise ValueError(f"--column {request.column} is for tables, not for {document_format}: leave it out")


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


def _translate_lines(
    translator: Translator,
    lines: Iterator[str],
    to: str | None,
    decoding_options: dict[str, Any],
    request: AnswerRequest,
) -> None:
    """Write a line for every line; several answers each on a line with its number and score."""
    counts = AnswerCounts()
    options = {"to": to, **decoding_options}
    form = answer_form(translator, request, decoding_options)
    with open_answer_writer(request, form, options) as (write, draft):
        first, position = list(islice(lines, BLOCK_SIZE)), draft.answered_count
        if first and not to:  # from the same lines when a file is continued
            to = guess_language(translator, first)
        for block in split_blocks(islice(chain(first, lines), position, None), BLOCK_SIZE):
            to = to or guess_language(translator, block)
            answers, block_counts = translate_block(translator, block, position, to, decoding_options)
            for source, answer in zip(block, answers, strict=True):
                write(source, answer)
            position += len(block)
            draft.commit(len(block))
            counts.add(block_counts)
    for note in counts.notes(translator, to):
        print_note(note)


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


def choose_device(device: str, model: Path, lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Choose the device: little text stays on the CPU, since waking a GPU takes longer than translating it.

    What counts is the characters times the megabytes of the model. The lines are returned with those that were counted.
    """
    if device != "auto":
        return device, lines
    from regard import shipped

    folder = shipped.FOLDER / model if not model.exists() else model  # by its short name
    weights = (folder / part / "model.safetensors" for part in ("", "best"))
    weight_bytes = next((path.stat().st_size for path in weights if path.is_file()), 0)
    remaining = CPU_LIMIT / max(weight_bytes / 1e6, 1.0)
    counted_lines: list[str] = []
    for line in lines:
        counted_lines.append(line)
        remaining -= len(line) + 1
        if remaining < 0:
            return device, chain(counted_lines, lines)
    return "cpu", iter(counted_lines)


def _format_answer(text: str, line: NumberedAnswer, *, whole: bool, ranked: bool) -> str:
    """Return the answer on one line, or `whole` with line feeds; if `ranked`, lines of number, score and text."""
    answer = line.answer
    if not ranked or not text.strip():
        return answer.text if whole else str(answer)
    return "\n".join(f"{line.number}\t{other.score:.4f}\t{other}" for other in (answer, *answer.alternatives))
