"""Commands for vectors of texts: embed, search."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import Asked, file_texts
from regard.cli.grammar import Column, Device, Input, Json, Settings, Words, meant, options
from regard.cli.lines import arguments, blocks, counted, writable, writer
from regard.data.readers import JSON_SUFFIXES, suffix

if TYPE_CHECKING:
    from regard.tasks.embedding.embedder import Embedder

KINDS = ("npy", "jsonl", "json")
TOGETHER = 2048  # texts embedded at a time
Vectors = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here: a matrix (.npy), or .jsonl.")
]


def embed(
    words: Words = None,
    input: Input = None,
    column: Column = None,
    output: Vectors = None,
    settings: Settings = None,
    device: Device = "auto",
) -> None:
    """Turn texts into vectors with a BERT or a GPT: JSON lines, or a numpy matrix."""
    model, texts = meant(words or [], "embed")
    if texts and input is not None:
        raise ValueError("give either texts, or - for standard input, or -i FILE")
    asked = Asked(texts, input, output, settings, False, model, column)
    writable(output, KINDS, reads=(input,))
    asked.check()
    read = arguments(texts or ["-"], option="-i")
    found, _ = loaded(model, device)
    read = file_texts(found, asked) if input is not None else read
    given = options(settings)
    if (first := next(read, None)) is None:
        raise ValueError(f"{input or 'standard input'} is empty: give texts, or lines to read")
    parts = blocks(chain([first], read), TOGETHER)
    if output is not None and output.suffix.lower() == ".npy":
        return _matrix(found, parts, output, given)
    with writer(output) as write:
        for block in parts:
            for answer in found.answer(block, **given):
                write(json.dumps(answer.plain(), ensure_ascii=False))


def search(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file whose lines are searched.")],
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="What to look for; - reads standard input.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="MODEL", help="A BERT or a GPT, else the shipped one for this."),
    ] = None,
    count: Annotated[int, typer.Option("--top", min=1, max=100_000, help="Lines found for every query.")] = 5,
    index: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the index is kept; beside the file when not given.")
    ] = None,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Find the lines of a file that mean most nearly the same as a query."""
    from regard import shipped
    from regard.cli.progress import CountedProgress
    from regard.data.tables import is_table
    from regard.tasks.embedding.searching import open_index

    if not file.is_file():
        raise ValueError(f"{file}: {'is a folder, name a file' if file.is_dir() else 'no such file'}")
    if is_table(file.name):
        raise ValueError(
            f"{file} is {'JSON' if suffix(file.name) in JSON_SUFFIXES else 'a table'}, whose lines would be searched "
            "with all that stands beside the texts: write these into a .txt file, one in each line"
        )
    writable(index, reads=(file,))
    asked = [query for query in arguments(queries) if query.strip()]
    if not asked:
        raise ValueError("the query is empty: say what to look for")
    found, digest = loaded(model or shipped.model_for_command("search").path, device)
    with CountedProgress("lines embedded") as progress:
        how = options(settings)
        kept = open_index(file, found, digest, index=index, report=_report, progress=progress, **how)
    if kept.is_new:
        _report(f"{file}: {counted(len(kept.vectors), 'line')} indexed in {kept.place}, {kept.embedded:,} of them new")
    for query, vector in zip(asked, found.embed(asked, **options(settings)), strict=True):
        hits = kept.search(vector, count)
        if as_json:
            print(json.dumps({"query": query, "hits": [hit.plain() for hit in hits]}, ensure_ascii=False))
            continue
        if len(asked) > 1:
            print(query)
        print("\n".join(map(str, hits)))


def _report(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)


def loaded(model: Path, device: str) -> tuple[Embedder, str]:
    """The model that turns texts into vectors, and its digest."""
    from regard import recipe
    from regard.tasks.embedding.embedder import Embedder
    from regard.training import device as devices

    found = recipe.open_model(model)
    return Embedder.load(found, device=devices.choose(device)), found.manifest["sha256"]


def _matrix(found: Embedder, parts: Iterator[list[str]], output: Path, given: dict[str, Any]) -> None:
    """A row for every text, written as they come; how many there are stands in front in the end."""
    import numpy as np
    from numpy.lib import format as form

    def head(rows: int) -> dict[str, Any]:
        return {"descr": "<f4", "fortran_order": False, "shape": (rows, found.width)}

    aside, rows = output.with_name(output.name + ".part"), 0
    try:
        with aside.open("wb") as file:
            form.write_array_header_1_0(file, head(10**15))
            room = file.tell()
            for block in parts:
                vectors = found.embed(block, **given)
                file.write(np.ascontiguousarray(vectors, "<f4").tobytes())
                rows += len(vectors)
            file.seek(0)
            form.write_array_header_1_0(file, head(rows))
            assert file.tell() == room, "a header has room for any number of rows"
        aside.replace(output)
    finally:
        aside.unlink(missing_ok=True)
    print(f"{output}: {counted(rows, 'text')}, {found.width} numbers each", file=sys.stderr)
