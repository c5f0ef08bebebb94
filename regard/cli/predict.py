"""The answer of any model whatever its task, and friendly names for those that look at pictures: locate, count."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.answers import Asked, respond
from regard.cli.grammar import LONGEST, Answers, Column, Device, Input, Json, Model, Settings
from regard.cli.lines import PICTURES, printable, writable

SHORT = 60  # letters of an input that is named
DRAWN = ("png", "jpg", "webp", "jpeg", "bmp", "gif", "tif", "tiff")
Pictures = Annotated[list[str] | None, typer.Argument(metavar="PICTURE...", help="Picture files of the model's size.")]
Invert = Annotated[bool, typer.Option("--invert", help="The pictures are dark on light; models learn bright on dark.")]


def predict(
    model: Model,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT]...", help="Texts, words, picture files, tables or rows; - reads standard input."
        ),
    ] = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    importance: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="For omics: what answers rest on, as a table (.csv) or vectors (.png, .svg)."
        ),
    ] = None,
    length: Annotated[
        int | None, typer.Option(metavar="STEPS", help="Draw a sequence of this length, for models that remember some.")
    ] = None,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Answer with any model, whatever its task."""
    from regard import recipe

    Asked(inputs, input, output, settings, as_json, model, column).check(reads=_files(inputs or []))
    trained = recipe.load(model, device=device)
    if importance is not None:
        _important(trained, inputs or [], importance)
    if length is not None:
        inputs = _drawn(trained, length, inputs, input)
    if output is not None and output.suffix.lstrip(".").lower() in PICTURES and "picture" in trained.extras:
        return _picture(trained, inputs or [], output)
    respond(trained, Asked(inputs, input, output, settings, as_json, model, column))


def locate(
    model: Model,
    pictures: Pictures = None,
    input: Input = None,
    column: Column = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here: .jsonl, .csv, text, or a picture with boxes."),
    ] = None,
    invert: Invert = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Find the digit in a picture, and the box around it in pixels."""
    from regard import recipe

    if output is not None and output.suffix.lstrip(".").lower() in DRAWN:
        return _draw(model, pictures or [], output, invert=invert, device=device)
    asked = Asked(pictures, input, output, None, as_json, model, column)
    asked.check(reads=[Path(picture) for picture in pictures or []])
    trained = recipe.load(model, device=device, task="localisation")
    respond(trained, asked, key="picture", form=_named, invert=invert)


def count(
    model: Model,
    frames: Annotated[
        list[str] | None, typer.Argument(metavar="FRAME...", help="Picture files, in the order of time.")
    ] = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    invert: Invert = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Count the digits in each frame, hidden ones included."""
    from regard import recipe

    asked = Asked(frames, input, output, None, as_json, model, column)
    asked.check(reads=[Path(frame) for frame in frames or []])
    trained = recipe.load(model, device=device, task="counting")
    respond(trained, asked, key="frame", form=_named, invert=invert)


def _files(words: list[str]) -> list[Path]:
    """The files among some inputs, which an answer must not overwrite: alone, several in one word, or as omic=FILE."""
    named = [part for word in words for each in (word, *word.split()) for part in (each, each.rpartition("=")[2])]
    return [Path(part) for part in named if 0 < len(part) < LONGEST and "\0" not in part and Path(part).is_file()]


def _important(trained: Any, words: list[str], path: Path) -> None:
    """Write how much answers rest on each feature."""
    if "importance" not in trained.extras:
        raise ValueError(f"--importance is for models of omics: {trained.name} is {trained.kind}, leave it out")
    writable(path, ("csv", *PICTURES), reads=_files(words))
    inputs = trained.inputs.join(words)
    if path.suffix.lower() != ".csv":
        return trained.extras["draw_importance"].call(inputs, path)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        found = [asdict(one) for one in trained.extras["importance"].call(inputs)]
        found = [{name: value for name, value in one.items() if value is not None} for one in found]
        rows.writerow(found[0])
        rows.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in one.values()] for one in found)


def _drawn(trained: Any, length: int, inputs: list[str] | None, file: Path | None) -> list[str]:
    """A sequence that the model draws for itself."""
    if "sequences" not in trained.extras:
        raise ValueError(f"--length draws a sequence for models that remember some: {trained.name} is {trained.kind}")
    if inputs or file is not None:
        raise ValueError("--length draws a sequence: give no other input")
    return trained.extras["sequences"].call(length)


def _picture(trained: Any, inputs: list[str], output: Path) -> None:
    """One answer drawn, with where the model looked meanwhile."""
    from regard.interpret import plots

    if len(inputs) != 1:
        raise ValueError(f"{output} shows one answer and {len(inputs)} inputs were given: name one at a time")
    plots.save(trained.extras["picture"].call(inputs[0]), output)
    print(f"{output}: {inputs[0] if len(inputs[0]) < SHORT else f'{inputs[0][: SHORT - 3]}...'}")


def _named(text: str, answer: Any) -> str:
    """An answer behind the name of its file."""
    return f"{printable(text)}\t{answer}"


def _draw(model: Path, pictures: list[str], output: Path, *, invert: bool, device: str) -> None:
    """The picture, enlarged, with its box."""
    from regard import recipe
    from regard.data import images

    writable(output, DRAWN, reads=[Path(picture) for picture in pictures])
    if len(pictures) != 1:
        raise ValueError(f"{output} shows one picture and {len(pictures)} were given: name one at a time")
    [found] = recipe.load(model, device=device, task="localisation").locate(pictures, invert=invert)
    images.save_with_box(output, images.read(pictures[0], invert=invert), found.box, str(found.label))
    print(_named(pictures[0], found))
