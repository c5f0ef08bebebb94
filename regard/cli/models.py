"""The command that lists the models that come with Regard."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from regard.cli.grammar import Json

if TYPE_CHECKING:
    from regard.shipped import Shipped

WIDTH = 80
PLACE = "A run folder or a checkpoint directory may stand wherever a name may."


def models(as_json: Json = False) -> None:
    """List the models that come with Regard."""
    from regard import shipped

    found = list(shipped.models().values())
    if as_json:
        print(json.dumps([model.plain() for model in found], ensure_ascii=False, indent=1))
        return
    print("\n\n".join([*map(_described, found), PLACE]))


def _described(model: Shipped) -> str:
    """A model in a few lines of at most eighty columns."""
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
