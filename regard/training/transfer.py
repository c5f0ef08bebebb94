"""Starting from another model: one of the same task as it is, one of another task as the backbone under a new head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from regard import config, models
from regard.checkpoint import Checkpoint, fill
from regard.models.interface import Backbone, Model, ModelConfig, traits_of
from regard.models.parts.lora import merge_lora
from regard.shipped import display_name

FREE = ("dropout", "attention_dropout", "embedding_dropout", "word_dropout", "recurrent_dropout", "vectors",
        "tuned", "use", "softened")  # fmt: skip
TABLES = ("positions", "embedding", "bias")  # parts that may have more rows in one model than in another
FILLED = ("vocab", "target_vocab", "classes", "per_token")  # what follows from the data
NOTHING = Backbone(family="")


def model_settings(
    parent: Checkpoint, overrides: Any, *, task: str, available: Iterable[type[ModelConfig]]
) -> dict[str, Any]:
    """Return the model section that starts from a parent: its own for the same task, else the sizes of its backbone.

    Overrides may differ in what weights do not depend on, and of another task's model in its head. `available` are the
    configs of the models that the task can train.
    """
    available = list(available)
    parent_config = parent_model_config(parent, available)
    overrides = overrides if isinstance(overrides, Mapping) else {}
    if parent.config.get("task") == task:
        return _same_task_settings(parent, parent_config, overrides)
    if (holder := _model_that_holds(available, overrides, parent_config)) is not None:
        return _settings_around(holder, overrides, parent, parent_config)
    chosen = _choose_model(available, overrides, parent_config)
    if chosen is None:
        raise ValueError(
            f"{parent.directory} holds {_with_article(parent_config)}, whose body no model for {task} has: "
            "leave out --from, or give a model of the same kind"
        )
    backbone, parent_backbone = _backbone(chosen()), _backbone(parent_config)
    same, sizes = _has_all_of(chosen, parent_config), parent_backbone.sizes
    if missing := [name for name, value in sizes.items() if name not in backbone.settings and value and not same]:
        raise ValueError(
            f"{parent.directory} holds {_with_article(parent_config)} ({missing[0]}), "
            f"which {chosen.name} for {task} has not: leave out --from, or give another model"
        )
    section = {setting: sizes[name] for name, setting in backbone.settings.items() if name in sizes}
    if same:
        section |= {name: getattr(parent_config, name) for name in backbone.same_model_settings}
    section = {"name": chosen.name, **config.plain(section)}
    try:
        config.build(chosen, section, where="model")
    except ValueError as error:
        raise ValueError(
            f"{parent.directory} holds {_with_article(parent_config)}, which {chosen.name} for {task} cannot be, "
            f"{error}: leave out --from, or give another model"
        ) from None
    _check_overrides(section, overrides, parent)
    return section


def load_weights(model: nn.Module, parent: Checkpoint, *, same_task: bool) -> list[str]:
    """Give a model the weights of one of the same task, or the backbone of another's; return notes on what is new.

    `same_task` is true if the parent has learnt the same, down to the labels.
    """
    transient = traits_of(model).transient
    tensors = {name: tensor for name, tensor in merge_lora(parent.finite_tensors()).items() if name not in transient}
    resized = model.resize_weights(tensors) if isinstance(model, Model) else tensors
    notes = [f"{name} is interpolated" for name, tensor in tensors.items() if resized[name].shape != tensor.shape]
    if same_task:
        state = model.state_dict()
        fill(model, {**{name: state[name] for name in transient if name in state}, **resized})
        return [f"starting from {display_name(parent.directory)}", *notes]
    return [f"starting from {display_name(parent.directory)}: {_copy_backbone(model, resized, parent)}", *notes]


def parent_model_config(parent: Checkpoint, available: Iterable[type[ModelConfig]] = ()) -> Any:
    """Return the config of a checkpoint's model, which may be one of those that a task of one's own trains."""
    section = parent.config["model"]
    candidates = [kind for kind in available if kind.name == section.get("name") and kind.name not in models.MODELS]
    return config.build(candidates[0], section, where="model") if candidates else models.config_of(section)


def _same_task_settings(parent: Checkpoint, parent_config: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parent's own section but for what follows from the data and what may be chosen anew."""
    filled = (*FILLED, *_backbone(parent_config).resizable)
    section = {
        name: value
        for name, value in config.plain(parent_config).items()
        if name not in filled and not (name in overrides and _may_change(parent_config, name, overrides[name]))
    }
    _check_overrides(section, overrides, parent)
    return section


def _may_change(parent_config: Any, name: str, value: Any) -> bool:
    """True if the weights are the same with another value of a setting."""
    values = _backbone(parent_config).interchangeable.get(name, ())
    return name in FREE or (value in values and getattr(parent_config, name) in values)


def _choose_model(
    available: Iterable[type[ModelConfig]], overrides: Mapping[str, Any], parent_config: Any
) -> type[ModelConfig] | None:
    """Return the model to train: one of the parent's family, by its name, else the same model, else the first."""
    family = _backbone(parent_config).family
    candidates = [candidate for candidate in available if family and _backbone(candidate()).family == family]
    by_name = [candidate for candidate in candidates if candidate.name == overrides.get("name")]
    same_model = [candidate for candidate in candidates if _has_all_of(candidate, parent_config)]
    return next(iter(by_name or same_model or candidates), None)


def _model_that_holds(
    available: Iterable[type[ModelConfig]], overrides: Mapping[str, Any], parent_config: Any
) -> type[ModelConfig] | None:
    """Return the model that has one like the parent's inside, by its name if there are several, or None."""
    holders = []
    for candidate in available:
        inner = _backbone(candidate()).inner
        if inner and type(parent_config) in config.sections(candidate, inner).values():
            holders.append(candidate)
    by_name = [candidate for candidate in holders if candidate.name == overrides.get("name")]
    return next(iter(by_name or holders), None)


def _settings_around(
    holder: type[ModelConfig], overrides: Mapping[str, Any], parent: Checkpoint, parent_config: Any
) -> dict[str, Any]:
    """Return the section of a model with the parent's inside, without its head."""
    inner = _backbone(holder()).inner
    overrides_inside = overrides.get(inner)
    overrides_inside = overrides_inside if isinstance(overrides_inside, Mapping) else {}
    section = {
        name: value
        for name, value in config.plain(parent_config).items()
        if name not in FILLED and not (name in FREE and name in overrides_inside)
    }
    _check_overrides(section, overrides_inside, parent, f"model.{inner}")
    return {"name": holder.name, inner: section}


def _has_all_of(candidate: type, parent_config: Any) -> bool:
    """True if a model has all of the parent's backbone: it is the same model, or the same under another head."""
    return isinstance(parent_config, candidate) or issubclass(candidate, type(parent_config))


def _copy_backbone(model: Any, tensors: Mapping[str, Tensor], parent: Checkpoint) -> str:
    """Copy all weights of the backbone; return how many were taken over and which are new."""
    parent_config = parent_model_config(parent, [type(model.config)])
    ours, theirs = _backbone(model.config), _backbone(parent_config)
    if not ours.weights or not theirs.weights:
        raise ValueError(
            f"{parent.directory} holds {_with_article(parent_config)}, of which nothing fits here: leave out --from"
        )
    state, copied = model.state_dict(), set()
    for name, parent_name, part in _shared_weights(state, ours, theirs):
        if parent_name not in tensors:
            raise ValueError(
                f"{parent.directory} has no {parent_name}, from which {name} would go on: leave out --from"
            )
        weight, source = state[name], tensors[parent_name]
        if part in TABLES and weight.shape[1:] == source.shape[1:]:  # for more places or tokens, or for fewer
            weight, source = weight[: len(source)], source[: len(weight)]
        if weight.shape != source.shape:
            sizes = " and ".join("x".join(map(str, tensor.shape)) or "one number" for tensor in (source, weight))
            raise ValueError(
                f"{parent.directory}: {parent_name} and {name} have other sizes, {sizes}: "
                "leave out --from, or what was set"
            )
        scale = theirs.embedding_scale / ours.embedding_scale if part == "embedding" else 1.0
        weight.copy_(source if scale == 1.0 else source * scale)
        copied.add(name)
    transient = traits_of(model).transient
    new = sorted({name.split(".")[0] for name in state if name not in copied and name not in transient})
    note = f"{len(copied)} of {len(state)} tensors taken over"
    return f"{note}, made anew: {', '.join(new)}" if new else note


def _shared_weights(state: Mapping[str, Tensor], ours: Backbone, theirs: Backbone) -> Iterator[tuple[str, str, str]]:
    """Yield every weight of the parts that both have: its name here, its name there, and the part."""
    for part, prefix in ours.weights.items():
        if part not in theirs.weights:
            continue
        for name in state:
            if name == prefix or name.startswith(f"{prefix}."):
                yield name, theirs.weights[part] + name.removeprefix(prefix), part


def _check_overrides(
    section: Mapping[str, Any], overrides: Mapping[str, Any], parent: Checkpoint, where: str = "model"
) -> None:
    """Refuse overrides of what the parent's weights depend on."""
    for name, value in overrides.items():
        if name in section and name not in FREE and config.plain(section[name]) != config.plain(value):
            raise ValueError(
                f"{where}.{name} is {section[name]} in {parent.directory}, not {value}: "
                "leave it out to start from there"
            )


def _backbone(model_config: Any) -> Backbone:
    """Return what another model can start from; of a config that knows of none it is empty."""
    return (isinstance(model_config, ModelConfig) and model_config.backbone) or NOTHING


def _with_article(model_config: ModelConfig) -> str:
    """Return the model in a few words, as they stand in the middle of a sentence."""
    text = model_config.phrase
    return text[:1].lower() + text[1:] if text.startswith(("A ", "An ")) else text
