"""The command that lists the models shipped with Regard."""

from __future__ import annotations

import json
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.grammar import Json

if TYPE_CHECKING:
    from regard.shipped import ShippedModel

WIDTH = 80
PLACE_NOTE = "A run folder or a checkpoint directory may stand wherever a name may."


def models(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them; all when not given.")] = None,
    as_json: Json = False,
) -> None:
    """List the models that come with Regard."""
    from regard import shipped
    from regard.config.words import suggest_name

    shipped_models = shipped.models()
    if name is not None and name not in shipped_models:
        if Path(name).is_dir():
            raise ValueError(
                f"{name} is a folder, no model that comes with Regard: try regard runs {shlex.quote(name)}"
            )
        raise ValueError(f"no model called {name} comes with Regard{suggest_name(name, shipped_models)}")
    chosen = list(shipped_models.values()) if name is None else [shipped_models[name]]
    if as_json:
        print(json.dumps([model.plain() for model in chosen], ensure_ascii=False, indent=1))
        return
    print("\n\n".join([*map(_describe_model, chosen), *([PLACE_NOTE] if name is None else [])]))


def _describe_model(model: ShippedModel) -> str:
    """Describe a model in a few lines of at most eighty columns."""
    from regard.data.language_names import LANGUAGES

    facts = model.facts
    languages = " and ".join(LANGUAGES.get(code, code) for code in facts.language)
    rows = {
        "task": model.task,
        "languages": languages,
        "size": f"{model.size / 1e6:.1f} MB",
        "score": facts.score,
        "use": ", ".join(f"regard {command}" for command in facts.commands),
        "licence": facts.license,
        "sources": "; ".join(facts.sources),
    }
    lines = [model.name]
    for name, value in rows.items():
        lines += textwrap.wrap(
            value, WIDTH, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13, break_on_hyphens=False
        )
    return "\n".join(lines)
