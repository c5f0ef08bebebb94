"""The command that writes captions of pictures, or of frames whenever their caption changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.answers import (
    AnswerForm,
    AnswerRequest,
    iterate_input_blocks,
    name_and_answer,
    open_answer_writer,
)
from regard.cli.cluster_answers import write_answers_anywhere
from regard.cli.grammar import Answers, Column, Device, Input, Json, Model, Ray, Settings
from regard.cli.text_io import print_note


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
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Write captions about pictures."""
    from regard import recipe

    request = AnswerRequest(pictures, input, output, settings, as_json, model, column, ray=ray, device=device)
    request.check(inputs=[Path(picture) for picture in pictures or []])
    if only_changes and ray is not None:
        raise ValueError("--changes looks at one frame after the other: leave --ray out")
    load = partial(recipe.load, model, task=recipe.tasks_with_verb("caption"))
    trained = load(device=request.checking_device)
    if not only_changes:
        form = AnswerForm("picture", name_and_answer, {"caption": None, "score": None})
        return write_answers_anywhere(trained, request, load, form)
    _write_changes(trained, request)


def _write_changes(trained: Any, request: AnswerRequest) -> None:
    """Write the captions of frames whenever they change; frames that cannot be read are reported, and fail the command.

    On standard input frames come one by one, and so do captions.
    """
    is_live = request.file is None and request.texts in (None, [], ["-"])
    options = {"batch": 1, **request.options} if is_live else request.options
    frames = ReadableFrames(trained, request, block_size=1 if is_live else None)
    file_request, form = replace(request, file=None), AnswerForm(None, name_and_answer)
    with open_answer_writer(file_request, form, request.options) as (write, _):
        for frame, answer in trained.caption_changes(iter(frames), **options):
            write(str(frame), answer)
    if frames.unread_count:
        raise typer.Exit(1)


@dataclass
class ReadableFrames:
    """The frames of a request, in order, without those that cannot be read, which are reported and counted."""

    trained: Any
    request: AnswerRequest
    block_size: int | None
    unread_count: int = 0

    def __iter__(self) -> Iterator[Any]:
        from regard.tasks.image_inputs import decode_images
        from regard.tasks.trained import Unreadable

        blocks = iterate_input_blocks(self.trained, self.request, block_size=self.block_size)
        for frame in (frame for _, block in blocks for frame in block if frame is not None):
            try:
                with warnings.catch_warnings(action="ignore"):  # it is read once more
                    decode_images([frame], self.trained.shape)
            except Unreadable as error:
                print_note(str(error))
                self.unread_count += 1
            else:
                yield frame
