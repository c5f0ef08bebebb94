"""The command that translates."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import arguments, blocks, lines_of, writable, writer

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Answer, Translator


def translate(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="A checkpoint directory or run folder (the shipped model when there is none), then texts; "
            "- reads lines from standard input.",
        ),
    ] = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", help="File to read lines from.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write lines to.")] = None,
    to: Annotated[
        str | None, typer.Option(help="Target language, when the model has several; guessed when not given.")
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept side by side; 1 is greedy.")] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Answers per line.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, with scores.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A decoding setting, such as length_penalty=1.2.")
    ] = None,
    html: Annotated[bool, typer.Option("--html", help="The input is HTML: tags come back in their places.")] = False,
    terms: Annotated[
        Path | None, typer.Option(help="Glossary to obey: a term, a tab and its translation in each line.")
    ] = None,
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="What else the model considered, word by word.")
    ] = False,
) -> None:
    """Translate text with a trained model; line counts always match."""
    import regard
    from regard import config

    model, texts = named(words or [])
    if bool(texts) == (input is not None):
        raise ValueError("give either texts, or - for standard input, or --input FILE")
    writable(output)
    chosen = config.override({}, settings or [])
    chosen |= {name: value for name, value in (("beams", beams), ("nbest", nbest)) if value is not None}
    if nbest and "beams" not in chosen and not chosen.get("sample"):
        chosen["beams"] = max(nbest, 4)
    translator = regard.load(model, task="translation")
    lines = lines_of(input) if input is not None else arguments(texts or [])
    if alternatives:
        _alternatives(translator, lines, to, chosen, as_json=as_json)
        return
    if html or terms is not None:
        if as_json or nbest:
            raise ValueError("--html and --terms give one answer as text: leave --json and --nbest out")
        with writer(output) as write:
            for document in _documents(translator, lines, to, chosen, html=html, terms=terms):
                write(document)
        return
    with writer(output) as write:
        number = 0
        for block in blocks(lines, 256):
            to = to or guessed(translator, block)
            for text, answer in zip(block, translator.answers(block, to=to, **chosen), strict=True):
                number += 1
                write(_as_json(text, answer) if as_json else _as_lines(number, answer))


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
    for block in [["\n".join(lines)]] if html else blocks(lines, 256):
        to = to or guessed(translator, block)
        answers = documents.translate(translator, block, html=html, to=to, terms=glossary, **chosen)
        for text, answer in zip(block, answers, strict=True):
            yield answer
            for term in glossary.missing(text, answer) if glossary is not None else []:
                print(f"regard: no place found for {term!r} in the answer to {text[:40]!r}", file=sys.stderr)


def _alternatives(
    translator: Translator, lines: Iterator[str], to: str | None, chosen: dict[str, Any], *, as_json: bool
) -> None:
    """What else might have been said, sentence by sentence."""
    from regard.tasks.translation.alternatives import consider

    for text in lines:
        to = to or guessed(translator, [text])
        for sentence in consider(translator, text, to=to, **chosen):
            if as_json:
                print(json.dumps(sentence.plain(), ensure_ascii=False))
            else:
                print("\n".join(f"{left:<24} {right}".rstrip() for left, right in sentence.lines()), end="\n\n")


def named(words: list[str]) -> tuple[Path | None, list[str]]:
    """The model that the first word names, if it is a directory or looks like a path to one, and the texts."""
    if not words:
        return None, []
    first = words[0]
    path_like = first != "-" and len(first.split()) == 1 and (os.sep in first or Path(first).is_dir())
    return (Path(first), words[1:]) if path_like else (None, words)


def guessed(translator: Translator, texts: list[str]) -> str | None:
    """The language to translate into when nobody said it, and a word about the guess."""
    if len(translator.languages) < 2:
        return None
    to = translator.direction("\n".join(texts))
    if to is not None:
        print(f"regard: translating to {to}, guessed from the text; --to chooses", file=sys.stderr)
    return to


def _as_json(text: str, answer: Answer) -> str:
    """One object: the source, the best answer, and the others if asked for."""
    head = {"source": text, "translation": answer.text, "score": round(answer.score, 6)}
    others = [{"translation": other.text, "score": round(other.score, 6)} for other in answer.alternatives]
    return json.dumps(head | ({"alternatives": others} if others else {}), ensure_ascii=False)


def _as_lines(number: int, answer: Answer) -> str:
    """The answer in one line; several answers as number, score and text."""
    if not answer.alternatives:
        return _one_line(answer.text)
    ranked = (answer, *answer.alternatives)
    return "\n".join(f"{number}\t{one.score:.4f}\t{_one_line(one.text)}" for one in ranked)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
