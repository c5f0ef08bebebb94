"""Starting from another model: one of the same task as it is, one of another task as the body under a new head.

Every model's config says which family of bodies its model has (`FAMILY`), what its sizes are called (`BODY`, from the
family's names to its own) and where its weights lie (`body`, from the family's prefixes to its own).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from regard import config, models
from regard.checkpoint import Checkpoint, fill

FREE = ("dropout", "attention_dropout", "embedding_dropout", "word_dropout", "recurrent_dropout", "vectors")


def shape(parent: Checkpoint, asked: Any, *, task: str, kinds: Iterable[type]) -> dict[str, Any]:
    """The model section that goes on from a parent: its own for the same task, else the sizes of its body.

    What was asked for may differ in what weights do not depend on, and of another task's model in its head.
    """
    before = parent_shape(parent)
    asked = asked if isinstance(asked, Mapping) else {}
    if parent.config.get("task") == task:
        kept = {name: value for name, value in config.plain(before).items() if name not in FREE or name not in asked}
        return _checked(kept, asked, parent)
    kind = next((kind for kind in kinds if getattr(kind, "FAMILY", None) == getattr(before, "FAMILY", "")), None)
    if kind is None:
        raise ValueError(
            f"{parent.directory} holds {_article(before)}, whose body no model for {task} has: "
            "leave out --from, or give a model of the same kind"
        )
    own, theirs = kind.BODY, type(before).BODY  # type: ignore[attr-defined]
    kept = {own[name]: getattr(before, theirs[name]) for name in own if name in theirs}
    return _checked({"name": kind.name, **config.plain(kept)}, asked, parent)  # type: ignore[attr-defined]


def adopt(model: Any, parent: Checkpoint, *, same: bool) -> list[str]:
    """Give a model the weights of one of the same task, or the body of another's; what was made anew is named."""
    passing = getattr(model, "transient", ())
    tensors = {name: tensor for name, tensor in parent.tensors().items() if name not in passing}
    if not same or _head_differs(model, tensors):
        return [f"starting from {parent.directory}: {_transplanted(model, parent_shape(parent), tensors)}"]
    fill(model, tensors)
    return [f"starting from {parent.directory}"]


def _head_differs(model: Any, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a model of the same task has other labels, so that only its body fits."""
    state = model.state_dict()
    unlike = {name for name in state if name in tensors and tensors[name].shape != state[name].shape}
    return (
        bool(unlike)
        and hasattr(model.config, "body")
        and not any(name == own or name.startswith(f"{own}.") for name in unlike for own in model.config.body.values())
    )


def parent_shape(parent: Checkpoint) -> Any:
    """The config of a checkpoint's model."""
    return models.config_of(parent.config["model"])


def _transplanted(model: Any, before: Any, tensors: Mapping[str, Tensor]) -> str:
    """Copy what lies in the body; say what was taken and what is new."""
    state, taken = model.state_dict(), set()
    theirs: Mapping[str, str] = before.body
    for role, own in model.config.body.items():
        for name in (name for name in state if name == own or name.startswith(f"{own}.")):
            other = theirs.get(role, "") + name.removeprefix(own)
            if role in theirs and other in tensors and tensors[other].shape == state[name].shape:
                state[name].copy_(tensors[other])
                taken.add(name)
    anew = sorted({name.split(".")[0] for name in state if name not in taken})
    if not taken:
        raise ValueError("nothing of that model fits this one: leave out --from, or make the sizes equal")
    said = f"{len(taken)} of {len(state)} tensors taken over"
    return f"{said}, made anew: {', '.join(anew)}" if anew else said


def _checked(kept: dict[str, Any], asked: Mapping[str, Any], parent: Checkpoint) -> dict[str, Any]:
    for name, value in asked.items():
        if name in kept and name not in FREE and config.plain(kept[name]) != config.plain(value):
            raise ValueError(
                f"model.{name} is {kept[name]} in {parent.directory}, not {value}: leave it out to start from there"
            )
    return kept


def _article(before: Any) -> str:
    return str(getattr(before, "phrase", before.name))
