"""Commands that tell what things cost and how places are coded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    Console().print(report.schemes())
    if plot is not None and scheme is not None:
        report.draw(scheme, plot)
        print(f"{plot}: the {scheme} code, place by feature")
