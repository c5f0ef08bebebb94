"""Experiments on words: lab agreement, lab tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import Device, Json, Labels, Picture, model_name
from regard.cli.lab.options import RandomSeed
from regard.cli.lab.results import print_file_written, print_results
from regard.cli.text_io import PICTURE_FORMATS, check_writable
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.lab.agreement.judging import Point

MAX_DISTANCE = 200  # words that a sentence can sensibly have
DISTANCES = "1,2,4,8,12,16,24,32,48"  # words between subject and participle


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
    seed: RandomSeed = 0,
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
    from dataclasses import asdict

    from regard import recipe
    from regard.cli.lab.tables import error_table, measurement_table
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
    measurements = [judging.compare_extremes(name, points) for name, points in points_by_model.items()]
    tables.append(measurement_table(measurements))
    record = {"sentences": count, "seed": seed, "models": plain_points, "measurements": list(map(asdict, measurements))}
    print_results(record, tables, as_json=as_json)
    if output is not None:
        panels = {title: _error_ranges(points) for title, points in points_by_title.items()}
        plots.save(curves.by_words_between(panels, longest=longest), output)
        print_file_written(output, "errors against distance", as_json)


def _show_course_agreement(changed: list[str], train: bool, output: Path | None, as_json: bool) -> None:
    """Show how four networks learn the agreement of the courses."""
    from regard.cli.lab import course_agreement

    course_agreement.check_no_settings(changed, output)
    results = course_agreement.load_results(train=train)
    tables = course_agreement.course_tables(results)
    print_results(course_agreement.plain_results(results), tables, as_json=as_json)
    if output is not None:
        course_agreement.draw_results(results, output, as_json=as_json)


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
    from dataclasses import asdict

    from regard.cli.lab.tables import measurement_table, unit_tables
    from regard.interpret.draw import curves, plots
    from regard.lab import tokenizers

    check_writable(output, PICTURE_FORMATS, inputs=[file, held_out])
    lines = tokenizers.read(str(file), column=column)
    train, evaluation_lines = (
        (lines, tokenizers.read(str(held_out), column=column)) if held_out is not None else tokenizers.hold_out(lines)
    )
    comparison = tokenizers.compare(train, evaluation_lines, sizes=_parse_vocabulary_sizes(sizes), words=words.split())
    measurement = tokenizers.compare_with_shuffled(comparison, train, evaluation_lines)
    title = f"{len(train):,} lines to make units from, {len(evaluation_lines):,} to measure them on"
    record = {"lines": len(train), "held": len(evaluation_lines), "units": [units.plain() for units in comparison]}
    tables = [*unit_tables(comparison, title), measurement_table([measurement])]
    print_results(record | {"measurements": [asdict(measurement)]}, tables, as_json=as_json)
    if output is not None:
        plots.save(curves.by_vocabulary(comparison), output)
        print_file_written(output, "vocabulary against length", as_json)


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
    from regard.lab.tokenizers import MIN_VOCABULARY

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
