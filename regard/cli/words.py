"""Commands for word vectors: similar, analogy, map, vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.lines import PICTURES, counted, writable

if TYPE_CHECKING:
    from rich.table import Table

    from regard.tasks.word2vec.vectors import WordVectors

MODEL = "A run folder, checkpoint directory, or file in word2vec's text format."
TEXT = (".txt", ".vec")


def similar(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    words: Annotated[list[str] | None, typer.Argument(help="Words whose neighbours are wanted.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Neighbours of each word.")] = 10,
    score: Annotated[
        Path | None,
        typer.Option(help="Pairs of words judged by people, such as WordSim-353: how far it agrees."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """The words nearest to a word by the cosine of their vectors; or how cosines agree with people."""
    from regard.tasks.word2vec import word_benchmarks

    if bool(words) == (score is not None):
        raise ValueError("give either words, or --score with a file of judged pairs")
    vectors = _opened(model)
    if score is not None:
        found = vectors.agreement(word_benchmarks.similarity(str(score)))
        known = f"{found.known} of {found.asked} pairs known"
        print(json.dumps(vars(found)) if as_json else f"Spearman {found.rho:.4f} ({known})")
        return
    answers = {word: vectors.similar(word, count=count) for word in words or []}
    if as_json:
        print(json.dumps({word: _plain(near) for word, near in answers.items()}, ensure_ascii=False))
        return
    for word, near in answers.items():
        print("\n".join((word, *(f"  {cosine:.3f}  {other}" for other, cosine in near))))


def analogy(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    words: Annotated[list[str] | None, typer.Argument(help="Three words: a is to b as c is to what?")] = None,
    count: Annotated[int, typer.Option(min=1, help="Answers to show.")] = 5,
    file: Annotated[Path | None, typer.Option(help="Questions like questions-words.txt: score all of them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """What is to one word as another is to a third; or how many of a file of such questions are answered rightly."""
    from rich.console import Console

    from regard.tasks.word2vec import word_benchmarks

    if (file is None) == (not words) or (file is None and len(words or []) != 3):
        raise ValueError("give either three words, as in `regard analogy MODEL man woman king`, or --file")
    vectors = _opened(model)
    if file is None:
        first, second, third = words or []
        near = vectors.analogy(first, second, third, count=count)
        if as_json:
            print(json.dumps(_plain(near), ensure_ascii=False))
        else:
            print("\n".join(f"{cosine:.3f}  {other}" for other, cosine in near))
        return
    sections = vectors.analogies(word_benchmarks.analogies(str(file)))
    right, known, asked = (sum(getattr(one, name) for one in sections) for name in ("right", "known", "asked"))
    rows = [(one.name, one.right, one.known, one.asked) for one in sections] + [("all", right, known, asked)]
    if as_json:
        print(json.dumps({name: {"right": r, "known": k, "asked": a} for name, r, k, a in rows}, ensure_ascii=False))
    else:
        Console().print(_table(rows))


def map(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    words: Annotated[list[str], typer.Argument(help="Words to draw.")],
    out: Annotated[Path, typer.Option(help="The picture: a PNG, SVG or PDF file.")] = Path("map.png"),
    near: Annotated[int, typer.Option(min=0, help="Draw so many neighbours of each word too.")] = 0,
    method: Annotated[
        str, typer.Option(help="pca: principal directions; tsne: neighbours stay near, needs scikit-learn.")
    ] = "pca",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Where t-SNE starts.")] = 0,
) -> None:
    """Draw words as a map: those with like vectors lie near one another."""
    from regard.interpret import plots, wordmap

    writable(out, PICTURES)
    vectors = _opened(model)
    groups: dict[int, int] = {}
    for number, word in enumerate(words):
        groups.setdefault(vectors.place(word), number if near else 0)
    for number, word in enumerate(words):
        for other, _ in vectors.similar(word, count=near) if near else []:
            groups.setdefault(vectors.place(other), number)
    chosen = vectors.units[list(groups)]
    places = wordmap.project(chosen, method=method, seed=seed)
    plots.save(wordmap.draw(places, [vectors.words[place] for place in groups], list(groups.values())), out)
    shown = f", which show {wordmap.explained(chosen):.0%} of their differences" if method == "pca" else ""
    print(f"{out}: {counted(len(groups), 'word')} in two directions{shown}")


def vectors(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write them here: word2vec's text format if named .txt or .vec, else a checkpoint directory."
        ),
    ] = None,
) -> None:
    """What word vectors there are; written for other programs, or read from theirs."""
    if out is not None and out.suffix in TEXT:
        writable(out, reads=(model,))
    found = _opened(model)
    count, width = found.vectors.shape
    print(f"{model}: {counted(count, 'word')}, {counted(width, 'number')} each; first {', '.join(found.words[:10])}")
    if out is None:
        return
    if out.suffix in TEXT:
        found.export(out)
    else:
        found.save(out)
    print(f"{out}: written")


def _opened(path: Path) -> WordVectors:
    """The vectors in a folder or file."""
    from regard import recipe
    from regard.tasks.word2vec.vectors import WordVectors

    if path.is_file():
        return WordVectors.read(str(path))
    if not path.exists():
        raise ValueError(f"no model at {path}: give a run folder, a checkpoint directory or a file of vectors")
    return recipe.load(path, device="cpu", task="word2vec")


def _plain(near: Sequence[tuple[str, float]]) -> list[dict[str, str | float]]:
    return [{"word": word, "cosine": round(cosine, 6)} for word, cosine in near]


def _table(rows: Sequence[tuple[str, int, int, int]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in ("section", "right", "known", "asked", "right of known"):
        table.add_column(name, justify="left" if name == "section" else "right")
    for name, right, known, asked in rows:
        share = f"{right / known:.1%}" if known else "-"
        table.add_row(Text(name), f"{right:,}", f"{known:,}", f"{asked:,}", share)
    return table
