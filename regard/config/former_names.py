"""Names that settings had before, and short ones beside those of today: each is read as the setting that it means.

Recipes, checkpoints, runs and the command line may use either. Where somebody gives one setting by two of its names at
once, they are told to choose; what is said later, as on the command line, counts whichever name it uses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.config.fields import hints, sections
from regard.config.words import join

SIZES = ("data.batch_size",)
PAIRS = ("translation", "text-to-text")

FORMER: dict[str, tuple[str, ...]] = {
    "optim.rate": ("optim.learning_rate",),
    "optim.lr": ("optim.learning_rate",),
    "optim.last": ("optim.final_learning_rate",),
    **{
        f"optim.{part}.{name}": (f"optim.{part}.learning_rate",)
        for part in ("generator", "discriminator")
        for name in ("rate", "lr")
    },
    "data.batch": SIZES,
    "data.lanes": SIZES,
    "data.windows": SIZES,
    "data.tokens": ("data.batch_tokens",),
    "data.held": ("data.validation_size", "data.validation_share"),
    "data.held_share": ("data.validation_share",),
    "data.least": ("data.min_count",),
    "data.most": ("data.vocab", "data.max_digits", "data.max_images"),
    "data.longest": ("data.max_length",),
    "data.shortest": ("data.min_length",),
    "data.answer": ("data.max_answer_length",),
    "tokenizer.least": ("tokenizer.min_frequency",),
    "tokenizer.longest": ("tokenizer.max_length",),
    "embedding.longest": ("embedding.max_length",),
    "few.rate": ("few.learning_rate",),
    "few.lr": ("few.learning_rate",),
    "model.each": ("model.per_token",),
    "objective.smoothing": ("objective.label_smoothing",),
    "objective.judged": ("objective.eval_examples",),
    "objective.goal": ("objective.metric",),
    "objective.best": ("objective.metric",),
    "objective.agreement": ("objective.rdrop",),
    "objective.doubly": ("objective.doubly_stochastic",),
    "objective.mean": ("objective.mean_span_length",),
    "training.log": ("training.log_every",),
    "training.evaluate": ("training.eval_every",),
    "training.save": ("training.save_every",),
    "training.rows": ("training.accumulate",),
    "training.workers": ("training.threads",),
    "tuning.way": ("tuning.method",),
    "tuning.decay": ("tuning.layer_decay",),
    # options of trained models
    "options.longest": ("options.max_length",),
    "options.rate": ("options.learning_rate",),
    "options.lr": ("options.learning_rate",),
}
"""Settings by a former or a short name, each with those that it may mean: the first that a recipe has is the one.

An entry sleeps where a recipe has a setting of the former name.
"""

SHORT: Mapping[str, str] = {"lr": "optim.learning_rate"}
"""Short names that a setting inside a section has at the top of a recipe, where the recipe has that setting."""

ONLY: Mapping[str, tuple[str, ...]] = {
    "data.validation_size": (*PAIRS, "matching"),
    "data.vocab": ("word2vec",),
    "data.max_digits": ("counting",),
}
"""The tasks that have a setting, where its former name means another one in other tasks."""

RELEASED = (
    *PAIRS,
    *("classification", "tagging", "similarity", "choice", "question-answering", "few-shot", "matching"),
    *("causal-lm", "masked-lm", "span-corruption", "language", "word2vec", "regression", "omics"),
    *("node-classification", "pictures", "gan", "captions", "pixels", "localisation", "counting", "remembering"),
)
"""The tasks whose checkpoints may have been written under former names; nobody knows what others call their own."""


def rename_former_settings(cls: type, mapping: Mapping[str, Any], *, where: str = "") -> dict[str, Any]:
    """Return settings under the names that the recipe or section has today; the mapping itself is left alone."""
    return _rename((cls,), mapping if where else _expand_short_names(cls, mapping), where)


def rename_former_changes(cls: type, changes: Sequence[str]) -> list[str]:
    """Return changes such as `optim.lr=0.1` under the current names of the settings."""
    renamed, given_names = [], dict[str, str]()
    for change in changes:
        name, equals, value = change.partition("=") if isinstance(change, str) else (change, "", "")
        if not equals:
            renamed.append(change)  # which is refused where it is read
            continue
        name = name.strip()
        current = find_current_name(cls, name)
        if given_names.setdefault(current, name) != name:
            raise _given_twice(given_names[current], name)
        renamed.append(f"{current}={value}")
    return renamed


def rename_former_in_checkpoint(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a checkpoint under their current names."""
    task = settings.get("task", "translation")
    return _rename_by_task(settings, task) if isinstance(task, str) and task in RELEASED else dict(settings)


def find_current_name(cls: type, name: str) -> str:
    """Return the current full name of a setting; unknown names are returned unchanged."""
    *path, last = name.split(".")
    if (long := _find_long_name(cls, name)) is not None:
        return long
    where = ".".join(path)
    return join(where, _choose(join(where, last), last, _field_names(_follow(cls, path))))


def restore_former_names(settings: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Return the settings of a section under their former names, as digests of it were made since they had those."""
    former = {
        current: name
        for name, currents in reversed(FORMER.items())  # of several names the first is the older one
        for current in currents
        if name.rpartition(".")[0] == where
    }
    return {former.get(join(where, name), name).rpartition(".")[2]: value for name, value in settings.items()}


def _find_long_name(cls: type, name: Any) -> str | None:
    """Return the setting that a short name at the top of a recipe means; None if it has another meaning, or none."""
    long = SHORT.get(name) if isinstance(name, str) and name not in _field_names([cls]) else None
    if long is None:
        return None
    *path, last = long.split(".")
    return long if last in _field_names(_follow(cls, path)) else None


def _expand_short_names(cls: type, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with those of short names in their sections."""
    expanded = dict(mapping)
    for name in mapping:
        section, _, last = (_find_long_name(cls, name) or "").rpartition(".")
        inner = expanded.get(section, {}) if section else None
        if not isinstance(inner, Mapping):
            continue  # an unknown name, or a section that is refused where it is read
        for other in inner:
            if _choose(join(section, str(other)), other, (last,)) == last:
                raise _given_twice(name, join(section, str(other)))
        expanded[section] = {**inner, last: expanded.pop(name)}
    return expanded


def _rename(classes: tuple[type, ...], mapping: Mapping[str, Any], where: str) -> dict[str, Any]:
    names, available = dict[str, str](), _field_names(classes)
    renamed: dict[str, Any] = {}
    for name, value in mapping.items():
        current = _choose(join(where, str(name)), name, available)
        if names.setdefault(current, name) != name:
            raise _given_twice(join(where, names[current]), join(where, name))
        inner = _sections_of(classes, current) if isinstance(value, Mapping) else ()
        renamed[current] = _rename(inner, value, join(where, current)) if inner else value
    return renamed


def _rename_by_task(mapping: Mapping[str, Any], task: str, where: str = "") -> dict[str, Any]:
    renamed: dict[str, Any] = {}
    for name, value in mapping.items():
        targets = [target for target in FORMER.get(join(where, str(name)), ()) if task in ONLY.get(target, (task,))]
        current = targets[0].rpartition(".")[2] if targets else name
        if isinstance(value, Mapping):
            value = _rename_by_task(value, task, join(where, str(current)))
        renamed[current] = value
    return renamed


def _choose(full_name: str, name: Any, available: Iterable[str]) -> Any:
    """Return the name that a setting of a section has today, if the section does not know the one it is given by."""
    if name in available:
        return name
    targets = (target.rpartition(".")[2] for target in FORMER.get(full_name, ()))
    return next((target for target in targets if target in available), name)


def _field_names(classes: Iterable[type]) -> set[str]:
    return {field.name for cls in classes if dataclasses.is_dataclass(cls) for field in dataclasses.fields(cls)}


def _follow(cls: type, path: Iterable[str]) -> tuple[type, ...]:
    """Return the possible dataclasses of a section, given by its path."""
    classes: tuple[type, ...] = (cls,)
    for section in path:
        classes = _sections_of(classes, section)
    return classes


def _sections_of(classes: Iterable[type], name: str) -> tuple[type, ...]:
    """Return the dataclasses that a section inside others may be."""
    kinds = [hints(cls)[name] for cls in classes if name in _field_names([cls])]
    return tuple(section for kind in kinds for section in sections(kind))


def _given_twice(first: str, second: str) -> ValueError:
    return ValueError(f"{first} and {second} are two names of one setting: give only one of them")
