"""What `regard explain --anatomy` shows: the filters, positions and heads inside a ViT."""

from __future__ import annotations

import json
from pathlib import Path

from regard.cli.text_io import PICTURE_FORMATS, check_writable


def show_anatomy(model: Path | None, pictures: list[str], output: Path | None, *, device: str, as_json: bool) -> None:
    """Show the inside of a ViT as a picture, as JSON, or as a table of attention distances."""
    from rich.console import Console

    from regard import recipe
    from regard.cli.tables import FittedTable
    from regard.interpret.draw import plots
    from regard.interpret.measure.anatomy import lines

    check_writable(output, ("json", *PICTURE_FORMATS), inputs=[*map(Path, pictures)])
    trained = recipe.load(model, device=device)
    if "anatomy" not in trained.extras:
        raise ValueError(f"--anatomy is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if not pictures:
        raise ValueError("--anatomy needs pictures for attention to look at: name some, or a folder of them")
    anatomy = trained.extras["anatomy"].call(pictures)
    json_text = json.dumps(anatomy.plain(), ensure_ascii=False)
    if output is not None:
        if output.suffix.lower() == ".json":
            output.write_text(f"{json_text}\n", encoding="utf-8")
        else:
            plots.save(plots.anatomy(anatomy, title=f"{trained.name}, pictures: {anatomy.pictures:,}"), output)
        print(f"{output}: inside the model")
    elif as_json:
        print(json_text)
    else:
        title = f"Attention distance in pixels, pictures: {anatomy.pictures:,}"
        note = f"A head that looks at all patches alike: {anatomy.even:.1f}. Filters and positions: -o anatomy.png"
        Console(highlight=False).print(FittedTable(["block", "heads, the nearest first"], lines(anatomy), title, note))
