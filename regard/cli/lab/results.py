"""What experiments print and write: tables or JSON, and pictures."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.text_io import print_note

if TYPE_CHECKING:
    from regard.cli.tables import FittedTable
    from regard.lab.demonstration import Demonstration


def print_results(record: Any, tables: Sequence[FittedTable], *, as_json: bool) -> None:
    """Print results as JSON, or as tables."""
    from rich.console import Console

    if as_json:
        print(json.dumps(record, ensure_ascii=False, indent=1))
        return
    console = Console(highlight=False)
    for table in tables:
        console.print(table, "")


def print_file_written(path: Path, what: str, as_json: bool) -> None:
    """Say which file was written and what it shows."""
    print(f"{path}: {what}", file=sys.stderr if as_json else sys.stdout)


def present(demonstration: Demonstration, output: Path | None, *, as_json: bool) -> None:
    """Print a demonstration, and save its figure to `output` if there is one."""
    from dataclasses import asdict

    from regard.cli.lab.tables import demonstration_tables
    from regard.interpret.draw import plots
    from regard.lab.drawing import draw_demonstration

    record = {name: value for name, value in asdict(demonstration).items() if value}
    print_results(record, demonstration_tables(demonstration), as_json=as_json)
    if output is not None:
        plots.save(draw_demonstration(demonstration), output)
        print_file_written(output, demonstration.title, as_json)


def announce_training(train: bool, seconds: int) -> bool:
    """Print how long the training takes if `train`, and return `train`."""
    if train:
        print_note(f"training takes about {seconds} seconds of one idle core")
    return train
