"""The commands of the course experiments: lab positions, gradients, complexity, agreement, tokenizers, by-hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import Device, Json, Labels, Picture, group, model_name
from regard.cli.text_io import PICTURE_FORMATS, check_writable, print_note
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.cli.tables import FittedTable
    from regard.lab.agreement.judging import Point

lab = group("Experiments of the courses, no model of yours needed.")
MAX_DISTANCE = 200  # words that a sentence can sensibly have
SLOW_OPERATIONS = 2**22  # steps times the square of the width: a minute on one core of a laptop
MAX_SEED = 2**64 - 1  # the last that PyTorch takes
DISTANCES = "1,2,4,8,12,16,24,32,48"  # words between subject and participle
MIN_VOCABULARY = 300  # tokens of a vocabulary that has all bytes


@lab.command()
def positions(
    scheme: Annotated[
        str | None, typer.Argument(metavar="[SCHEME]", help="sinusoidal, binary, integer or normalised, to draw it.")
    ] = None,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Positional encodings and their properties."""
    from regard.cli.lab_tables import property_table
    from regard.lab import positions

    if (output is None) != (scheme is None):
        raise ValueError("name a scheme and a file to draw it: regard lab positions sinusoidal -o positions.png")
    check_writable(output, PICTURE_FORMATS)
    properties = positions.properties()
    _print_results([encoding._asdict() for encoding in properties], [property_table(properties)], as_json=as_json)
    if output is not None and scheme is not None:
        positions.draw(scheme, output)
        _print_file_written(output, f"the {scheme} encoding, position by feature", as_json)


@lab.command()
def gradients(
    length: Annotated[int, typer.Option(min=2, max=1000, help="Steps that the layers read; 1,000 take a minute.")] = 64,
    width: Annotated[int, typer.Option(min=4, max=256, help="Features of inputs and states; a multiple of 4.")] = 64,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed.", show_default=False)] = 0,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """How far gradients reach back through RNN, GRU, LSTM and self-attention at initialisation."""
    from rich.console import Console

    from regard.cli.lab_tables import gradient_table
    from regard.interpret.draw import curves, plots
    from regard.lab import gradients as reach

    check_writable(output, PICTURE_FORMATS)
    if width % reach.HEADS:
        raise ValueError(f"--width {width}: give a multiple of {reach.HEADS}, the heads of the attention")
    if length * width**2 > SLOW_OPERATIONS:
        print_note("so many steps of such a width may take minutes")
    norms = reach.compare(length=length, width=width, seed=seed)
    record = {"width": width, "norms": {name: norm.tolist() for name, norm in norms.items()}}
    _print_results(record, [gradient_table(norms, width=Console().width)], as_json=as_json)
    if output is not None:
        title = f"d output / d input at a distance, {width} wide, untrained"
        plots.save(curves.by_distance(norms, title=title), output)
        _print_file_written(output, "gradients against distance", as_json)


@lab.command()
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

    from regard.cli.lab_tables import complexity_table, timing_table
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
    _print_results(record, tables, as_json=as_json)
    if output is not None:
        complexity.plot(timings, output)
        _print_file_written(output, "time against length, computed and measured", as_json)


@lab.command()
def agreement(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Taggers trained on what data make agreement writes; none: four networks, and the courses' sentences.",
        ),
    ] = None,
    labels: Labels = None,
    distances: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Words between subject and participle.")
    ] = DISTANCES,
    count: Annotated[int, typer.Option(min=1, help="Sentences at each distance.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", show_default=False)] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="Without participles beside the nouns in between.")] = False,
    longest: Annotated[int, typer.Option(min=1, help="Longest distance met in training, drawn as a line.")] = 16,
    train: Annotated[
        bool, typer.Option("--train", help="Without a MODEL: train the four networks anew, in some minutes.")
    ] = False,
    output: Picture = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How often taggers misjudge a French participle, by distance from its subject."""
    if not models:
        given = {"--labels": labels, "--plain": plain, "--seed": seed, "--device": device != "auto"}
        given |= {"--distances": distances != DISTANCES, "--count": count != 500, "--longest": longest != 16}
        return _show_course_agreement([flag for flag, value in given.items() if value], train, output, as_json)
    if train:
        raise ValueError("--train repeats the experiment of the courses: leave the models out")
    from regard import recipe
    from regard.cli.lab_tables import error_table
    from regard.interpret.draw import curves, plots
    from regard.lab.agreement import judging

    check_writable(output, PICTURE_FORMATS)
    groups = _group_models(models, labels)
    settings: dict[str, Any] = {"distances": _parse_distances(distances), "count": count, "seed": seed}
    points_by_model = {}
    for name, paths in groups.items():
        taggers = [recipe.load(path, device=device, task="tagging") for path in paths]
        points_by_model[name] = judging.measure(taggers, described=not plain, **settings)
    plain_points = {name: [point.plain() for point in points] for name, points in points_by_model.items()}
    points_by_title = {
        title: _select_points(points_by_model, attractors) for attractors, title in judging.CONDITIONS.items()
    }
    tables = [error_table(title, points) for title, points in points_by_title.items()]
    _print_results({"sentences": count, "seed": seed, "models": plain_points}, tables, as_json=as_json)
    if output is not None:
        panels = {title: _error_ranges(points) for title, points in points_by_title.items()}
        plots.save(curves.by_words_between(panels, longest=longest), output)
        _print_file_written(output, "errors against distance", as_json)


def _show_course_agreement(changed: list[str], train: bool, output: Path | None, as_json: bool) -> None:
    """Show how four networks learn the agreement of the courses."""
    from regard.cli import course_agreement

    course_agreement.check_no_settings(changed, output)
    results = course_agreement.load_results(train=train)
    tables = course_agreement.course_tables(results)
    _print_results(course_agreement.plain_results(results), tables, as_json=as_json)
    if output is not None:
        course_agreement.draw_results(results, output, as_json=as_json)


@lab.command()
def tokenizers(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text, one sentence per line; may be gzipped.")],
    column: Annotated[int | None, typer.Option(min=1, help="The column with the text, in a TSV file.")] = None,
    held_out: Annotated[
        Path | None, typer.Option("--held", metavar="FILE", help="Other text to evaluate on; else a tenth is held out.")
    ] = None,
    sizes: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Sizes of vocabularies, between commas.")
    ] = "500,1000,2000,4000,8000",
    words: Annotated[str, typer.Option(metavar="WORDS", help="Words to tokenise, between spaces.")] = (
        "grand grande grandement"
    ),
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Characters, words and subwords compared: vocabulary, length of the text, what is unknown."""
    from regard.cli.lab_tables import unit_tables
    from regard.interpret.draw import curves, plots
    from regard.lab import tokenizers

    check_writable(output, PICTURE_FORMATS, inputs=[file, held_out])
    lines = tokenizers.read(str(file), column=column)
    train, evaluation_lines = (
        (lines, tokenizers.read(str(held_out), column=column)) if held_out is not None else tokenizers.hold_out(lines)
    )
    comparison = tokenizers.compare(train, evaluation_lines, sizes=_parse_vocabulary_sizes(sizes), words=words.split())
    title = f"{len(train):,} lines to make units from, {len(evaluation_lines):,} to measure them on"
    record = {"lines": len(train), "held": len(evaluation_lines), "units": [units.plain() for units in comparison]}
    _print_results(record, unit_tables(comparison, title), as_json=as_json)
    if output is not None:
        plots.save(curves.by_vocabulary(comparison), output)
        _print_file_written(output, "vocabulary against length", as_json)


@lab.command("by-hand")
def by_hand(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="A line to learn, character by character.")] = (
        "the quick brown fox jumps over the lazy dog"
    ),
    width: Annotated[int, typer.Option(min=1, max=512, help="Features of the state.")] = 32,
    steps: Annotated[int, typer.Option(min=1, max=100_000, help="Steps of gradient descent.")] = 400,
    rate: Annotated[float, typer.Option(min=0, help="Learning rate.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", show_default=False)] = 0,
    as_json: Json = False,
) -> None:
    """Back-propagation through time written out in numpy, held against autograd."""
    from dataclasses import asdict

    from regard.cli.lab_tables import lesson_tables
    from regard.lab import by_hand

    lesson = by_hand.learn(text, width=width, steps=steps, rate=rate, seed=seed)
    _print_results(asdict(lesson), lesson_tables(lesson), as_json=as_json)
    if not as_json:
        print(f"it writes: {lesson.written}")


def _print_results(record: Any, tables: Sequence[FittedTable], *, as_json: bool) -> None:
    """Print results as JSON, or as tables."""
    from rich.console import Console

    if as_json:
        print(json.dumps(record, ensure_ascii=False, indent=1))
        return
    console = Console(highlight=False)
    for table in tables:
        console.print(table, "")


def _print_file_written(path: Path, what: str, as_json: bool) -> None:
    print(f"{path}: {what}", file=sys.stderr if as_json else sys.stdout)


def _group_models(models: Sequence[Path], labels: str | None) -> dict[str, list[Path]]:
    """Group models by name; those of one name are averaged."""
    names = [model_name(path) for path in models] if labels is None else [name.strip() for name in labels.split(",")]
    if len(names) != len(models) or not all(names):
        raise ValueError(
            f"--labels {labels!r}: give {quantity(len(models), 'name')} between commas, one for each model"
        )
    groups: dict[str, list[Path]] = {}
    for name, path in zip(names, models, strict=True):
        groups.setdefault(name, []).append(path)
    return groups


def _parse_distances(text: str) -> list[int]:
    try:
        distances = sorted({int(part) for part in text.split(",")})
    except ValueError:
        distances = [0]
    if distances[0] < 1 or distances[-1] > MAX_DISTANCE:
        raise ValueError(
            f"--distances {text!r}: give whole numbers from 1 to {MAX_DISTANCE} between commas, such as 1,8,32"
        )
    return distances


def _parse_vocabulary_sizes(text: str) -> list[int]:
    """Parse sizes of vocabularies between commas."""
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise ValueError(f"--sizes {text!r}: give whole numbers between commas, such as 500,2000") from None
    if sizes[0] < MIN_VOCABULARY:
        raise ValueError(f"--sizes {text}: the least is {MIN_VOCABULARY}, the 256 bytes and some more")
    return sizes


def _select_points(points_by_model: Mapping[str, Sequence[Point]], attractors: bool) -> dict[str, list[Point]]:
    return {
        name: [point for point in points if point.attractors == attractors] for name, points in points_by_model.items()
    }


def _error_ranges(points_by_model: Mapping[str, Sequence[Point]]) -> dict[str, list[tuple[int, float, float, float]]]:
    """Return distance, mean, least and largest error of each model."""
    return {
        name: [(point.distance, point.error, min(point.errors), max(point.errors)) for point in points]
        for name, points in points_by_model.items()
    }
