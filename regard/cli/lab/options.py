"""Options that several experiments share."""

from __future__ import annotations

from typing import Annotated

import typer

MAX_SEED = 2**64 - 1  # the last that PyTorch takes

RandomSeed = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Random seed.", show_default=False)]
