"""The commands that read other people's models and write ours for others."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.grammar import Json, Model
from regard.tasks.importing import AddsTokens, ImportsHeads, ImportsModels, SaysUse

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="NAME", help="The model_type, such as gpt2; else it is found out.")
]
Onto = Annotated[
    Path | None,
    typer.Option(
        "--onto", metavar="BASE", help="The model that an adapter of peft belongs to, a folder or a checkpoint."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what was written to the folder before.")]


def import_model(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A Hugging Face folder, a file of llama2.c, or one of safetensors.")
    ],
    out: Out,
    kind: Type = None,
    onto: Onto = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="A,B",
            help="Names of the labels, in their order: of an adapter with --onto; of pictures also a file of them.",
        ),
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="With --onto: what is labelled are pairs of texts.")] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read a model of somebody else's into a checkpoint; nothing in it is run and nothing is fetched."""
    from regard import checkpoint, config, interop
    from regard.cost import parameters
    from regard.interop import pictures
    from regard.tasks.trained import usage_line

    _vacant(out, overwrite)
    if onto is None and not pairs and pictures.is_picture_model(folder, kind):
        _import_pictures(folder, out, kind, labels, as_json=as_json)
        return
    if onto is None:
        found = _alone(folder, kind, labels, pairs)
        task = _task(found.shape)
        files = task.checkpoint_files(found.shape, found.tokenizer, found.notes)
    else:
        found = interop.add_adapter(folder, _base(onto, kind))
        task, files = _labelled(found, None if labels is None else labels.split(","), pairs)
    files = {**files, checkpoint.WEIGHTS: found.tensors}
    if found.embedding is not None:
        files["config.yaml"] = {**files["config.yaml"], "embedding": dict(found.embedding)}
    if found.target is not None:
        files["tokenizer.target.json"] = found.target.json()
    _write(out, files)
    size = parameters(found.shape)
    if as_json:
        told = {"folder": str(out), "type": found.kind, "task": task.Recipe.task, "parameters": size}
        print(json.dumps({**told, "tokens": found.tokenizer.vocab, "model": config.plain(found.shape)}))
        return
    print(f"{out}: {found.shape.phrase}, {size:,} parameters, {found.tokenizer.vocab:,} tokens")
    usage = task.use(found.shape)[0] if isinstance(task, SaysUse) else task.usage
    print(usage_line(usage, out))


def export_model(
    model: Model,
    out: Out,
    to: Annotated[
        Literal["hf", "peft"],
        typer.Option("--to", help="The form: hf, a folder that others load; peft, a LoRA adapter."),
    ] = "hf",
    kind: Type = None,
    onto: Annotated[
        str | None, typer.Option("--onto", metavar="NAME", help="With --to peft: the base that the adapter names.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a trained model as a folder that `transformers`, or its adapter as one that `peft` loads."""
    from regard import interop, models, recipe
    from regard.data.tokenizers import Tokenizer
    from regard.interop import pictures
    from regard.models.lora import merge_lora

    _vacant(out, overwrite)
    if onto is not None and to != "peft":
        raise ValueError("--onto is the base of an adapter: add --to peft")
    found = recipe.open_model(model)
    shape = models.config_of(found.config.get("model", {}))
    if to == "hf" and any(isinstance(shape, family.model) for family in pictures.KINDS.values()):
        _export_pictures(found, shape, out, as_json=as_json)
        _tell_temperature(found)
        return
    if to == "hf":
        family = interop.family_for(shape, kind)  # before its tokenizer is read, which others may lack
    tokenizer = Tokenizer.parse(found.text("tokenizer.json"))
    if to == "peft":
        told = _adapter(out, found, shape, tokenizer, kind, onto)
    else:
        labels = _named(found, shape)
        files = interop.written(family, shape, merge_lora(found.finite_tensors()), tokenizer, labels)
        _write(out, files)
        told = {"type": family.kind, "architecture": files["config.json"]["architectures"][0]}
    _tell_temperature(found)
    if (level := found.config.get("tokenizer", {}).get("normalise", "none")) != "none":
        note = "which nobody does there: prepare texts likewise"
        print(f"regard: texts are normalised here ({level}) before they become tokens, {note}", file=sys.stderr)
    if as_json:
        print(json.dumps({"folder": str(out), **told}))
    elif to == "peft":
        print(f"{out}: written for peft, {told['task_type']}, {told['bytes'] / 1e6:.2g} MB")
    else:
        print(f"{out}: written for transformers, {told['architecture']}")


def _import_pictures(folder: Path, out: Path, kind: str | None, labels: str | None, *, as_json: bool) -> None:
    """Read a model of pictures; names of its classes may be given, or a file with one in each line."""
    from regard import checkpoint, config
    from regard.cost import parameters
    from regard.interop import pictures
    from regard.tasks.trained import usage_line

    found = pictures.read(folder, kind)
    task = _task(found.shape)
    named = found.labels if labels is None else _listed(labels)
    files = task.checkpoint_files(found.shape, found.data, found.notes, labels=named)
    _write(out, {**files, checkpoint.WEIGHTS: found.tensors})
    size = parameters(found.shape)
    if as_json:
        told = {"folder": str(out), "type": found.kind, "task": task.Recipe.task, "parameters": size}
        print(json.dumps({**told, "classes": found.shape.classes, "model": config.plain(found.shape)}))
        return
    classes = f"{found.shape.classes:,} classes" if found.shape.classes else "no head"
    print(f"{out}: {found.shape.phrase}, {size:,} parameters, {classes}")
    usage = task.usage if found.shape.classes else "regard train --pictures DIR --from {folder}"
    print(usage_line(usage, out))


def _listed(labels: str) -> list[str]:
    """Names of classes: those in a file, a line each, or those that are given with commas between them."""
    if not Path(labels).is_file():
        return labels.split(",")
    try:
        return Path(labels).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{labels}: cannot be read as a list of names, {error}") from None


def _export_pictures(found: Any, shape: Any, out: Path, *, as_json: bool) -> None:
    """Write a model of pictures in the words of others."""
    from regard.interop import pictures
    from regard.models.lora import merge_lora

    files = pictures.model_files(
        shape, merge_lora(found.finite_tensors()), found.config.get("data", {}), _named(found, shape) or []
    )
    _write(out, files)
    family = next(family for family in pictures.KINDS.values() if isinstance(shape, family.model))
    whose = family.spelling
    if as_json:
        print(json.dumps({"folder": str(out), "type": family.kind, "for": whose}))
        return
    called = family.architecture_name(shape) if whose == "transformers" else "weights with its names"
    print(f"{out}: written for {whose}, {called}")


def _tell_temperature(found: Any) -> None:
    """Say that probabilities will be others there, where logits are divided here before they become some."""
    if (heat := found.config.get("temperature", 1.0)) != 1.0:
        note = f"logits are divided here by {heat:.3g}, a temperature that was fitted, before they become probabilities"
        print(f"regard: {note}: do so there too, labels are the same", file=sys.stderr)


def _named(found: Any, shape: Any) -> list[str] | None:
    """What a model that labels calls them; numbers where it gives one."""
    from regard import config

    count = config.plain(shape).get("classes")
    if count is None:
        return None
    named = [str(label) for label in found.config.get("labels", ())]
    return named if len(named) == count else [f"LABEL_{number}" for number in range(count)]


def _adapter(out: Path, found: Any, shape: Any, tokenizer: Any, kind: str | None, onto: str | None) -> dict[str, Any]:
    """Write what lies beside the frozen matrices of a model; what there is to say of it."""
    from regard import interop
    from regard.interop import peft
    from regard.tasks import TASKS

    task = TASKS[found.config["task"]].task
    added = task.added_token_ids(tokenizer) if isinstance(task, AddsTokens) else ()
    kept = {name: value for name, value in found.config.items() if name not in ("format", "model")}
    tensors = found.finite_tensors()
    try:
        files = interop.adapter_files(shape, tensors, tokenizer, kind=kind, base=onto, added=added, settings=kept)
    except ValueError as error:
        raise ValueError(f"{found.directory} cannot be written for peft: {error}") from None
    _write(out, files)
    how = files[peft.CONFIG]
    size = (out / peft.WEIGHTS).stat().st_size
    return {"task_type": how["task_type"], "target_modules": how["target_modules"], "bytes": size}


def _alone(folder: Path, kind: str | None, labels: str | None, pairs: bool) -> Any:
    """A model that is whole by itself."""
    from regard import interop

    if interop.is_adapter(folder):
        raise ValueError(f"{folder} is an adapter of peft: name the model that it belongs to with --onto")
    if labels is not None or pairs:
        raise ValueError("--labels and --pairs are for the head of an adapter: add --onto")
    return interop.read(folder, kind=kind)


def _base(onto: Path, kind: str | None) -> Any:
    """The model below an adapter: a folder of somebody else's, or a checkpoint."""
    from regard import config, interop, models, recipe
    from regard.data.tokenizers import Tokenizer
    from regard.data.tokenizers.units import UnitsConfig
    from regard.interop.heads import body_of, strip_heads
    from regard.models import lora

    if not (onto / "config.yaml").exists() and not (onto / "checkpoints").is_dir():
        return replace(interop.read(onto, kind=kind), labels=interop.labels(onto))
    found = recipe.open_model(onto)
    tensors = found.finite_tensors()
    if any(name.endswith(lora.DOWN) for name in tensors):
        raise ValueError(f"{onto} has an adapter already: name the model that this one belongs to")
    shape = models.config_of(found.config.get("model", {}))
    family = interop.family_for(strip_heads(body_of(shape)), kind)
    read = {
        name: value
        for name, value in found.config.get("tokenizer", {}).items()
        if name in UnitsConfig.__dataclass_fields__
    }
    tokenizer = Tokenizer.parse(found.text("tokenizer.json"), config.build(UnitsConfig, read, where="tokenizer"))
    return interop.ImportedModel(family.kind, shape, tensors, tokenizer)


def _labelled(found: Any, labels: list[str] | None, pairs: bool) -> tuple[Any, dict[str, Any]]:
    """The task of a model with an adapter, and the files of its checkpoint; one of ours comes with its settings."""
    from regard import config
    from regard.tasks import TASKS

    told = found.settings or {}
    name, own = told.get("task"), told.get("labels")
    if own is not None and not (isinstance(own, list) and all(isinstance(label, str) for label in own)):
        raise ValueError(f"regard.json: labels must be a list of names, not {own!r}")
    known_task = isinstance(name, str) and name in TASKS
    task = _task(found.shape) if name is None else TASKS[name].task if known_task else None
    if task is None or type(found.shape) not in config.sections(task.Recipe, "model").values():
        raise ValueError(f"regard.json: task is {name!r}, which has no model of kind {found.shape.name}")
    known = labels or own or found.labels
    if labels is None and known is not None and len(known) != found.shape.classes:
        known = None  # those of another head
    head = {"labels": known, "pairs": pairs or told.get("pairs") is True} if isinstance(task, ImportsHeads) else {}
    files = task.checkpoint_files(found.shape, found.tokenizer, found.notes, **head)
    if name is not None:
        files["config.yaml"] = {**files["config.yaml"], **told, "model": config.plain(found.shape)}
        files["config.yaml"] |= {"labels": labels} if labels else {}
    return task, files


def _task(shape: Any) -> Any:
    """The task whose recipes have models of this kind and that can take one over."""
    from regard import config
    from regard.tasks import TASKS

    for task in (entry.task for entry in TASKS.values()):
        fits = isinstance(task, ImportsModels) and type(shape) in config.sections(task.Recipe, "model").values()
        if fits and (not isinstance(task, ImportsHeads) or task.holds(shape)):
            return task
    raise ValueError(f"no task can use a model of kind {shape.name}")


def _vacant(out: Path, overwrite: bool) -> None:
    """Refuse, before anything is read, a folder that holds something; what is no checkpoint is never replaced."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: is a file, name a folder")
    if out.is_dir() and any(out.iterdir()):
        if not overwrite:
            raise ValueError(f"{out}: is not empty, name another folder or add --overwrite")
        if not (out / "manifest.json").is_file():
            raise ValueError(f"{out}: holds something that Regard did not write, remove it or name another folder")


def _write(out: Path, files: dict[str, Any]) -> None:
    """All files or none."""
    from regard import checkpoint

    if out.is_dir() and not any(out.iterdir()):
        os.rmdir(out)
    checkpoint.write(out, files)
