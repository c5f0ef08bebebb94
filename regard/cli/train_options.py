"""The options of `regard train`: what the files are, and where a run goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WHAT, WHERE = "What the files hold (detected if not given)", "The run"

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE... SETTING...",
        help="Files to train on, or a recipe (.yaml); then settings, such as training.epochs=20.",
    ),
]
Pairs = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Pairs of texts: TSV, CSV, JSON lines, or two files.", rich_help_panel=WHAT),
]
Source = Annotated[
    Path | None, typer.Option(help="Text to translate from, one sentence per line.", rich_help_panel=WHAT)
]
Target = Annotated[Path | None, typer.Option(help="Its translations, line by line.", rich_help_panel=WHAT)]
Labelled = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Texts with labels: CSV, TSV, JSON lines.", rich_help_panel=WHAT),
]
Unlabelled = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="More texts, to pre-train on; with --labelled, models are compared.",
        rich_help_panel=WHAT,
    ),
]
Few = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Few labelled texts: a linear head on --from.", rich_help_panel=WHAT),
]
Tagged = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Words with tags: CoNLL, or word/tag.", rich_help_panel=WHAT),
]
Rated = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Pairs of texts with a score.", rich_help_panel=WHAT),
]
Choices = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Questions with answers to choose from.", rich_help_panel=WHAT),
]
Questions = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Questions with answers in a text: SQuAD, JSON lines.", rich_help_panel=WHAT),
]
Text = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="Plain text: files, folders.", rich_help_panel=WHAT)
]
Masked = Annotated[bool, typer.Option("--masked", help="Train a BERT on the text, not a GPT.", rich_help_panel=WHAT)]
Pictures = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FOLDER",
        help="Pictures with labels: a folder for each class, a table of paths, idx, npz.",
        rich_help_panel=WHAT,
    ),
]
Captions = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="Pictures with captions: CSV, JSON lines, Flickr8k's token file.", rich_help_panel=WHAT
    ),
]
Graph = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A graph with labelled nodes: npz.", rich_help_panel=WHAT),
]
Edges = Annotated[Path | None, typer.Option(help="Edges of a graph: CSV, both ends named.", rich_help_panel=WHAT)]
Nodes = Annotated[Path | None, typer.Option(help="Its nodes: CSV with id, label and features.", rich_help_panel=WHAT)]
Table = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A table of numbers, its columns named.", rich_help_panel=WHAT),
]
Tables = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Tables of the same samples, one per omic.", rich_help_panel=WHAT),
]
Labels = Annotated[Path | None, typer.Option(help="With --tables: the labels of the samples.", rich_help_panel=WHAT)]
Valid = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Validation files; else some data is held out.", rich_help_panel=WHAT),
]
Task = Annotated[str | None, typer.Option(help="What to train on them; see below.", rich_help_panel=WHAT)]
To = Annotated[str | None, typer.Option(help="Language of the translations.", rich_help_panel=WHAT)]
Start = Annotated[
    str | None, typer.Option("--from", help="A model to start from (fine-tuning).", rich_help_panel=WHERE)
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the run; runs/NAME when not given.", rich_help_panel=WHERE),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in the folder.", rich_help_panel=WHERE)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run in the folder.", rich_help_panel=WHERE)]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting, said as other commands say it."),
]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps: training.device.")]
