"""A labeller that somebody else trained: what its checkpoint holds beside the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard import config
from regard.data.tokenizers import Tokenizer
from regard.tasks.card import card
from regard.tasks.labels.input_format import EXTRACT
from regard.tasks.labels.text_tokenizer import TextTokenizerConfig

PLAIN_STYLE = "plain"


def imported_checkpoint_files(
    task: Any,
    shape: Any,
    tokenizer: Tokenizer,
    notes: Sequence[str] = (),
    *,
    labels: Sequence[str] | None = None,
    pairs: bool = False,
) -> dict[str, Any]:
    """The files of a checkpoint; labels that nobody names are numbered, as `transformers` does."""
    if labels is not None and len(labels) != shape.classes:
        raise ValueError(f"{len(labels)} labels were named, and the head has {shape.classes}: name as many")
    named = list(labels or (f"LABEL_{number}" for number in range(shape.classes)))
    if len(set(named)) < len(named):
        raise ValueError(f"one of the labels {', '.join(named)} is named twice")
    style = PLAIN_STYLE if shape.FORMAT == "gpt" and tokenizer.find_special(EXTRACT) is None else shape.FORMAT
    if pairs and style == PLAIN_STYLE:
        raise ValueError("a GPT of others reads one text, without a token between two: leave out --pairs")
    known = {
        name: value for name, value in vars(tokenizer.how).items() if name in TextTokenizerConfig.__dataclass_fields__
    }
    how = config.build(TextTokenizerConfig, {**known, "longest": shape.context}, where="tokenizer")
    settings = {
        "format": 1,
        "task": {each.name: each.default for each in task.Recipe.__dataclass_fields__.values()}["task"],
        "model": config.plain(shape),
        "tokenizer": config.plain(how),
        "labels": named,
        **({"pairs": True} if pairs else {}),
        **({"style": style} if style != shape.FORMAT else {}),
        "data": {"file": {}, "names": {}},
    }
    facts = " ".join([f"{shape.phrase}, {shape.vocab:,} tokens.", *notes])
    readme = card(task.title, facts, command=task.usage.format(folder="DIRECTORY"), code=task.code)
    return {"config.yaml": settings, "tokenizer.json": tokenizer.json(), "README.md": readme}
