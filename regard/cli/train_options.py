"""The options of `regard train` beside those of its files: which training, and where its run goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.file_options import FILES_PANEL

RUN_PANEL = "The run"

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE... SETTING...",
        help="Files to train on, or a recipe (.yaml); then settings, such as training.epochs=20.",
    ),
]
Unlabelled = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="More texts, to pre-train on; with --labelled, models are compared.",
        rich_help_panel=FILES_PANEL,
    ),
]
Few = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Few labelled texts: a linear head on --from.", rich_help_panel=FILES_PANEL),
]
Masked = Annotated[
    bool, typer.Option("--masked", help="Train a BERT on the text, not a GPT.", rich_help_panel=FILES_PANEL)
]
Valid = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Validation files; else some data is held out.", rich_help_panel=FILES_PANEL),
]
Task = Annotated[str | None, typer.Option(help="What to train on them; see below.", rich_help_panel=FILES_PANEL)]
To = Annotated[str | None, typer.Option(help="Language of the translations.", rich_help_panel=FILES_PANEL)]
Start = Annotated[
    str | None, typer.Option("--from", help="A model to start from (fine-tuning).", rich_help_panel=RUN_PANEL)
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the run; runs/NAME when not given.", rich_help_panel=RUN_PANEL),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in the folder.", rich_help_panel=RUN_PANEL)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run in the folder.", rich_help_panel=RUN_PANEL)]
Open = Annotated[
    bool, typer.Option("--open", help="Show the run in a browser while it trains.", rich_help_panel=RUN_PANEL)
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting, said as other commands say it."),
]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps: training.device.")]
