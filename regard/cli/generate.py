"""The command that continues a text or a picture, or makes pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.grammar import Device, Json, Settings, parse_settings, resolve_model
from regard.cli.text_io import PICTURE_FORMATS, check_writable, decode_lines, open_writer, read_lines
from regard.data.readers import JSON_SUFFIXES, suffix

PICTURE_OUTPUTS = ("png", "jpg", "webp", "jpeg", "bmp")
MADE_PANEL = "For generators of pictures"


def generate(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] [PROMPT]",
            help="A model, else the shipped one; how the text begins, or - for stdin; of a model of pixels, a picture.",
        ),
    ] = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="Begin with the text of this file.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write here: .jsonl, or any other name for plain text; pictures: .png, .npz, .jsonl.",
        ),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="ROWS", help="Of a picture: upper, its upper half, or so many rows.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many texts or pictures.")] = 1,
    length: Annotated[int | None, typer.Option(min=1, help="Tokens to write.")] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Below 1 safer, above 1 wilder; 0 takes the likeliest token.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the likeliest tokens that have this probability together.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Leave out tokens below this share of the likeliest one's probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**64 - 1, help="Random seed.", show_default=False)] = None,
    stop: Annotated[str | None, typer.Option(metavar="TEXT", help="End before the first of these.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL", help="What to make; again for more; all if not given.", rich_help_panel=MADE_PANEL
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Pictures of each label.", rich_help_panel=MADE_PANEL)] = 1,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Continue a text or a picture, or make pictures."""
    from regard import recipe

    check_writable(output, inputs=(input,))
    model, inputs = resolve_model(words or [], "generate")
    if len(inputs) > 1:
        raise ValueError(f"give one prompt, not {len(inputs)}: put quotation marks around it")
    prompt = inputs[0] if inputs else None
    if prompt is not None and input is not None:
        raise ValueError("give either a prompt or -i FILE")
    named_options: dict[str, Any] = {
        "length": length,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
    }
    named_options |= {"seed": seed, "stop": stop}
    options = parse_settings(settings) | {name: value for name, value in named_options.items() if value is not None}
    prompt_text = prompt
    if input is not None and suffix(input.name) in (".csv", ".tsv", *JSON_SUFFIXES):
        raise ValueError(
            f"{input} is a table, and a text is continued: give the text itself, or - < {input} for all of it"
        )
    if input is not None or prompt == "-":
        prompt_text = "\n".join(
            read_lines(input) if input is not None else decode_lines(sys.stdin.buffer, "standard input")
        )
    tasks = (*recipe.able("write"), *recipe.able("draw"), *recipe.able("make"))
    trained = recipe.load(model, device=device, task=tasks)
    if "make" in trained.extras:
        if samples > 1 or keep is not None or input is not None:
            misplaced = "--samples" if samples > 1 else "--keep" if keep is not None else "-i"
            raise ValueError(f"{misplaced} does not go with {trained.kind}: choose by --label and --count")
        return _make_pictures(trained, [*(label or []), *inputs], output, as_json=as_json, count=count, **options)
    if label or count > 1:
        raise ValueError(f"--label and --count are for generators of pictures: {trained.name} is {trained.kind}")
    write_options = {"samples": samples, **options}
    if "draw" in trained.extras:
        return _draw_pictures(
            trained, prompt, write_options | ({} if keep is None else {"keep": keep}), output, as_json=as_json
        )
    if keep is not None:
        raise ValueError(f"--keep is for pictures: {trained.name} is {trained.kind}, leave it out")
    if output is not None and output.suffix.lstrip(".").lower() in (*PICTURE_OUTPUTS, *PICTURE_FORMATS):
        raise ValueError(f"{output}: {trained.name} is {trained.kind} and writes text: choose txt or jsonl")
    lines = as_json or (output is not None and output.suffix in (".jsonl", ".json"))
    if output is None and not lines and write_options["samples"] == 1:
        return _stream_text(trained, prompt_text, write_options)
    with open_writer(output) as write:
        for number, written in enumerate(trained.write(prompt_text, **write_options)):
            if lines:
                write(json.dumps(written.plain(), ensure_ascii=False))
            else:
                write(("---\n" if number else "") + written.text)


def _make_pictures(trained: Any, labels: list[str], output: Path | None, *, as_json: bool, **options: Any) -> None:
    """Make pictures and write them as one grid, a row for each label, as arrays to train on, or as JSON lines."""
    as_lines = as_json or (output is not None and output.suffix in (".jsonl", ".json"))
    if output is None and not as_json:
        raise ValueError(f"{trained.name} makes pictures: name a file for them with -o grid.png")
    if not as_lines:
        check_writable(output, (*PICTURE_OUTPUTS, "npz"))
    pictures = trained.extras["make"].call(labels or None, **options)
    if as_lines:
        with open_writer(output) as write:
            for picture in pictures:
                write(json.dumps(picture.plain(), ensure_ascii=False))
        return
    from regard.data import images

    assert output is not None
    pixels, labels_made = [picture.pixels for picture in pictures], [picture.label for picture in pictures]
    if output.suffix.lower() == ".npz":
        images.save_arrays(output, pixels, labels_made)
    else:
        has_several_labels = len(dict.fromkeys(labels_made)) > 1
        images.save_grid(output, pixels, across=options["count"] if has_several_labels else None)
    count_text = "1 picture" if len(pictures) == 1 else f"{len(pictures):,} pictures"
    print(f"{output}: {count_text} of {', '.join(dict.fromkeys(labels_made))}")


def _stream_text(trained: Any, prompt: str | None, options: dict[str, Any]) -> None:
    """Print one text piece by piece, as it is written."""
    with open_writer(None) as write:
        for piece in trained.extras["stream"].call(prompt, **options):
            write(piece, end="", flush=True)
        write("")


def _draw_pictures(
    trained: Any, prompt: str | None, options: dict[str, Any], output: Path | None, *, as_json: bool
) -> None:
    """Draw pictures side by side into one file, or write each as a line of JSON."""
    as_lines = as_json or (output is not None and output.suffix in (".jsonl", ".json"))
    if not as_lines:
        if output is None:
            raise ValueError(f"{trained.name} draws: name a picture to draw into, -o drawn.png, or --json")
        check_writable(output, PICTURE_OUTPUTS, inputs=(None if prompt is None else Path(prompt),))
    if misplaced := [name for name in ("length", "stop") if name in options]:
        raise ValueError(f"--{misplaced[0]} is for texts: {trained.name} is {trained.kind}, leave it out")
    if prompt is None and "keep" in options:
        raise ValueError("--keep goes with a picture to complete: name one")
    drawings = trained.extras["draw"].call(prompt, **options)
    if as_lines:
        with open_writer(output) as write:
            for drawing in drawings:
                write(json.dumps(drawing.plain()))
        return
    trained.extras["gallery"].call(prompt, drawings, fit=options.get("fit")).save(output)
    print(
        f"{output}: {len(drawings)} drawn, {drawings[0]}" if len(drawings) == 1 else f"{output}: {len(drawings)} drawn"
    )
