"""The options that say what files hold, shared by all commands that take files to train on."""

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

FILES_PANEL = "What the files hold (detected if not given)"
COLUMNS_HELP = "Columns of the two sides, or of text and label, in a table: 2 4, or 2,4."

EXTRA_OPTIONS: dict[str, Any] = {
    "source": Annotated[
        Path | None, typer.Option(help="Text to translate from, one sentence per line.", rich_help_panel=FILES_PANEL)
    ],
    "target": Annotated[Path | None, typer.Option(help="Its translations, line by line.", rich_help_panel=FILES_PANEL)],
    "edges": Annotated[
        Path | None, typer.Option(help="Edges of a graph: CSV, both ends named.", rich_help_panel=FILES_PANEL)
    ],
    "nodes": Annotated[
        Path | None, typer.Option(help="Its nodes: CSV with id, label and features.", rich_help_panel=FILES_PANEL)
    ],
    "labels": Annotated[
        Path | None, typer.Option(help="With --tables: the labels of the samples.", rich_help_panel=FILES_PANEL)
    ],
    "columns": Annotated[tuple[int, int] | None, typer.Option(help=COLUMNS_HELP, rich_help_panel=FILES_PANEL)],
}
"""Options that name no kind of files by themselves."""
OPTIONS_OF_KIND = {"pairs": ("source", "target"), "graph": ("edges", "nodes"), "tables": ("labels",)}
"""Those that belong to a kind of files."""


def build_options() -> dict[str, Any]:
    """Return an option for every kind of files, each followed by those that belong to it."""
    options: dict[str, Any] = {}
    for name, kind in FILE_KINDS.items():
        option = typer.Option(metavar=kind.metavar, help=kind.help, rich_help_panel=FILES_PANEL)
        options[name] = Annotated[list[Path] | None, option]
        options |= {part: EXTRA_OPTIONS[part] for part in OPTIONS_OF_KIND.get(name, ())}
    return {**options, "columns": EXTRA_OPTIONS["columns"]}


OPTIONS = build_options()


@dataclass(frozen=True)
class NamedFiles:
    """The files named by options, by option."""

    options: Mapping[str, Any]

    def with_files(self, kind: str, paths: Sequence[Path]) -> NamedFiles:
        """Return these files and more of a kind."""
        return NamedFiles({**self.options, kind: [*(self.options[kind] or []), *paths]})

    def collect(self) -> Given:
        """Return the files and their kind in the form that tasks take."""
        from regard.training.task import Given

        source, edges, labels = (self.options[name] for name in ("source", "edges", "labels"))
        kinds = {name: paths for name, paths in self.options.items() if name not in EXTRA_OPTIONS}
        kinds["graph"] = _graph_files(kinds["graph"], edges, self.options["nodes"])
        kind, files = _kind_of_files(kinds, source, self.options["target"])
        if labels is not None and not kinds["tables"]:
            raise ValueError(f"--labels {labels} goes with --tables: name the tables whose samples it labels")
        training_files = Given(files, kind=kind, aligned=source is not None, columns=self.options["columns"])
        return training_files if labels is None else replace(training_files, labels=str(labels))


def takes_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command all options that say what files hold; it receives them as `files`."""
    parameters_of_command = inspect.signature(command, eval_str=True).parameters

    @wraps(command)
    def run_command(**options: Any) -> Any:
        files = NamedFiles({name: options.pop(name) for name in OPTIONS})
        return command(files=files, **options)

    parameters = []
    for name, parameter in parameters_of_command.items():
        if name != "files":
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        for option, annotation in OPTIONS.items():
            parameters.append(parameter.replace(name=option, annotation=annotation, default=None))
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run_command.__wrapped__  # type: ignore[attr-defined]
    return run_command


def _graph_files(graph: list[Path] | None, edges: Path | None, nodes: Path | None) -> list[Path] | None:
    """Return the files of a graph."""
    if edges is None and nodes is None:
        return graph
    if edges is None or nodes is None or graph:
        raise ValueError("--edges and --nodes go together, without --graph: give both files")
    return [edges, nodes]


def _kind_of_files(
    kinds: Mapping[str, list[Path] | None], source: Path | None, target: Path | None
) -> tuple[str | None, tuple[str, ...]]:
    """Return the declared kind of the files, and their names."""
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both files")
    sides = [source, target] if source is not None and target is not None else []
    paths_by_option = {f"--{kind}": paths for kind, paths in kinds.items() if paths}
    if sides:
        paths_by_option["--source and --target"] = [side for side in sides if side is not None]
    if len(paths_by_option) > 1:
        raise ValueError(f"{' and '.join(paths_by_option)} contradict each other about the files: give one of them")
    kind = next((kind for kind, paths in kinds.items() if paths), "pairs" if sides else None)
    return kind, tuple(str(path) for paths in paths_by_option.values() for path in paths)
