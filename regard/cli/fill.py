"""The command that fills the gaps of texts with a masked language model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.answers import AnswerRequest, write_answers
from regard.cli.grammar import Answers, Column, Device, Input, Json, Words, resolve_model

BLANK_FILL: dict[str, Any] = {"text": "", "filled": "", "gaps": []}


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

    model, texts = resolve_model(words or [], "fill")
    request = AnswerRequest(texts, input, output, None, as_json, model, column)
    request.check(text=True)
    trained = recipe.load(model, device=device, task=recipe.tasks_with_verb("fill"))
    write_answers(trained, request, key=None, format_answer=_format_candidates, blank_answer=BLANK_FILL, top=top)


def _format_candidates(text: str, answer: Any) -> str:
    """Return the filled text in one line, and below it the candidates for each gap."""
    gaps = ("   " + "  ".join(f"{word} {share:.3f}" for word, share in gap) for gap in answer.gaps)
    return "\n".join([answer.filled.replace("\n", " "), *gaps])
