"""Folders of parts that `--ray` writes: what they are called, and which are refused before any work."""

from __future__ import annotations

from pathlib import Path

from regard.cluster.connection import check_address

MANIFEST = "parts.json"
ENDINGS = {"jsonl": ".jsonl", "": ".txt", "txt": ".txt"}
"""How the parts of a folder end, by the form of the answers."""


def check_folder(address: str, file: Path | None, output: Path | None, form: str) -> None:
    """Refuse what a cluster cannot read or write."""
    check_address(address)
    if file is None or output is None:
        raise ValueError("--ray answers a file in parts: give -i FILE and -o FOLDER")
    if form not in ENDINGS:
        raise ValueError(f"{output}: parts are lines of text or of JSON: name a folder, and add --json for JSON")
    if not file.is_file():
        raise ValueError(f"{file}: no such file, and --ray reads no pipes")
    folder = output.absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{output} is a file, and --ray writes a folder of parts: name another")
    if not folder.parent.is_dir():
        raise ValueError(f"{output}: there is no folder {output.parent}, make it first")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise ValueError(f"{output} holds other files: name a new folder")
