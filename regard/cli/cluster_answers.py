"""Answers of a cluster to a long file: `--ray -i FILE -o FOLDER` writes numbered parts, which together are the output.

Beside the parts lies `parts.json`, which says what was asked and how many there are to be; `notes-*.json` say of a part
what was out of the ordinary. The same command goes on where an earlier one was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.answers import (
    BLOCK_SIZE,
    AnswerForm,
    AnswerRequest,
    answer_block,
    read_file_texts,
    read_joined_inputs,
    write_answers,
)
from regard.cli.part_folders import ENDINGS, MANIFEST
from regard.cli.resumable_output import digest_request, replace_file, show_progress
from regard.cli.text_io import print_note
from regard.cluster.connection import connect
from regard.cluster.parts import Part, PartFolder, PartWork, write_parts
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.tasks.inputs import Inputs


def write_answers_anywhere(trained: Any, request: AnswerRequest, load: Callable[..., Any], form: AnswerForm) -> None:
    """Answer a request in this process, or have a cluster do it, whose workers `load` the model by themselves."""
    if request.ray is not None:
        return answer_in_parts(trained, request, form, request.options, partial(load, device=request.device))
    write_answers(trained, request, key=form.key, format_answer=form.format_answer, blank_answer=form.blank_answer)


def answer_in_parts(
    trained: Any, request: AnswerRequest, form: AnswerForm, options: Mapping[str, Any], load: Callable[[], Any]
) -> None:
    """Have a file answered by a cluster, as `write_answers` does on one machine; workers `load` the model."""
    spec: Inputs = trained.inputs
    if spec.together or read_joined_inputs(trained, request) is not None:
        raise ValueError(f"{trained.name} is {trained.kind}, which reads its input whole: leave --ray out")
    work = PartWork(
        load=load,
        read=partial(read_texts, request),
        answer=partial(answer_texts, form, request.format == "jsonl", dict(options)),
        size=BLOCK_SIZE,
    )
    notes = run_parts(trained, request, work, form.identify(request, options))
    if any(notes.messages):
        raise typer.Exit(1)


def answer_texts(
    form: AnswerForm, as_json: bool, options: Mapping[str, Any], trained: Any, first: int, texts: list[str]
) -> Part:
    """Answer the texts of a part."""
    parsed = [trained.inputs.parse(text) if text.strip() else None for text in texts]
    answers, unreadable = answer_block(trained, parsed, options)
    lines = [form.line(text, answer, as_json=as_json) for text, answer in zip(texts, answers, strict=True)]
    return Part(lines, messages=unreadable)


def read_texts(request: AnswerRequest, trained: Any) -> Iterator[str]:
    """Read the texts of the file again, without saying how."""
    return read_file_texts(trained, request, report=_ignore)


def run_parts(trained: Any, request: AnswerRequest, work: PartWork, identity: Any) -> Part:
    """Have the parts written that are not there yet; print and return what is to be said of all of them."""
    assert request.file is not None
    assert request.output is not None
    assert request.ray is not None
    texts = sum(1 for _ in work.read(trained))
    if not texts:
        raise ValueError(f"{request.file} is empty: give lines to read")
    count = -(-texts // work.size)
    folder = PartFolder(request.output.absolute(), ENDINGS[request.format])
    missing = _open_folder(folder, digest_request([identity, work.size], request.file), count)
    if len(missing) < count:
        print_note(f"continuing {request.output}: {count - len(missing):,} of {quantity(count, 'part')} are there")
    with show_progress(request.file, (count - len(missing)) * work.size) as advance:
        if missing:
            with connect(request.ray):
                gpu = request.device == "cuda"
                for done, _ in enumerate(write_parts(work, folder, missing, gpu=gpu), count - len(missing) + 1):
                    advance(min(texts, done * work.size))
    if left := folder.missing(count):
        raise ValueError(f"{request.output}: {quantity(len(left), 'part')} of {count:,} are missing: run it again")
    notes = folder.read_notes()
    for message in notes.messages:
        print_note(message)
    print_note(f"{request.output}: {quantity(texts, 'line')} in {quantity(count, 'part')}, whole in their order")
    return notes


def _open_folder(folder: PartFolder, digest: str, count: int) -> list[int]:
    """Make the folder or go on with it, and return the numbers of the parts that are to be written."""
    manifest = folder.path / MANIFEST
    asked = {"asked": digest, "parts": count}
    if manifest.is_file():
        try:
            before = json.loads(manifest.read_text(encoding="utf-8"))
        except ValueError:
            before = None
        if before != asked:
            raise ValueError(f"{folder.path.name} holds the answers to another request: name a new folder")
    else:
        folder.path.mkdir(exist_ok=True)
        replace_file(manifest, json.dumps(asked))
    folder.drop_drafts()
    return folder.missing(count)


def _ignore(message: str) -> None:
    """Say nothing: the command has said it already."""
