"""`regard lab agreement` without a model: the sentences of the courses, learnt by four networks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.lab.tables import measurement_table
from regard.cli.tables import FittedTable
from regard.cli.text_io import PICTURE_FORMATS, check_writable, print_note

if TYPE_CHECKING:
    from regard.lab.agreement.course_experiment import NetworkResult
    from regard.lab.demonstration import Measurement


def load_results(*, train: bool) -> list[NetworkResult]:
    """Return the results that come with the package, or those of a new training."""
    from regard.lab.agreement import course_experiment

    if not train:
        print_note("results of a training in the package; --train repeats it")
        return course_experiment.read_results()
    count, seconds = course_experiment.count_trainings(), course_experiment.SECONDS
    print_note(f"{count} trainings of about {seconds} s each on an idle core, {round(count * seconds / 60)} min in all")
    return list(course_experiment.repeat_experiment(report=print_note))


def course_tables(results: Sequence[NetworkResult]) -> list[FittedTable]:
    """Return a table of error rates, and one of the networks' judgements of the course's sentences."""
    from regard.lab.agreement.relative_clauses import COURSE_SENTENCES

    networks = [result.network for result in results]
    errors = [
        (
            points[0].clauses,
            ("other" if points[0].attractor else "same") if points[0].clauses else "-",
            *(", ".join(f"{error:.1f}" for error in point.errors) for point in points),
        )
        for points in zip(*(result.points for result in results), strict=True)
    ]
    error_note = (
        "Clauses between subject and participle, and the gender of the noun before the verb; guessing makes 50."
    )
    verdicts = [
        (
            f"{sentence.beginning} {sentence.wrong}",
            *(f"{result.rejected[number]}, {result.accepted[number]}" for result in results),
        )
        for number, sentence in enumerate(COURSE_SENTENCES)
    ]
    seeds = len(results[0].points[0].mistakes)
    verdict_note = f"How many of {seeds} networks find réélu wrong, and how many find réélue right in its place."
    return [
        FittedTable(
            ("clauses", "last noun", *networks), errors, f"Errors in 100, of each of {seeds} seeds", error_note
        ),
        FittedTable(("sentence", *networks), verdicts, "The sentences of the courses", verdict_note),
        measurement_table([compare_extremes(result) for result in results]),
    ]


def compare_extremes(result: NetworkResult) -> Measurement:
    """Compare a network's errors with the most clauses in between and with none."""
    from regard.lab.demonstration import Measurement

    hard = max(result.points, key=lambda point: (point.clauses, point.attractor))
    easy = min(result.points, key=lambda point: point.clauses)
    setting = f"{hard.clauses} clauses, last noun of the {'other' if hard.attractor else 'same'} gender"
    quantity = f"errors in 100: {result.network}"
    return Measurement(quantity, setting, hard.error, f"{easy.clauses} clauses", easy.error)


def plain_results(results: Sequence[NetworkResult]) -> dict[str, Any]:
    """Return the results as JSON."""
    return {"networks": [asdict(result) for result in results]}


def draw_results(results: Sequence[NetworkResult], output: Path, *, as_json: bool) -> None:
    """Draw the errors against the number of clauses."""
    from regard.interpret.draw import curves, plots

    panels: dict[str, dict[str, list[tuple[int, float, float, float]]]] = {}
    for attractor, condition in ((False, "last noun of the same gender"), (True, "last noun of the other gender")):
        for result in results:
            points = [point for point in result.points if point.attractor == attractor]
            ranges = [(point.clauses, point.error, min(point.errors), max(point.errors)) for point in points]
            panels.setdefault(condition, {})[result.network] = ranges
    plots.save(curves.by_clauses(panels), output)
    print(f"{output}: errors against clauses", file=sys.stderr if as_json else sys.stdout)


def check_no_settings(changed: Sequence[str], output: Path | None) -> None:
    """Refuse options that apply only to the user's own taggers."""
    check_writable(output, PICTURE_FORMATS)
    if changed:
        raise ValueError(f"{changed[0]} is for taggers of your own: name a MODEL, or leave it out")
