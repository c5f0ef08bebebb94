"""The options that say what files hold, declared once for every command that takes files to train on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.config.file_kinds import FILE_KINDS

if TYPE_CHECKING:
    from regard.training.task import Given

WHAT = "What the files hold (detected if not given)"
COLUMNS = "Columns of the two sides, or of text and label, in a table: 2 4, or 2,4."

PARTS: dict[str, Any] = {
    "source": Annotated[
        Path | None, typer.Option(help="Text to translate from, one sentence per line.", rich_help_panel=WHAT)
    ],
    "target": Annotated[Path | None, typer.Option(help="Its translations, line by line.", rich_help_panel=WHAT)],
    "edges": Annotated[Path | None, typer.Option(help="Edges of a graph: CSV, both ends named.", rich_help_panel=WHAT)],
    "nodes": Annotated[
        Path | None, typer.Option(help="Its nodes: CSV with id, label and features.", rich_help_panel=WHAT)
    ],
    "labels": Annotated[
        Path | None, typer.Option(help="With --tables: the labels of the samples.", rich_help_panel=WHAT)
    ],
    "columns": Annotated[tuple[int, int] | None, typer.Option(help=COLUMNS, rich_help_panel=WHAT)],
}
"""Options that name no kind of files by themselves."""
BESIDE = {"pairs": ("source", "target"), "graph": ("edges", "nodes"), "tables": ("labels",)}
"""Those that belong to a kind of files."""


def build_options() -> dict[str, Any]:
    """Return an option for every kind of files, each followed by those that belong to it."""
    options: dict[str, Any] = {}
    for name, kind in FILE_KINDS.items():
        option = typer.Option(metavar=kind.metavar, help=kind.help, rich_help_panel=WHAT)
        options[name] = Annotated[list[Path] | None, option]
        options |= {part: PARTS[part] for part in BESIDE.get(name, ())}
    return {**options, "columns": PARTS["columns"]}


OPTIONS = build_options()


@dataclass(frozen=True)
class NamedFiles:
    """What somebody said that files hold, option by option."""

    options: Mapping[str, Any]

    def adding(self, kind: str, paths: Sequence[Path]) -> NamedFiles:
        """These and more files of a kind."""
        return NamedFiles({**self.options, kind: [*(self.options[kind] or []), *paths]})

    def given(self) -> Given:
        """The files and their kind, as tasks are asked about them."""
        from regard.training.task import Given

        source, edges, labels = (self.options[name] for name in ("source", "edges", "labels"))
        kinds = {name: paths for name, paths in self.options.items() if name not in PARTS}
        kinds["graph"] = _graph(kinds["graph"], edges, self.options["nodes"])
        kind, files = _kind_of_files(kinds, source, self.options["target"])
        if labels is not None and not kinds["tables"]:
            raise ValueError(f"--labels {labels} goes with --tables: name the tables whose samples it labels")
        given = Given(files, kind=kind, aligned=source is not None, columns=self.options["columns"])
        return given if labels is None else replace(given, labels=str(labels))


def takes_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command all options that say what files hold; it receives them as `files`."""
    own = inspect.signature(command, eval_str=True).parameters

    @wraps(command)
    def wrapped(**given: Any) -> Any:
        named = NamedFiles({name: given.pop(name) for name in OPTIONS})
        return command(files=named, **given)

    parameters = []
    for name, parameter in own.items():
        if name != "files":
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        for option, annotation in OPTIONS.items():
            parameters.append(parameter.replace(name=option, annotation=annotation, default=None))
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del wrapped.__wrapped__  # type: ignore[attr-defined]
    return wrapped


def _graph(graph: list[Path] | None, edges: Path | None, nodes: Path | None) -> list[Path] | None:
    """The files of a graph."""
    if edges is None and nodes is None:
        return graph
    if edges is None or nodes is None or graph:
        raise ValueError("--edges and --nodes go together, without --graph: give both files")
    return [edges, nodes]


def _kind_of_files(
    kinds: Mapping[str, list[Path] | None], source: Path | None, target: Path | None
) -> tuple[str | None, tuple[str, ...]]:
    """What files were said to hold, and their names."""
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both files")
    sides = [source, target] if source is not None and target is not None else []
    said = {f"--{kind}": paths for kind, paths in kinds.items() if paths}
    if sides:
        said["--source and --target"] = [side for side in sides if side is not None]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} contradict each other about the files: give one of them")
    kind = next((kind for kind, paths in kinds.items() if paths), "pairs" if sides else None)
    return kind, tuple(str(path) for paths in said.values() for path in paths)
