"""The commands that label texts, pictures and nodes: classify, tag."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.answers import AnswerForm, AnswerRequest, name_and_answer, write_answers
from regard.cli.cluster_answers import write_answers_anywhere
from regard.cli.grammar import Answers, Column, Device, Input, Json, Model, Node, Ray, Texts
from regard.cli.text_io import escape_name

TextsOrPictures = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[INPUT]...", help="Texts, or - for stdin; of a model of pictures, picture files and folders."
    ),
]
BLANK_TEXT: dict[str, Any] = {"text": "", "label": None, "probability": None}
BLANK_PICTURE: dict[str, Any] = {"label": None, "probability": None}
BLANK_TAGS: dict[str, Any] = {"words": [], "tags": [], "probabilities": []}


def classify(
    model: Model,
    texts: TextsOrPictures = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    node: Node = None,
    show_all: Annotated[bool, typer.Option("--all", help="Every label with its probability.")] = False,
    device: Device = "auto",
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Classify texts, pictures or nodes of a graph, with probabilities."""
    from regard import recipe
    from regard.data.images.decoding import OTHERS, SUFFIXES

    texts_and_nodes = [*(node or []), *(texts or [])]
    request = AnswerRequest(texts_and_nodes, input, output, None, as_json, model, column, ray=ray, device=device)
    request.check(text=not node, file_endings=(*SUFFIXES, *OTHERS))
    load = partial(recipe.load, model, task=recipe.tasks_with_verb("classify"))
    trained = load(device=request.checking_device)
    if node:
        check_reads_nodes(trained)
    reads_pictures = trained.inputs.kind.is_path
    if reads_pictures:
        request.check(inputs=[Path(text) for text in texts or []])
    key, blank_answer = ("picture", BLANK_PICTURE) if reads_pictures else (None, BLANK_TEXT)
    format_answer: Callable[[str, Any], str] = _all_labels if show_all else _best_label
    if reads_pictures:
        format_answer = _name_and_all_labels if show_all else name_and_answer
    elif _reads_nodes(trained):  # names stand before the answers, however they were given
        format_answer = _node_and_all_labels if show_all else _node_and_answer
    write_answers_anywhere(trained, request, load, AnswerForm(key, format_answer, blank_answer))


def check_reads_nodes(trained: Any) -> None:
    """Refuse --node for a model that does not read the nodes of a graph."""
    if not _reads_nodes(trained):
        raise ValueError(f"--node is for models of graphs: {trained.name} is {trained.kind}, leave it out")


def _reads_nodes(trained: Any) -> bool:
    """True for a model whose inputs are nodes of a graph."""
    from regard.tasks.inputs import NODE, InputKind

    kind: InputKind = trained.inputs.kind
    return kind.name == NODE.name


def tag(
    model: Model,
    texts: Texts = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Tag each word of a sentence."""
    from regard import recipe

    request = AnswerRequest(texts, input, output, None, as_json, model, column)
    request.check(text=True)
    write_answers(recipe.load(model, device=device, task="tagging"), request, key=None, blank_answer=BLANK_TAGS)


def _best_label(text: str, verdict: Any) -> str:
    return str(verdict)


def _all_labels(text: str, verdict: Any) -> str:
    return "\t".join(f"{label}\t{chance:.3f}" for label, chance in verdict.all.items())


def _node_and_answer(text: str, verdict: Any) -> str:
    """Return an answer behind the name of its node, also where a whole graph was given."""
    return name_and_answer(verdict.node, verdict)


def _node_and_all_labels(text: str, verdict: Any) -> str:
    return _name_and_all_labels(verdict.node, verdict)


def _name_and_all_labels(text: str, verdict: Any) -> str:
    return f"{escape_name(text)}\t{_all_labels(text, verdict)}"
