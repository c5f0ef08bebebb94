"""The command that shows a training from beginning to end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long to train.")] = 150,
    out: Annotated[Path, typer.Option(help="Folder of the run; an earlier demo there is replaced.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Train a small French-English translator, and show it."""
    from regard import demo

    demo.run_demo(seconds=seconds, out=out, command=sys.argv)
