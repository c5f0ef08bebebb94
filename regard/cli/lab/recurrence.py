"""Experiments on recurrent networks: lab gradients, lab by-hand."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.grammar import Json, Picture
from regard.cli.lab.options import RandomSeed
from regard.cli.lab.results import print_file_written, print_results
from regard.cli.text_io import PICTURE_FORMATS, check_writable, print_note

SLOW_OPERATIONS = 2**22  # steps times the square of the width: a minute on one core of a laptop


def gradients(
    length: Annotated[int, typer.Option(min=2, max=1000, help="Steps that the layers read; 1,000 take a minute.")] = 64,
    width: Annotated[int, typer.Option(min=4, max=256, help="Features of inputs and states; a multiple of 4.")] = 64,
    seed: RandomSeed = 0,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """How far gradients reach back through RNN, GRU, LSTM and self-attention at initialisation."""
    from rich.console import Console

    from regard.cli.lab.tables import gradient_table
    from regard.interpret.draw import curves, plots
    from regard.lab.gradients import reach

    check_writable(output, PICTURE_FORMATS)
    if width % reach.HEADS:
        raise ValueError(f"--width {width}: give a multiple of {reach.HEADS}, the heads of the attention")
    if length * width**2 > SLOW_OPERATIONS:
        print_note("so many steps of such a width may take minutes")
    norms = reach.compare(length=length, width=width, seed=seed)
    record = {"width": width, "norms": {name: norm.tolist() for name, norm in norms.items()}}
    print_results(record, [gradient_table(norms, width=Console().width)], as_json=as_json)
    if output is not None:
        title = f"d output / d input at a distance, {width} wide, untrained"
        plots.save(curves.by_distance(norms, title=title), output)
        print_file_written(output, "gradients against distance", as_json)


def by_hand(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="A line to learn, character by character.")] = (
        "the quick brown fox jumps over the lazy dog"
    ),
    width: Annotated[int, typer.Option(min=1, max=512, help="Features of the state.")] = 32,
    steps: Annotated[int, typer.Option(min=1, max=100_000, help="Steps of gradient descent.")] = 400,
    rate: Annotated[float, typer.Option(min=0, help="Learning rate.")] = 1.0,
    seed: RandomSeed = 0,
    as_json: Json = False,
) -> None:
    """Back-propagation through time written out in numpy, held against autograd."""
    from dataclasses import asdict

    from regard.cli.lab.tables import lesson_tables
    from regard.lab import by_hand

    lesson = by_hand.learn(text, width=width, steps=steps, rate=rate, seed=seed)
    print_results(asdict(lesson), lesson_tables(lesson), as_json=as_json)
    if not as_json:
        print(f"it writes: {lesson.written}")
