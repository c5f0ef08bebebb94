"""What `regard explain --tree` shows: the search for one answer, with all that it left: text, picture, page, JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.text_io import PICTURE_FORMATS, check_writable
from regard.cli.trace_views import PAGE_ENDINGS, View, terminal_style

if TYPE_CHECKING:
    from regard.decoding.search_tree import SearchTree

FORMATS = ("png", "json", "html", "htm", *PICTURE_FORMATS)


def check_tree_request(view: View, output: Path | None, flags: list[str], beams: int | None, *, tree: bool) -> None:
    """Refuse, before a model is loaded, what a tree does not show, and options that are for a tree alone."""
    if not tree:
        if beams is not None:
            raise ValueError("--beams is for --tree: add it, or leave --beams out")
        return
    chosen = {"attention": view.attention, "head": view.head, "level": view.level, "step": view.step}
    chosen |= {"specials": view.specials or None, "numbers": view.numbers or None}
    flags = [*flags, *(f"--{name}" for name, value in chosen.items() if value is not None)]
    if others := [flag for flag in flags if flag != "--to"]:
        raise ValueError(f"--tree shows how an answer was searched for: leave {others[0]} out")
    check_writable(output, FORMATS)


def show_tree(trained: Any, given: Any, output: Path | None, *, as_json: bool, **options: Any) -> None:
    """Print the search for one answer, or write it to a file."""
    if "tree" not in trained.extras:
        raise ValueError(f"--tree is for models that write: {trained.name} is {trained.kind}, leave it out")
    tree = trained.extras["tree"].call(given, **options)
    plain = json.dumps(tree.plain(), ensure_ascii=False)
    if output is not None:
        _write_tree(trained, given, tree, output, options)
        print(f"{output}: how the answer was searched for")
    elif as_json:
        print(plain)
    else:
        from regard.interpret.draw.tree_text import draw_tree

        print(draw_tree(tree, style=terminal_style()))


def _write_tree(trained: Any, given: Any, tree: SearchTree, output: Path, options: dict[str, Any]) -> None:
    """Write a tree as JSON, as a picture, or into the page of the same answer."""
    kind = output.suffix.lower()
    if kind == ".json":
        output.write_text(f"{json.dumps(tree.plain(), ensure_ascii=False, indent=1)}\n", encoding="utf-8")
    elif kind in PAGE_ENDINGS:
        from regard.interpret.draw import page

        look_options = {name: value for name, value in options.items() if name == "to"}
        trace = trained.look(given, **look_options)
        page.save(replace(trace, facts={**trace.facts, "tree": tree.plain()}), output)
    else:
        from regard.interpret.draw import plots
        from regard.interpret.draw.tree_picture import plot_tree

        plots.save(plot_tree(tree), output)
