"""Which files a model was trained on, by the SHA-256 of their bytes, so that nobody measures it on them unawares.

The manifest of every checkpoint keeps them, with those of the model that it started from: a copy of the checkpoint
knows as much as the run does. Files of folders are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard import config
from regard.checkpoint import Checkpoint
from regard.data.encodings import find
from regard.data.readers import digest

FACT = "learnt_from"
PARTS = {"train": "train", "labels": "train", "paired": "train", "valid": "valid"}
"""Settings of a data section that name files, and what these are for."""
LONGEST_NAME = 4096

Digests = dict[str, list[str]]


def collect_digests(recipe: Any, parent: Checkpoint | None = None) -> Digests:
    """SHA-256 of the files that a recipe trains and validates on, and of those of a model to start from."""
    before = recorded_digests(parent) or {}
    section = config.plain(recipe).get("data")
    digests: Digests = {"train": [], "valid": []}
    for name, part in PARTS.items():
        if isinstance(section, Mapping):
            digests[part] += [digest(file) for file in _files_in(section.get(name))]
    return {part: sorted({*before.get(part, ()), *listed}) for part, listed in digests.items()}


def digests_of_files(names: Sequence[str]) -> Digests:
    """The same for files that were trained on without a recipe."""
    return {"train": sorted({digest(name) for name in names}), "valid": []}


def recorded_digests(checkpoint: Checkpoint | None) -> Digests | None:
    """What a checkpoint keeps of the files it was trained on; None where it keeps nothing."""
    known = None if checkpoint is None else checkpoint.manifest["facts"].get(FACT)
    return known if isinstance(known, dict) else None


def find_overlap(known: Digests | None, files: Sequence[str]) -> dict[str, list[str]] | None:
    """Which of these files a model was trained on and validated on; None where nobody knows."""
    if known is None:
        return None
    own = {name: digest(name) for name in files if find(name).is_file()}
    return {
        "trained_on": [name for name, mark in own.items() if mark in known.get("train", ())],
        "validated_on": [name for name, mark in own.items() if mark in known.get("valid", ())],
    }


def describe_overlap(model: str, overlap: Mapping[str, Sequence[str]]) -> list[str]:
    """In words, one line a file."""
    trained = overlap["trained_on"]
    validated = [name for name in overlap["validated_on"] if name not in trained]
    return [
        *(f"{name}: {model} was trained on this file, so new data will score lower" for name in trained),
        *(f"{name}: {model} was chosen by its score on this file, so new data may score lower" for name in validated),
    ]


def _files_in(value: Any) -> Iterator[str]:
    """The existing files that a setting names, at any depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _files_in(inner)
    elif isinstance(value, str) and value and len(value) < LONGEST_NAME and "\n" not in value and "\0" not in value:
        try:
            path = find(value)
        except (ValueError, OSError):
            return
        if path.is_file():
            yield value
