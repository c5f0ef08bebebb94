"""The command that draws pictures: of a label, whole ones, or the rest of one that is begun."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.grammar import Device, Json, MinP, Model, Seed, Settings, Temperature, TopK, TopP, parse_settings
from regard.cli.text_io import check_writable, open_writer
from regard.config.words import quantity

DRAWN_FORMATS = ("png", "jpg", "webp", "jpeg", "bmp")
LINE_ENDINGS = (".jsonl", ".json")
GENERATORS, PIXELS = "For generators of pictures", "For models of pixels"


def draw(
    model: Model,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT]...", help="Labels to draw; of a model of pixels, a picture to complete."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Draw into this picture, or write .npz or .jsonl."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="What to draw; again for more; all if none.", rich_help_panel=GENERATORS),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Pictures of each label; 1 if not given.", rich_help_panel=GENERATORS)
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS", help="Of a picture: upper, its upper half, or so many rows.", rich_help_panel=PIXELS
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many pictures; 1 if not given.", rich_help_panel=PIXELS)
    ] = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Draw pictures: of a label, whole ones, or the rest of one."""
    from regard import recipe

    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    options = parse_settings(settings, keep=keep, samples=samples, count=count, **sampling)
    check_writable(output, (*DRAWN_FORMATS, "npz", "jsonl", "json"), inputs=list(map(Path, inputs or [])))
    trained = recipe.load(model, device=device, task=(*recipe.tasks_with_verb("draw"), *recipe.tasks_with_verb("make")))
    draw_pictures(trained, inputs or [], output, options, labels=label or [], as_json=as_json)


def draw_pictures(
    trained: Any,
    inputs: Sequence[str],
    output: Path | None,
    options: Mapping[str, Any],
    *,
    labels: Sequence[str] = (),
    as_json: bool,
) -> None:
    """Draw with a generator of pictures or a model of pixels, into a picture, a file of arrays or lines of JSON."""
    as_lines = as_json or (output is not None and output.suffix in LINE_ENDINGS)
    if "make" in trained.extras:
        pictures = _draw_labels(trained, [*labels, *inputs], output, options, as_lines=as_lines)
    elif labels or "count" in options:
        raise ValueError(f"--label and --count are for generators of pictures: {trained.name} is {trained.kind}")
    elif len(inputs) > 1:
        raise ValueError(f"give one picture to complete, not {len(inputs)}")
    else:
        pictures = _draw_pixels(trained, inputs[0] if inputs else None, output, options, as_lines=as_lines)
    if as_lines:
        with open_writer(output) as write:
            for picture in pictures:
                write(json.dumps(picture.plain(), ensure_ascii=False))


def _draw_labels(
    trained: Any, labels: Sequence[str], output: Path | None, options: Mapping[str, Any], *, as_lines: bool
) -> Sequence[Any]:
    """Draw pictures of labels; unless they become lines, as one picture with a row for each, or as arrays."""
    if misplaced := [name for name in ("samples", "keep") if name in options]:
        raise ValueError(f"--{misplaced[0]} does not go with {trained.kind}: choose by --label and --count")
    if output is None and not as_lines:
        raise ValueError(f"{trained.name} makes pictures: name a file for them with -o grid.png")
    if not as_lines:
        check_writable(output, (*DRAWN_FORMATS, "npz"))
    pictures = trained.extras["make"].call(labels or None, **options)
    if output is not None and not as_lines:
        names = _save_labelled(pictures, output, count=options.get("count", 1))
        print(f"{output}: {quantity(len(pictures), 'picture')} of {', '.join(names)}")
    return pictures


def _save_labelled(pictures: Sequence[Any], output: Path, *, count: int) -> list[str]:
    """Save pictures as arrays to train on, or as a grid with a row of `count` for each label; return the labels."""
    from regard.data import images

    pixels, labels = [picture.pixels for picture in pictures], [picture.label for picture in pictures]
    names = list(dict.fromkeys(labels))
    if output.suffix.lower() == ".npz":
        images.save_arrays(output, pixels, labels)
    else:
        images.save_grid(output, pixels, across=count if len(names) > 1 else None)
    return names


def _draw_pixels(
    trained: Any, picture: str | None, output: Path | None, options: Mapping[str, Any], *, as_lines: bool
) -> Sequence[Any]:
    """Complete a picture or draw whole ones; unless they become lines, side by side in one file."""
    if not as_lines:
        if output is None:
            raise ValueError(f"{trained.name} draws: name a picture to draw into, -o drawn.png, or --json")
        check_writable(output, DRAWN_FORMATS, inputs=(None if picture is None else Path(picture),))
    if misplaced := [name for name in ("length", "stop") if name in options]:
        raise ValueError(f"--{misplaced[0]} is for texts: {trained.name} is {trained.kind}, leave it out")
    if picture is None and "keep" in options:
        raise ValueError("--keep goes with a picture to complete: name one")
    drawings = trained.extras["draw"].call(picture, **options)
    if not as_lines:
        trained.extras["gallery"].call(picture, drawings, fit=options.get("fit")).save(output)
        bits = f", {drawings[0]}" if len(drawings) == 1 else ""
        print(f"{output}: {len(drawings)} drawn{bits}")
    return drawings
