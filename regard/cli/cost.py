"""Commands that tell what things cost, how places are coded and how far gradients reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.lines import PICTURES, writable

SLOW = 2**22  # steps times the square of the width: a minute on one core of a laptop
SEEDS = 2**64 - 1  # the last that PyTorch takes


def cost(
    model: Annotated[
        str | None, typer.Argument(help="A recipe file or a preset (tiny, small, base, big): what training it takes.")
    ] = None,
    length: Annotated[int, typer.Option(min=1, help="Positions in the table of layers.")] = 512,
    width: Annotated[int, typer.Option(min=1, help="Features of a position there.")] = 64,
    window: Annotated[int, typer.Option(min=2, help="Positions in sight of windowed attention.")] = 65,
    measure: Annotated[bool, typer.Option(help="Time real layers on this machine.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the growth with length into this PNG or SVG file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A setting of the plan, such as gpu=A100 or steps=50000.")
    ] = None,
) -> None:
    """What attention costs beside other layers, or what training a model costs."""
    from rich.console import Console

    from regard import cost, report

    writable(plot, PICTURES)
    console = Console()
    if model is not None:
        console.print(report.bill(model, settings or []))
        return
    console.print(report.layers(cost.table(length, width, window=window)))
    console.print(report.pixels())
    if measure or plot is not None:
        timings = cost.measure(width=width, window=window)
        console.print(report.growth(timings))
        if plot is not None:
            cost.plot(timings, plot)
            print(f"{plot}: time against length, computed and measured")


def positions(
    scheme: Annotated[str | None, typer.Argument(help="sinusoidal, binary, integer or normalised.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the table of the scheme into this PNG or SVG file.")] = None,
) -> None:
    """Ways to say where a token stands, and what each of them promises."""
    from rich.console import Console

    from regard import report

    if (plot is None) != (scheme is None):
        raise ValueError("name a scheme and a file to draw it: regard positions sinusoidal --plot positions.png")
    writable(plot, PICTURES)
    Console().print(report.schemes())
    if plot is not None and scheme is not None:
        report.draw(scheme, plot)
        print(f"{plot}: the {scheme} code, place by feature")


def gradients(
    length: Annotated[int, typer.Option(min=2, max=1000, help="Steps that the layers read; 1,000 take a minute.")] = 64,
    width: Annotated[int, typer.Option(min=4, max=256, help="Features of inputs and states; a multiple of 4.")] = 64,
    seed: Annotated[int, typer.Option(min=0, max=SEEDS, help="Where the random weights and inputs start.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG or SVG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every number as JSON.")] = False,
) -> None:
    """How much of a gradient is left after many steps back: RNN, GRU, LSTM and self-attention, untrained."""
    import json
    import sys

    from rich.console import Console

    from regard import report
    from regard.interpret import curves, plots
    from regard.lab import gradients as reach

    writable(plot, PICTURES)
    if width % reach.HEADS:
        raise ValueError(f"--width {width}: give a multiple of {reach.HEADS}, the heads of the attention")
    if length * width**2 > SLOW:
        print("regard: so many steps of such a width may take minutes", file=sys.stderr)
    norms = reach.compare(length=length, width=width, seed=seed)
    if as_json:
        print(json.dumps({"width": width, "norms": {name: each.tolist() for name, each in norms.items()}}))
    else:
        console = Console()
        console.print(report.reached(norms, width=console.width))
    if plot is not None:
        title = f"d output / d input at a distance, {width} wide, untrained"
        plots.save(curves.by_distance(norms, title=title), plot)
        print(f"{plot}: gradients against distance", file=sys.stderr if as_json else sys.stdout)
