"""Starting from another model: one of the same task as it is, one of another task as the body under a new head.

The config of a model with a body that others can use says which family that is of (`FAMILY`), what its sizes are called
(`BODY`, from the family's names to its own), where its weights lie (`body`, from roles in the family to its own
prefixes) and, where fields alone do not tell, its `sizes` by the family's names. `PECULIAR` are further settings of the
body, which only the same model goes on with, under whichever head. `scale` is what it multiplies the vectors of tokens
by, if it does. `RESIZED` are sizes that may follow from the data anew; the model's `fitted(tensors)` then gives the
weights for them, such as positions interpolated. `ALIKE` are values of a setting that have the same weights, such as
soft and hard attention: a model goes on with any of them. `INNER` names the section of a model that is held inside
another as it is, such as what reads the pictures of a captioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from regard import config, models
from regard.checkpoint import Checkpoint, fill
from regard.models.lora import folded
from regard.shipped import name_of

FREE = ("dropout", "attention_dropout", "embedding_dropout", "word_dropout", "recurrent_dropout", "vectors",
        "tuned", "use", "softened")  # fmt: skip
TABLES = ("positions", "embedding", "bias")  # parts that may have more rows in one model than in another
FILLED = ("vocab", "target_vocab", "classes", "per_token")  # what follows from the data


def shape(parent: Checkpoint, asked: Any, *, task: str, kinds: Iterable[type]) -> dict[str, Any]:
    """The model section that goes on from a parent: its own for the same task, else the sizes of its body.

    What was asked for may differ in what weights do not depend on, and of another task's model in its head.
    """
    before = parent_shape(parent)
    asked = asked if isinstance(asked, Mapping) else {}
    if parent.config.get("task") == task:
        filled = (*FILLED, *getattr(before, "RESIZED", ()))
        kept = {name: value for name, value in config.plain(before).items() if name not in filled}
        kept = {
            name: value for name, value in kept.items() if name not in asked or not _open(before, name, asked[name])
        }
        return _checked(kept, asked, parent)
    if (held := _holder(kinds, asked, before)) is not None:
        return _held(held, asked, parent, before)
    fellows: list[Any] = [kind for kind in kinds if getattr(kind, "FAMILY", None) == getattr(before, "FAMILY", "")]
    wanted = [kind for kind in fellows if kind.name == asked.get("name")]
    kind = next(iter(wanted or [each for each in fellows if _kin(each, before)] or fellows), None)
    if kind is None:
        raise ValueError(
            f"{parent.directory} holds {_article(before)}, whose body no model for {task} has: "
            "leave out --from, or give a model of the same kind"
        )
    same, sizes = _kin(kind, before), _sizes(before)
    if strange := [name for name, value in sizes.items() if name not in kind.BODY and value and not same]:
        raise ValueError(
            f"{parent.directory} holds {_article(before)} ({strange[0]}), which {kind.name} for {task} has not: "
            "leave out --from, or give another model"
        )
    kept = {own: sizes[name] for name, own in kind.BODY.items() if name in sizes}
    kept |= {name: getattr(before, name) for name in getattr(kind, "PECULIAR", ()) if same}
    section = {"name": kind.name, **config.plain(kept)}
    try:
        config.build(kind, section, where="model")
    except ValueError as error:
        raise ValueError(
            f"{parent.directory} holds {_article(before)}, which {kind.name} for {task} cannot be, {error}: "
            "leave out --from, or give another model"
        ) from None
    return _checked(section, asked, parent)


def _open(before: Any, name: str, value: Any) -> bool:
    """Whether the weights are the same with another value of a setting."""
    alike = getattr(before, "ALIKE", {}).get(name, ())
    return name in FREE or (value in alike and getattr(before, name) in alike)


def _holder(kinds: Iterable[type], asked: Mapping[str, Any], before: Any) -> Any:
    """The model that has one like the parent's inside, the one asked for if there are several, or None."""
    holders: list[Any] = [
        kind for kind in kinds if hasattr(kind, "INNER") and type(before) in config.sections(kind, kind.INNER).values()
    ]
    return next((kind for kind in holders if kind.name == asked.get("name")), holders[0] if holders else None)


def _held(kind: Any, asked: Mapping[str, Any], parent: Checkpoint, before: Any) -> dict[str, Any]:
    """The section of a model with the parent's inside, without its head."""
    named = asked.get(kind.INNER)
    named = named if isinstance(named, Mapping) else {}
    kept = {name: value for name, value in config.plain(before).items() if name not in FILLED}
    kept = {name: value for name, value in kept.items() if name not in FREE or name not in named}
    return {"name": kind.name, kind.INNER: _checked(kept, named, parent, f"model.{kind.INNER}")}


def _kin(kind: Any, before: Any) -> bool:
    """Whether a model has all of the other's body: it is the same one, or the same under another head."""
    return isinstance(before, kind) or issubclass(kind, type(before))


def adopt(model: Any, parent: Checkpoint, *, same: bool) -> list[str]:
    """Give a model the weights of one of the same task, or the body of another's; what was made anew is named.

    `same` says that it has learnt the same, down to the labels.
    """
    passing = getattr(model, "transient", ())
    tensors = {name: tensor for name, tensor in folded(parent.finite_tensors()).items() if name not in passing}
    own, tensors = tensors, model.fitted(tensors) if hasattr(model, "fitted") else tensors
    resized = [f"{name} is interpolated" for name, tensor in own.items() if tensors[name].shape != tensor.shape]
    if same:
        state = model.state_dict()
        fill(model, {**{name: state[name] for name in passing if name in state}, **tensors})
        return [f"starting from {name_of(parent.directory)}", *resized]
    before = parent_shape(parent)
    if not hasattr(model.config, "body") or not hasattr(before, "body"):
        raise ValueError(f"{parent.directory} holds {_article(before)}, of which nothing fits here: leave out --from")
    return [f"starting from {name_of(parent.directory)}: {_transplanted(model, before, tensors, parent)}", *resized]


def parent_shape(parent: Checkpoint) -> Any:
    """The config of a checkpoint's model."""
    return models.config_of(parent.config["model"])


def _transplanted(model: nn.Module, before: Any, tensors: Mapping[str, Tensor], parent: Checkpoint) -> str:
    """Copy the body, all of it; say what was taken and what is new."""
    state, taken, shape = model.state_dict(), set(), model.config
    for name, other, role in _shared(state, shape, before):
        if other not in tensors:
            raise ValueError(f"{parent.directory} has no {other}, from which {name} would go on: leave out --from")
        mine, theirs = state[name], tensors[other]
        if role in TABLES and mine.shape[1:] == theirs.shape[1:]:  # for more places or tokens, or for fewer
            mine, theirs = mine[: len(theirs)], theirs[: len(mine)]
        if mine.shape != theirs.shape:
            sizes = " and ".join("x".join(map(str, each.shape)) or "one number" for each in (theirs, mine))
            raise ValueError(
                f"{parent.directory}: {other} and {name} have other sizes, {sizes}: leave out --from, or what was set"
            )
        scale = getattr(before, "scale", 1.0) / getattr(shape, "scale", 1.0) if role == "embedding" else 1.0
        mine.copy_(theirs if scale == 1.0 else theirs * scale)
        taken.add(name)
    passing = getattr(model, "transient", ())
    anew = sorted({name.split(".")[0] for name in state if name not in taken and name not in passing})
    said = f"{len(taken)} of {len(state)} tensors taken over"
    return f"{said}, made anew: {', '.join(anew)}" if anew else said


def _shared(state: Mapping[str, Tensor], shape: Any, before: Any) -> Iterator[tuple[str, str, str]]:
    """Every weight of the body, what it is called in the other model, and its role; only roles that both have."""
    for role, own in shape.body.items():
        theirs = before.body.get(role)
        for name in state if theirs is not None else ():
            if name == own or name.startswith(f"{own}."):
                yield name, theirs + name.removeprefix(own), role


def _sizes(before: Any) -> dict[str, Any]:
    """What a model's body is like, by the family's names."""
    if hasattr(before, "sizes"):
        return before.sizes
    return {name: getattr(before, field) for name, field in before.BODY.items()}


def _checked(
    kept: dict[str, Any], asked: Mapping[str, Any], parent: Checkpoint, where: str = "model"
) -> dict[str, Any]:
    for name, value in asked.items():
        if name in kept and name not in FREE and config.plain(kept[name]) != config.plain(value):
            raise ValueError(
                f"{where}.{name} is {kept[name]} in {parent.directory}, not {value}: leave it out to start from there"
            )
    return kept


def _article(before: Any) -> str:
    """What it is, in the middle of a sentence."""
    text = str(getattr(before, "phrase", before.name))
    return text[:1].lower() + text[1:] if text.startswith(("A ", "An ")) else text
