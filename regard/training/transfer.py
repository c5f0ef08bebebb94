"""Starting from another model: all of it for the same task, or its backbone under a new head for another task."""

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
TABLES = ("positions", "embedding", "bias")  # parts whose number of rows may differ between models
FILLED = ("vocab", "target_vocab", "classes", "per_token")  # settings that follow from the data
NOTHING = Backbone(family="")


def model_settings(
    parent: Checkpoint, overrides: Any, *, task: str, available: Iterable[type[ModelConfig]]
) -> dict[str, Any]:
    """Return the model section to start from a parent: the parent's for the same task, else its backbone's sizes.

    Overrides may change settings that no weights depend on, and for another task those of the head. `available` are the
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
    """Load the weights of a parent, or only its backbone if its task is another; return notes on what is new.

    `same_task` is true if the parent was trained for the same task with the same labels.
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
    """Return the config of a checkpoint's model, which may be one of those `available` in a custom task."""
    section = parent.config["model"]
    candidates = [kind for kind in available if kind.name == section.get("name") and kind.name not in models.MODELS]
    return config.build(candidates[0], section, where="model") if candidates else models.config_of(section)


def _same_task_settings(parent: Checkpoint, parent_config: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parent's model section without what follows from the data and what may be overridden."""
    filled = (*FILLED, *_backbone(parent_config).resizable)
    section = {
        name: value
        for name, value in config.plain(parent_config).items()
        if name not in filled and not (name in overrides and _may_change(parent_config, name, overrides[name]))
    }
    _check_overrides(section, overrides, parent)
    return section


def _may_change(parent_config: Any, name: str, value: Any) -> bool:
    """True if a setting can be overridden with this value while the weights stay the same."""
    values = _backbone(parent_config).interchangeable.get(name, ())
    return name in FREE or (value in values and getattr(parent_config, name) in values)


def _choose_model(
    available: Iterable[type[ModelConfig]], overrides: Mapping[str, Any], parent_config: Any
) -> type[ModelConfig] | None:
    """Return the model of the parent's family to train: by its name, else the same model, else the first."""
    family = _backbone(parent_config).family
    candidates = [candidate for candidate in available if family and _backbone(candidate()).family == family]
    by_name = [candidate for candidate in candidates if candidate.name == overrides.get("name")]
    same_model = [candidate for candidate in candidates if _has_all_of(candidate, parent_config)]
    return next(iter(by_name or same_model or candidates), None)


def _model_that_holds(
    available: Iterable[type[ModelConfig]], overrides: Mapping[str, Any], parent_config: Any
) -> type[ModelConfig] | None:
    """Return the model that can contain the parent's, by its name if there are several, or None."""
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
    """Return the section of a model that contains the parent's model, without the parent's head."""
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
    """True if a model has all of the parent's backbone: the same model, or the same under another head."""
    return isinstance(parent_config, candidate) or issubclass(candidate, type(parent_config))


def _copy_backbone(model: Any, tensors: Mapping[str, Tensor], parent: Checkpoint) -> str:
    """Copy all weights of the backbone; return a note on how many were copied and which are new."""
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
        if part in TABLES and weight.shape[1:] == source.shape[1:]:  # more positions or tokens, or fewer
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
    """Yield every weight of the parts that both models have: its name here, its name there, and the part."""
    for part, prefix in ours.weights.items():
        if part not in theirs.weights:
            continue
        for name in state:
            if name == prefix or name.startswith(f"{prefix}."):
                yield name, theirs.weights[part] + name.removeprefix(prefix), part


def _check_overrides(
    section: Mapping[str, Any], overrides: Mapping[str, Any], parent: Checkpoint, where: str = "model"
) -> None:
    """Refuse overrides of settings that the parent's weights depend on."""
    for name, value in overrides.items():
        if name in section and name not in FREE and config.plain(section[name]) != config.plain(value):
            raise ValueError(
                f"{where}.{name} is {section[name]} in {parent.directory}, not {value}: "
                "leave it out to start from there"
            )


def _backbone(model_config: Any) -> Backbone:
    """Return the part of a model that another can start from; empty if the config has none."""
    return (isinstance(model_config, ModelConfig) and model_config.backbone) or NOTHING


def _with_article(model_config: ModelConfig) -> str:
    """Return the description of the model, for use in the middle of a sentence."""
    text = model_config.phrase
    return text[:1].lower() + text[1:] if text.startswith(("A ", "An ")) else text
