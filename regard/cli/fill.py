"""The command that fills gaps in texts with a masked language model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.answers import Asked, respond
from regard.cli.grammar import Answers, Column, Device, Input, Json, Words, meant

BLANK: dict[str, Any] = {"text": "", "filled": "", "gaps": []}


def fill(
    words: Words = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    top: Annotated[int, typer.Option(min=1, max=1000, help="Candidates for every gap.")] = 5,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Fill the gaps of a text, such as "Paris is the [MASK] of France"."""
    from regard import recipe

    model, texts = meant(words or [], "fill")
    asked = Asked(texts, input, output, None, as_json, model, column)
    asked.check(text=True)
    trained = recipe.load(model, device=device, task=recipe.tasks_with_verb("fill"))
    respond(trained, asked, key=None, form=_candidates, blank=BLANK, top=top)


def _candidates(text: str, answer: Any) -> str:
    """The filled text in one line, and below it the candidates of each gap."""
    gaps = ("   " + "  ".join(f"{word} {share:.3f}" for word, share in gap) for gap in answer.gaps)
    return "\n".join([answer.filled.replace("\n", " "), *gaps])
