"""The command that imports models of other libraries: of texts, of images, and adapters of peft."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.converted_model import Out, Overwrite, Type, check_vacant, write_checkpoint
from regard.cli.grammar import Json
from regard.tasks.importing import ImportsHeads, ImportsModels, SaysUse

Onto = Annotated[
    Path | None,
    typer.Option(
        "--onto", metavar="BASE", help="The model that an adapter of peft belongs to, a folder or a checkpoint."
    ),
]


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
    from regard.interop import pictures

    check_vacant(out, overwrite)
    if onto is not None:
        _import_adapter(folder, onto, out, kind, None if labels is None else labels.split(","), pairs, as_json=as_json)
    elif not pairs and pictures.is_picture_model(folder, kind):
        _import_image_model(folder, out, kind, labels, as_json=as_json)
    elif labels is not None or pairs:
        _refuse_adapter(folder)
        raise ValueError("--labels and --pairs are for the head of an adapter: add --onto")
    else:
        _import_text_model(folder, out, kind, as_json=as_json)


def _refuse_adapter(folder: Path) -> None:
    """Refuse an adapter without the model that it changes."""
    from regard import interop

    if interop.is_adapter(folder):
        raise ValueError(f"{folder} is an adapter of peft: name the model that it belongs to with --onto")


def _import_text_model(folder: Path, out: Path, kind: str | None, *, as_json: bool) -> None:
    """Import a complete model of texts."""
    from regard import interop

    _refuse_adapter(folder)
    imported = interop.read(folder, kind=kind)
    task = _task_for_model(imported.shape)
    files = task.checkpoint_files(imported.shape, imported.tokenizer, imported.notes)
    _write_text_model(imported, task, files, out, as_json=as_json)


def _import_adapter(
    folder: Path, onto: Path, out: Path, kind: str | None, labels: list[str] | None, pairs: bool, *, as_json: bool
) -> None:
    """Import an adapter of peft together with the model that it changes."""
    from regard import interop

    imported = interop.add_adapter(folder, _read_base_model(onto, kind))
    task, files = _build_adapted_files(imported, labels, pairs)
    _write_text_model(imported, task, files, out, as_json=as_json)


def _write_text_model(imported: Any, task: Any, files: Mapping[str, Any], out: Path, *, as_json: bool) -> None:
    """Write an imported model of texts as a checkpoint, and print what it is."""
    from regard import checkpoint, config
    from regard.cost import parameters
    from regard.tasks.trained import usage_line

    files = {**files, checkpoint.WEIGHTS: imported.tensors}
    if imported.embedding is not None:
        files["config.yaml"] = {**files["config.yaml"], "embedding": dict(imported.embedding)}
    if imported.target is not None:
        files["tokenizer.target.json"] = imported.target.json()
    write_checkpoint(out, files)
    shape = imported.shape
    if as_json:
        record = _model_record(out, imported, task)
        print(json.dumps({**record, "tokens": imported.tokenizer.vocab, "model": config.plain(shape)}))
        return
    print(f"{out}: {shape.phrase}, {parameters(shape):,} parameters, {imported.tokenizer.vocab:,} tokens")
    usage = task.use(shape)[0] if isinstance(task, SaysUse) else task.usage
    print(usage_line(usage, out))


def _model_record(out: Path, imported: Any, task: Any) -> dict[str, Any]:
    """Return what is reported as JSON of every imported model."""
    from regard.cost import parameters

    size = parameters(imported.shape)
    return {"folder": str(out), "type": imported.kind, "task": task.Recipe.task, "parameters": size}


def _import_image_model(folder: Path, out: Path, kind: str | None, labels: str | None, *, as_json: bool) -> None:
    """Import a model of images; its classes are named on the command line or in a file."""
    from regard import checkpoint, config
    from regard.cost import parameters
    from regard.interop import pictures
    from regard.tasks.trained import usage_line

    imported = pictures.read(folder, kind)
    task = _task_for_model(imported.shape)
    class_names = imported.labels if labels is None else _read_labels(labels)
    files = task.checkpoint_files(imported.shape, imported.data, imported.notes, labels=class_names)
    write_checkpoint(out, {**files, checkpoint.WEIGHTS: imported.tensors})
    size = parameters(imported.shape)
    if as_json:
        record = _model_record(out, imported, task)
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

    settings = imported.settings or {}
    task = _task_of_adapter(settings, imported.shape)
    head: dict[str, Any] = {}
    if isinstance(task, ImportsHeads):
        head = {"labels": _adapter_labels(imported, labels), "pairs": pairs or settings.get("pairs") is True}
    files = task.checkpoint_files(imported.shape, imported.tokenizer, imported.notes, **head)
    if settings.get("task") is not None:
        files["config.yaml"] = {**files["config.yaml"], **settings, "model": config.plain(imported.shape)}
        files["config.yaml"] |= {"labels": labels} if labels else {}
    return task, files


def _adapter_labels(imported: Any, labels: list[str] | None) -> list[str] | None:
    """Return the names of labels: as typed, else those of the adapter or the model that fit the head."""
    if labels:
        return labels
    known_labels = (imported.settings or {}).get("labels") or imported.labels
    if labels is None and known_labels is not None and len(known_labels) != imported.shape.classes:
        return None  # those of another head
    return known_labels


def _task_of_adapter(settings: Mapping[str, Any], model_config: Any) -> Any:
    """Return the task of a model with an adapter, which an adapter of ours names; its settings are checked."""
    from regard import config
    from regard.tasks import TASKS

    task_name, labels = settings.get("task"), settings.get("labels")
    if labels is not None and not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
        raise ValueError(f"regard.json: labels must be a list of names, not {labels!r}")
    if task_name is None:
        return _task_for_model(model_config)
    task = TASKS[task_name].task if isinstance(task_name, str) and task_name in TASKS else None
    if task is None or type(model_config) not in config.sections(task.Recipe, "model").values():
        raise ValueError(f"regard.json: task is {task_name!r}, which has no model of kind {model_config.name}")
    return task


def _task_for_model(model_config: Any) -> Any:
    """Return the task that imports models of this kind."""
    from regard import config
    from regard.tasks import TASKS

    for task in (entry.task for entry in TASKS.values()):
        fits = isinstance(task, ImportsModels) and type(model_config) in config.sections(task.Recipe, "model").values()
        if fits and (not isinstance(task, ImportsHeads) or task.holds(model_config)):
            return task
    raise ValueError(f"no task can use a model of kind {model_config.name}")
