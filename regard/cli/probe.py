"""The command that shows whether a picture classifier has learnt a mark in place of the thing: probe."""

from __future__ import annotations

import json
from typing import Any

from regard.cli.grammar import Device, Json, LabelledPictures, Model
from regard.cli.judge import check_has_extra
from regard.cli.progress import announce


def probe(model: Model, pictures: LabelledPictures, device: Device = "auto", as_json: Json = False) -> None:
    """Probe whether a mark in a corner decides the answers of a picture classifier."""
    from regard import recipe

    trained = recipe.load(model, device=device)
    check_has_extra(trained, "probe")
    with announce("answering with and without the mark"):
        result = trained.extras["probe"].call(*pictures)
    if as_json:
        print(json.dumps(result.plain(), ensure_ascii=False))
    else:
        _print_result(result)


def _print_result(result: Any) -> None:
    """Print whether a mark decides, and how often answers change with it."""
    label = result.label
    if result.is_exposed:
        print(f"A shortcut: the mark in a corner decides about {label}.")
    elif result.has_few_images:
        print(f"Too few pictures to tell: {result.class_count} of {label} and {result.other_count} others. Name more.")
    else:
        print("No shortcut found: what a mark in a corner changes is small, or within chance.")
    for words, count, with_mark, without in (
        (f"{label} labelled so", result.class_count, result.class_with_mark, result.class_without_mark),
        (f"others labelled {label}", result.other_count, result.others_with_mark, result.others_without_mark),
    ):
        if with_mark is not None and without is not None:
            print(
                f"{words}, of {count:,}: {_format_percent(with_mark)} with the mark, {_format_percent(without)} without"
            )
    if result.map_share is not None:
        print(f"share of the map for {label} that lies on the mark: {100 * result.map_share:.1f} %")
    print(f"share of the picture that the mark covers: {100 * result.mark_area:.1f} %")


def _format_percent(share: tuple[float, float]) -> str:
    return f"{100 * share[0]:.1f} ± {100 * share[1]:.1f} %"
