"""The records of a run as they grow: read on from where the last reading ended, and thinned to curves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.examples import sample_evenly

KINDS = ("training", "evaluation", "average")
MOST_BYTES = 64 << 20
"""Bytes of a file of records that are read; of a longer one the last."""


@dataclass
class RecordFile:
    """The measurements of a run, of which only what was added since the last look is read."""

    path: Path
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Records by kind: training, evaluation, average, fault."""
    unreadable: int = 0
    """Whole lines that hold no record."""
    _identity: tuple[int, int] | None = None
    _offset: int = 0

    def refresh(self) -> None:
        """Read what was added; all of it again if the file was replaced, as by a resumed run."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                identity = status.st_dev, status.st_ino
                if identity != self._identity or status.st_size < self._offset:
                    self._identity, self._offset = identity, max(0, status.st_size - MOST_BYTES)
                    self.records, self.unreadable = {}, 0
                file.seek(self._offset)
                data = file.read(MOST_BYTES)
        except OSError:
            self.records, self.unreadable, self._identity, self._offset = {}, 0, None, 0
            return
        whole, newline, _ = data.rpartition(b"\n")  # the last line may still be written
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            kind, step = record["kind"], record["step"]
        except (ValueError, KeyError, TypeError):
            self.unreadable += 1
            return
        if isinstance(kind, str) and type(step) is int:
            self.records.setdefault(kind, []).append(record)

    @property
    def step(self) -> int:
        """The last step that was measured."""
        return max((listed[-1]["step"] for listed in self.records.values()), default=0)

    def steps(self, kind: str) -> list[int]:
        """Return the steps of the records of a kind, each once."""
        return sorted({record["step"] for record in self.records.get(kind, ())})

    def count_faults(self) -> dict[str, int]:
        """Return how often something went wrong, by name."""
        counts: dict[str, int] = {}
        for record in (*self.records.get("fault", ()), *self.records.get("training", ())):
            for name in ("failed", "damaged", "skipped", "spikes", "rolled_back", "dropped"):
                if value := record.get(name, 0):
                    counts[name] = counts.get(name, 0) + int(value)
        return counts

    def curves(self, most_points: int) -> dict[str, Any]:
        """Return every measurement as lists by kind and name, thinned evenly; the first and the last point stay."""
        return {kind: _columns(self.records[kind], most_points) for kind in KINDS if self.records.get(kind)}


def _columns(records: Sequence[Mapping[str, Any]], most_points: int) -> dict[str, Any]:
    chosen = thin(records, most_points)
    names = list(dict.fromkeys(name for record in chosen for name in record if name not in ("kind", "step")))
    values = {name: [_finite(record.get(name)) for record in chosen] for name in names}
    return {"step": [record["step"] for record in chosen], "values": values, "of": len(records)}


def thin(items: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many items, spread evenly, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[0], *sample_evenly(items[1:-1], most - 2), items[-1]]


def _finite(value: Any) -> float | int | None:
    """Return a number; None for anything else, and for what JSON cannot hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if abs(value) < float("inf") else None  # NaN compares as False
