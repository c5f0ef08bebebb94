"""What `regard explain --look-again` shows: the answer, and the answer to the brightest part of the picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.cli.text_io import PICTURE_FORMATS, check_writable


def show_second_look(trained: Any, inputs: list[str], output: Path | None, *, as_json: bool, **options: Any) -> None:
    """Print both answers and where the second look went; draw both on request."""
    check_writable(output, PICTURE_FORMATS, inputs=[*map(Path, inputs)])
    if "look_again" not in trained.extras:
        raise ValueError(f"--look-again is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if len(inputs) != 1:
        raise ValueError(f"--look-again reads one picture, not {len(inputs)}")
    look = trained.extras["look_again"].call(inputs[0], **options)
    if as_json:
        print(json.dumps(look.plain(), ensure_ascii=False))
    else:
        corners = " to ".join(f"{x:.0%} {y:.0%}" for x, y in (look.box[:2], look.box[2:]))
        print(f"{look.first.label} {look.first.probability:.3f}: the whole picture")
        print(f"{look.second.label} {look.second.probability:.3f}: its brightest part by {look.method}, enlarged")
        print(f"looked again at {corners} of the width and height, a fovea that is turned and not learnt")
    if output is not None:
        from regard.interpret.draw import gaze, plots

        panels = (
            (look.whole, "the whole picture", str(look.first).replace("\t", " ")),
            (look.part, "its brightest part, enlarged", str(look.second).replace("\t", " ")),
        )
        plots.save(gaze.second_look(panels, look.box, title=inputs[0]), output)
        if not as_json:
            print(f"{output}: both looks")
