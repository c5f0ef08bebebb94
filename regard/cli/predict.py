"""The command that answers with any model, and two for models of pictures: predict, locate, count."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.answers import AnswerRequest, name_and_answer, write_answers
from regard.cli.grammar import MAX_PATH_LENGTH, Answers, Column, Device, Input, Json, Model, Settings
from regard.cli.text_io import PICTURE_FORMATS, check_writable

SHOWN_LENGTH = 60  # letters of an input that is named
BOX_PICTURE_FORMATS = ("png", "jpg", "webp", "jpeg", "bmp", "gif", "tif", "tiff")
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

    AnswerRequest(inputs, input, output, settings, as_json, model, column).check(inputs=_find_input_files(inputs or []))
    trained = recipe.load(model, device=device)
    if importance is not None:
        _write_importance(trained, inputs or [], importance)
    if length is not None:
        inputs = _make_sequence(trained, length, inputs, input)
    if output is not None and output.suffix.lstrip(".").lower() in PICTURE_FORMATS and "picture" in trained.extras:
        return _draw_answer(trained, inputs or [], output)
    write_answers(trained, AnswerRequest(inputs, input, output, settings, as_json, model, column))


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

    if output is not None and output.suffix.lstrip(".").lower() in BOX_PICTURE_FORMATS:
        return _draw_box(model, pictures or [], output, invert=invert, device=device)
    request = AnswerRequest(pictures, input, output, None, as_json, model, column)
    request.check(inputs=[Path(picture) for picture in pictures or []])
    trained = recipe.load(model, device=device, task="localisation")
    write_answers(trained, request, key="picture", format_answer=name_and_answer, invert=invert)


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

    request = AnswerRequest(frames, input, output, None, as_json, model, column)
    request.check(inputs=[Path(frame) for frame in frames or []])
    trained = recipe.load(model, device=device, task="counting")
    write_answers(trained, request, key="frame", format_answer=name_and_answer, invert=invert)


def _find_input_files(words: list[str]) -> list[Path]:
    """Return the files among inputs, which no answer may overwrite: alone, several in one word, or as omic=FILE."""
    names = [part for word in words for name in (word, *word.split()) for part in (name, name.rpartition("=")[2])]
    return [
        Path(part) for part in names if 0 < len(part) < MAX_PATH_LENGTH and "\0" not in part and Path(part).is_file()
    ]


def _write_importance(trained: Any, words: list[str], path: Path) -> None:
    """Write how much answers depend on each feature."""
    if "importance" not in trained.extras:
        raise ValueError(f"--importance is for models of omics: {trained.name} is {trained.kind}, leave it out")
    check_writable(path, ("csv", *PICTURE_FORMATS), inputs=_find_input_files(words))
    inputs = trained.inputs.join(words)
    if path.suffix.lower() != ".csv":
        return trained.extras["draw_importance"].call(inputs, path)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        records = [asdict(record) for record in trained.extras["importance"].call(inputs)]
        records = [{name: value for name, value in record.items() if value is not None} for record in records]
        table.writerow(records[0])
        table.writerows(
            [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in record.values()] for record in records
        )


def _make_sequence(trained: Any, length: int, inputs: list[str] | None, file: Path | None) -> list[str]:
    """Return a sequence drawn by the model itself."""
    if "sequences" not in trained.extras:
        raise ValueError(f"--length draws a sequence for models that remember some: {trained.name} is {trained.kind}")
    if inputs or file is not None:
        raise ValueError("--length draws a sequence: give no other input")
    return trained.extras["sequences"].call(length)


def _draw_answer(trained: Any, inputs: list[str], output: Path) -> None:
    """Draw one answer and where the model looked."""
    from regard.interpret.draw import plots

    if len(inputs) != 1:
        raise ValueError(f"{output} shows one answer and {len(inputs)} inputs were given: name one at a time")
    plots.save(trained.extras["picture"].call(inputs[0]), output)
    print(f"{output}: {inputs[0] if len(inputs[0]) < SHOWN_LENGTH else f'{inputs[0][: SHOWN_LENGTH - 3]}...'}")


def _draw_box(model: Path, pictures: list[str], output: Path, *, invert: bool, device: str) -> None:
    """Draw the picture, enlarged, with its box."""
    from regard import recipe
    from regard.data import images

    check_writable(output, BOX_PICTURE_FORMATS, inputs=[Path(picture) for picture in pictures])
    if len(pictures) != 1:
        raise ValueError(f"{output} shows one picture and {len(pictures)} were given: name one at a time")
    [localisation] = recipe.load(model, device=device, task="localisation").locate(pictures, invert=invert)
    images.save_with_box(output, images.read(pictures[0], invert=invert), localisation.box, str(localisation.label))
    print(name_and_answer(pictures[0], localisation))
