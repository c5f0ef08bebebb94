"""Figures of the models in the box, as docs/figures.yaml records them.

python -m tests.figures [KIND] [MODEL]    prints today's digests, and how each figure of a kind or model is measured
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from typing import Any, Literal

from regard import config, shipped
from tests.documents import ROOT

RECORD = ROOT / "docs" / "figures.yaml"
DIGESTED = ("config.yaml", "model.safetensors", "tokenizer.json")  # a card may change without the answers changing


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of one model, and the texts of the pages that give it."""

    model: str
    weights: str
    kind: Literal["quality", "speed", "size"]
    data: str
    command: str
    measured: str
    machine: str = ""
    pages: dict[str, list[str]]


def read_record() -> dict[str, Any]:
    """Return the record: watched sections, figures, and figures that are of no model in the box."""
    record = config.read(RECORD)
    return record | {"figures": [Figure(**fields) for fields in record["figures"]]}


def compute_digest(model: shipped.ShippedModel) -> str:
    """Return the first digits of the SHA-256 of what a model answers with: settings, weights and tokenizer."""
    files = json.loads((model.path / "manifest.json").read_text(encoding="utf-8"))["files"]
    return hashlib.sha256("".join(files[name]["sha256"] for name in DIGESTED).encode()).hexdigest()[:12]


def main(*wanted: str) -> None:
    """Print the digests of today, and data, command and pages of every figure of the wanted kind or model."""
    for name, model in shipped.models().items():
        print(f"{name}: {compute_digest(model)}")
    for figure in read_record()["figures"]:
        if set(wanted) <= {figure.kind, figure.model}:
            print(f"\n{figure.model}, {figure.kind}: {figure.data}\n  {figure.command}")
            for page, texts in figure.pages.items():
                print(*(f"  {page}: {text}" for text in texts), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
