"""The options of `regard explain`: what is shown, of which models, and where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SHOWN, FOR_TRANSLATORS = "What is shown", "For translators"

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODEL] [INPUT]", help="A model, else the shipped one; and what it should answer."),
]
Input = Annotated[
    Path | None, typer.Option("--input", "-i", metavar="FILE", help="With --alignments: link the lines of a file.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Page (.html), picture (.png, .svg), table (.csv), trace (.json), .npy.",
    ),
]
Attention = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Such as decoder.1.cross; else the last cross-attention.", rich_help_panel=SHOWN),
]
Head = Annotated[int | None, typer.Option(min=0, help="Which head; their mean if not given.", rich_help_panel=SHOWN)]
Level = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="word or subword; words, unless only one was read.", rich_help_panel=SHOWN),
]
Specials = Annotated[bool, typer.Option("--specials", help="Show special tokens too.", rich_help_panel=SHOWN)]
Numbers = Annotated[bool, typer.Option("--numbers", help="Percentages instead of shades.", rich_help_panel=SHOWN)]
Step = Annotated[
    int | None,
    typer.Option(min=0, help="Show the arithmetic of this row of the matrix, from 0.", rich_help_panel=SHOWN),
]
About = Annotated[
    list[str] | None,
    typer.Option(metavar="LABEL", help="For pictures: which label to show; again to compare.", rich_help_panel=SHOWN),
]
LookAgain = Annotated[
    bool,
    typer.Option(
        "--look-again",
        help="For pictures: answer again to the brightest part, enlarged.",
        rich_help_panel=SHOWN,
    ),
]
Anatomy = Annotated[
    bool,
    typer.Option(
        "--anatomy",
        help="For a ViT: patch filters, likeness of positions, how far heads look.",
        rich_help_panel=SHOWN,
    ),
]
Node = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="For graphs: the node whose neighbourhood to show.", rich_help_panel=SHOWN),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        min=0,
        max=2**63 - 1,
        help="For generators: the noise.",
        rich_help_panel=SHOWN,
    ),
]
To = Annotated[
    str | None,
    typer.Option(help="Target language, of several; guessed if not given.", rich_help_panel=FOR_TRANSLATORS),
]
Tree = Annotated[
    bool,
    typer.Option("--tree", help="How the answer was searched for: what was kept and left.", rich_help_panel=SHOWN),
]
Beams = Annotated[
    int | None,
    typer.Option(min=1, max=100, help="With --tree: how many hypotheses are kept.", rich_help_panel=SHOWN),
]
Alignments = Annotated[
    bool, typer.Option("--alignments", help="Print links, as 0-0 1-2: read-written.", rich_help_panel=FOR_TRANSLATORS)
]
Gold = Annotated[
    str | None,
    typer.Option(
        metavar="LINKS",
        help="Links made by hand, as '0-0 1p2', to show and to measure.",
        rich_help_panel=FOR_TRANSLATORS,
    ),
]
Measures = Annotated[
    bool,
    typer.Option(
        "--measures",
        help="Measure all heads against alignments drawn by hand, with controls.",
        rich_help_panel=FOR_TRANSLATORS,
    ),
]
Pronouns = Annotated[
    bool,
    typer.Option("--pronouns", help="Which heads look from a pronoun to its noun.", rich_help_panel=SHOWN),
]
Interventions = Annotated[
    bool,
    typer.Option(
        "--interventions",
        help="Measure also silenced heads and words left out: minutes.",
        rich_help_panel=FOR_TRANSLATORS,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: the matrix shown, or all measures.")]
