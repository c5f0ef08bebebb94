"""The command that explains: where a model looked, as a matrix, links, arithmetic, a page, a picture, a trace."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import explain_options as option
from regard.cli.answers import tabular, typed
from regard.cli.classify import of_graphs
from regard.cli.grammar import Device, named
from regard.cli.lines import PICTURES, guessed, writable
from regard.cli.progress import announce
from regard.cli.views import PAGES, View, check_attention, judged, links, show, show_made

if TYPE_CHECKING:
    from rich.console import Console

    from regard.cli.tables import Fitted
    from regard.interpret.trace import Trace
    from regard.metrics.alignment import Gold

KINDS = ("html", "png", "json", "csv", "npy", "htm", *PICTURES)
RIVALS = (("gradient", "rollout"), ("gradcam", "centre"))  # methods that are compared
CONTROLS = (
    "Controls: centre, the middle of the picture; uniform, every region alike; random, chance; untrained, the first "
    "method with an untrained copy of the model. ± 95 % by bootstrap."
)


def explain(
    words: option.Words = None,
    input: option.Input = None,
    output: option.Output = None,
    attention: option.Attention = None,
    head: option.Head = None,
    level: option.Level = None,
    specials: option.Specials = False,
    numbers: option.Numbers = False,
    step: option.Step = None,
    about: option.About = None,
    judge: option.Judge = None,
    against: option.Against = None,
    probe: option.Probe = None,
    anatomy: option.Anatomy = False,
    node: option.Node = None,
    seed: option.Seed = None,
    to: option.To = None,
    alignments: option.Alignments = False,
    gold: option.Gold = None,
    measures: option.Measures = False,
    interventions: option.Interventions = False,
    device: Device = "auto",
    as_json: option.AsJson = False,
) -> None:
    """Show where a model looked: matrix, page, picture or trace."""
    from regard import recipe
    from regard.cli.text_column import plain_lines

    view = View(attention, head, level, specials, numbers, as_json)
    model, texts = named(words or [])
    texts = [*texts, *(node or [])]
    if against is not None and not judge:
        raise ValueError(f"--against {against} is for --judge: name labelled pictures with it, or leave it out")
    if about is not None and (judge or probe or anatomy):
        raise ValueError("--about is for one picture: leave it out with --judge, --probe and --anatomy")
    if judge:
        other = None if against is None else recipe.load(against, device=device)
        return _judge(recipe.load(model, device=device), judge, texts, output, other=other, as_json=as_json)
    if probe:
        return _probe(recipe.load(model, device=device), probe, texts, output, as_json=as_json)
    if anatomy:
        return _anatomy(model, texts, output, device=device, as_json=as_json)
    if seed is not None:
        writable(output, KINDS)
        return show_made(recipe.load(model, device=device), texts, seed, view, output=output)
    measured = measures or interventions
    _possible(texts, input, level, output, alignments=alignments, measured=measured, interventions=interventions)
    trained = recipe.load(model, device=device)
    lines = plain_lines(input) if input is not None else typed(trained.inputs, texts, option=None)
    if node:
        of_graphs(trained)
    if about is not None and "about" not in trained.LookOptions.__dataclass_fields__:
        raise ValueError(f"--about is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if "alignments" not in trained.extras:
        given = {"--to": to, "--gold": gold, "--alignments": alignments, "--measures": measured}
        if other := [name for name, value in given.items() if value]:
            raise ValueError(f"{other[0]} is for translators: {trained.name} is {trained.kind}, leave it out")
        asked = {} if about is None else {"about": about}
        check_attention(trained, attention)
        several = trained.inputs.join is not None and len(texts) > 1  # files hold the input
        trace = trained.look(trained.inputs.parse(shlex.join(texts) if several else _only(lines)), **asked)
        show(trace, view, output=output, step=step, gold=None, extra={})
    elif alignments:
        _link(trained, lines, to, view)
    elif not texts:
        measure(trained, to, output, interventions=interventions, as_json=as_json)
    else:
        text = _only(lines)
        check_attention(trained, attention)
        to = to or guessed(trained, [text])  # a model of one direction is not asked for it; the measures are
        trace = trained.look(text, to=to if trained.languages or not measured else None)
        page = output is not None and output.suffix.lower() in PAGES
        extra = _extra(trained, trace, view, to, measured, gold) if page else {}
        show(trace, view, output=output, step=step, gold=gold, extra=extra)


def _judge(trained: Any, paths: list[str], texts: list[str], output: Path | None, *, other: Any, as_json: bool) -> None:
    """Which maps of a picture classifier may be believed, as a table."""
    from rich.console import Console

    from regard.tasks.vision.map_evaluation import LOCALISATION_CHECKS, SINGLE_IMAGE_CHECKS

    _alone(trained, "judge", texts, output)
    if other is not None and "boxes" not in other.extras:
        raise ValueError(f"--against is for models that find digits: {other.name} is {other.kind}, leave it out")
    with announce("judging every map and control, which may take some minutes"):
        found = trained.extras["judge"].call(*paths, against=other)
    if as_json:
        print(json.dumps(found.plain(), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(
        f"{found.correct_count:,} of {found.image_count:,} pictures are labelled right: maps of these are judged."
    )
    if found.grid_count:
        note = "Chance: pointing and inside 0.250. More is better."
        console.print("", _table(found, LOCALISATION_CHECKS, f"{found.grid_count} grids of four pictures", note))
        for one, rival in RIVALS:
            _compared(console, found, one, rival, "pointing")
    note = "Less deletion is better, more of the others."
    console.print("", _table(found, SINGLE_IMAGE_CHECKS, f"single pictures: {found.single_count}", note))
    if found.boxed_count:
        _boxed(console, found, trained_on_boxes=other)
    console.print(f"\n{CONTROLS}")


def _table(found: Any, checks: tuple[str, ...], title: str, note: str) -> Fitted:
    """Every method and every control, by some of the checks."""
    from regard.cli.tables import Fitted

    return Fitted(["method", *checks], found.rows(checks), title, note)


def _boxed(console: Console, found: Any, *, trained_on_boxes: Any) -> None:
    """The same of single pictures with boxes, beside a model that was trained on boxes."""
    from regard.cli.tables import Fitted

    columns = ["method", "pointing", "inside", "overlap"]
    note = f"Boxes cover {found.box_area:.3f} of a picture. A map's box is drawn at the level best for other pictures."
    if trained_on_boxes is not None:
        note += f" {trained_on_boxes.name} was trained on boxes, the maps were not."
    console.print("", Fitted(columns, found.boxed_rows(), f"pictures with boxes: {found.boxed_count}", note))
    for one, rival in RIVALS:
        _compared(console, found, one, rival, "overlap", boxed=True)


def _compared(console: Console, found: Any, one: str, rival: str, check: str, *, boxed: bool = False) -> None:
    """Whether one method is above another or below, and how probable so large a difference is by chance."""
    chance = found.p_value(one, rival, check, boxed=boxed)
    if chance is not None:
        checks = found.boxed_checks if boxed else found.checks
        apart = checks[one][check].score - checks[rival][check].score
        side = "above" if apart > 0 else "below" if apart < 0 else "level with"
        console.print(f"{one} {side} {rival}, {check}: p = {chance:.4f}")


def _probe(trained: Any, paths: list[str], texts: list[str], output: Path | None, *, as_json: bool) -> None:
    """Whether a picture classifier has learnt a mark in place of the thing, in sentences."""

    _alone(trained, "probe", texts, output)
    with announce("answering with and without the mark"):
        found = trained.extras["probe"].call(*paths)
    if as_json:
        print(json.dumps(found.plain(), ensure_ascii=False))
        return
    label = found.label
    if found.is_exposed:
        print(f"A shortcut: the mark in a corner decides about {label}.")
    elif found.has_few_images:
        print(f"Too few pictures to tell: {found.class_count} of {label} and {found.other_count} others. Name more.")
    else:
        print("No shortcut found: what a mark in a corner changes is small, or within chance.")
    for words, count, with_mark, without in (
        (f"{label} labelled so", found.class_count, found.class_with_mark, found.class_without_mark),
        (f"others labelled {label}", found.other_count, found.others_with_mark, found.others_without_mark),
    ):
        if with_mark is not None and without is not None:
            print(f"{words}, of {count:,}: {_percent(with_mark)} with the mark, {_percent(without)} without")
    if found.map_share is not None:
        print(f"share of the map for {label} that lies on the mark: {100 * found.map_share:.1f} %")
    print(f"share of the picture that the mark covers: {100 * found.mark_area:.1f} %")


def _anatomy(model: Path | None, texts: list[str], output: Path | None, *, device: str, as_json: bool) -> None:
    """Inside a ViT, as a picture, as JSON, or the distances as a table."""
    from rich.console import Console

    from regard import recipe
    from regard.cli.tables import Fitted
    from regard.interpret import plots
    from regard.interpret.anatomy import lines

    writable(output, ("json", *PICTURES), reads=[*map(Path, texts)])
    trained = recipe.load(model, device=device)
    if "anatomy" not in trained.extras:
        raise ValueError(f"--anatomy is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if not texts:
        raise ValueError("--anatomy needs pictures for attention to look at: name some, or a folder of them")
    found = trained.extras["anatomy"].call(texts)
    whole = json.dumps(found.plain(), ensure_ascii=False)
    if output is not None:
        if output.suffix.lower() == ".json":
            output.write_text(f"{whole}\n", encoding="utf-8")
        else:
            plots.save(plots.anatomy(found, title=f"{trained.name}, pictures: {found.pictures:,}"), output)
        print(f"{output}: inside the model")
    elif as_json:
        print(whole)
    else:
        title = f"Attention distance in pixels, pictures: {found.pictures:,}"
        note = f"A head that looks at all patches alike: {found.even:.1f}. Filters and positions: -o anatomy.png"
        Console(highlight=False).print(Fitted(["block", "heads, the nearest first"], lines(found), title, note))


def _percent(share: tuple[float, float]) -> str:
    return f"{100 * share[0]:.1f} ± {100 * share[1]:.1f} %"


def _alone(trained: Any, option: str, texts: list[str], output: Path | None) -> None:
    """Stop at what measures of pictures are not for."""
    if option not in trained.extras:
        raise ValueError(f"--{option} is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if texts or output is not None:
        raise ValueError(f"--{option} takes labelled pictures alone: leave the picture and -o out")


def _possible(
    texts: list[str],
    input: Path | None,
    level: str | None,
    output: Path | None,
    *,
    alignments: bool,
    measured: bool,
    interventions: bool,
) -> None:
    """Stop before a model is loaded at what no model could do."""
    if level not in (None, "word", "subword"):
        raise ValueError(f"--level {level}: choose word or subword")
    if any(not text.strip() for text in texts):
        raise ValueError("the text is empty: there is nothing to explain in it")
    writable(output, KINDS, reads=(input,))
    page = output is not None and output.suffix.lower() in PAGES
    if input is not None and (texts or not alignments):
        raise ValueError("-i reads many lines, which only --alignments shows: add it, or give one input")
    if measured and (bool(texts) != page or (page and interventions)):
        raise ValueError("--measures takes no text, or a text and -o page.html to put them into")
    if len(texts) != 1 and not measured and not (alignments and (texts or input)) and not any(map(tabular, texts)):
        made = "" if texts else "; of a graph name a --node, for a generator of pictures --seed alone will do"
        raise ValueError(f"give one input to explain, not {len(texts)}{made}")


def _only(lines: Iterator[str]) -> str:
    """The one input that is explained, typed or from standard input."""
    given = list(lines)
    if len(given) != 1 or not given[0].strip():
        raise ValueError(f"give one input to explain, not {len([text for text in given if text.strip()])}")
    return given[0]


def _link(trained: Any, lines: Iterator[str], to: str | None, view: View) -> None:
    """The links of every line; line n answers line n."""
    for text in lines:
        seen = trained.look(text, to=to or guessed(trained, [text])) if text.strip() else None
        print(links(seen, view) if seen is not None else "")


def measure(trained: Any, to: str | None, path: Path | None, *, interventions: bool, as_json: bool) -> None:
    """What the heads do over the sentences that were aligned by hand: in sentences, then the main numbers in tables."""
    from rich.console import Console

    from regard.cli.tables import Fitted
    from regard.interpret.alignment.summary import summary

    if path is not None and path.suffix.lower() != ".json":
        raise ValueError(f"{path}: measures are written as .json, or shown in the terminal without -o")
    reader, golds = _reader(trained, to)
    tables = summary(reader, golds, intervene=interventions)
    whole = json.dumps([asdict(table) for table in tables], ensure_ascii=False, indent=1)
    if as_json:
        print(whole)
        return
    if path is not None:
        path.write_text(f"{whole}\n", encoding="utf-8")
        print(f"{path}: what the heads do")
        return
    console = Console(highlight=False)
    for table in tables:
        console.print(table.finding, markup=False)
    for table in tables:
        if table.main:
            console.print()
            rows = [table.rows[number] for number in table.main]
            console.print(Fitted(table.columns, rows, table.title, table.note))
    console.print("\nEvery head by itself: --json, or -o heads.json.")


def _extra(trained: Any, trace: Trace, view: View, to: str | None, measured: bool, gold: str | None) -> dict[str, Any]:
    """What a page shows beside the weights: numbers of the heads, and links made by hand with their score."""
    from regard.interpret.alignment import measures, summary

    numbers: dict[str, Any] = dict(judged(trace, view, gold))
    if measured:
        reader, golds = _reader(trained, to)
        numbers |= summary.measures_for_page(measures.examples(reader, golds))
    return {"measures": numbers, "gold": gold}


def _reader(trained: Any, to: str | None) -> tuple[Any, list[Gold]]:
    """The model that is told the answers, and the pairs aligned by hand in its direction."""
    from regard.metrics import alignment

    if to not in ("en", "fr"):
        raise ValueError("the alignments are English and French: give --to en or --to fr")
    golds = alignment.read()
    turned = [gold.swap_languages() for gold in golds] if to == "en" else golds
    return trained.extras["alignments"].call(to=to), turned
