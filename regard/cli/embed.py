"""The commands for vectors of texts: embed, search."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import AnswerForm, AnswerRequest, read_file_texts
from regard.cli.grammar import Column, Device, Input, Json, Ray, Settings, Words, parse_settings, resolve_model
from regard.cli.text_io import check_writable, expand_arguments, open_writer, print_note, split_blocks
from regard.config.words import quantity
from regard.data.readers import JSON_SUFFIXES, suffix

if TYPE_CHECKING:
    from regard.cluster.parts import Part
    from regard.tasks.embedding.embedder import Embedder

FORMATS = ("npy", "jsonl", "json")
BLOCK_SIZE = 2048  # texts embedded at a time
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
    ray: Ray = None,
) -> None:
    """Turn texts into vectors with a BERT or a GPT: JSON lines, or a numpy matrix."""
    model, texts = resolve_model(words or [], "embed")
    if texts and input is not None:
        raise ValueError("give either texts, or - for standard input, or -i FILE")
    request = AnswerRequest(texts, input, output, settings, ray is not None, model, column, ray=ray, device=device)
    if ray is None:
        check_writable(output, FORMATS, inputs=(input,))
    request.check()
    lines = expand_arguments(texts or ["-"], option="-i")
    embedder, _ = load_embedder(model, request.checking_device)
    if ray is not None:
        return _embed_in_parts(embedder, request)
    lines = read_file_texts(embedder, request) if input is not None else lines
    options = parse_settings(settings)
    if (first := next(lines, None)) is None:
        raise ValueError(f"{input or 'standard input'} is empty: give texts, or lines to read")
    text_blocks = split_blocks(chain([first], lines), BLOCK_SIZE)
    if output is not None and output.suffix.lower() == ".npy":
        return _write_matrix(embedder, text_blocks, output, options)
    with open_writer(output) as write:
        for block in text_blocks:
            for line in embed_block(options, embedder, block):
                write(line)


def embed_block(options: dict[str, Any], embedder: Embedder, texts: list[str]) -> list[str]:
    """Return a line of JSON for every text."""
    return [json.dumps(answer.plain(), ensure_ascii=False) for answer in embedder.answer(texts, **options)]


def _embed_in_parts(embedder: Embedder, request: AnswerRequest) -> None:
    """Have a file embedded by a cluster, as lines of JSON in a folder."""
    from regard.cli.cluster_answers import read_texts, run_parts
    from regard.cluster.parts import PartWork

    assert request.model is not None
    options = request.options
    embedder.embed(["."], **options)  # refuses options before the workers are started
    work = PartWork(
        load=partial(_load_worker_embedder, request.model, request.device),
        read=partial(read_texts, request),
        answer=partial(_embed_part, options),
        size=BLOCK_SIZE,
    )
    run_parts(embedder, request, work, AnswerForm().identify(request, options))


def _load_worker_embedder(model: Path, device: str) -> Embedder:
    return load_embedder(model, device)[0]


def _embed_part(options: dict[str, Any], embedder: Embedder, first: int, texts: list[str]) -> Part:
    from regard.cluster.parts import Part

    return Part(embed_block(options, embedder, texts))


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
    from regard.tasks.embedding.searching import open_index

    _check_searchable(file)
    check_writable(index, inputs=(file,))
    query_texts = [query for query in expand_arguments(queries) if query.strip()]
    if not query_texts:
        raise ValueError("the query is empty: say what to look for")
    embedder, digest = load_embedder(model or shipped.model_for_command("search").path, device)
    options = parse_settings(settings)
    with CountedProgress("lines embedded") as progress:
        search_index = open_index(file, embedder, digest, index=index, report=print_note, progress=progress, **options)
    if search_index.is_new:
        print_note(
            f"{file}: {quantity(len(search_index.vectors), 'line')} indexed in {search_index.place}, "
            f"{search_index.embedded:,} of them new"
        )
    for query, vector in zip(query_texts, embedder.embed(query_texts, **options), strict=True):
        hits = search_index.search(vector, count)
        if as_json:
            print(json.dumps({"query": query, "hits": [hit.plain() for hit in hits]}, ensure_ascii=False))
            continue
        if len(query_texts) > 1:
            print(query)
        print("\n".join(map(str, hits)))


def _check_searchable(file: Path) -> None:
    """Refuse a file that is missing, or is a table or JSON instead of plain text."""
    from regard.data.tables import is_table

    if not file.is_file():
        raise ValueError(f"{file}: {'is a folder, name a file' if file.is_dir() else 'no such file'}")
    if is_table(file.name):
        raise ValueError(
            f"{file} is {'JSON' if suffix(file.name) in JSON_SUFFIXES else 'a table'}, whose lines would be searched "
            "with all that stands beside the texts: write these into a .txt file, one in each line"
        )


def load_embedder(model: Path, device: str) -> tuple[Embedder, str]:
    """Load the model that embeds texts, and return it with the digest of its files."""
    from regard import recipe
    from regard.tasks.embedding.embedder import Embedder
    from regard.training import device as devices

    checkpoint = recipe.open_model(model)
    return Embedder.load(checkpoint, device=devices.choose(device)), checkpoint.manifest["sha256"]


def _write_matrix(embedder: Embedder, text_blocks: Iterator[list[str]], output: Path, options: dict[str, Any]) -> None:
    """Write a row for every text; the header gets their number once all are written."""
    import numpy as np
    from numpy.lib import format as form

    def head(rows: int) -> dict[str, Any]:
        return {"descr": "<f4", "fortran_order": False, "shape": (rows, embedder.width)}

    partial_path, rows = output.with_name(output.name + ".part"), 0
    try:
        with partial_path.open("wb") as file:
            form.write_array_header_1_0(file, head(10**15))
            data_start = file.tell()
            for block in text_blocks:
                vectors = embedder.embed(block, **options)
                file.write(np.ascontiguousarray(vectors, "<f4").tobytes())
                rows += len(vectors)
            file.seek(0)
            form.write_array_header_1_0(file, head(rows))
            assert file.tell() == data_start, "a header has room for any number of rows"
        partial_path.replace(output)
    finally:
        partial_path.unlink(missing_ok=True)
    print(f"{output}: {quantity(rows, 'text')}, {embedder.width} numbers each", file=sys.stderr)
