"""The experiments of the courses: lab positions, gradients, complexity, agreement, tokenizers, by-hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import Device, Json, Labels, Picture, called, group
from regard.cli.lines import PICTURES, counted, writable

if TYPE_CHECKING:
    from torch import Tensor

    from regard.cli.tables import Fitted
    from regard.lab.agreement.judging import Point

lab = group("Experiments of the courses, no model of yours needed.")
MOST = 200  # words that a sentence can sensibly have
SLOW = 2**22  # steps times the square of the width: a minute on one core of a laptop
SEEDS = 2**64 - 1  # the last that PyTorch takes
LEAST = 300  # tokens of a vocabulary that has all bytes
LEVELS = 9  # losses shown of a training by hand


@lab.command()
def positions(
    scheme: Annotated[
        str | None, typer.Argument(metavar="[SCHEME]", help="sinusoidal, binary, integer or normalised, to draw it.")
    ] = None,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Positional encodings and their properties."""
    from regard.cli.tables import Fitted
    from regard.lab import positions

    if (output is None) != (scheme is None):
        raise ValueError("name a scheme and a file to draw it: regard lab positions sinusoidal -o positions.png")
    writable(output, PICTURES)
    found = positions.properties()
    head = ("encoding", "unique", "bounded", "independent of length")
    rows = [(one.scheme, *("yes" if holds else "no" for holds in one[1:])) for one in found]
    _tell([one._asdict() for one in found], [Fitted(head, rows, "Positional encodings")], as_json=as_json)
    if output is not None and scheme is not None:
        positions.draw(scheme, output)
        _drawn(output, f"the {scheme} encoding, position by feature", as_json)


@lab.command()
def gradients(
    length: Annotated[int, typer.Option(min=2, max=1000, help="Steps that the layers read; 1,000 take a minute.")] = 64,
    width: Annotated[int, typer.Option(min=4, max=256, help="Features of inputs and states; a multiple of 4.")] = 64,
    seed: Annotated[int, typer.Option(min=0, max=SEEDS, help="Random seed.", show_default=False)] = 0,
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """How far gradients reach back through RNN, GRU, LSTM and self-attention at initialisation."""
    from rich.console import Console

    from regard.interpret import curves, plots
    from regard.lab import gradients as reach

    writable(output, PICTURES)
    if width % reach.HEADS:
        raise ValueError(f"--width {width}: give a multiple of {reach.HEADS}, the heads of the attention")
    if length * width**2 > SLOW:
        print("regard: so many steps of such a width may take minutes", file=sys.stderr)
    norms = reach.compare(length=length, width=width, seed=seed)
    told = {"width": width, "norms": {name: each.tolist() for name, each in norms.items()}}
    _tell(told, [_reached(norms, width=Console().width)], as_json=as_json)
    if output is not None:
        title = f"d output / d input at a distance, {width} wide, untrained"
        plots.save(curves.by_distance(norms, title=title), output)
        _drawn(output, "gradients against distance", as_json)


@lab.command()
def complexity(
    length: Annotated[int, typer.Option(min=1, help="Positions in the table.")] = 512,
    width: Annotated[int, typer.Option(min=1, help="Features of a position.")] = 64,
    window: Annotated[int, typer.Option(min=2, help="Positions in sight of windowed attention.")] = 65,
    measure: Annotated[bool, typer.Option("--measure/--no-measure", help="Time real layers on this machine.")] = True,
    output: Picture = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """What attention costs beside recurrent, convolutional and windowed layers."""
    from dataclasses import asdict

    from regard.attention.axial import axial_pairs
    from regard.cli.tables import Fitted
    from regard.lab import complexity
    from regard.training.device import choose

    writable(output, PICTURES)
    place = str(choose(device))
    found = complexity.table(length, width, window=window)
    head = ("layer", "cost", "operations", "steps", "path", "pairs", "learned")
    rows = [
        (row.name, row.complexity, *map(_short, (row.operations, row.steps, row.path, row.weights, row.parameters)))
        for row in found
    ]
    whole, cut = complexity.image_pairs(1024, 1024), complexity.image_pairs(1024, 1024, patch=16)
    lines = axial_pairs(1024, 1024)
    note = f"1024 x 1024 pixels: {whole:.2e} pairs; axial {lines:.2e}; 16 x 16 patches {cut:.2e}."
    tables, told = [Fitted(head, rows, "One layer, computed", note)], {"layers": [asdict(row) for row in found]}
    if measure or output is not None:
        timings = complexity.measure(width=width, window=window, device=place)
        tables.append(_growth(timings))
        told["timings"] = [asdict(one) | {"exponent": one.exponent} for one in timings]
    _tell(told, tables, as_json=as_json)
    if output is not None:
        complexity.plot(timings, output)
        _drawn(output, "time against length, computed and measured", as_json)


@lab.command()
def agreement(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Taggers trained on what data make agreement writes.")
    ],
    labels: Labels = None,
    distances: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Words between subject and participle.")
    ] = "1,2,4,8,12,16,24,32,48",
    count: Annotated[int, typer.Option(min=1, help="Sentences at each distance.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", show_default=False)] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="Without participles beside the nouns in between.")] = False,
    longest: Annotated[int, typer.Option(min=1, help="Longest distance met in training, drawn as a line.")] = 16,
    output: Picture = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How often taggers misjudge a French participle, by distance from its subject."""
    from regard import recipe
    from regard.interpret import curves, plots
    from regard.lab.agreement import judging

    writable(output, PICTURES)
    groups = _groups(models, labels)
    lengths, found = _distances(distances), {}
    for name, paths in groups.items():
        taggers = [recipe.load(path, device=device, task="tagging") for path in paths]
        found[name] = judging.measure(taggers, distances=lengths, count=count, seed=seed, described=not plain)
    own = {name: [point.plain() for point in points] for name, points in found.items()}
    tables = [_errors(title, _chosen(found, each)) for each, title in judging.CONDITIONS.items()]
    _tell({"sentences": count, "seed": seed, "models": own}, tables, as_json=as_json)
    if output is not None:
        panels = {title: _spread_of(_chosen(found, each)) for each, title in judging.CONDITIONS.items()}
        plots.save(curves.by_words_between(panels, longest=longest), output)
        _drawn(output, "errors against distance", as_json)


@lab.command()
def tokenizers(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text, one sentence per line; may be gzipped.")],
    column: Annotated[int | None, typer.Option(min=1, help="The column with the text, in a TSV file.")] = None,
    held: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other text to evaluate on; else a tenth is held out.")
    ] = None,
    sizes: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Sizes of vocabularies, between commas.")
    ] = "500,1000,2000,4000,8000",
    words: Annotated[str, typer.Option(metavar="WORDS", help="Words to tokenise, between spaces.")] = (
        "grand grande grandement"
    ),
    output: Picture = None,
    as_json: Json = False,
) -> None:
    """Characters, words and subwords compared: vocabulary, length of the text, what is unknown."""
    from regard.cli.tables import Fitted
    from regard.interpret import curves, plots
    from regard.lab import tokenizers

    writable(output, PICTURES, reads=[file, held])
    lines = tokenizers.read(str(file), column=column)
    train, other = (
        (lines, tokenizers.read(str(held), column=column)) if held is not None else tokenizers.hold_out(lines)
    )
    found = tokenizers.compare(train, other, sizes=_sizes(sizes), words=words.split())
    rows = [
        (one.kind, one.vocab, f"{one.per_line:.1f}", f"{one.per_token:.2f}", f"{100 * one.unknown:.2f} %")
        for one in found
    ]
    title = f"{len(train):,} lines to make units from, {len(other):,} to measure them on"
    cuts = [(f"{one.kind} {one.vocab:,}", *(" ".join(pieces) for pieces in one.words.values())) for one in found]
    tables = [
        Fitted(("units", "vocabulary", "tokens a line", "characters a token", "unknown"), rows, title),
        Fitted(("units", *found[0].words), cuts),
    ]
    told = {"lines": len(train), "held": len(other), "units": [one.plain() for one in found]}
    _tell(told, tables, as_json=as_json)
    if output is not None:
        plots.save(curves.by_vocabulary(found), output)
        _drawn(output, "vocabulary against length", as_json)


@lab.command("by-hand")
def by_hand(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="A line to learn, character by character.")] = (
        "the quick brown fox jumps over the lazy dog"
    ),
    width: Annotated[int, typer.Option(min=1, max=512, help="Features of the state.")] = 32,
    steps: Annotated[int, typer.Option(min=1, max=100_000, help="Steps of gradient descent.")] = 400,
    rate: Annotated[float, typer.Option(min=0, help="Learning rate.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", show_default=False)] = 0,
    as_json: Json = False,
) -> None:
    """Back-propagation through time written out in numpy, held against autograd."""
    from dataclasses import asdict

    from regard.cli.tables import Fitted
    from regard.lab import by_hand

    lesson = by_hand.learn(text, width=width, steps=steps, rate=rate, seed=seed)
    shown = sorted({round(place * steps / (LEVELS - 1)) for place in range(LEVELS)})
    slopes = [(name, f"{value:.1e}") for name, value in lesson.differences.items()]
    tables = [
        Fitted(("weight", "relative difference"), slopes, "Derivatives by hand and by autograd"),
        Fitted(("step", *map(str, shown)), [("loss", *(f"{lesson.losses[at]:.3f}" for at in shown))]),
    ]
    _tell(asdict(lesson), tables, as_json=as_json)
    if not as_json:
        print(f"it writes: {lesson.written}")


def _tell(told: Any, tables: Sequence[Fitted], *, as_json: bool) -> None:
    """Numbers as JSON, or tables for a person."""
    from rich.console import Console

    if as_json:
        print(json.dumps(told, ensure_ascii=False, indent=1))
        return
    console = Console(highlight=False)
    for table in tables:
        console.print(table, "")


def _drawn(path: Path, what: str, as_json: bool) -> None:
    print(f"{path}: {what}", file=sys.stderr if as_json else sys.stdout)


def _reached(norms: Mapping[str, Tensor], *, width: int) -> Fitted:
    """How much of a gradient is left so many steps back, at as many distances as there is room for."""
    from regard.cli.tables import Fitted

    length = min(map(len, norms.values()))
    rows = {name: [f"{value:.1e}" for value in values.tolist()] for name, values in norms.items()}
    room = (width - max(map(len, rows))) // (2 + max(len(value) for values in rows.values() for value in values))
    distances = _spread(length - 1, min(room, 1 + length.bit_length()))
    shown = [(name, *(values[distance] for distance in distances)) for name, values in rows.items()]
    note = "Untrained: gates stand half open, so GRU and LSTM lose the gradient too, if later than the RNN."
    return Fitted(("layer", *map(str, distances)), shown, "Norm of the gradient by distance in steps", note)


def _spread(last: int, count: int) -> list[int]:
    """0, and then whole numbers from 1 to the last, as even as they can be on a scale of powers."""
    gaps = max(count - 2, 1)
    return sorted({0, *(round(last ** (place / gaps)) for place in range(gaps)), last})


def _growth(timings: Sequence[Any]) -> Fitted:
    """Layers, timed."""
    from regard.cli.tables import Fitted

    rows = [
        (
            timing.name,
            *(f"{1000 * seconds:.2f}" for seconds in timing.seconds),
            None if timing.exponent is None else f"n^{timing.exponent:.2f}",
        )
        for timing in timings
    ]
    names = "layer", *(f"n={length}" for length in timings[0].lengths), "grows as"
    noisy = [timing for timing in timings if timing.exponent is None]
    note = None
    if noisy:
        worst = max(timing.noise for timing in noisy)
        note = f"Rounds differ by up to {worst:.0%}, which hides how times grow: try again when the machine is idle."
    return Fitted(names, rows, "Milliseconds on this machine", note)


def _short(number: int) -> str:
    """A number a person can take in."""
    return "-" if number == 0 else f"{number:,}" if number < 1_000_000 else f"{number:.2e}"


def _groups(models: Sequence[Path], labels: str | None) -> dict[str, list[Path]]:
    """Models by their name; those of one name are averaged."""
    names = [called(path) for path in models] if labels is None else [name.strip() for name in labels.split(",")]
    if len(names) != len(models) or not all(names):
        raise ValueError(f"--labels {labels!r}: give {counted(len(models), 'name')} between commas, one for each model")
    groups: dict[str, list[Path]] = {}
    for name, path in zip(names, models, strict=True):
        groups.setdefault(name, []).append(path)
    return groups


def _distances(text: str) -> list[int]:
    try:
        found = sorted({int(each) for each in text.split(",")})
    except ValueError:
        found = [0]
    if found[0] < 1 or found[-1] > MOST:
        raise ValueError(f"--distances {text!r}: give whole numbers from 1 to {MOST} between commas, such as 1,8,32")
    return found


def _sizes(text: str) -> list[int]:
    """Numbers between commas."""
    try:
        found = sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise ValueError(f"--sizes {text!r}: give whole numbers between commas, such as 500,2000") from None
    if found[0] < LEAST:
        raise ValueError(f"--sizes {text}: the least is {LEAST}, the 256 bytes and some more")
    return found


def _chosen(found: Mapping[str, Sequence[Point]], attractors: bool) -> dict[str, list[Point]]:
    return {name: [point for point in points if point.attractors == attractors] for name, points in found.items()}


def _spread_of(found: Mapping[str, Sequence[Point]]) -> dict[str, list[tuple[int, float, float, float]]]:
    """Distance, mean, least and most error of each model."""
    return {
        name: [(point.distance, point.error, min(point.errors), max(point.errors)) for point in points]
        for name, points in found.items()
    }


def _errors(title: str, found: Mapping[str, Sequence[Point]]) -> Fitted:
    """A line for every distance, however many there are, and a column for every model."""
    from regard.cli.tables import Fitted

    rows = [
        (f"{points[0].distance}", *(f"{point.error:.1f}" for point in points))
        for points in zip(*found.values(), strict=True)
    ]
    return Fitted(("words between", *found), rows, f"Errors in 100, {title}")
