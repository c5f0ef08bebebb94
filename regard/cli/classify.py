"""Commands for models that label texts and pictures: classify, tag."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.answers import Asked, respond
from regard.cli.grammar import Answers, Column, Device, Input, Json, Model, Node, Texts
from regard.cli.lines import printable

Seen = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[INPUT]...", help="Texts, or - for stdin; of a model of pictures, picture files and folders."
    ),
]
BLANK: dict[str, Any] = {"text": "", "label": None, "probability": None}
UNSEEN: dict[str, Any] = {"label": None, "probability": None}
UNTAGGED: dict[str, Any] = {"words": [], "tags": [], "probabilities": []}


def classify(
    model: Model,
    texts: Seen = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    node: Node = None,
    every: Annotated[bool, typer.Option("--all", help="Every label with its probability.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Classify texts, pictures or nodes of a graph, with probabilities."""
    from regard import recipe
    from regard.data.pictures.decoding import OTHERS, SUFFIXES

    asked = Asked([*(node or []), *(texts or [])], input, output, None, as_json, model, column)
    asked.check(text=not node, opened=(*SUFFIXES, *OTHERS))
    trained = recipe.load(model, device=device, task=recipe.tasks_with_verb("classify"))
    form, key, blank = _every if every else _likeliest, None, BLANK
    if node:
        of_graphs(trained)
    if _reads_nodes(trained):  # their names stand before the answers, however they were given
        form = _named_every if every else _named
    if trained.inputs.kind.is_path:  # its inputs are files, whose names stand before the answers
        asked.check(reads=[Path(text) for text in texts or []])
        form, key, blank = _named_every if every else _named, "picture", UNSEEN
    respond(trained, asked, key=key, form=form, blank=blank)


def of_graphs(trained: Any) -> None:
    """Stop at --node for a model that knows no nodes."""
    if not _reads_nodes(trained):
        raise ValueError(f"--node is for models of graphs: {trained.name} is {trained.kind}, leave it out")


def _reads_nodes(trained: Any) -> bool:
    """True for a model whose inputs are nodes of a graph."""
    from regard.tasks.inputs import NODE

    return trained.inputs.kind is NODE


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

    asked = Asked(texts, input, output, None, as_json, model, column)
    asked.check(text=True)
    respond(recipe.load(model, device=device, task="tagging"), asked, key=None, blank=UNTAGGED)


def _likeliest(text: str, verdict: Any) -> str:
    return str(verdict)


def _named(text: str, verdict: Any) -> str:
    return f"{printable(text)}\t{_likeliest(text, verdict)}"


def _named_every(text: str, verdict: Any) -> str:
    return f"{printable(text)}\t{_every(text, verdict)}"


def _every(text: str, verdict: Any) -> str:
    return "\t".join(f"{label}\t{chance:.3f}" for label, chance in verdict.all.items())
