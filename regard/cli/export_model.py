"""The command that exports models to other libraries: as a folder that `transformers` or `timm` reads, or for peft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.converted_model import Out, Overwrite, Type, check_vacant, write_checkpoint
from regard.cli.grammar import Json, Model
from regard.cli.text_io import print_note
from regard.tasks.importing import AddsTokens


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
    from regard import models, recipe
    from regard.interop import pictures

    check_vacant(out, overwrite)
    if onto is not None and to != "peft":
        raise ValueError("--onto is the base of an adapter: add --to peft")
    checkpoint = recipe.open_model(model)
    model_config = models.config_of(checkpoint.config.get("model", {}))
    if to == "peft":
        _export_adapter(checkpoint, model_config, out, kind, onto, as_json=as_json)
    elif any(isinstance(model_config, family.model) for family in pictures.KINDS.values()):
        _export_image_model(checkpoint, model_config, out, as_json=as_json)
    else:
        _export_text_model(checkpoint, model_config, out, kind, as_json=as_json)


def _export_text_model(checkpoint: Any, model_config: Any, out: Path, kind: str | None, *, as_json: bool) -> None:
    """Export a model of texts as a folder that `transformers` loads."""
    from regard import interop
    from regard.data.tokenizers import Tokenizer
    from regard.models.parts.lora import merge_lora

    family = interop.family_for(model_config, kind)  # before its tokenizer is read, which others may lack
    tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"))
    labels = _label_names(checkpoint, model_config)
    files = interop.export_files(family, model_config, merge_lora(checkpoint.finite_tensors()), tokenizer, labels)
    write_checkpoint(out, files)
    architecture = files["config.json"]["architectures"][0]
    _warn_about_temperature(checkpoint)
    _warn_about_normalising(checkpoint)
    if as_json:
        print(json.dumps({"folder": str(out), "type": family.kind, "architecture": architecture}))
    else:
        print(f"{out}: written for transformers, {architecture}")


def _export_image_model(checkpoint: Any, model_config: Any, out: Path, *, as_json: bool) -> None:
    """Export a model of images under the names of another library."""
    from regard.interop import pictures
    from regard.models.parts.lora import merge_lora

    files = pictures.model_files(
        model_config,
        merge_lora(checkpoint.finite_tensors()),
        checkpoint.config.get("data", {}),
        _label_names(checkpoint, model_config) or [],
    )
    write_checkpoint(out, files)
    _warn_about_temperature(checkpoint)
    family = next(family for family in pictures.KINDS.values() if isinstance(model_config, family.model))
    library = family.spelling
    if as_json:
        print(json.dumps({"folder": str(out), "type": family.kind, "for": library}))
        return
    architecture = family.architecture_name(model_config) if library == "transformers" else "weights with its names"
    print(f"{out}: written for {library}, {architecture}")


def _export_adapter(
    checkpoint: Any, model_config: Any, out: Path, kind: str | None, onto: str | None, *, as_json: bool
) -> None:
    """Export the LoRA adapter of a model for peft."""
    from regard import interop
    from regard.data.tokenizers import Tokenizer
    from regard.interop import peft
    from regard.tasks import TASKS

    tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"))
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
    write_checkpoint(out, files)
    adapter_config, size = files[peft.CONFIG], (out / peft.WEIGHTS).stat().st_size
    task_type = adapter_config["task_type"]
    _warn_about_temperature(checkpoint)
    _warn_about_normalising(checkpoint)
    if as_json:
        record = {"task_type": task_type, "target_modules": adapter_config["target_modules"], "bytes": size}
        print(json.dumps({"folder": str(out), **record}))
    else:
        print(f"{out}: written for peft, {task_type}, {size / 1e6:.2g} MB")


def _warn_about_temperature(checkpoint: Any) -> None:
    """Warn that probabilities will differ elsewhere, if logits are divided by a temperature here."""
    if (temperature := checkpoint.config.get("temperature", 1.0)) != 1.0:
        note = f"logits are divided here by {temperature:.3g}, a temperature that was fitted"
        print_note(f"{note}, before they become probabilities: do so there too, labels are the same")


def _warn_about_normalising(checkpoint: Any) -> None:
    """Warn that texts must be normalised elsewhere too, if they are normalised here."""
    if (level := checkpoint.config.get("tokenizer", {}).get("normalise", "none")) != "none":
        note = "which nobody does there: prepare texts likewise"
        print_note(f"texts are normalised here ({level}) before they become tokens, {note}")


def _label_names(checkpoint: Any, model_config: Any) -> list[str] | None:
    """Return the names of the labels of a classifier; numbered ones if it has none."""
    from regard import config

    count = config.plain(model_config).get("classes")
    if count is None:
        return None
    labels = [str(label) for label in checkpoint.config.get("labels", ())]
    return labels if len(labels) == count else [f"LABEL_{number}" for number in range(count)]
