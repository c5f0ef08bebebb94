"""The command that writes captions of pictures, or of frames whenever their caption changes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.answers import AnswerRequest, iterate_input_blocks, name_and_answer, open_answer_writer, write_answers
from regard.cli.grammar import Answers, Column, Device, Input, Json, Model, Settings


def caption(
    model: Model,
    pictures: Annotated[
        list[str] | None, typer.Argument(metavar="[PICTURE]...", help="Picture files, and folders of them.")
    ] = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    only_changes: Annotated[
        bool, typer.Option("--changes", help="Read frames in order; write a caption only when it changes.")
    ] = False,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write captions about pictures."""
    from regard import recipe
    from regard.tasks.image_inputs import decode_images
    from regard.tasks.trained import Unreadable

    request = AnswerRequest(pictures, input, output, settings, as_json, model, column)
    request.check(inputs=[Path(picture) for picture in pictures or []])
    trained = recipe.load(model, device=device, task=recipe.tasks_with_verb("caption"))
    if not only_changes:
        return write_answers(
            trained,
            request,
            key="picture",
            format_answer=name_and_answer,
            blank_answer={"caption": None, "score": None},
        )
    live = request.file is None and request.texts in (None, [], ["-"])  # frames come one by one, and so do captions
    options = {"batch": 1, **request.options} if live else request.options
    input_blocks = iterate_input_blocks(trained, request, block_size=1 if live else None)
    frames = (frame for _, block in input_blocks for frame in block if frame is not None)
    unread_count = 0

    def readable_frames() -> Iterator[Any]:
        nonlocal unread_count
        for frame in frames:
            try:
                with warnings.catch_warnings(action="ignore"):  # it is read once more
                    decode_images([frame], trained.shape)
            except Unreadable as error:
                print(f"regard: {error}", file=sys.stderr)
                unread_count += 1
            else:
                yield frame

    with open_answer_writer(replace(request, file=None), None, name_and_answer, options=request.options) as (write, _):
        for frame, answer in trained.caption_changes(readable_frames(), **options):
            write(str(frame), answer)
    if unread_count:
        raise typer.Exit(1)
