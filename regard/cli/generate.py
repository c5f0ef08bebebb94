"""Commands for models that write: generate, perplexity, samples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

MODEL = "A run folder or checkpoint directory."
DEVICE = "auto, cpu, cuda or mps."
CHANGING = ("text", "answer", "near")  # what a sample holds that training changes; the rest is what was asked
RIGHT = ("reference", "label", "truth", "there")  # what should be answered, shown after what was asked


def generate(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    prompt: Annotated[str | None, typer.Argument(help="How the text begins; as trained with where not given.")] = None,
    length: Annotated[int | None, typer.Option(min=1, help="Tokens to write.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="0: always the likeliest; above 1: wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest of this probability together.")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Leave out what is less than this share of the likeliest.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**64 - 1, help="Where randomness starts.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many texts.")] = 1,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per text.")] = False,
) -> None:
    """Go on with a text."""
    from regard import recipe

    given = {
        "length": length,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    writer = recipe.load(model, device=device, task="language")
    for number, written in enumerate(writer.write(prompt, samples=samples, **changes)):
        if as_json:
            print(json.dumps({"text": written.text, "score": round(written.score, 4)}, ensure_ascii=False))
        else:
            print(("---\n" if number else "") + written.text)


def perplexity(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    file: Annotated[Path, typer.Argument(help="A text file, which may be gzipped.")],
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """How much a text surprises a language model, read in one pass from its beginning."""
    from regard import recipe

    writer = recipe.load(model, device=device, task="language")
    found = writer.measure_file(str(file))
    if as_json:
        sizes = {"tokens": found.tokens, "characters": found.characters, "words": found.words}
        scores = {"loss": found.loss, "nats_per_character": found.per_character, "perplexity": found.perplexity}
        print(json.dumps({**scores, **sizes}))
        return
    print(
        f"{found.loss:.4f} nats per token, {found.per_character:.4f} per character, "
        f"perplexity {found.perplexity:.2f} per word "
        f"({found.tokens:,} tokens, {found.characters:,} characters, {found.words:,} words and line ends)"
    )


def samples(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    columns: Annotated[int, typer.Option(min=1, help="Evaluations to show, evenly over the training.")] = 4,
    rows: Annotated[int, typer.Option(min=1, help="Samples to show of each.")] = 3,
    characters: Annotated[int, typer.Option(min=10, help="Most characters of a sample.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="All samples of all evaluations as one JSON object.")] = False,
) -> None:
    """What a model answered as its training went on, side by side."""
    from rich.console import Console

    found = _saved(run)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    steps, gaps = list(found), max(1, min(columns, len(found)) - 1)
    shown = [steps[-1 - place * (len(steps) - 1) // gaps] for place in range(min(columns, len(steps)))][::-1]
    Console().print(_table({step: found[step][:rows] for step in shown}, characters))


def _saved(run: Path) -> dict[int, list[dict[str, Any]]]:
    """The samples of every evaluation of a run, by its step."""
    paths = {path: re.fullmatch(r"step-([0-9]+)\.json", path.name) for path in (run / "samples").glob("*.json")}
    found = {int(match[1]): path for path, match in paths.items() if match}
    if not found:
        raise ValueError(f"{run} holds no samples: give a run folder in which something was evaluated")
    answers: dict[int, list[dict[str, Any]]] = {}
    for step in sorted(found):
        try:
            answers[step] = [dict(entry) for entry in json.loads(found[step].read_text(encoding="utf-8"))]
        except (ValueError, TypeError):
            raise ValueError(f"{found[step]} is damaged: remove it, the others can still be shown") from None
    return answers


def _table(answers: Mapping[int, Sequence[Mapping[str, Any]]], characters: int) -> Table:
    """A column for every part of what was asked, where something was, then one for every evaluation."""
    from rich.table import Table
    from rich.text import Text

    deepest = max(answers.values(), key=len)
    asked = {name: None for entry in deepest for name, value in entry.items() if name not in CHANGING and value}
    parts = sorted(asked, key=lambda name: name in RIGHT)
    table = Table(show_lines=True)
    for name in (*parts, *(f"step {step:,}" for step in answers)):
        table.add_column(Text(name), overflow="fold")
    for number, entry in enumerate(deepest):
        given = [_cut(str(entry.get(name, "")), characters) for name in parts]
        cells = [_answer(entries[number]) if number < len(entries) else "" for entries in answers.values()]
        table.add_row(*map(Text, [*given, *(_cut(cell, characters) for cell in cells)]))
    return table


def _answer(entry: Mapping[str, Any]) -> str:
    return "\n".join(str(entry[name]) for name in CHANGING if name in entry)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
