"""Commands for models that label text: classify, tag."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.answers import Asked, respond
from regard.cli.grammar import Answers, Device, Input, Json, Model, Texts

BLANK = {"text": "", "label": None, "probability": None}
UNTAGGED: dict[str, Any] = {"words": [], "tags": [], "probabilities": []}


def classify(
    model: Model,
    texts: Texts = None,
    input: Input = None,
    output: Answers = None,
    every: Annotated[bool, typer.Option("--all", help="Every label with its probability.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Classify a text, with probabilities."""
    from regard import recipe

    asked = Asked(texts, input, output, None, as_json, model)
    asked.check(text=True)
    trained = recipe.load(model, device=device, task=recipe.able("classify"))
    respond(trained, asked, key=None, form=_every if every else _likeliest, blank=BLANK)


def tag(
    model: Model,
    texts: Texts = None,
    input: Input = None,
    output: Answers = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Tag each word of a sentence."""
    from regard import recipe

    asked = Asked(texts, input, output, None, as_json, model)
    asked.check(text=True)
    respond(recipe.load(model, device=device, task="tagging"), asked, key=None, blank=UNTAGGED)


def _likeliest(text: str, verdict: Any) -> str:
    return str(verdict)


def _every(text: str, verdict: Any) -> str:
    return "\t".join(f"{label}\t{chance:.3f}" for label, chance in verdict.all.items())
