"""Checkpoints of labelling models that were trained with another library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard import config
from regard.data.tokenizers import Tokenizer
from regard.tasks.model_card import model_card
from regard.tasks.text_encoders.input_format import EXTRACT
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig

PLAIN_STYLE = "plain"


def imported_checkpoint_files(
    task: Any,
    model_config: Any,
    tokenizer: Tokenizer,
    notes: Sequence[str] = (),
    *,
    labels: Sequence[str] | None = None,
    pairs: bool = False,
) -> dict[str, Any]:
    """Return the checkpoint files other than weights; labels without names are numbered as in `transformers`."""
    if labels is not None and len(labels) != model_config.classes:
        raise ValueError(f"{len(labels)} labels were named, and the head has {model_config.classes}: name as many")
    label_names = list(labels or (f"LABEL_{number}" for number in range(model_config.classes)))
    if len(set(label_names)) < len(label_names):
        raise ValueError(f"one of the labels {', '.join(label_names)} is named twice")
    style = (
        PLAIN_STYLE
        if model_config.input_style == "gpt" and tokenizer.find_special(EXTRACT) is None
        else model_config.input_style
    )
    if pairs and style == PLAIN_STYLE:
        raise ValueError("a GPT of others reads one text, without a token between two: leave out --pairs")
    tokenizer_settings = {
        name: value for name, value in vars(tokenizer.how).items() if name in TextTokenizerConfig.__dataclass_fields__
    }
    tokenizer_config = config.build(
        TextTokenizerConfig, {**tokenizer_settings, "max_length": model_config.context}, where="tokenizer"
    )
    settings = {
        "format": 1,
        "task": {field.name: field.default for field in task.Recipe.__dataclass_fields__.values()}["task"],
        "model": config.plain(model_config),
        "tokenizer": config.plain(tokenizer_config),
        "labels": label_names,
        **({"pairs": True} if pairs else {}),
        **({"style": style} if style != model_config.input_style else {}),
        "data": {"file": {}, "names": {}},
    }
    facts = " ".join([f"{model_config.phrase}, {model_config.vocab:,} tokens.", *notes])
    readme = model_card(task.title, facts, command=task.usage.format(folder="DIRECTORY"), code=task.code)
    return {"config.yaml": settings, "tokenizer.json": tokenizer.json(), "README.md": readme}
