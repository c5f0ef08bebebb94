"""The command that judges how far the maps of a picture classifier can be believed: judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import Device, Json, LabelledPictures, Model, Settings, parse_settings
from regard.cli.progress import announce

if TYPE_CHECKING:
    from rich.console import Console

    from regard.cli.tables import FittedTable

COMPARED_METHODS = (("gradient", "rollout"), ("gradcam", "centre"))
CONTROLS_NOTE = (
    "Controls: centre, the middle of the picture; uniform, every region alike; random, chance; untrained, the first "
    "method with an untrained copy of the model. ± 95 % by bootstrap."
)


def judge(
    model: Model,
    pictures: LabelledPictures,
    against: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A model trained on boxes, to compare the maps with.")
    ] = None,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Judge which maps of a picture classifier may be believed."""
    from regard import recipe

    trained = recipe.load(model, device=device)
    check_has_extra(trained, "judge")
    box_model = None if against is None else recipe.load(against, device=device)
    if box_model is not None and "boxes" not in box_model.extras:
        raise ValueError(
            f"--against is for models that find digits: {box_model.name} is {box_model.kind}, leave it out"
        )
    options = parse_settings(settings)
    if "against" in options:
        raise ValueError("against is a model: name it by --against")
    with announce("judging every map and control, which may take some minutes"):
        judgement = trained.extras["judge"].call(*pictures, against=box_model, **options)
    if as_json:
        print(json.dumps(judgement.plain(), ensure_ascii=False))
    else:
        _print_judgement(judgement, box_model)


def check_has_extra(trained: Any, command: str) -> None:
    """Refuse a model that does not do what a command for classifiers of pictures is named after."""
    if command not in trained.extras:
        raise ValueError(f"regard {command} is for classifiers of pictures: {trained.name} is {trained.kind}")


def _print_judgement(judgement: Any, box_model: Any) -> None:
    """Print the scores of explanation maps on grids and on single images, with significance tests."""
    from rich.console import Console

    from regard.tasks.images.map_evaluation import LOCALISATION_CHECKS, SINGLE_IMAGE_CHECKS

    console = Console(highlight=False)
    right, total = f"{judgement.correct_count:,}", f"{judgement.image_count:,}"
    console.print(f"{right} of {total} pictures are labelled right: maps of these are judged.")
    if judgement.grid_count:
        note = "Chance: pointing and inside 0.250. More is better."
        console.print(
            "", _checks_table(judgement, LOCALISATION_CHECKS, f"{judgement.grid_count} grids of four pictures", note)
        )
        for method, rival in COMPARED_METHODS:
            _print_comparison(console, judgement, method, rival, "pointing")
    note = "Less deletion is better, more of the others."
    console.print("", _checks_table(judgement, SINGLE_IMAGE_CHECKS, f"single pictures: {judgement.single_count}", note))
    if judgement.boxed_count:
        _print_box_checks(console, judgement, box_model=box_model)
    console.print(f"\n{CONTROLS_NOTE}")


def _checks_table(judgement: Any, checks: tuple[str, ...], title: str, note: str) -> FittedTable:
    """Return a table of every method and control by some of the checks."""
    from regard.cli.tables import FittedTable

    return FittedTable(["method", *checks], judgement.rows(checks), title, note)


def _print_box_checks(console: Console, judgement: Any, *, box_model: Any) -> None:
    """Print the checks of pictures with boxes, beside those of a model that was trained on boxes."""
    from regard.cli.tables import FittedTable

    columns = ["method", "pointing", "inside", "overlap"]
    note = (
        f"Boxes cover {judgement.box_area:.3f} of a picture. A map's box is drawn at the level best for other pictures."
    )
    if box_model is not None:
        note += f" {box_model.name} was trained on boxes, the maps were not."
    console.print(
        "", FittedTable(columns, judgement.boxed_rows(), f"pictures with boxes: {judgement.boxed_count}", note)
    )
    for method, rival in COMPARED_METHODS:
        _print_comparison(console, judgement, method, rival, "overlap", boxed=True)


def _print_comparison(
    console: Console, judgement: Any, method: str, rival: str, check: str, *, boxed: bool = False
) -> None:
    """Print which of two methods scores higher, and how probable so large a difference is by chance."""
    chance = judgement.p_value(method, rival, check, boxed=boxed)
    if chance is not None:
        checks = judgement.boxed_checks if boxed else judgement.checks
        difference = checks[method][check].score - checks[rival][check].score
        comparison = "above" if difference > 0 else "below" if difference < 0 else "level with"
        console.print(f"{method} {comparison} {rival}, {check}: p = {chance:.4f}")
