"""The table of large models that `regard cost --table` prints, and the picture of their sizes by year."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.text_io import PICTURE_FORMATS, check_writable

if TYPE_CHECKING:
    from regard.cost.language_models import LargeModel

SIZE_COLUMNS = ("model", "year", "layers", "width", "heads", "parameters", "here", "data")
TRAINING_COLUMNS = ("model", "trained on", "device-days", "FLOP, 6 x N x D")
GAP = "-"  # for what was not published
LABEL_PLACES = (
    (6, 2, "left"),
    (-6, 2, "right"),
    (6, -8, "left"),
    (-6, -8, "right"),
    (0, 7, "center"),
    (0, -13, "center"),
)
"""Where the label of a point may stand, in points beside it, and how it is aligned."""
LETTER, LINE = 4.3, 9.0  # about the width and height of a letter of a label, in points
Box = tuple[float, float, float, float]


def print_cost_table(*, hourly: float, as_json: bool, picture: Path | None) -> None:
    """Print every model with its sources, or as JSON; draw their sizes if a picture is asked for."""
    from rich.console import Console

    from regard.cli.tables import FittedTable
    from regard.cost.language_models import LARGE_MODELS

    if picture is not None:
        draw_sizes(picture)
    if as_json:
        print(json.dumps([model.record() for model in LARGE_MODELS], indent=1))
        return
    console = Console(highlight=False)
    note = "parameters: as published; here: counted in the preset, embeddings and heads included"
    sizes = [_size_row(model) for model in LARGE_MODELS]
    console.print(FittedTable(SIZE_COLUMNS, sizes, "large models as they were published", note))
    console.print()
    columns = (*TRAINING_COLUMNS, "price") if hourly else TRAINING_COLUMNS
    trained = [row for model in LARGE_MODELS for row in _training_rows(model, hourly)]
    console.print(FittedTable(columns, trained, "their training, where it was published"))
    console.print()
    console.print(FittedTable(("model", "source"), [(model.name, model.source) for model in LARGE_MODELS]))


def _size_row(model: LargeModel) -> tuple[str, ...]:
    sizes = (GAP, GAP, GAP) if model.sizes is None else tuple(f"{size:,}" for size in model.sizes)
    computed = model.computed_parameters
    counts = format_count(model.parameters), GAP if computed is None else format_count(computed)
    return model.name, str(model.year), *sizes, *counts, model.data or GAP


def _training_rows(model: LargeModel, hourly: float) -> Iterator[tuple[str, ...]]:
    """Yield a row for each training of a model, at so much for each device and hour."""
    operations = GAP if model.operations is None else f"{model.operations:.3g}"
    if not model.trainings and model.operations is not None:
        yield (model.name, GAP, GAP, operations, *([GAP] if hourly else []))
    for training in model.trainings:
        days = training.device_days
        cells = model.name, str(training), GAP if days is None else f"{days:,.0f}", operations
        price = GAP if days is None else f"{24 * days * hourly:,.0f}"
        yield (*cells, price) if hourly else cells


def draw_sizes(path: Path) -> None:
    """Draw the parameters of all models by the date of their publication, on a logarithmic axis.

    The largest of each family and date has a label, where there is room for one.
    """
    from matplotlib.figure import Figure

    from regard.cost.language_models import LARGE_MODELS

    if path.suffix.lower().lstrip(".") not in PICTURE_FORMATS:
        raise ValueError(f"{path}: the sizes are drawn as a picture: name it .png or .svg")
    check_writable(path)
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot([_year(model) for model in LARGE_MODELS], [model.parameters for model in LARGE_MODELS], "o", markersize=5)
    axes.set(yscale="log", ylabel="parameters, as published", xlim=(2015.9, 2024.8), ylim=(1e7, 6e11))
    axes.grid(axis="y", alpha=0.3)
    figure.draw_without_rendering()  # lays the axes out, so that places on the page are known
    largest: dict[tuple[str, str], LargeModel] = {}
    for model in sorted(LARGE_MODELS, key=lambda model: model.parameters):
        largest[model.date, model.name.split()[0].split("-")[0]] = model
    places = axes.transData.transform([(_year(model), model.parameters) for model in LARGE_MODELS]) * 72 / figure.dpi
    taken: list[Box] = [(x - 3, y - 3, x + 3, y + 3) for x, y in places.tolist()]
    for model in sorted(largest.values(), key=lambda model: -model.parameters):
        point = _year(model), model.parameters
        x, y = (axes.transData.transform(point) * 72 / figure.dpi).tolist()
        label = f"{model.name} ({format_count(model.parameters)})"
        for right, up, align in LABEL_PLACES:
            box = _label_box(x + right, y + up, len(label), align)
            if not any(_overlap(box, other) for other in taken):
                taken.append(box)
                axes.annotate(label, point, (right, up), textcoords="offset points", ha=align, fontsize=7)
                break
    figure.savefig(path, dpi=120)


def _year(model: LargeModel) -> float:
    """Return the middle of the month in which a model was published, in years."""
    return model.year + (int(model.date[5:]) - 0.5) / 12


def _label_box(x: float, y: float, letters: int, align: str) -> Box:
    """Return about what a label covers on the page."""
    width = LETTER * letters
    left = {"left": x, "right": x - width, "center": x - width / 2}[align]
    return left, y, left + width, y + LINE


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


def format_count(count: float) -> str:
    """Format parameters in millions or billions, to three digits."""
    return f"{count / 1e9:.3g}B" if count >= 999.5e6 else f"{count / 1e6:.3g}M"
