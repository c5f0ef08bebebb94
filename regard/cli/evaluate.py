"""The command that measures: scores of a model on a test set, and whether it beats another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.classify import score
from regard.cli.lines import PICTURES, writable

if TYPE_CHECKING:
    from rich.table import Table

    from regard.tasks.translation.error_rate import Judgement
    from regard.tasks.translation.evaluation import Comparison, Evaluation
    from regard.tasks.translation.translator import Translator

Pairs = list[tuple[str, str]]
PAGES = ("html", "htm")


class Metric(StrEnum):
    """What answers are measured by."""

    overlap = "overlap"
    errors = "errors"


def evaluate(
    model: Annotated[
        Path | None,
        typer.Argument(help="A checkpoint directory, run folder or file of answers; the shipped model when not given."),
    ] = None,
    file: Annotated[Path | None, typer.Argument(help="Labelled texts, for a model that classifies or tags.")] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate, one sentence per line.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translations, line by line.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="One file with both instead: TSV or JSON lines.")] = None,
    columns: Annotated[tuple[int, int] | None, typer.Option(help="Columns of both in a TSV file; 1 and 2.")] = None,
    to: Annotated[str | None, typer.Option(help="Target language; guessed when not given.")] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="Another model, or a file of answers, to compare with; again for more.")
    ] = None,
    metric: Annotated[
        Metric, typer.Option(help="overlap: BLEU, chrF and TER; errors: wrong answers, and edits to the nearest.")
    ] = Metric.overlap,
    tokenize: Annotated[str, typer.Option(help="BLEU's tokenizer, such as 13a, zh or ja-mecab.")] = "13a",
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst sentences to show.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw BLEU against length into this PNG or SVG file.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write two systems side by side into this HTML file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A decoding setting, such as beams=1.")
    ] = None,
) -> None:
    """Score a model on a test set: BLEU, chrF, TER, perplexity, scores by length; compare it with others."""
    from regard import config
    from regard.interpret import curves, plots
    from regard.tasks.translation import evaluation

    if file is not None:
        given: dict[str, object] = {"--source": source, "--target": target, "--pairs": pairs, "--to": to}
        given |= {"--against": against, "--plot": plot, "--page": page, "--set": settings}
        _alone(file, given | {"--metric": metric is Metric.errors})
        return score(model, file, columns=columns, as_json=as_json)
    others = against or []
    among = bool(others)
    _shown(plot, page, others)
    test = _test(source, target, pairs, columns)
    chosen = config.override({}, settings or [])
    directed((model, *others), to)
    if metric is Metric.errors:
        if plot is not None or page is not None:
            raise ValueError("--plot and --page show overlap: leave them out, or --metric errors")
        judged = [_mistakes(path, test, to=to, among=among, settings=chosen) for path in (model, *others)]
        return _tell(judged, worst=worst, as_json=as_json)
    each = partial(system, test=test, to=to, among=among, tokenize=tokenize, settings=chosen)
    systems = [each(path) for path in (model, *others)]
    compared = evaluation.compare(systems) if others else None
    if as_json:
        told = compared.plain(worst=worst) if compared else systems[0].plain(worst=worst)
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        _print(systems, compared, worst=worst)
    if plot is not None:
        plots.save(curves.by_length({each.name: each.lengths for each in systems}), plot)
    if page is not None and compared is not None:
        page.write_text(evaluation.page(compared), encoding="utf-8")


def _shown(plot: Path | None, page: Path | None, others: Sequence[Path]) -> None:
    """Stop at a picture or page that could not be made, before anything is translated."""
    if page is not None and len(others) != 1:
        raise ValueError(f"--page shows two systems side by side: give one --against, not {len(others)}")
    writable(plot, PICTURES)
    writable(page, PAGES)


def _alone(file: Path, given: dict[str, object]) -> None:
    """Stop at options that a model that labels would not heed."""
    if ignored := [name for name, value in given.items() if value]:
        raise ValueError(f"{ignored[0]} is for translators: leave it out, or the file {file}")


def _test(source: Path | None, target: Path | None, pairs: Path | None, columns: tuple[int, int] | None) -> Pairs:
    """The sentences to score on."""
    from regard.data import testset
    from regard.data.readers import Corpus

    if source is target is pairs is None:
        raise ValueError("nothing to score on: give --source and --target, or --pairs; a file to a model that labels")
    source_file, target_file, both = (None if path is None else str(path) for path in (source, target, pairs))
    return testset.read(Corpus(source=source_file, target=target_file, path=both, columns=columns or (1, 2)))


def _print(systems: Sequence[Evaluation], compared: Comparison | None, *, worst: int) -> None:
    """Scores of each, how they compare, and the worst sentences of the first."""
    from rich.console import Console

    console = Console()
    for each in systems:
        console.print(_table(each.lines()))
    if compared is not None:
        console.print(_table(compared.lines()[1:], head=compared.lines()[0]))
    print("\n".join(systems[0].signatures()))
    for sentence in systems[0].worst(worst):
        fields = zip(("source", "reference", "answer"), sentence[1:4], strict=True)
        console.print(_table([(f"{sentence.number}", f"chrF {sentence.chrf:.1f}"), *fields]))


def directed(paths: Sequence[Path | None], to: str | None) -> None:
    """Stop at a language that none of several models can be sent to; a single one says so itself."""
    import regard

    if to is None or len(paths) < 2:
        return
    models = (path for path in paths if path is None or not path.is_file())
    if not any(regard.load(path, task="translation").languages for path in models):
        raise ValueError(f"--to {to}: no model here has several languages to be sent to, leave it out")


def system(
    path: Path | None, test: Pairs, *, to: str | None, among: bool, tokenize: str, settings: dict[str, Any]
) -> Evaluation:
    """A model's own evaluation, or that of the answers in a file."""
    from regard.data import testset
    from regard.tasks.translation import evaluation

    shown = "/".join(path.parts[-2:]) if path is not None else ""
    if path is not None and path.is_file():
        return evaluation.judge(shown, testset.answers(str(path), len(test)), test, tokenize=tokenize)
    translator, to = _translator(path, test, to, among=among)
    return evaluation.evaluate(translator, test, to=to, name=shown or translator.name, tokenize=tokenize, **settings)


def _translator(path: Path | None, test: Pairs, to: str | None, *, among: bool) -> tuple[Translator, str | None]:
    """A model, and the language to translate a test set into; among others it may have no choice."""
    import regard

    translator = regard.load(path, task="translation")
    if to is None and len(translator.languages) > 1:
        to = translator.direction("\n".join(source for source, _ in test[:100]))
    return translator, None if among and not translator.languages else to


def _mistakes(path: Path | None, test: Pairs, *, to: str | None, among: bool, settings: dict[str, Any]) -> Judgement:
    """The errors of a model, or of the answers in a file."""
    from regard.data import testset
    from regard.tasks.translation import error_rate

    shown = "/".join(path.parts[-2:]) if path is not None else ""
    if path is not None and path.is_file():
        return error_rate.judge(shown, testset.answers(str(path), len(test)), test)
    translator, to = _translator(path, test, to, among=among)
    return error_rate.evaluate(translator, test, to=to, name=shown or translator.name, **settings)


def _tell(judged: Sequence[Judgement], *, worst: int, as_json: bool) -> None:
    """Errors of every system, and the worst answers of the first."""
    from rich.console import Console

    if as_json:
        told = [one.plain(worst=worst) for one in judged]
        print(json.dumps(told[0] if len(told) == 1 else {"systems": told}, ensure_ascii=False, indent=1))
        return
    console = Console()
    for one in judged:
        console.print(_table(one.lines()))
    for mistake in judged[0].worst(worst):
        rows = [("source", mistake.source), *(("right", text) for text in mistake.references)]
        console.print(_table([*rows, ("answer", mistake.answer)]))


def _table(rows: Sequence[Sequence[str]], head: Sequence[str] | None = None) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=head is not None)
    for name in head or [""] * len(rows[0]):
        table.add_column(name, overflow="fold", no_wrap=head is not None and name != "system")
    for row in rows:
        table.add_row(*map(Text, row))  # text, not markup: brackets are somebody's words
    return table
