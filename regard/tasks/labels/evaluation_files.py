"""Labelled files that a model is measured on: read as those it was trained on, or as their own heading tells."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard import config
from regard.data.encodings import locate
from regard.data.line_report import LineReport
from regard.tasks.labels.files import AnyFile, LabelledFile, RatedFile
from regard.tasks.labels.layout import is_json

FORM = ("heading", "delimiter")
REPLACES = {"columns": ("text", "label", *FORM), "text": ("columns", *FORM), "label": ("columns", *FORM)}
"""Settings of the files trained on that do not hold for one whose columns are named."""
SAMPLE = 200  # records by which a layout is judged


@dataclass(frozen=True)
class TrainedLayout:
    """How the files that a model was trained on are read, and the labels in them."""

    kind: type[AnyFile]
    settings: Mapping[str, Any]
    labels: Collection[str] = ()
    """Names of its classes; none for scores."""
    names: Mapping[str, str] | None = None
    """What labels of files are called."""

    def open_files(self, paths: Sequence[str | Path], changes: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """The files with the settings to read them by, and a line on each that is laid out in its own way.

        Columns named in `changes` take the place of those trained on, by whichever setting these are named.
        """
        if not paths:
            raise ValueError("nothing to measure on: name a file like those that the model was trained on")
        replaced = {setting for change in changes for setting in REPLACES.get(change, ())}
        own = {name: value for name, value in self.settings.items() if name not in replaced}
        opened, notes = [], []
        for path in map(str, paths):
            file = config.build(self.kind, {**own, "path": path, **changes}, where="file")
            if not changes and isinstance(file, LabelledFile) and not is_json(path) and file.whole is None:
                file, note = self._fit(file)
                notes += note
            opened.append(file)
        return opened, notes

    def _fit(self, file: LabelledFile) -> tuple[LabelledFile, list[str]]:
        """The file as it was trained on if that reads it, else as its first lines suggest."""
        locate(file.path)
        as_trained = self._labels_in(file)
        if self._known_share(as_trained) >= 0.5:
            return file, []
        anew = type(file)(path=file.path)
        labels = self._labels_in(anew)
        if labels and self._known_share(labels) > self._known_share(as_trained):
            layout = anew.layout()
            return anew, [
                f"{file.path} is laid out otherwise than what was trained on: {layout.note if layout else ''}"
            ]
        if not as_trained:
            raise ValueError(
                f"{file.path} is laid out otherwise than what was trained on: name its columns of text and label, "
                "--columns 1 2 by number or -s text=NAME -s label=NAME by name"
            )
        return file, []

    def _labels_in(self, file: LabelledFile) -> list[str]:
        """The labels of its first records; none where they cannot be read."""
        try:
            examples = list(islice(file.examples(0, LineReport()), SAMPLE))
        except ValueError:
            return []
        return [str(example.labels[0]) for example in examples]

    def _known_share(self, labels: Sequence[str]) -> float:
        if not labels or issubclass(self.kind, RatedFile):
            return float(bool(labels))
        names = self.names or {}
        return sum(names.get(label, label) in self.labels for label in labels) / len(labels)
