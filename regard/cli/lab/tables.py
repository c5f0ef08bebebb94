"""Tables of the course experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from regard.cli.tables import FittedTable

if TYPE_CHECKING:
    from torch import Tensor

    from regard.lab.agreement.judging import Point
    from regard.lab.by_hand import TrainingResult
    from regard.lab.complexity import Layer, Timing
    from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix, Measurement
    from regard.lab.positions import Properties
    from regard.lab.tokenizers import TokenizerResult

LOSSES_SHOWN = 9  # losses shown of a training by hand


def demonstration_tables(demonstration: Demonstration) -> list[FittedTable]:
    """Return tables of a demonstration's matrices, charts and measurements, the last with their controls."""
    notes = "\n".join(demonstration.notes) or None
    return [
        *map(_matrix_table, demonstration.tables or demonstration.matrices),
        *(_chart_table(chart) for chart in demonstration.charts if chart.tabulated),
        measurement_table(demonstration.measurements, note=notes),
    ]


def measurement_table(measurements: Sequence[Measurement], *, note: str | None = None) -> FittedTable:
    """Return a table of measurements, each above its control."""
    rows: list[tuple[str, str, str]] = []
    for measurement in measurements:
        rows.append((measurement.quantity, measurement.setting, format_number(measurement.value)))
        rows.append(("control", measurement.control_setting, format_number(measurement.control)))
    return FittedTable(("number", "where", "value"), rows, None, note)


def _matrix_table(matrix: LabelledMatrix) -> FittedTable:
    digits = [
        0 if all(value == int(value) for value in column) else matrix.digits
        for column in zip(*matrix.values, strict=True)
    ]
    rows = [
        (name, *(_write_number(value, places) for value, places in zip(numbers, digits, strict=True)))
        for name, numbers in zip(matrix.rows, matrix.values, strict=True)
    ]
    return FittedTable(("", *matrix.columns), rows, matrix.title)


def _chart_table(chart: Chart) -> FittedTable:
    rows = [
        (format_number(x), *(_write_number(curve[place], chart.digits) for curve in chart.curves.values()))
        for place, x in enumerate(chart.x)
    ]
    return FittedTable((chart.x_label, *chart.curves), rows, f"{chart.title}: {chart.y_label}")


def _write_number(number: float, digits: int | None) -> str:
    return format_number(number) if digits is None else f"{number:,.{digits}f}"


def format_number(number: float) -> str:
    """Format a number to three digits: plainly where it is of a common size, else with an exponent."""
    if number == int(number) and abs(number) < 1e6:
        return f"{int(number):,}"
    return f"{number:.3f}" if 1e-2 <= abs(number) < 1e4 else f"{number:.1e}"


def property_table(properties: Sequence[Properties]) -> FittedTable:
    """Return a table of the properties of positional encodings."""
    head = ("encoding", "acts on", "unique", "bounded", "independent of length")
    rows = [(name, acts_on, *("yes" if holds else "no" for holds in held)) for name, acts_on, *held in properties]
    return FittedTable(head, rows, "Positional encodings")


def gradient_table(norms: Mapping[str, Tensor], *, width: int) -> FittedTable:
    """Return a table of gradient norms by distance, with as many distances as fit the width."""
    length = min(map(len, norms.values()))
    rows = {name: [f"{value:.1e}" for value in values.tolist()] for name, values in norms.items()}
    column_width = 2 + max(len(value) for values in rows.values() for value in values)
    column_count = (width - max(map(len, rows))) // column_width
    distances = _spaced_distances(length - 1, min(column_count, 1 + length.bit_length()))
    shown = [(name, *(values[distance] for distance in distances)) for name, values in rows.items()]
    note = "Untrained: gates stand half open, so GRU and LSTM lose the gradient too, if later than the RNN."
    return FittedTable(("layer", *map(str, distances)), shown, "Norm of the gradient by distance in steps", note)


def _spaced_distances(last: int, count: int) -> list[int]:
    """Return 0 and whole numbers from 1 to `last`, evenly spaced on a logarithmic scale."""
    interval_count = max(count - 2, 1)
    return sorted({0, *(round(last ** (index / interval_count)) for index in range(interval_count)), last})


def complexity_table(layers: Sequence[Layer]) -> FittedTable:
    """Return a table of the computed cost of each layer, with the number of patch pairs of an image."""
    from regard.attention.axial import axial_pairs
    from regard.lab.complexity import image_pairs

    head = ("layer", "cost", "operations", "steps", "path", "pairs", "learned")
    rows = []
    for layer in layers:
        counts = (layer.operations, layer.steps, layer.path, layer.weights, layer.parameters)
        rows.append((layer.name, layer.complexity, *map(_format_count, counts)))
    size = 1024, 1024
    all_pairs, patch_pairs, axial_count = image_pairs(*size), image_pairs(*size, patch=16), axial_pairs(*size)
    note = f"1024 x 1024 pixels: {all_pairs:.2e} pairs; axial {axial_count:.2e}; 16 x 16 patches {patch_pairs:.2e}."
    return FittedTable(head, rows, "One layer, computed", note)


def timing_table(timings: Sequence[Timing]) -> FittedTable:
    """Return a table of measured times by layer and length, with the fitted exponents."""
    rows = [
        (
            timing.name,
            *(f"{1000 * seconds:.2f}" for seconds in timing.seconds),
            None if timing.exponent is None else f"n^{timing.exponent:.2f}",
        )
        for timing in timings
    ]
    names = "layer", *(f"n={length}" for length in timings[0].lengths), "grows as"
    noisy = [timing for timing in timings if timing.exponent is None]
    note = None
    if noisy:
        worst = max(timing.noise for timing in noisy)
        note = f"Rounds differ by up to {worst:.0%}, which hides how times grow: try again when the machine is idle."
    return FittedTable(names, rows, "Milliseconds on this machine", note)


def _format_count(number: int) -> str:
    """Format a count in few characters."""
    return "-" if number == 0 else f"{number:,}" if number < 1_000_000 else f"{number:.2e}"


def error_table(title: str, points_by_model: Mapping[str, Sequence[Point]]) -> FittedTable:
    """Return a table with a row for every distance and a column for every model."""
    rows = [
        (f"{points[0].distance}", *(f"{point.error:.1f}" for point in points))
        for points in zip(*points_by_model.values(), strict=True)
    ]
    return FittedTable(("words between", *points_by_model), rows, f"Errors in 100, {title}")


def unit_tables(comparison: Sequence[TokenizerResult], title: str) -> list[FittedTable]:
    """Return a table of tokenizations by kind and vocabulary size, and one of how they split some words."""
    rows = [
        (units.kind, units.vocab, f"{units.per_line:.1f}", f"{units.per_token:.2f}", f"{100 * units.unknown:.2f} %")
        for units in comparison
    ]
    segmentations = [
        (f"{units.kind} {units.vocab:,}", *(" ".join(pieces) for pieces in units.words.values()))
        for units in comparison
    ]
    return [
        FittedTable(("units", "vocabulary", "tokens a line", "characters a token", "unknown"), rows, title),
        FittedTable(("units", *comparison[0].words), segmentations),
    ]


def lesson_tables(lesson: TrainingResult) -> list[FittedTable]:
    """Return a table of gradient differences from autograd, and one of the losses."""
    from regard.lab.by_hand import measure_agreement

    last_step = len(lesson.losses) - 1
    shown_steps = sorted({round(index * last_step / (LOSSES_SHOWN - 1)) for index in range(LOSSES_SHOWN)})
    differences = [(name, f"{value:.1e}") for name, value in lesson.differences.items()]
    losses = ("loss", *(f"{lesson.losses[step]:.3f}" for step in shown_steps))
    return [
        FittedTable(("weight", "relative difference"), differences, "Derivatives by hand and by autograd"),
        FittedTable(("step", *map(str, shown_steps)), [losses]),
        measurement_table([measure_agreement(lesson)]),
    ]
