"""Experiments on single layers: lab positions, lab complexity."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.grammar import Device, Json, Picture
from regard.cli.lab.results import print_file_written, print_results
from regard.cli.text_io import PICTURE_FORMATS, check_writable


def positions(
    scheme: Annotated[
        str | None, typer.Argument(metavar="[SCHEME]", help="sinusoidal, binary, integer or normalised, to draw it.")
    ] = None,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Positional encodings and their properties."""
    from regard.cli.lab.tables import property_table
    from regard.lab import positions

    if (output is None) != (scheme is None):
        raise ValueError("name a scheme and a file to draw it: regard lab positions sinusoidal -o positions.png")
    check_writable(output, PICTURE_FORMATS)
    properties = positions.properties()
    print_results([encoding._asdict() for encoding in properties], [property_table(properties)], as_json=as_json)
    if output is not None and scheme is not None:
        positions.draw(scheme, output)
        print_file_written(output, f"the {scheme} encoding, position by feature", as_json)


def complexity(
    length: Annotated[int, typer.Option(min=1, help="Positions in the table.")] = 512,
    width: Annotated[int, typer.Option(min=1, help="Features of a position.")] = 64,
    window: Annotated[int, typer.Option(min=2, help="Positions in sight of windowed attention.")] = 65,
    measure: Annotated[bool, typer.Option("--measure/--no-measure", help="Time real layers on this machine.")] = True,
    output: Picture = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """What attention costs beside recurrent, convolutional and windowed layers."""
    from dataclasses import asdict

    from regard.cli.lab.tables import complexity_table, timing_table
    from regard.lab import complexity
    from regard.training.device import choose

    check_writable(output, PICTURE_FORMATS)
    chosen_device = str(choose(device))
    layers = complexity.table(length, width, window=window)
    tables = [complexity_table(layers)]
    record = {"layers": [asdict(layer) for layer in layers]}
    if measure or output is not None:
        timings = complexity.measure(width=width, window=window, device=chosen_device)
        tables.append(timing_table(timings))
        record["timings"] = [asdict(timing) | {"exponent": timing.exponent} for timing in timings]
    print_results(record, tables, as_json=as_json)
    if output is not None:
        complexity.plot(timings, output)
        print_file_written(output, "time against length, computed and measured", as_json)
