"""Commands that make data, or look at what text is made of: data cmudict, data agreement, data units."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.lines import PICTURES, writable

if TYPE_CHECKING:
    from rich.table import Table

    from regard.lab.tokenizers import Cut

LEAST = 300  # tokens of a vocabulary that has all bytes


def cmudict(
    file: Annotated[Path, typer.Argument(help="The CMU Pronouncing Dictionary: cmudict.dict, cmudict-0.7b or NLTK's.")],
    out: Annotated[Path, typer.Argument(help="Folder for train.tsv.gz, valid.tsv.gz and test.tsv.gz.")],
    stress: Annotated[bool, typer.Option("--stress", help="Keep the digits that say which vowel is stressed.")] = False,
) -> None:
    """Make pairs of letters and sounds of the CMU Pronouncing Dictionary; no word is in two parts."""
    from regard.tasks.translation import cmudict

    _folder(out)
    found = cmudict.read(str(file), stress=stress)
    for name, (words, lines) in cmudict.write(found, out).items():
        print(f"{out / name}.tsv.gz: {words:,} words, {lines:,} pronunciations")
    print(f"left out: {found.passed_over:,} words with signs other than letters and apostrophes")


def agreement(
    out: Annotated[Path, typer.Argument(help="Folder for train.txt.gz and valid.txt.gz.")],
    shortest: Annotated[int, typer.Option(min=1, help="Fewest words between subject and participle.")] = 1,
    longest: Annotated[int, typer.Option(min=1, max=200, help="Most of them.")] = 16,
    plain: Annotated[bool, typer.Option("--plain", help="Without participles beside the nouns in between.")] = False,
    count: Annotated[
        int, typer.Option(min=20, help="Sentences to learn from; a twentieth more to measure on.")
    ] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Where the sentences start.")] = 0,
    show: Annotated[int, typer.Option(min=0, help="Sentences to print.")] = 5,
) -> None:
    """Write French sentences whose participle agrees with its subject or does not, every word tagged right or wrong."""
    from regard.lab.agreement import sentences as agreement

    _folder(out)
    practice = agreement.Practice(shortest=shortest, longest=longest, described=not plain)
    for path in agreement.write(out, practice, seed=seed, counts={"train": count, "valid": count // 20}):
        print(f"{path}: written")
    for line in agreement.show(list(agreement.sentences(2 * seed, show, practice))):
        print(f"  {line}")


def units(
    file: Annotated[Path, typer.Argument(help="Text, one sentence per line; may be gzipped.")],
    column: Annotated[int | None, typer.Option(min=1, help="The column with the text, in a TSV file.")] = None,
    held: Annotated[Path | None, typer.Option(help="Other text to measure on; a tenth is held out otherwise.")] = None,
    sizes: Annotated[str, typer.Option(help="Sizes of vocabularies, between commas.")] = "500,1000,2000,4000,8000",
    words: Annotated[str, typer.Option(help="Words to cut, between blanks.")] = "grand grande grandement",
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG or SVG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """Characters, words and pieces of words compared: size of the vocabulary, length of the text, what is unknown."""
    from rich.console import Console

    from regard.interpret import curves, plots
    from regard.lab import tokenizers

    writable(plot, PICTURES)
    lines = tokenizers.read(str(file), column=column)
    train, other = (
        (lines, tokenizers.read(str(held), column=column)) if held is not None else tokenizers.hold_out(lines)
    )
    found = tokenizers.compare(train, other, sizes=_sizes(sizes), words=words.split())
    if as_json:
        told = {"lines": len(train), "held": len(other), "units": [one.plain() for one in found]}
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        print(f"{len(train):,} lines to make units from, {len(other):,} to measure them on")
        Console().print(_cuts(found), _examples(found), sep="\n")
    if plot is not None:
        plots.save(curves.by_vocabulary(found), plot)
        print(f"{plot}: vocabulary against length", file=sys.stderr if as_json else sys.stdout)


def _folder(path: Path) -> None:
    """Stop at a name that cannot be a folder's."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: name a folder to write into, which may be new")


def _sizes(text: str) -> list[int]:
    """Numbers between commas."""
    try:
        found = sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise ValueError(f"--sizes {text!r}: give whole numbers between commas, such as 500,2000") from None
    if found[0] < LEAST:
        raise ValueError(f"--sizes {text}: the least is {LEAST}, the 256 bytes and some more")
    return found


def _cuts(found: Sequence[Cut]) -> Table:
    """A line for every way to cut."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("units", "vocabulary", "tokens a line", "characters a token", "unknown"):
        table.add_column(name, justify="left" if name == "units" else "right", no_wrap=True)
    for one in found:
        numbers = f"{one.vocab:,}", f"{one.per_line:.1f}", f"{one.per_token:.2f}", f"{100 * one.unknown:.2f} %"
        table.add_row(one.kind, *numbers)
    return table


def _examples(found: Sequence[Cut]) -> Table:
    """How single words are cut, one line for every way to cut and a column for each word."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("units", no_wrap=True)
    for word in found[0].words:
        table.add_column(Text(word), overflow="fold")
    for one in found:
        table.add_row(f"{one.kind} {one.vocab:,}", *(Text(" ".join(pieces)) for pieces in one.words.values()))
    return table
