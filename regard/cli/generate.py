"""The command that continues a text with a language model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.draw import DRAWN_FORMATS, LINE_ENDINGS, draw_pictures
from regard.cli.grammar import (
    Device,
    Json,
    MinP,
    Seed,
    Settings,
    Temperature,
    TopK,
    TopP,
    parse_settings,
    resolve_model,
)
from regard.cli.renamed_commands import USE_DRAW
from regard.cli.text_io import PICTURE_FORMATS, check_writable, decode_lines, open_writer, print_note, read_lines
from regard.data.readers import JSON_SUFFIXES, suffix


def generate(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] [PROMPT]", help="A model, else the shipped one; how the text begins, or - for stdin."
        ),
    ] = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="Begin with the text of this file.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here: .jsonl, or any other name for plain text."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many texts.")] = 1,
    length: Annotated[int | None, typer.Option(min=1, help="Tokens to write.")] = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    stop: Annotated[str | None, typer.Option(metavar="TEXT", help="End before the first of these.")] = None,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Continue a text."""
    from regard import recipe

    check_writable(output, inputs=(input,))
    model, inputs = resolve_model(words or [], "generate")
    prompt = _read_prompt(inputs, input)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    options = parse_settings(settings, length=length, stop=stop, **sampling)
    tasks = (*recipe.tasks_with_verb("write"), *recipe.tasks_with_verb("draw"), *recipe.tasks_with_verb("make"))
    trained = recipe.load(model, device=device, task=tasks)
    if "stream" in trained.extras:
        return _write_texts(trained, prompt, output, {"samples": samples, **options}, as_json=as_json)
    if input is not None:
        raise ValueError(f"-i is for texts: {trained.name} is {trained.kind}, leave it out")
    options |= {"samples": samples} if samples > 1 else {}
    draw_pictures(trained, inputs, output, options, as_json=as_json)
    print_note(USE_DRAW)


def _read_prompt(inputs: list[str], file: Path | None) -> str | None:
    """Return how the text begins: as typed, in a file, or on standard input; None if nothing says so."""
    if len(inputs) > 1:
        raise ValueError(f"give one prompt, not {len(inputs)}: put quotation marks around it")
    if inputs and file is not None:
        raise ValueError("give either a prompt or -i FILE")
    if file is not None and suffix(file.name) in (".csv", ".tsv", *JSON_SUFFIXES):
        raise ValueError(
            f"{file} is a table, and a text is continued: give the text itself, or - < {file} for all of it"
        )
    if file is not None:
        return "\n".join(read_lines(file))
    if inputs == ["-"]:
        return "\n".join(decode_lines(sys.stdin.buffer, "standard input"))
    return inputs[0] if inputs else None


def _write_texts(
    trained: Any, prompt: str | None, output: Path | None, options: dict[str, Any], *, as_json: bool
) -> None:
    """Write texts as lines of JSON or with a line of dashes between them; a single one is streamed."""
    if output is not None and output.suffix.lstrip(".").lower() in (*DRAWN_FORMATS, *PICTURE_FORMATS):
        raise ValueError(f"{output}: {trained.name} is {trained.kind} and writes text: choose txt or jsonl")
    as_lines = as_json or (output is not None and output.suffix in LINE_ENDINGS)
    if output is None and not as_lines and options["samples"] == 1:
        return _stream_text(trained, prompt, options)
    with open_writer(output) as write:
        for number, text in enumerate(trained.write(prompt, **options)):
            if as_lines:
                write(json.dumps(text.plain(), ensure_ascii=False))
            else:
                write(("---\n" if number else "") + text.text)


def _stream_text(trained: Any, prompt: str | None, options: dict[str, Any]) -> None:
    """Print one text piece by piece, as it is written."""
    with open_writer(None) as write:
        for piece in trained.extras["stream"].call(prompt, **options):
            write(piece, end="", flush=True)
        write("")
