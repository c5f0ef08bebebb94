"""The command that continues a text with a language model, continues a picture, or makes pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.grammar import Device, Json, Settings, meant, options
from regard.cli.lines import PICTURES, decoded, lines_of, writable, writer
from regard.data.readers import JSON_SUFFIXES, suffix

DRAWN = ("png", "jpg", "webp", "jpeg", "bmp")
MADE = "For generators of pictures"


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
        typer.Option(metavar="LABEL", help="What to make; again for more; all if not given.", rich_help_panel=MADE),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Pictures of each label.", rich_help_panel=MADE)] = 1,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Continue a text or a picture, or make pictures."""
    from regard import recipe

    writable(output, reads=(input,))
    model, given = meant(words or [], "generate")
    if len(given) > 1:
        raise ValueError(f"give one prompt, not {len(given)}: put quotation marks around it")
    prompt = given[0] if given else None
    if prompt is not None and input is not None:
        raise ValueError("give either a prompt or -i FILE")
    flags: dict[str, Any] = {
        "length": length,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
    }
    flags |= {"seed": seed, "stop": stop}
    changes = options(settings) | {name: value for name, value in flags.items() if value is not None}
    begun = prompt
    if input is not None and suffix(input.name) in (".csv", ".tsv", *JSON_SUFFIXES):
        raise ValueError(
            f"{input} is a table, and a text is continued: give the text itself, or - < {input} for all of it"
        )
    if input is not None or prompt == "-":
        begun = "\n".join(lines_of(input) if input is not None else decoded(sys.stdin.buffer, "standard input"))
    able = (*recipe.tasks_with_verb("write"), *recipe.tasks_with_verb("draw"), *recipe.tasks_with_verb("make"))
    trained = recipe.load(model, device=device, task=able)
    if "make" in trained.extras:
        if samples > 1 or keep is not None or input is not None:
            strange = "--samples" if samples > 1 else "--keep" if keep is not None else "-i"
            raise ValueError(f"{strange} does not go with {trained.kind}: choose by --label and --count")
        return _make(trained, [*(label or []), *given], output, as_json=as_json, count=count, **changes)
    if label or count > 1:
        raise ValueError(f"--label and --count are for generators of pictures: {trained.name} is {trained.kind}")
    asked = {"samples": samples, **changes}
    if "draw" in trained.extras:
        return _draw(trained, prompt, asked | ({} if keep is None else {"keep": keep}), output, as_json=as_json)
    if keep is not None:
        raise ValueError(f"--keep is for pictures: {trained.name} is {trained.kind}, leave it out")
    if output is not None and output.suffix.lstrip(".").lower() in (*DRAWN, *PICTURES):
        raise ValueError(f"{output}: {trained.name} is {trained.kind} and writes text: choose txt or jsonl")
    lines = as_json or (output is not None and output.suffix in (".jsonl", ".json"))
    if output is None and not lines and asked["samples"] == 1:
        return _stream(trained, begun, asked)
    with writer(output) as write:
        for number, written in enumerate(trained.write(begun, **asked)):
            if lines:
                write(json.dumps(written.plain(), ensure_ascii=False))
            else:
                write(("---\n" if number else "") + written.text)


def _make(trained: Any, labels: list[str], output: Path | None, *, as_json: bool, **asked: Any) -> None:
    """Pictures as one of all of them, a row for each label, as arrays to train on, or as JSON lines."""
    lines = as_json or (output is not None and output.suffix in (".jsonl", ".json"))
    if output is None and not as_json:
        raise ValueError(f"{trained.name} makes pictures: name a file for them with -o grid.png")
    if not lines:
        writable(output, (*DRAWN, "npz"))
    made = trained.extras["make"].call(labels or None, **asked)
    if lines:
        with writer(output) as write:
            for one in made:
                write(json.dumps(one.plain(), ensure_ascii=False))
        return
    from regard.data import images

    assert output is not None
    pixels, names = [one.pixels for one in made], [one.label for one in made]
    if output.suffix.lower() == ".npz":
        images.save_arrays(output, pixels, names)
    else:
        several = len(dict.fromkeys(names)) > 1
        images.save_grid(output, pixels, across=asked["count"] if several else None)
    count = "1 picture" if len(made) == 1 else f"{len(made):,} pictures"
    print(f"{output}: {count} of {', '.join(dict.fromkeys(names))}")


def _stream(trained: Any, begun: str | None, asked: dict[str, Any]) -> None:
    """One text on standard output, piece by piece as it is written."""
    with writer(None) as write:
        for piece in trained.extras["stream"].call(begun, **asked):
            write(piece, end="", flush=True)
        write("")


def _draw(trained: Any, prompt: str | None, asked: dict[str, Any], output: Path | None, *, as_json: bool) -> None:
    """Pictures side by side in one file, or one in a line of JSON."""
    lines = as_json or (output is not None and output.suffix in (".jsonl", ".json"))
    if not lines:
        if output is None:
            raise ValueError(f"{trained.name} draws: name a picture to draw into, -o drawn.png, or --json")
        writable(output, DRAWN, reads=(None if prompt is None else Path(prompt),))
    if strange := [name for name in ("length", "stop") if name in asked]:
        raise ValueError(f"--{strange[0]} is for texts: {trained.name} is {trained.kind}, leave it out")
    if prompt is None and "keep" in asked:
        raise ValueError("--keep goes with a picture to complete: name one")
    found = trained.extras["draw"].call(prompt, **asked)
    if lines:
        with writer(output) as write:
            for one in found:
                write(json.dumps(one.plain()))
        return
    trained.extras["gallery"].call(prompt, found, fit=asked.get("fit")).save(output)
    print(f"{output}: {len(found)} drawn, {found[0]}" if len(found) == 1 else f"{output}: {len(found)} drawn")
