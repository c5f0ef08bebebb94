"""The command that translates texts, files and documents."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import AnswerRequest, open_answer_writer, read_file_texts
from regard.cli.grammar import Answers, Column, Input, Json, Settings, Words, parse_settings, resolve_model
from regard.cli.text_io import (
    PICTURE_FORMATS,
    decode_lines,
    expand_arguments,
    guess_language,
    open_writer,
    read_lines,
    split_blocks,
)
from regard.config.words import quantity
from regard.data.readers import MARK, open_text

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.translator import Translator

BLOCK_SIZE = 256  # lines translated at a time
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
    as_json: Json = False,
) -> None:
    """Translate text; line counts always match."""
    from regard import recipe
    from regard.tasks.translation.documents.document_files import document_form

    model, texts = resolve_model(words or [], "translate")
    if bool(texts) == (input is not None):
        raise ValueError("give either texts, or - for standard input, or -i FILE")
    request = AnswerRequest(texts, input, output, settings, as_json, model, column)
    request.check(inputs=[terms] if terms is not None else [], text=True)
    document_format = "HTML" if html else document_form(input)
    _check_format(request, document_format, terms, one_answer=nbest is None, alternatives=alternatives)
    lines = read_lines(input) if input is not None else expand_arguments(texts, option="-i")
    decoding_options = parse_settings(settings, beams=beams, nbest=nbest)
    if nbest and "beams" not in decoding_options and not decoding_options.get("sample"):
        decoding_options["beams"] = max(nbest, 4)
    device, lines = choose_device(device, model, lines)
    translator = recipe.load(model, device=device, task="translation")
    to = None if to is None else translator.language([], to)
    if input is not None and document_format is None:
        lines = _read_lines_or_column(translator, request, lines, to)
    if alternatives:
        as_records = request.format == "jsonl"
        output_lines = _list_alternatives(translator, lines, to, decoding_options, as_json=as_records)
    elif document_format is None and terms is None:
        return _translate_lines(translator, lines, to, decoding_options, request)
    elif input is not None and document_format is not None:
        output_lines = _translate_document(translator, input, document_format, to, decoding_options, terms=terms)
    else:
        output_lines = _translate_texts(translator, lines, to, decoding_options, html=html, terms=terms)
    with open_writer(output) as write:
        for line in output_lines:
            write(line)


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


def _read_lines_or_column(
    translator: Translator, request: AnswerRequest, lines: Iterator[str], to: str | None
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
    )
    if is_table(request.file.name):
        return texts
    first_block = list(islice(texts, BLOCK_SIZE))
    for note in filter(None, (describe_unknown(request.file), describe_wrapped(first_block, request.file))):
        print(f"regard: {note}", file=sys.stderr)
    return chain(first_block, texts)


def _translate_lines(
    translator: Translator,
    lines: Iterator[str],
    to: str | None,
    decoding_options: dict[str, Any],
    request: AnswerRequest,
) -> None:
    """Write a line for every line; several answers each on a line with its number and score."""
    from regard.tasks.translation.answers import Answer, describe_unfinished
    from regard.tasks.translation.documents.text_formats import has_letter
    from regard.tasks.translation.phrases import remove_phrases

    numbers, kept_count, copied_count, unfinished_count = count(1), 0, 0, 0
    unknown_languages: Counter[str] = Counter()
    decoding = translator.settings(**decoding_options)
    copies = decoding.copy != "none"

    def format_numbered(text: str, answer: Answer) -> str:
        ranked = decoding.nbest > 1 and bool(text.strip())
        return _format_answer(next(numbers), answer, whole=request.file is None, ranked=ranked)

    def is_copied(text: str) -> bool:
        return copies and not has_letter(text)

    with open_answer_writer(request, "source", format_numbered, options={"to": to, **decoding_options}) as (
        write,
        draft,
    ):
        numbers = count(1 + draft.answered_count)
        first = list(islice(lines, BLOCK_SIZE))
        if first and not to:  # from the same lines when a file is continued
            to = guess_language(translator, first)
        for block in split_blocks(islice(chain(first, lines), draft.answered_count, None), BLOCK_SIZE):
            to = to or guess_language(translator, block)
            translated_block = ["" if is_copied(text) else text for text in block]
            # each line has a seed of its own
            answers = translator.answers(translated_block, to=to, first=draft.answered_count, **decoding_options)
            for text, translated, answer in zip(block, translated_block, answers, strict=True):
                write(text, answer if translated else Answer(remove_phrases(text, decoding.forbid), 0.0))
                copied_count += not translated and bool(text.strip())
            draft.commit(len(block))
            kept_count += sum(answer.kept for answer in answers)
            unfinished_count += sum(answer.unfinished for answer in answers)
            unknown_languages.update(answer.foreign for answer in answers if answer.foreign)
    if copied_count:
        subject = "line without a letter is" if copied_count == 1 else "lines without a letter are"
        print(f"regard: {copied_count:,} {subject} copied untranslated", file=sys.stderr)
    if kept_count:
        already = "1 sentence is" if kept_count == 1 else f"{kept_count:,} sentences are"
        print(f"regard: {already} already in the target language ({to}) and left as written", file=sys.stderr)
    if unfinished_count:
        print(f"regard: {describe_unfinished(unfinished_count)}", file=sys.stderr)
    for code, lines_of_it in unknown_languages.most_common():
        print(f"regard: {quantity(lines_of_it, 'line')}: {translator.describe_unknown_language(code)}", file=sys.stderr)


def _translate_texts(
    translator: Translator,
    lines: Iterator[str],
    to: str | None,
    decoding_options: dict[str, Any],
    *,
    html: bool,
    terms: Path | None,
) -> Iterator[str]:
    """Yield the translations of texts with their markup and placeholders, obeying a glossary."""
    from regard.tasks.translation.documents import document as documents
    from regard.tasks.translation.documents import glossary as glossaries

    glossary = glossaries.load(str(terms)) if terms is not None else None
    for block in [["\n".join(lines)]] if html else split_blocks(lines, BLOCK_SIZE):
        to = to or guess_language(translator, block)
        answers = documents.translate(translator, block, html=html, to=to, terms=glossary, **decoding_options)
        for text, answer in zip(block, answers, strict=True):
            yield answer
            for term in glossary.missing(text, answer) if glossary is not None else []:
                print(f"regard: could not place the term {term!r} in the answer to {text[:40]!r}", file=sys.stderr)


def read_document(path: Path) -> tuple[str, list[str]]:
    """Return the byte order mark of a document, if it has one, and its lines with their carriage returns."""
    with open_text(path) as file:
        raw = file.read()
    lines = raw.removeprefix(MARK).removesuffix(b"\n").split(b"\n") if raw else []
    mark = "\ufeff" if raw.startswith(MARK) else ""
    return mark, list(decode_lines((line + b"\r\n" for line in lines), str(path)))


def _translate_document(
    translator: Translator,
    path: Path,
    document_format: str,
    to: str | None,
    decoding_options: dict[str, Any],
    *,
    terms: Path | None,
) -> Iterator[str]:
    """Yield a page of HTML, or the lines of Markdown or subtitles, with only their words translated."""
    from regard.tasks.translation.documents import document_files as files
    from regard.tasks.translation.documents import glossary as glossaries

    mark, lines = read_document(path)
    if document_format == "HTML":
        page = _translate_texts(translator, iter(lines), to, decoding_options, html=True, terms=terms)
        yield from (f"{mark}{text}" for text in page)
        return
    glossary = glossaries.load(str(terms)) if terms is not None else None
    parts = files.split_document(lines, document_format)
    if message := files.describe_copied(path, parts):
        print(f"regard: {message}", file=sys.stderr)
    texts = [text.written for part in parts for text in part.texts]
    to = to or (guess_language(translator, texts[:BLOCK_SIZE]) if texts else None)
    for start in range(0, len(parts), BLOCK_SIZE):
        for line in files.translate_parts(
            translator, parts[start : start + BLOCK_SIZE], to=to, terms=glossary, **decoding_options
        ):
            yield f"{mark}{line}"
            mark = ""


def _list_alternatives(
    translator: Translator, lines: Iterator[str], to: str | None, decoding_options: dict[str, Any], *, as_json: bool
) -> Iterator[str]:
    """Yield what else the model considered, sentence by sentence."""
    from regard.tasks.translation.alternatives import consider

    for text in lines:
        to = to or guess_language(translator, [text])
        for sentence in consider(translator, text, to=to, **decoding_options):
            if as_json:
                yield json.dumps(sentence.plain(), ensure_ascii=False)
            else:
                rows = (f"{source:<24} {others}".rstrip() for source, others in sentence.lines())
                yield "\n".join(rows) + "\n"


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


def _format_answer(number: int, answer: Answer, *, whole: bool, ranked: bool) -> str:
    """Return the answer on one line, or `whole` with line feeds; if `ranked`, lines of number, score and text."""
    if not ranked:
        return answer.text if whole else str(answer)
    return "\n".join(f"{number}\t{candidate.score:.4f}\t{candidate}" for candidate in (answer, *answer.alternatives))
