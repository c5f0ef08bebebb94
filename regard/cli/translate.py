"""The command that translates."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import Asked, file_texts, writing
from regard.cli.grammar import Answers, Column, Input, Json, Settings, Words, meant
from regard.cli.lines import PICTURES, arguments, blocks, counted, decoded, guessed, lines_of, writer
from regard.data.readers import MARK, open_text

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.translator import Translator

BLOCK = 256  # lines translated at a time
LITTLE = 50_000  # characters times megabytes of weights that do not pay for waking a GPU


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

    model, texts = meant(words or [], "translate")
    if bool(texts) == (input is not None):
        raise ValueError("give either texts, or - for standard input, or -i FILE")
    asked = Asked(texts, input, output, settings, as_json, model, column)
    asked.check(reads=[terms] if terms is not None else [], text=True)
    form = "HTML" if html else document_form(input)
    _check_form(asked, form, terms, one_answer=nbest is None, alternatives=alternatives)
    lines = lines_of(input) if input is not None else arguments(texts, option="-i")
    chosen = asked.options | {name: value for name, value in (("beams", beams), ("nbest", nbest)) if value is not None}
    if nbest and "beams" not in chosen and not chosen.get("sample"):
        chosen["beams"] = max(nbest, 4)
    device, lines = place(device, model, lines)
    translator = recipe.load(model, device=device, task="translation")
    to = None if to is None else translator.language([], to)
    if input is not None and form is None:
        lines = _lines_or_column(translator, asked, lines, to)
    if not alternatives and form is None and terms is None:
        return _answer(translator, lines, to, chosen, asked)
    with writer(output) as write:
        if alternatives:
            said = _alternatives(translator, lines, to, chosen, as_json=asked.kind == "jsonl")
        elif input is not None and form == "HTML":
            mark, lines_of_page = read_document(input)
            page = _documents(translator, iter(lines_of_page), to, chosen, html=True, terms=terms)
            said = (mark + text for text in page)
        elif input is not None and form is not None:
            said = _parts(translator, input, form, to, chosen, terms=terms)
        else:
            said = _documents(translator, lines, to, chosen, html=form == "HTML", terms=terms)
        for line in said:
            write(line)


def _check_form(asked: Asked, form: str | None, terms: Path | None, *, one_answer: bool, alternatives: bool) -> None:
    """Stop at answers that cannot be written the way they are asked for."""
    if asked.kind in PICTURES:
        raise ValueError(f"{asked.output}: translations are written as text: choose txt, jsonl or csv")
    if (form or terms is not None) and (asked.kind in ("jsonl", "csv") or not one_answer):
        what = f"{asked.file} ({form}) gives" if form and asked.file is not None else "--html and --terms give"
        raise ValueError(f"{what} one answer as text: leave JSON, CSV and --nbest out")
    if form and alternatives:
        raise ValueError(f"--alternatives is for plain text, not for {form}: leave it out")
    if form and asked.column is not None:
        raise ValueError(f"--column {asked.column} is for tables, not for {form}: leave it out")


def _lines_or_column(translator: Translator, asked: Asked, lines: Iterator[str], to: str | None) -> Iterator[str]:
    """The lines of a file, or of a table the column of the other language."""
    from regard.data.language_names import LANGUAGES
    from regard.data.tables import is_table
    from regard.tasks.translation.documents.document_files import describe_unknown, describe_wrapped

    assert asked.file is not None
    if not is_table(asked.file.name) and not asked.file.is_file():  # a pipe, which is read once
        return file_texts(translator, asked) if asked.column is not None else lines
    others = [code for code in translator.languages if code != to] if to is not None else []
    texts = file_texts(translator, asked, usual=("source", *others, *(LANGUAGES.get(code, code) for code in others)))
    if is_table(asked.file.name):
        return texts
    first = list(islice(texts, BLOCK))
    for note in filter(None, (describe_unknown(asked.file), describe_wrapped(first, asked.file))):
        print(f"regard: {note}", file=sys.stderr)
    return chain(first, texts)


def _answer(translator: Translator, lines: Iterator[str], to: str | None, chosen: dict[str, Any], asked: Asked) -> None:
    """A line for every line; of several answers, each in a line behind its number and score."""
    from regard.tasks.translation.answers import Answer, describe_unfinished
    from regard.tasks.translation.documents.text_formats import has_letter
    from regard.tasks.translation.phrases import remove_phrases

    numbers, kept, copied, unfinished = count(1), 0, 0, 0
    strangers: Counter[str] = Counter()
    decoding = translator.settings(**chosen)
    copies = decoding.copy != "none"

    def numbered(text: str, answer: Answer) -> str:
        ranked = decoding.nbest > 1 and bool(text.strip())
        return _line(next(numbers), answer, whole=asked.file is None, ranked=ranked)

    def is_copied(text: str) -> bool:
        return copies and not has_letter(text)

    with writing(asked, "source", numbered, given={"to": to, **chosen}) as (write, draft):
        numbers = count(1 + draft.done)
        first = list(islice(lines, BLOCK))
        to = to or (guessed(translator, first) if first else None)  # from the same lines when a file is continued
        for block in blocks(islice(chain(first, lines), draft.done, None), BLOCK):
            to = to or guessed(translator, block)
            speaking = ["" if is_copied(text) else text for text in block]
            answers = translator.answers(speaking, to=to, first=draft.done, **chosen)  # each line has a seed of its own
            for text, spoken, answer in zip(block, speaking, answers, strict=True):
                write(text, answer if spoken else Answer(remove_phrases(text, decoding.forbid), 0.0))
                copied += not spoken and bool(text.strip())
            draft.keep(len(block))
            kept += sum(answer.kept for answer in answers)
            unfinished += sum(answer.unfinished for answer in answers)
            strangers.update(answer.foreign for answer in answers if answer.foreign)
    if copied:
        are = "line without a letter is" if copied == 1 else "lines without a letter are"
        print(f"regard: {copied:,} {are} copied untranslated", file=sys.stderr)
    if kept:
        already = "1 sentence is" if kept == 1 else f"{kept:,} sentences are"
        print(f"regard: {already} already in the target language ({to}) and left as written", file=sys.stderr)
    if unfinished:
        print(f"regard: {describe_unfinished(unfinished)}", file=sys.stderr)
    for code, lines_of_it in strangers.most_common():
        print(f"regard: {counted(lines_of_it, 'line')}: {translator.describe_unknown_language(code)}", file=sys.stderr)


def _documents(
    translator: Translator,
    lines: Iterator[str],
    to: str | None,
    chosen: dict[str, Any],
    *,
    html: bool,
    terms: Path | None,
) -> Iterator[str]:
    """Whole texts with their markup and placeholders, settled terms obeyed."""
    from regard.tasks.translation.documents import document as documents
    from regard.tasks.translation.documents import glossary as glossaries

    glossary = glossaries.load(str(terms)) if terms is not None else None
    for block in [["\n".join(lines)]] if html else blocks(lines, BLOCK):
        to = to or guessed(translator, block)
        answers = documents.translate(translator, block, html=html, to=to, terms=glossary, **chosen)
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
    return mark, list(decoded((line + b"\r\n" for line in lines), str(path)))


def _parts(
    translator: Translator, path: Path, form: str, to: str | None, chosen: dict[str, Any], *, terms: Path | None
) -> Iterator[str]:
    """The lines of Markdown or subtitles, of which only the words are translated."""
    from regard.tasks.translation.documents import document_files as files
    from regard.tasks.translation.documents import glossary as glossaries

    glossary = glossaries.load(str(terms)) if terms is not None else None
    mark, lines = read_document(path)
    parts = files.split_document(lines, form)
    if note := files.describe_copied(path, parts):
        print(f"regard: {note}", file=sys.stderr)
    texts = [text.written for part in parts for text in part.texts]
    to = to or (guessed(translator, texts[:BLOCK]) if texts else None)
    for begin in range(0, len(parts), BLOCK):
        for line in files.translate_parts(translator, parts[begin : begin + BLOCK], to=to, terms=glossary, **chosen):
            yield f"{mark}{line}"
            mark = ""


def _alternatives(
    translator: Translator, lines: Iterator[str], to: str | None, chosen: dict[str, Any], *, as_json: bool
) -> Iterator[str]:
    """What else might have been said, sentence by sentence."""
    from regard.tasks.translation.alternatives import consider

    for text in lines:
        to = to or guessed(translator, [text])
        for sentence in consider(translator, text, to=to, **chosen):
            if as_json:
                yield json.dumps(sentence.plain(), ensure_ascii=False)
            else:
                yield "\n".join(f"{left:<24} {right}".rstrip() for left, right in sentence.lines()) + "\n"


def place(device: str, model: Path, lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Where to translate these lines: little text on the CPU, since waking a GPU takes longer than translating it.

    What counts is the characters times the megabytes of the model. The lines come back with those that were counted.
    """
    if device != "auto":
        return device, lines
    from regard import shipped

    folder = shipped.FOLDER / model if not model.exists() else model  # by its short name
    weights = (folder / part / "model.safetensors" for part in ("", "best"))
    size = next((path.stat().st_size for path in weights if path.is_file()), 0)
    room = LITTLE / max(size / 1e6, 1.0)
    counted: list[str] = []
    for line in lines:
        counted.append(line)
        room -= len(line) + 1
        if room < 0:
            return device, chain(counted, lines)
    return "cpu", iter(counted)


def _line(number: int, answer: Answer, *, whole: bool, ranked: bool) -> str:
    """The answer in one line, or `whole` with its line feeds; where several are `ranked`, as number, score and text."""
    if not ranked:
        return answer.text if whole else str(answer)
    return "\n".join(f"{number}\t{one.score:.4f}\t{one}" for one in (answer, *answer.alternatives))
