"""Captions of pictures, and of frames when they change: caption."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.answers import Asked, given_inputs, respond, writing
from regard.cli.grammar import Answers, Column, Device, Input, Json, Model, Settings
from regard.cli.lines import printable


def caption(
    model: Model,
    pictures: Annotated[
        list[str] | None, typer.Argument(metavar="[PICTURE]...", help="Picture files, and folders of them.")
    ] = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Read frames in order; write a caption only when it changes.")
    ] = False,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write captions about pictures."""
    from regard import recipe
    from regard.tasks.trained import Unreadable
    from regard.tasks.vision.image_inputs import decode_images

    asked = Asked(pictures, input, output, settings, as_json, model, column)
    asked.check(reads=[Path(picture) for picture in pictures or []])
    trained = recipe.load(model, device=device, task=recipe.tasks_with_verb("caption"))
    if not changes:
        return respond(trained, asked, key="picture", form=_named, blank={"caption": None, "score": None})
    live = asked.file is None and asked.texts in (None, [], ["-"])  # frames come one by one, and so do captions
    options = {"batch": 1, **asked.options} if live else asked.options
    inputs = given_inputs(trained, asked, size=1 if live else None)
    frames = (frame for _, some in inputs for frame in some if frame is not None)
    unread = 0

    def readable() -> Iterator[Any]:
        nonlocal unread
        for frame in frames:
            try:
                with warnings.catch_warnings(action="ignore"):  # it is read once more
                    decode_images([frame], trained.shape)
            except Unreadable as error:
                print(f"regard: {error}", file=sys.stderr)
                unread += 1
            else:
                yield frame

    with writing(replace(asked, file=None), None, _named, given=asked.options) as (write, _):
        for frame, found in trained.caption_changes(readable(), **options):
            write(str(frame), found)
    if unread:
        raise typer.Exit(1)


def _named(picture: str, found: Any) -> str:
    """A caption behind the name of its file."""
    return f"{printable(picture)}\t{found}"
