"""Experiments on layers: lab attention, positions, norms, pooling, graph, complexity."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import Device, Json, Picture
from regard.cli.lab.options import RandomSeed
from regard.cli.lab.results import present, print_file_written, print_results
from regard.cli.text_io import PICTURE_FORMATS, check_writable

if TYPE_CHECKING:
    from regard.lab.positions import Encoding


def attention(
    example: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXAMPLE]",
            help="thinking-machines, big-dog, dictionary, root, permutation, masks, heads or columns.",
        ),
    ] = None,
    queries: Annotated[
        str | None, typer.Option(metavar="VECTORS", help="Vectors of your own; the keys when not given.")
    ] = None,
    keys: Annotated[
        str | None, typer.Option(metavar="VECTORS", help='Vectors of your own, such as "1 0; 0 1".')
    ] = None,
    values: Annotated[
        str | None, typer.Option(metavar="VECTORS", help="One for each key; the keys when not given.")
    ] = None,
    words: Annotated[
        str, typer.Option(metavar="WORDS", help="Words of your own, between spaces: permutation, masks, vectors.")
    ] = "",
    seed: RandomSeed = 0,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Attention step by step: worked numbers, masks, shuffled words, or vectors of your own."""
    from regard.lab.attention.examples import EXAMPLES, attend_to_typed_vectors, run_example

    check_writable(output, PICTURE_FORMATS)
    if queries is None and keys is None and values is None:
        name = example or next(iter(EXAMPLES))
        present(run_example(name, words=words.split(), seed=seed), output, as_json=as_json)
        if example is None and not as_json:
            print(f"more examples: {', '.join(list(EXAMPLES)[1:])}; your own vectors: --keys")
        return
    if example is not None:
        raise ValueError(f"{example} has vectors of its own: leave it out, or --queries, --keys and --values")
    present(attend_to_typed_vectors(queries, keys, values, words.split()), output, as_json=as_json)


def positions(
    scheme: Annotated[
        str | None, typer.Argument(metavar="[SCHEME]", help="The one to draw, such as sinusoidal; all when not given.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Draw the positions of a trained model instead.")
    ] = None,
    seed: RandomSeed = 0,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Positional encodings and their properties."""
    from regard.cli.lab.tables import measurement_table, property_table
    from regard.lab import positions

    if output is None and (scheme or model) is not None:
        raise ValueError(f"name a file to draw {scheme or model} into: -o positions.png")
    if scheme is not None and model is not None:
        raise ValueError(f"{model} has positions of its own: leave {scheme} out, or --model")
    check_writable(output, PICTURE_FORMATS)
    encodings = _trained_encodings(model) if model is not None else positions.encode_schemes(scheme, seed=seed)
    properties = positions.properties(seed=seed)
    measurement = positions.measure_distinct(scheme or "sinusoidal", seed=seed)
    tables = [property_table(properties), measurement_table([measurement])]
    print_results([encoding._asdict() for encoding in properties], tables, as_json=as_json)
    if output is not None:
        positions.draw(encodings, output)
        print_file_written(output, "; ".join(positions.describe(encodings)), as_json)


def _trained_encodings(model: Path) -> dict[str, Encoding]:
    """Return the encodings of positions in a trained model."""
    from regard import recipe
    from regard.lab import positions

    modules = positions.find_positions(recipe.load(model, device="cpu").model)
    if not modules:
        raise ValueError(f"{model} has no positions that could be drawn")
    return {name: positions.encode(module) for name, module in modules.items()}


def norms(
    matrix: Annotated[
        str | None,
        typer.Option(metavar="ROWS", help='Features by examples of your own, such as "1 3 4; 2 2 2".'),
    ] = None,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Batch norm and layer norm of one matrix, step by step."""
    from regard.lab.norms import MATRIX, compare_norms
    from regard.lab.typed_vectors import parse_vectors

    check_writable(output, PICTURE_FORMATS)
    rows = MATRIX if matrix is None else parse_vectors("--matrix", matrix)
    if len(rows) < 2 or len(rows[0]) < 2:
        raise ValueError(f"--matrix {matrix!r}: give at least two features of two examples")
    present(compare_norms(rows), output, as_json=as_json)


def pooling(seed: RandomSeed = 0, output: Picture = None, as_json: Json = False) -> None:
    """Global average pooling, and the class activation maps that rest on it."""
    from regard.lab.pooling import compare_pooling

    check_writable(output, PICTURE_FORMATS)
    present(compare_pooling(seed=seed), output, as_json=as_json)


def graph(seed: RandomSeed = 0, output: Picture = None, as_json: Json = False) -> None:
    """Neighbours in a graph weighed by attention (GAT), by degree (GCN), all alike, or not at all."""
    from regard.lab.graph import compare_weighing

    check_writable(output, PICTURE_FORMATS)
    present(compare_weighing(seed=seed), output, as_json=as_json)


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

    from regard.cli.lab.tables import complexity_table, measurement_table, timing_table
    from regard.lab import complexity
    from regard.training.device import choose

    check_writable(output, PICTURE_FORMATS)
    chosen_device = str(choose(device))
    layers = complexity.table(length, width, window=window)
    measurement = complexity.measure_growth(length, width, window=window)
    tables = [complexity_table(layers), measurement_table([measurement])]
    record: dict[str, Any] = {"layers": [asdict(layer) for layer in layers], "measurements": [asdict(measurement)]}
    if measure or output is not None:
        timings = complexity.measure(width=width, window=window, device=chosen_device)
        tables.append(timing_table(timings))
        record["timings"] = [asdict(timing) | {"exponent": timing.exponent} for timing in timings]
    print_results(record, tables, as_json=as_json)
    if output is not None:
        complexity.plot(timings, output)
        print_file_written(output, "time against length, computed and measured", as_json)
