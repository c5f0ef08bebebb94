"""What importing and exporting a model share: their options, and the folder that they write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="NAME", help="The model_type, such as gpt2; else it is found out.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what was written to the folder before.")]


def check_vacant(out: Path, overwrite: bool) -> None:
    """Refuse, before anything is read, a folder that is not empty; only a checkpoint is ever replaced."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: is a file, name a folder")
    if out.is_dir() and any(out.iterdir()):
        if not overwrite:
            raise ValueError(f"{out}: is not empty, name another folder or add --overwrite")
        if not (out / "manifest.json").is_file():
            raise ValueError(f"{out}: holds something that Regard did not write, remove it or name another folder")


def write_checkpoint(out: Path, files: dict[str, Any]) -> None:
    """Write a folder with all its files, or none of them."""
    from regard import checkpoint

    if out.is_dir() and not any(out.iterdir()):
        os.rmdir(out)
    checkpoint.write(out, files)
