"""The commands that read other people's models and write ours for others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.grammar import Json, Model

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="NAME", help="The model_type, such as gpt2; else it is found out.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what was written to the folder before.")]


def import_model(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A Hugging Face folder, or a file of llama2.c.")],
    out: Out,
    kind: Type = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read a model of somebody else's into a checkpoint; nothing in it is run and nothing is fetched."""
    from regard import checkpoint, config, interop
    from regard.cost import parameters

    _vacant(out, overwrite)
    found = interop.read(folder, kind=kind)
    task = _task(found.shape)
    files = {**task.imported(found.shape, found.tokenizer, found.notes), checkpoint.WEIGHTS: found.tensors}
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
    usage = task.use(found.shape)[0] if hasattr(task, "use") else task.usage
    print(f"use it with: {usage.format(folder=out)}")


def export_model(
    model: Model,
    out: Out,
    to: Annotated[Literal["hf"], typer.Option("--to", help="The form: hf, a Hugging Face folder.")] = "hf",
    kind: Type = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a trained model as a folder that `transformers` loads."""
    from regard import interop, models, recipe
    from regard.data.tokenizers import Tokenizer

    _vacant(out, overwrite)
    found = recipe.opened(model)
    shape = models.config_of(found.config.get("model", {}))
    family = interop.family_for(shape, kind)
    if (level := found.config.get("tokenizer", {}).get("normalise", "none")) != "none":
        note = "which nobody does there: prepare texts likewise"
        print(f"regard: texts are normalised here ({level}) before they become tokens, {note}", file=sys.stderr)
    tokenizer = Tokenizer.parse(found.text("tokenizer.json"))
    _write(out, interop.written(family, shape, found.tensors(), tokenizer))
    if as_json:
        print(json.dumps({"folder": str(out), "type": family.kind, "architecture": family.called(shape)}))
        return
    print(f"{out}: written for transformers, {family.called(shape)}")


def _task(shape: Any) -> Any:
    """The task whose recipes have models of this kind and that can take one over."""
    from regard import config
    from regard.tasks import TASKS

    for task, _ in TASKS.values():
        if hasattr(task, "imported") and type(shape) in config.sections(task.Recipe, "model").values():
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
