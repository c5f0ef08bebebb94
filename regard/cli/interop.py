"""The commands that import models of other libraries and export ours to them."""

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

    _check_vacant(out, overwrite)
    if onto is None and not pairs and pictures.is_picture_model(folder, kind):
        _import_picture_model(folder, out, kind, labels, as_json=as_json)
        return
    if onto is None:
        imported = _read_whole_model(folder, kind, labels, pairs)
        task = _task_for_model(imported.shape)
        files = task.checkpoint_files(imported.shape, imported.tokenizer, imported.notes)
    else:
        imported = interop.add_adapter(folder, _read_base_model(onto, kind))
        task, files = _build_adapted_files(imported, None if labels is None else labels.split(","), pairs)
    files = {**files, checkpoint.WEIGHTS: imported.tensors}
    if imported.embedding is not None:
        files["config.yaml"] = {**files["config.yaml"], "embedding": dict(imported.embedding)}
    if imported.target is not None:
        files["tokenizer.target.json"] = imported.target.json()
    _write_checkpoint(out, files)
    size = parameters(imported.shape)
    if as_json:
        record = {"folder": str(out), "type": imported.kind, "task": task.Recipe.task, "parameters": size}
        print(json.dumps({**record, "tokens": imported.tokenizer.vocab, "model": config.plain(imported.shape)}))
        return
    print(f"{out}: {imported.shape.phrase}, {size:,} parameters, {imported.tokenizer.vocab:,} tokens")
    usage = task.use(imported.shape)[0] if isinstance(task, SaysUse) else task.usage
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
    from regard.models.parts.lora import merge_lora

    _check_vacant(out, overwrite)
    if onto is not None and to != "peft":
        raise ValueError("--onto is the base of an adapter: add --to peft")
    checkpoint = recipe.open_model(model)
    model_config = models.config_of(checkpoint.config.get("model", {}))
    if to == "hf" and any(isinstance(model_config, family.model) for family in pictures.KINDS.values()):
        _export_picture_model(checkpoint, model_config, out, as_json=as_json)
        _warn_about_temperature(checkpoint)
        return
    if to == "hf":
        family = interop.family_for(model_config, kind)  # before its tokenizer is read, which others may lack
    tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"))
    if to == "peft":
        record = _write_adapter(out, checkpoint, model_config, tokenizer, kind, onto)
    else:
        labels = _label_names(checkpoint, model_config)
        files = interop.export_files(family, model_config, merge_lora(checkpoint.finite_tensors()), tokenizer, labels)
        _write_checkpoint(out, files)
        record = {"type": family.kind, "architecture": files["config.json"]["architectures"][0]}
    _warn_about_temperature(checkpoint)
    if (level := checkpoint.config.get("tokenizer", {}).get("normalise", "none")) != "none":
        note = "which nobody does there: prepare texts likewise"
        print(f"regard: texts are normalised here ({level}) before they become tokens, {note}", file=sys.stderr)
    if as_json:
        print(json.dumps({"folder": str(out), **record}))
    elif to == "peft":
        print(f"{out}: written for peft, {record['task_type']}, {record['bytes'] / 1e6:.2g} MB")
    else:
        print(f"{out}: written for transformers, {record['architecture']}")


def _import_picture_model(folder: Path, out: Path, kind: str | None, labels: str | None, *, as_json: bool) -> None:
    """Import a model of pictures; its classes are named on the command line or in a file."""
    from regard import checkpoint, config
    from regard.cost import parameters
    from regard.interop import pictures
    from regard.tasks.trained import usage_line

    imported = pictures.read(folder, kind)
    task = _task_for_model(imported.shape)
    labels_read = imported.labels if labels is None else _read_labels(labels)
    files = task.checkpoint_files(imported.shape, imported.data, imported.notes, labels=labels_read)
    _write_checkpoint(out, {**files, checkpoint.WEIGHTS: imported.tensors})
    size = parameters(imported.shape)
    if as_json:
        record = {"folder": str(out), "type": imported.kind, "task": task.Recipe.task, "parameters": size}
        print(json.dumps({**record, "classes": imported.shape.classes, "model": config.plain(imported.shape)}))
        return
    classes = f"{imported.shape.classes:,} classes" if imported.shape.classes else "no head"
    print(f"{out}: {imported.shape.phrase}, {size:,} parameters, {classes}")
    usage = task.usage if imported.shape.classes else "regard train --pictures DIR --from {folder}"
    print(usage_line(usage, out))


def _read_labels(labels: str) -> list[str]:
    """Return names of classes: the lines of a file, or those given between commas."""
    if not Path(labels).is_file():
        return labels.split(",")
    try:
        return Path(labels).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{labels}: cannot be read as a list of names, {error}") from None


def _export_picture_model(checkpoint: Any, model_config: Any, out: Path, *, as_json: bool) -> None:
    """Export a model of pictures under the names of another library."""
    from regard.interop import pictures
    from regard.models.parts.lora import merge_lora

    files = pictures.model_files(
        model_config,
        merge_lora(checkpoint.finite_tensors()),
        checkpoint.config.get("data", {}),
        _label_names(checkpoint, model_config) or [],
    )
    _write_checkpoint(out, files)
    family = next(family for family in pictures.KINDS.values() if isinstance(model_config, family.model))
    library = family.spelling
    if as_json:
        print(json.dumps({"folder": str(out), "type": family.kind, "for": library}))
        return
    architecture = family.architecture_name(model_config) if library == "transformers" else "weights with its names"
    print(f"{out}: written for {library}, {architecture}")


def _warn_about_temperature(checkpoint: Any) -> None:
    """Warn that probabilities will differ elsewhere, if logits are divided by a temperature here."""
    if (temperature := checkpoint.config.get("temperature", 1.0)) != 1.0:
        note = f"logits are divided here by {temperature:.3g}, a temperature that was fitted"
        print(
            f"regard: {note}, before they become probabilities: do so there too, labels are the same", file=sys.stderr
        )


def _label_names(checkpoint: Any, model_config: Any) -> list[str] | None:
    """Return the names of the labels of a classifier; numbered ones if it has none."""
    from regard import config

    count = config.plain(model_config).get("classes")
    if count is None:
        return None
    labels = [str(label) for label in checkpoint.config.get("labels", ())]
    return labels if len(labels) == count else [f"LABEL_{number}" for number in range(count)]


def _write_adapter(
    out: Path, checkpoint: Any, model_config: Any, tokenizer: Any, kind: str | None, onto: str | None
) -> dict[str, Any]:
    """Write the LoRA adapter of a model, and return what to report of it."""
    from regard import interop
    from regard.interop import peft
    from regard.tasks import TASKS

    task = TASKS[checkpoint.config["task"]].task
    extra_tokens = task.added_token_ids(tokenizer) if isinstance(task, AddsTokens) else ()
    settings = {name: value for name, value in checkpoint.config.items() if name not in ("format", "model")}
    tensors = checkpoint.finite_tensors()
    try:
        files = interop.adapter_files(
            model_config, tensors, tokenizer, kind=kind, base=onto, added=extra_tokens, settings=settings
        )
    except ValueError as error:
        raise ValueError(f"{checkpoint.directory} cannot be written for peft: {error}") from None
    _write_checkpoint(out, files)
    adapter_config = files[peft.CONFIG]
    size = (out / peft.WEIGHTS).stat().st_size
    return {"task_type": adapter_config["task_type"], "target_modules": adapter_config["target_modules"], "bytes": size}


def _read_whole_model(folder: Path, kind: str | None, labels: str | None, pairs: bool) -> Any:
    """Read a model that is complete, unlike an adapter."""
    from regard import interop

    if interop.is_adapter(folder):
        raise ValueError(f"{folder} is an adapter of peft: name the model that it belongs to with --onto")
    if labels is not None or pairs:
        raise ValueError("--labels and --pairs are for the head of an adapter: add --onto")
    return interop.read(folder, kind=kind)


def _read_base_model(onto: Path, kind: str | None) -> Any:
    """Read the model that an adapter changes: a folder of another library, or a checkpoint."""
    from regard import config, interop, models, recipe
    from regard.data.tokenizers import Tokenizer
    from regard.data.tokenizers.units import UnitsConfig
    from regard.interop.heads import body_of, strip_heads
    from regard.models.parts import lora

    if not (onto / "config.yaml").exists() and not (onto / "checkpoints").is_dir():
        return replace(interop.read(onto, kind=kind), labels=interop.labels(onto))
    checkpoint = recipe.open_model(onto)
    tensors = checkpoint.finite_tensors()
    if any(name.endswith(lora.DOWN) for name in tensors):
        raise ValueError(f"{onto} has an adapter already: name the model that this one belongs to")
    model_config = models.config_of(checkpoint.config.get("model", {}))
    family = interop.family_for(strip_heads(body_of(model_config)), kind)
    tokenizer_settings = {
        name: value
        for name, value in checkpoint.config.get("tokenizer", {}).items()
        if name in UnitsConfig.__dataclass_fields__
    }
    tokenizer = Tokenizer.parse(
        checkpoint.text("tokenizer.json"), config.build(UnitsConfig, tokenizer_settings, where="tokenizer")
    )
    return interop.ImportedModel(family.kind, model_config, tensors, tokenizer)


def _build_adapted_files(imported: Any, labels: list[str] | None, pairs: bool) -> tuple[Any, dict[str, Any]]:
    """Return the task and the checkpoint files of a model with an adapter; our own adapters bring settings."""
    from regard import config
    from regard.tasks import TASKS

    settings = imported.settings or {}
    task_name, own_labels = settings.get("task"), settings.get("labels")
    if own_labels is not None and not (
        isinstance(own_labels, list) and all(isinstance(label, str) for label in own_labels)
    ):
        raise ValueError(f"regard.json: labels must be a list of names, not {own_labels!r}")
    known_task = isinstance(task_name, str) and task_name in TASKS
    task = _task_for_model(imported.shape) if task_name is None else TASKS[task_name].task if known_task else None
    if task is None or type(imported.shape) not in config.sections(task.Recipe, "model").values():
        raise ValueError(f"regard.json: task is {task_name!r}, which has no model of kind {imported.shape.name}")
    known_labels = labels or own_labels or imported.labels
    if labels is None and known_labels is not None and len(known_labels) != imported.shape.classes:
        known_labels = None  # those of another head
    head: dict[str, Any] = {}
    if isinstance(task, ImportsHeads):
        head = {"labels": known_labels, "pairs": pairs or settings.get("pairs") is True}
    files = task.checkpoint_files(imported.shape, imported.tokenizer, imported.notes, **head)
    if task_name is not None:
        files["config.yaml"] = {**files["config.yaml"], **settings, "model": config.plain(imported.shape)}
        files["config.yaml"] |= {"labels": labels} if labels else {}
    return task, files


def _task_for_model(model_config: Any) -> Any:
    """Return the task that can take over a model of this kind."""
    from regard import config
    from regard.tasks import TASKS

    for task in (entry.task for entry in TASKS.values()):
        fits = isinstance(task, ImportsModels) and type(model_config) in config.sections(task.Recipe, "model").values()
        if fits and (not isinstance(task, ImportsHeads) or task.holds(model_config)):
            return task
    raise ValueError(f"no task can use a model of kind {model_config.name}")


def _check_vacant(out: Path, overwrite: bool) -> None:
    """Refuse, before anything is read, a folder that is not empty; only a checkpoint is ever replaced."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: is a file, name a folder")
    if out.is_dir() and any(out.iterdir()):
        if not overwrite:
            raise ValueError(f"{out}: is not empty, name another folder or add --overwrite")
        if not (out / "manifest.json").is_file():
            raise ValueError(f"{out}: holds something that Regard did not write, remove it or name another folder")


def _write_checkpoint(out: Path, files: dict[str, Any]) -> None:
    """Write all files, or none."""
    from regard import checkpoint

    if out.is_dir() and not any(out.iterdir()):
        os.rmdir(out)
    checkpoint.write(out, files)
