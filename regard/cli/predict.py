"""Commands for small models that answer about pictures and tables: locate, count, predict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.lines import writable

MODEL = "A run folder or checkpoint directory."
DRAWN = ("png", "jpg", "webp", "jpeg", "bmp", "gif", "tif", "tiff")
DEVICE = "auto, cpu, cuda or mps."
INVERT = "The pictures are dark on light; models learn bright on dark."


def locate(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    pictures: Annotated[list[Path], typer.Argument(metavar="PICTURE", help="Picture files of the model's size.")],
    draw: Annotated[Path | None, typer.Option(help="Write the picture, enlarged, with the box drawn on it.")] = None,
    invert: Annotated[bool, typer.Option("--invert", help=INVERT)] = False,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per picture.")] = False,
) -> None:
    """Which digit a picture shows, and the box around it in pixels: left, top, right, bottom."""
    from regard import recipe
    from regard.data import images as files

    if draw is not None and len(pictures) > 1:
        raise ValueError(f"--draw makes one picture and {len(pictures)} were given: name one at a time")
    if draw is not None and draw.resolve() == pictures[0].resolve():
        raise ValueError(f"--draw {draw} would write over the picture itself: choose another name")
    writable(draw, DRAWN)
    found = recipe.load(model, device=device, task="localisation").locate(pictures, invert=invert)
    for path, place in zip(pictures, found, strict=True):
        if as_json:
            answer = {"digit": place.label, "probability": round(place.probability, 4), "box": place.box}
            print(json.dumps({"picture": str(path), **answer}, ensure_ascii=False))
        else:
            print(f"{path}\t{place.label}\t{place.probability:.3f}\t{' '.join(f'{side:.1f}' for side in place.box)}")
    if draw is not None:
        files.marked(draw, files.read(pictures[0], invert=invert), found[0].box, str(found[0].label))


def count(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    frames: Annotated[list[Path], typer.Argument(metavar="FRAME", help="Picture files, in the order of time.")],
    invert: Annotated[bool, typer.Option("--invert", help=INVERT)] = False,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per frame.")] = False,
) -> None:
    """How many digits there are in each of several frames, those included that hide for a while."""
    from regard import recipe

    found = recipe.load(model, device=device, task="counting").count(frames, invert=invert)
    for path, each in zip(frames, found, strict=True):
        if as_json:
            answer = {"frame": str(path), "count": each.count, "probability": round(each.probability, 4)}
            print(json.dumps(answer, ensure_ascii=False))
        else:
            print(f"{path}\t{each.count}\t{each.probability:.3f}")


def predict(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    table: Annotated[Path, typer.Argument(help="A CSV file with the columns that the model learnt from.")],
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row.")] = False,
) -> None:
    """Predict a column of a table, one answer per row; where the table has it, say how good the answers are."""
    from regard import recipe

    predictor = recipe.load(model, device=device, task="regression")
    answers, scores = predictor.predict_file(str(table))
    for answer in answers:
        sure = {} if answer.probability is None else {"probability": round(answer.probability, 4)}
        told = {predictor.columns.target: answer.value, **sure}
        print(json.dumps(told, ensure_ascii=False) if as_json else answer.text)
    if scores:
        measured = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        print(f"regard: {measured} on {len(answers):,} rows", file=sys.stderr)
