"""The command that translates texts, files and documents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import AnswerRequest, open_answer_writer
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
    print_note,
    read_lines,
    split_blocks,
    write_lines,
)
from regard.cli.translated_documents import BLOCK_SIZE, DocumentTranslator
from regard.cli.translated_lines import AnswerCounts, answer_form, read_lines_or_column, translate_block
from regard.cli.translated_parts import translate_in_parts

if TYPE_CHECKING:
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
    is_plain = document_format is None and terms is None and not alternatives
    if ray is not None:
        return translate_in_parts(load, request, to, decoding_options, is_plain=is_plain)
    device, lines = choose_device(device, model, lines)
    translator = load(device=device)
    if companions:
        print_note(f"translating with {len(companions) + 1} models together: {translator.name}")
    to = None if to is None else translator.language([], to)
    if input is not None and document_format is None:
        lines = read_lines_or_column(translator, request, lines, to)
    if is_plain:
        return _translate_lines(translator, lines, to, decoding_options, request)
    glossary = glossaries.load(str(terms)) if terms is not None and not alternatives else None
    documents = DocumentTranslator(translator, to, decoding_options, glossary)
    write_lines(
        output, _choose_output(documents, request, lines, document_format, alternatives=alternatives, html=html)
    )


def _choose_output(
    documents: DocumentTranslator,
    request: AnswerRequest,
    lines: Iterator[str],
    document_format: str | None,
    *,
    alternatives: bool,
    html: bool,
) -> Iterator[str]:
    """Return the lines of alternatives, of a translated document or of translated texts."""
    if alternatives:
        return documents.list_alternatives(lines, as_json=request.format == "jsonl")
    if request.file is not None and document_format is not None:
        return documents.translate_document(request.file, document_format)
    return documents.translate_texts(lines, html=html)


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
