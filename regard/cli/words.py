"""The commands for word vectors: words similar, analogy, map, context, export."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.grammar import Device, Json, Picture, group
from regard.cli.text_io import PICTURE_FORMATS, check_writable
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.tasks.embedding.contexts import Uses
    from regard.tasks.word2vec.vectors import WordVectors

words = group("Word vectors: neighbours, analogies, maps, words in context, files.")
TEXT_ENDINGS = (".txt", ".vec")
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A run folder, a checkpoint, or a file in word2vec's text format.")
]


@words.command()
def similar(
    model: Model,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words whose neighbours are wanted.")],
    count: Annotated[int, typer.Option(min=1, help="Neighbours of each word.")] = 10,
    as_json: Json = False,
) -> None:
    """The words nearest to a word, by the cosine of their vectors."""
    vectors = _load_vectors(model)
    answers = {word: vectors.similar(word, count=count) for word in words}
    if as_json:
        print(json.dumps({word: _neighbour_records(near) for word, near in answers.items()}, ensure_ascii=False))
        return
    for word, near in answers.items():
        print("\n".join((word, *(f"  {cosine:.3f}  {other}" for other, cosine in near))))


@words.command()
def analogy(
    model: Model,
    words: Annotated[list[str], typer.Argument(metavar="A B C", help="Three words: A is to B as C is to what?")],
    count: Annotated[int, typer.Option(min=1, help="Answers to show.")] = 5,
    as_json: Json = False,
) -> None:
    """What is to one word as another is to a third."""
    if len(words) != 3:
        raise ValueError("give three words, as in `regard words analogy MODEL man woman king`")
    first, second, third = words
    near = _load_vectors(model).analogy(first, second, third, count=count)
    if as_json:
        print(json.dumps(_neighbour_records(near), ensure_ascii=False))
    else:
        print("\n".join(f"{cosine:.3f}  {other}" for other, cosine in near))


@words.command()
def map(
    model: Model,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words to draw.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The picture: a PNG, SVG or PDF file.")
    ] = Path("map.png"),
    neighbour_count: Annotated[
        int, typer.Option("--near", min=0, help="Draw so many neighbours of each word too.")
    ] = 0,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="pca, or tsne: neighbours stay near, needs scikit-learn.")
    ] = "pca",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed of t-SNE.", show_default=False)] = 0,
) -> None:
    """Draw words as a map: those with like vectors lie near one another."""
    from regard.interpret.draw import plots, word_map

    check_writable(output, PICTURE_FORMATS)
    vectors = _load_vectors(model)
    groups = _group_neighbours(vectors, words, neighbour_count)
    chosen = vectors.unit_vectors[list(groups)]
    points = word_map.project(chosen, method=method, seed=seed)
    plots.save(word_map.plot_words(points, [vectors.words[index] for index in groups], list(groups.values())), output)
    shown = f", which show {word_map.explained_variance(chosen):.0%} of their differences" if method == "pca" else ""
    print(f"{output}: {quantity(len(groups), 'word')} in two directions{shown}")


@words.command()
def context(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A BERT or a GPT: a run folder or a checkpoint.")],
    word: Annotated[str, typer.Argument(metavar="WORD", help="The word.")],
    sentences: Annotated[list[str], typer.Argument(metavar="SENTENCE...", help="Sentences in which it stands.")],
    output: Picture = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Compare the vectors of one word in several sentences, and its static vector."""
    from regard.cli.embed import load_embedder
    from regard.tasks.embedding.contexts import find_uses

    check_writable(output, PICTURE_FORMATS)
    uses = find_uses(load_embedder(model, device)[0], word, sentences)
    if as_json:
        print(json.dumps(uses.plain(), ensure_ascii=False))
    else:
        head = "".join(f"{number:>8}" for number in range(1, len(uses.uses) + 1))
        print(f"{'':8}{head}  static")
        for number, (use, row) in enumerate(zip(uses.uses, uses.cosines, strict=False), start=1):
            print(f"{number:<8}{''.join(f'{cosine:8.3f}' for cosine in row)}  {use.shown}")
    if output is not None:
        _plot_uses(uses, word, output)


@words.command()
def export(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="word2vec's text (.txt, .vec), a matrix (.npy), or a folder."
        ),
    ] = None,
) -> None:
    """Write word vectors for other programs, or read theirs into a checkpoint; what there is, without -o."""
    if output is not None and output.suffix in (*TEXT_ENDINGS, ".npy"):
        check_writable(output, inputs=(model,))
    vectors = _load_vectors(model)
    count, width = vectors.vectors.shape
    print(
        f"{model}: {quantity(count, 'word')}, {quantity(width, 'number')} each; first {', '.join(vectors.words[:10])}"
    )
    if output is None:
        return
    if output.suffix in TEXT_ENDINGS:
        vectors.export(output)
    elif output.suffix == ".npy":
        import numpy

        numpy.save(output, vectors.vectors)
    else:
        vectors.save(output)
    print(f"{output}: written")


def _group_neighbours(vectors: WordVectors, words: Sequence[str], neighbour_count: int) -> dict[int, int]:
    """Return the rows of words and of their neighbours, by group: a group for each word, or one if it has none."""
    groups: dict[int, int] = {}
    for number, word in enumerate(words):
        groups.setdefault(vectors.index_of(word), number if neighbour_count else 0)
    for number, word in enumerate(words):
        for neighbour, _ in vectors.similar(word, count=neighbour_count) if neighbour_count else []:
            groups.setdefault(vectors.index_of(neighbour), number)
    return groups


def _plot_uses(uses: Uses, word: str, output: Path) -> None:
    """Plot the vectors of a word in several sentences, and its static vector, as points."""
    import numpy

    from regard.interpret.draw import plots, word_map

    vectors = numpy.concatenate([uses.vectors, uses.static[None]])
    vectors = vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    labels = [*(use.shown for use in uses.uses), f"{word} (static)"]
    groups = [*(0 for _ in uses.uses), 1]
    plots.save(word_map.plot_words(word_map.project(vectors), labels, groups), output)


def _load_vectors(path: Path) -> WordVectors:
    """Load the vectors of a run, a checkpoint or a file."""
    from regard import recipe
    from regard.tasks.word2vec.vectors import WordVectors

    if path.is_file():
        return WordVectors.read(str(path))
    if not path.exists():
        raise ValueError(f"no model at {path}: give a run folder, a checkpoint directory or a file of vectors")
    return recipe.load(path, device="cpu", task="word2vec")


def _neighbour_records(near: Sequence[tuple[str, float]]) -> list[dict[str, str | float]]:
    return [{"word": word, "cosine": round(cosine, 6)} for word, cosine in near]
