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

from regard.cli.answers import Asked, writing
from regard.cli.grammar import Answers, Input, Json, Settings, Words, meant
from regard.cli.lines import arguments, blocks, counted, guessed, lines_of, writer

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.translator import Translator

BLOCK = 256  # lines translated at a time
LITTLE = 50_000  # characters times megabytes of weights that do not pay for waking a GPU


def translate(
    words: Words = None,
    input: Input = None,
    output: Answers = None,
    to: Annotated[str | None, typer.Option(help="Target language, of several; guessed if not given.")] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy.")] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Answers per line.")] = None,
    settings: Settings = None,
    html: Annotated[bool, typer.Option("--html", help="The input is HTML: tags are kept.")] = False,
    terms: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Glossary to obey: a term, a tab and its translation per line.")
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

    model, texts = meant(words or [], "translate")
    if bool(texts) == (input is not None):
        raise ValueError("give either texts, or - for standard input, or -i FILE")
    asked = Asked(texts, input, output, settings, as_json, model)
    asked.check(reads=[terms] if terms is not None else [], text=True)
    if (html or terms is not None) and (asked.kind in ("jsonl", "csv") or nbest):
        raise ValueError("--html and --terms give one answer as text: leave JSON, CSV and --nbest out")
    lines = lines_of(input) if input is not None else arguments(texts, option="-i")
    chosen = asked.options | {name: value for name, value in (("beams", beams), ("nbest", nbest)) if value is not None}
    if nbest and "beams" not in chosen and not chosen.get("sample"):
        chosen["beams"] = max(nbest, 4)
    device, lines = place(device, model, lines)
    translator = recipe.load(model, device=device, task="translation")
    if not alternatives and not html and terms is None:
        return _answer(translator, lines, to, chosen, asked)
    with writer(output) as write:
        if alternatives:
            said = _alternatives(translator, lines, to, chosen, as_json=asked.kind == "jsonl")
        else:
            said = _documents(translator, lines, to, chosen, html=html, terms=terms)
        for line in said:
            write(line)


def _answer(translator: Translator, lines: Iterator[str], to: str | None, chosen: dict[str, Any], asked: Asked) -> None:
    """A line for every line; of several answers, each in a line behind its number and score."""
    from regard.tasks.translation.answers import describe_unfinished

    numbers, kept, unfinished = count(1), 0, 0
    strangers: Counter[str] = Counter()

    def numbered(_: str, answer: Answer) -> str:
        return _line(next(numbers), answer)

    with writing(asked, "source", numbered, given={"to": to, **chosen}) as (write, draft):
        numbers = count(1 + draft.done)
        first = list(islice(lines, BLOCK))
        to = to or (guessed(translator, first) if first else None)  # from the same lines when a file is continued
        for block in blocks(islice(chain(first, lines), draft.done, None), BLOCK):
            to = to or guessed(translator, block)
            answers = translator.answers(block, to=to, first=draft.done, **chosen)  # each line has a seed of its own
            for text, answer in zip(block, answers, strict=True):
                write(text, answer)
            draft.keep(len(block))
            kept += sum(answer.kept for answer in answers)
            unfinished += sum(answer.unfinished for answer in answers)
            strangers.update(answer.foreign for answer in answers if answer.foreign)
    if kept:
        already = "1 sentence is" if kept == 1 else f"{kept:,} sentences are"
        print(f"regard: {already} already in the target language ({to}) and left as written", file=sys.stderr)
    if unfinished:
        print(f"regard: {describe_unfinished(unfinished)}", file=sys.stderr)
    for code, lines_of_it in strangers.most_common():
        print(f"regard: {counted(lines_of_it, 'line')}: {translator.stranger(code)}", file=sys.stderr)


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


def _line(number: int, answer: Answer) -> str:
    """The answer in one line; several answers as number, score and text."""
    if not answer.alternatives:
        return str(answer)
    return "\n".join(f"{number}\t{one.score:.4f}\t{one}" for one in (answer, *answer.alternatives))
