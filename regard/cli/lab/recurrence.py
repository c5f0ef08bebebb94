"""Experiments on recurrent networks: lab gradients, lab by-hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.grammar import Json, Picture
from regard.cli.lab.options import RandomSeed
from regard.cli.lab.results import announce_training, present, print_file_written, print_results
from regard.cli.text_io import PICTURE_FORMATS, check_writable, print_note
from regard.config.words import suggest_name

SLOW_OPERATIONS = 2**24  # steps times the square of the width: a minute on one core of a laptop
MAX_UNROLLED = 20  # steps of a network that is drawn
VIEWS = ("distance", "gates", "scale", "clipping", "trained", "unrolled")


def gradients(
    view: Annotated[
        str, typer.Argument(metavar="[VIEW]", help="distance, gates, scale, clipping, trained or unrolled.")
    ] = "distance",
    length: Annotated[
        int | None, typer.Option(min=2, max=1000, help="Steps that the layers read; 64 when not given, unrolled 12.")
    ] = None,
    width: Annotated[
        int, typer.Option(min=4, max=256, help="distance: features of inputs and states; a multiple of 4.")
    ] = 64,
    window: Annotated[int, typer.Option(min=1, help="unrolled: steps of a window of truncated back-propagation.")] = 4,
    train: Annotated[
        bool, typer.Option("--train", help="trained: train again instead of showing kept results.")
    ] = False,
    seed: RandomSeed = 0,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """How far gradients reach back: what vanishes, what explodes, what protects, before and after training."""
    from regard.lab.gradients import clipping, protection, recall

    check_writable(output, PICTURE_FORMATS)
    if view == "distance":
        return _show_distance(length or 64, width, seed=seed, output=output, as_json=as_json)
    if view == "unrolled":
        return _show_unrolled(length or 12, window, seed=seed, output=output, as_json=as_json)
    if view in {"gates", "scale"}:
        compare = protection.compare_gates if view == "gates" else protection.compare_scales
        return present(compare(length=length or 64, seed=seed), output, as_json=as_json)
    if view == "clipping":
        return present(clipping.compare_clipping(seed=seed), output, as_json=as_json)
    if view != "trained":
        raise ValueError(f"unknown view {view}{suggest_name(view, VIEWS)}")
    recalls = recall.train_all(seed=seed, report=print_note) if announce_training(train, 90) else recall.read_results()
    present(recall.compare_training(recalls), output, as_json=as_json)


def _show_distance(length: int, width: int, *, seed: int, output: Path | None, as_json: bool) -> None:
    """Show how far gradients reach through untrained layers."""
    from dataclasses import asdict

    from rich.console import Console

    from regard.cli.lab.tables import gradient_table, measurement_table
    from regard.interpret.draw import curves, plots
    from regard.lab.gradients import reach

    if width % reach.HEADS:
        raise ValueError(f"--width {width}: give a multiple of {reach.HEADS}, the heads of the attention")
    if length * width**2 > SLOW_OPERATIONS:
        print_note("so many steps of such a width may take minutes")
    norms = reach.compare(length=length, width=width, seed=seed)
    measurement = reach.measure_loss(norms)
    record = {"width": width, "norms": {name: norm.tolist() for name, norm in norms.items()}}
    tables = [gradient_table(norms, width=Console().width), measurement_table([measurement])]
    print_results(record | {"measurements": [asdict(measurement)]}, tables, as_json=as_json)
    if output is not None:
        title = f"d output / d input at a distance, {width} wide, untrained"
        plots.save(curves.by_distance(norms, title=title), output)
        print_file_written(output, "gradients against distance", as_json)


def _show_unrolled(length: int, window: int, *, seed: int, output: Path | None, as_json: bool) -> None:
    """Show a network unrolled in time, whole and cut into windows."""
    from regard.interpret.draw import plots
    from regard.lab.gradients import unrolled

    if length > MAX_UNROLLED:
        raise ValueError(f"--length {length}: a picture has room for {MAX_UNROLLED} steps: give at most as many")
    present(unrolled.unroll(steps=length, window=window, seed=seed), None, as_json=as_json)
    if output is not None:
        plots.save(unrolled.draw_unrolled(steps=length, window=window, seed=seed), output)
        print_file_written(output, "the unrolled network and its windows", as_json)


def by_hand(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="A line to learn, character by character.")] = (
        "the quick brown fox jumps over the lazy dog"
    ),
    width: Annotated[int, typer.Option(min=1, max=512, help="Features of the state.")] = 32,
    steps: Annotated[int, typer.Option(min=1, max=100_000, help="Steps of gradient descent.")] = 400,
    rate: Annotated[float, typer.Option(min=0, help="Learning rate.")] = 1.0,
    seed: RandomSeed = 0,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Back-propagation through time written out in numpy, held against autograd."""
    from dataclasses import asdict

    from regard.cli.lab.tables import lesson_tables
    from regard.interpret.draw import plots
    from regard.lab import by_hand
    from regard.lab.drawing import draw_demonstration

    check_writable(output, PICTURE_FORMATS)
    lesson = by_hand.learn(text, width=width, steps=steps, rate=rate, seed=seed)
    print_results(asdict(lesson), lesson_tables(lesson), as_json=as_json)
    if not as_json:
        print(f"it writes: {lesson.written}")
    if output is not None:
        plots.save(draw_demonstration(by_hand.show_losses(lesson)), output)
        print_file_written(output, "the loss against steps of gradient descent", as_json)
