"""Digests of the files and of a sample of the examples that a model was trained on, to warn of evaluation on them.

The manifest of every checkpoint keeps them, with those of the model that it started from, so a copy of the checkpoint
knows as much as the run does. For folders only the examples are recorded, not the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import config
from regard.checkpoint import Checkpoint
from regard.data.encodings import find_path
from regard.data.readers import digest
from regard.data.source_file import SourceFile
from regard.data.training_sample import Overlap, TrainingSample, text_files
from regard.metrics.scores import Scores

FACT = "learnt_from"
PARTS = {"train": "train", "labels": "train", "paired": "train", "pairs": "train", "valid": "valid"}
"""Settings of a data section that name files, and what these are for."""
FILE_FIELDS = ("path", "source", "target", "edges", "nodes", "labels", "files")
"""Names of settings that name a file or a folder."""
LONGEST_NAME = 4096

Digests = dict[str, Any]
"""SHA-256 of files under `train` and `valid`, and a sample of training examples under `examples`."""


def collect_digests(recipe: Any, parent: Checkpoint | None = None) -> Digests:
    """Return digests of the data of a recipe, merged with those recorded for the model to start from."""
    before = recorded_digests(parent) or {}
    data = None if isinstance(recipe, Mapping) else vars(recipe).get("data")
    section = config.plain(recipe).get("data")
    digests: Digests = {"train": [], "valid": []}
    for name, part in PARTS.items():
        if isinstance(section, Mapping):
            digests[part] += [digest(str(file)) for file in _paths_in(section.get(name)) if file.is_file()]
    merged: Digests = {part: sorted({*before.get(part, ()), *listed}) for part, listed in digests.items()}
    sample = _sample_examples(data, merged, before)
    return merged if sample is None else {**merged, "examples": sample.plain()}


def digests_of_files(names: Sequence[str]) -> Digests:
    """Return the digests of text files that were trained on without a recipe."""
    sample = TrainingSample.of(names, "lines")
    return {"train": sorted({digest(name) for name in names}), "valid": [], "examples": sample.plain()}


def recorded_digests(checkpoint: Checkpoint | None) -> Digests | None:
    """Return the digests recorded in a checkpoint; None if it has none."""
    digests = None if checkpoint is None else checkpoint.manifest["facts"].get(FACT)
    return digests if isinstance(digests, dict) else None


def merge_digests(digests: Sequence[Digests | None]) -> Digests | None:
    """Return the union of the models' training data; None if one is unknown or their units differ."""
    known = [recorded for recorded in digests if recorded is not None]
    samples = [TrainingSample.parse(recorded.get("examples")) for recorded in known]
    units = {None if sample is None else sample.unit for sample in samples}
    if len(known) < len(digests) or len(units) > 1:
        return None
    merged: Digests = {}
    for part in ("train", "valid"):
        merged[part] = sorted({name for recorded in known for name in recorded.get(part, ())})
    sample = TrainingSample.merge([sample for sample in samples if sample is not None])
    return merged if sample is None else {**merged, "examples": sample.plain()}


def note_overlap(scores: Scores, digests: Digests | None, files: Sequence[str]) -> Scores:
    """Return the scores with a warning for each evaluated file that the model was trained on, wholly or in part."""
    if digests is None:
        unknown = f"{scores.name} keeps no record of the files it was trained on: they may be these"
        details = {**scores.details, "trained_on": None, "validated_on": None}
        return replace(scores, details=details, warnings=[unknown] if files else [])
    whole = find_overlap(digests, files)
    examples = find_shared_examples(digests, [name for name in files if name not in whole["trained_on"]])
    shared = {
        name: {"shared": overlap.shared, "compared": overlap.compared, overlap.unit: overlap.total}
        for name, overlap in examples
    }
    details = {**scores.details, **whole, **({"partly_trained_on": shared} if shared else {})}
    return replace(scores, details=details, warnings=describe_overlap(scores.name, whole, examples))


def find_overlap(digests: Digests, files: Sequence[str]) -> dict[str, list[str]]:
    """Return which of these files a model was trained on and validated on."""
    digest_by_file = {name: digest(name) for name in files if find_path(name).is_file()}
    return {
        "trained_on": [name for name, mark in digest_by_file.items() if mark in digests.get("train", ())],
        "validated_on": [name for name, mark in digest_by_file.items() if mark in digests.get("valid", ())],
    }


def find_shared_examples(digests: Digests, files: Sequence[str]) -> list[tuple[str, Overlap]]:
    """Return the files that share examples with a model's training data, and how many."""
    sample = TrainingSample.parse(digests.get("examples"))
    if sample is None:
        return []
    compared = [(name, sample.compare(name)) for name in files if find_path(name).is_file()]
    return [(name, overlap) for name, overlap in compared if overlap.shared]


def describe_overlap(
    model: str, overlap: Mapping[str, Sequence[str]], examples: Sequence[tuple[str, Overlap]] = ()
) -> list[str]:
    """Return a warning for each file that a model was trained or validated on."""
    trained = overlap["trained_on"]
    validated = [name for name in overlap["validated_on"] if name not in trained]
    return [
        *(f"{name}: {model} was trained on this file, so new data will score lower" for name in trained),
        *(f"{name}: {model} was chosen by its score on this file, so new data may score lower" for name in validated),
        *(
            f"{name}: {shared.describe()} {_are(shared)} also in what {model} was trained on, so new data may score "
            "lower"
            for name, shared in examples
        ),
    ]


def _are(overlap: Overlap) -> str:
    return "is" if overlap.shared == 1 and overlap.compared == overlap.total else "are"


def _sample_examples(data: Any, digests: Digests, before: Digests) -> TrainingSample | None:
    """Sample the training examples, if their files define an example; the sample of a resumed run stays the same."""
    sample = TrainingSample.parse(before.get("examples"))
    sources = [source for name, part in PARTS.items() if part == "train" for source in _sources(data, name)]
    files = [source for source in sources if isinstance(source, SourceFile)]
    units = [source.example_unit for source in files if source.example_unit is not None]
    if not units:
        return sample
    unit = units[0]
    paths = [path for source in sources for path in _paths_in(config.plain(source))]
    folders = any(path.is_dir() for path in paths)
    if sample is not None and sample.unit == unit and not folders and digests["train"] == before.get("train"):
        return sample
    names = [file for path in paths for file in (text_files(path) if path.is_dir() else [str(path)])]
    return TrainingSample.of(names, unit, sample)


def _sources(data: Any, name: str) -> list[Any]:
    value = data.get(name) if isinstance(data, Mapping) else None if data is None else vars(data).get(name)
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _paths_in(value: Any) -> Iterator[Path]:
    """Yield the existing files and folders that a setting names, at any depth; other settings may hold "/" as well."""
    if isinstance(value, Mapping):
        value = [inner for name, inner in value.items() if name in FILE_FIELDS]
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _paths_in(inner)
    elif isinstance(value, str) and value and len(value) < LONGEST_NAME and "\n" not in value and "\0" not in value:
        try:
            path = find_path(value)
        except (ValueError, OSError):
            return
        if path.is_file() or path.is_dir():
            yield path
