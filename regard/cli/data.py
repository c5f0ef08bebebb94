"""The commands for data before training: data check inspects it, data make writes some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.file_options import NamedFiles, takes_files
from regard.cli.grammar import Json, group
from regard.cli.progress import announce
from regard.cli.train import split_settings
from regard.config.words import quantity

data = group("Check your data exactly as training will read it; make some.")
make = group("Make data to train on.")
data.add_typer(make, name="make")
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write; may be new.")]


@data.command()
@takes_files
def check(
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE... SETTING...", help="Files or a recipe, as for train; then settings."),
    ] = None,
    files: NamedFiles,
    tokens: Annotated[
        bool, typer.Option("--tokens/--no-tokens", help="Train the tokenizer too, and give lengths in tokens.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check every line: counts, lengths, repeats, bad lines with their places, what would be left out."""
    from rich.console import Console

    from regard import recipe as recipes
    from regard.cli.tables import FittedTable

    sources, changes = split_settings(words or [])
    settings = recipes.order(sources, *changes, inputs=files.collect()).settings
    if "data" not in settings:
        raise ValueError("nothing to check: give files, or a recipe")
    task, resolved = recipes.resolve(settings)
    with announce("reading every line of the data"):
        report = task.check(resolved, tokens=tokens)
    if as_json:
        print(json.dumps(report.plain(), ensure_ascii=False))
    else:
        Console(highlight=False).print(FittedTable(("", ""), report.lines()))
    if report.problems:
        raise typer.Exit(1)


@make.command()
def cmudict(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The CMU Pronouncing Dictionary: cmudict.dict, cmudict-0.7b or NLTK's."),
    ],
    out: Folder,
    stress: Annotated[bool, typer.Option("--stress", help="Keep the digits that say which vowel is stressed.")] = False,
) -> None:
    """Pairs of letters and sounds from the CMU Pronouncing Dictionary; no word is in two parts."""
    from regard.config.words import quantity
    from regard.lab import cmudict

    _check_output_folder(out)
    dictionary = cmudict.read(str(file), stress=stress)
    for name, (words, lines) in cmudict.write(dictionary, out).items():
        print(f"{out / name}.tsv.gz: {quantity(words, 'word')}, {quantity(lines, 'pronunciation')}")
    print(f"left out: {quantity(dictionary.passed_over, 'word')} with signs other than letters and apostrophes")


@make.command()
def agreement(
    out: Folder,
    shortest: Annotated[int, typer.Option(min=1, help="Fewest words between subject and participle.")] = 1,
    longest: Annotated[int, typer.Option(min=1, max=200, help="Most of them.")] = 16,
    plain: Annotated[bool, typer.Option("--plain", help="Without participles beside the nouns in between.")] = False,
    count: Annotated[int, typer.Option(min=20, help="Training sentences; a twentieth more for validation.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", show_default=False)] = 0,
    show: Annotated[int, typer.Option(min=0, help="Sentences to print.")] = 5,
) -> None:
    """French sentences whose participle agrees with its subject or not, every word tagged right or wrong."""
    from regard.lab.agreement import sentences as agreement

    _check_output_folder(out)
    practice = agreement.Practice(shortest=shortest, longest=longest, described=not plain)
    for path in agreement.write(out, practice, seed=seed, counts={"train": count, "valid": count // 20}):
        print(f"{path}: written")
    for line in agreement.show(list(agreement.sentences(2 * seed, show, practice))):
        print(f"  {line}")


@make.command()
def scenes(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A classifier that was trained on scattered pictures.")
    ],
    pictures: Annotated[Path, typer.Argument(metavar="PICTURES", help="Labelled pictures, as for train.")],
    out: Folder,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Scenes to write.")] = 20,
) -> None:
    """The first scenes that `regard evaluate` scores a model on, as PNG files with a table of labels."""
    import numpy as np
    from PIL import Image

    from regard import recipe

    _check_output_folder(out)
    trained = recipe.load(model, device="cpu")
    if "scenes" not in trained.extras:
        raise ValueError(f"{model} was not trained on scattered pictures: train a model with data.scatter.size=60")
    examples = trained.extras["scenes"].call(pictures)
    numbers = np.arange(min(count, len(examples)))
    out.mkdir(parents=True, exist_ok=True)
    for number, pixels in zip(numbers, examples.pixels(numbers), strict=True):
        Image.fromarray(pixels.transpose(1, 2, 0).squeeze()).save(out / f"{number:05}.png")
    labels = (trained.classes[label] for label in examples.labels[numbers])  # type: ignore[attr-defined]
    lines = [f"{number:05}.png,{label}" for number, label in zip(numbers, labels, strict=True)]
    (out / "labels.csv").write_text("\n".join(["path,label", *lines]) + "\n", encoding="utf-8")
    print(f"{out}: {len(numbers):,} scenes, and labels.csv with what they show")


@make.command()
def digits(
    out: Folder,
    count: Annotated[
        int, typer.Option(min=10, max=1_000_000, help="Training pictures; a tenth more to test on.")
    ] = 5000,
    size: Annotated[int, typer.Option(min=16, max=1024, help="Pixels on each side.")] = 48,
    glyphs: Annotated[
        Path | None,
        typer.Option(
            "--digits", metavar="FOLDER", help="MNIST's four idx files; else four hands that come with Regard."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", show_default=False)] = 0,
) -> None:
    """Drawn digits somewhere in a picture, with labels and boxes, to judge the maps of a classifier by."""
    from regard.tasks.scenes import digit_file

    _check_output_folder(out)
    digit_folder = None if glyphs is None else str(glyphs)
    with announce(f"drawing {quantity(count, 'picture')} to learn from and {max(1, count // 10):,} to test on"):
        written = digit_file.write_digits(out, count=count, size=size, digits=digit_folder, seed=seed)
    print(f"{written}: {quantity(count, 'picture')} to learn from")


def _check_output_folder(path: Path) -> None:
    """Refuse the path of a file where a folder is needed."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: name a folder to write into, which may be new")
