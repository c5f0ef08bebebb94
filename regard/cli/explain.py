"""The command that explains: where a model looked, as a matrix, links, arithmetic, a page, a picture, a trace."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import explain_options as option
from regard.cli.answers import is_table_name, read_typed_texts
from regard.cli.classify import check_reads_nodes
from regard.cli.grammar import Device, split_model
from regard.cli.progress import announce
from regard.cli.text_io import PICTURE_FORMATS, check_writable, guess_language
from regard.cli.trace_views import PAGE_ENDINGS, View, check_attention, format_links, link_errors, show, show_generated

if TYPE_CHECKING:
    from rich.console import Console

    from regard.cli.tables import FittedTable
    from regard.interpret.trace import Trace
    from regard.metrics.alignment import Gold

FORMATS = ("html", "png", "json", "csv", "npy", "htm", *PICTURE_FORMATS)
COMPARED_METHODS = (("gradient", "rollout"), ("gradcam", "centre"))  # methods that are compared
CONTROLS_NOTE = (
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
    model, inputs = split_model(words or [])
    inputs = [*inputs, *(node or [])]
    if against is not None and not judge:
        raise ValueError(f"--against {against} is for --judge: name labelled pictures with it, or leave it out")
    if about is not None and (judge or probe or anatomy):
        raise ValueError("--about is for one picture: leave it out with --judge, --probe and --anatomy")
    if judge:
        other_model = None if against is None else recipe.load(against, device=device)
        return _judge_maps(recipe.load(model, device=device), judge, inputs, output, other=other_model, as_json=as_json)
    if probe:
        return _probe_shortcut(recipe.load(model, device=device), probe, inputs, output, as_json=as_json)
    if anatomy:
        return _show_anatomy(model, inputs, output, device=device, as_json=as_json)
    if seed is not None:
        check_writable(output, FORMATS)
        return show_generated(recipe.load(model, device=device), inputs, seed, view, output=output)
    with_measures = measures or interventions
    _check_arguments(
        inputs, input, level, output, alignments=alignments, measured=with_measures, interventions=interventions
    )
    trained = recipe.load(model, device=device)
    input_lines = plain_lines(input) if input is not None else read_typed_texts(trained.inputs, inputs, option=None)
    if node:
        check_reads_nodes(trained)
    if about is not None and "about" not in trained.LookOptions.__dataclass_fields__:
        raise ValueError(f"--about is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if "alignments" not in trained.extras:
        flags = {"--to": to, "--gold": gold, "--alignments": alignments, "--measures": with_measures}
        if other_model := [name for name, value in flags.items() if value]:
            raise ValueError(f"{other_model[0]} is for translators: {trained.name} is {trained.kind}, leave it out")
        look_options = {} if about is None else {"about": about}
        check_attention(trained, attention)
        has_several_files = trained.inputs.join is not None and len(inputs) > 1  # files hold the input
        trace = trained.look(
            trained.inputs.parse(shlex.join(inputs) if has_several_files else _single_input(input_lines)),
            **look_options,
        )
        show(trace, view, output=output, step=step, gold=None, extra={})
    elif alignments:
        _print_links(trained, input_lines, to, view)
    elif not inputs:
        measure_heads(trained, to, output, interventions=interventions, as_json=as_json)
    else:
        text = _single_input(input_lines)
        check_attention(trained, attention)
        to = to or guess_language(trained, [text])  # a model of one direction is not asked for it; the measures are
        trace = trained.look(text, to=to if trained.languages or not with_measures else None)
        writes_page = output is not None and output.suffix.lower() in PAGE_ENDINGS
        extra_facts = _page_extras(trained, trace, view, to, with_measures, gold) if writes_page else {}
        show(trace, view, output=output, step=step, gold=gold, extra=extra_facts)


def _judge_maps(
    trained: Any, paths: list[str], texts: list[str], output: Path | None, *, other: Any, as_json: bool
) -> None:
    """Print how faithful the maps of a picture classifier are, as a table."""
    from rich.console import Console

    from regard.tasks.vision.judgement import PLACED, SINGLE

    _check_picture_measure(trained, "judge", texts, output)
    if other is not None and "boxes" not in other.extras:
        raise ValueError(f"--against is for models that find digits: {other.name} is {other.kind}, leave it out")
    with announce("judging every map and control, which may take some minutes"):
        judgement = trained.extras["judge"].call(*paths, against=other)
    if as_json:
        print(json.dumps(judgement.plain(), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(
        f"{judgement.right:,} of {judgement.pictures:,} pictures are labelled right: maps of these are judged."
    )
    if judgement.grids:
        note = "Chance: pointing and inside 0.250. More is better."
        console.print("", _checks_table(judgement, PLACED, f"{judgement.grids} grids of four pictures", note))
        for method, rival in COMPARED_METHODS:
            _print_comparison(console, judgement, method, rival, "pointing")
    note = "Less deletion is better, more of the others."
    console.print("", _checks_table(judgement, SINGLE, f"single pictures: {judgement.singles}", note))
    if judgement.boxes:
        _print_box_checks(console, judgement, box_model=other)
    console.print(f"\n{CONTROLS_NOTE}")


def _checks_table(judgement: Any, checks: tuple[str, ...], title: str, note: str) -> FittedTable:
    """Return a table of every method and control by some of the checks."""
    from regard.cli.tables import FittedTable

    return FittedTable(["method", *checks], judgement.rows(checks), title, note)


def _print_box_checks(console: Console, judgement: Any, *, box_model: Any) -> None:
    """Print the checks of pictures with boxes, beside those of a model that was trained on boxes."""
    from regard.cli.tables import FittedTable

    columns = ["method", "pointing", "inside", "overlap"]
    note = (
        f"Boxes cover {judgement.covered:.3f} of a picture. A map's box is drawn at the level best for other pictures."
    )
    if box_model is not None:
        note += f" {box_model.name} was trained on boxes, the maps were not."
    console.print("", FittedTable(columns, judgement.boxed_rows(), f"pictures with boxes: {judgement.boxes}", note))
    for method, rival in COMPARED_METHODS:
        _print_comparison(console, judgement, method, rival, "overlap", boxed=True)


def _print_comparison(
    console: Console, judgement: Any, method: str, rival: str, check: str, *, boxed: bool = False
) -> None:
    """Print which of two methods scores higher, and how probable so large a difference is by chance."""
    chance = judgement.beyond_chance(method, rival, check, boxed=boxed)
    if chance is not None:
        checks = judgement.boxed if boxed else judgement.checks
        difference = checks[method][check].score - checks[rival][check].score
        comparison = "above" if difference > 0 else "below" if difference < 0 else "level with"
        console.print(f"{method} {comparison} {rival}, {check}: p = {chance:.4f}")


def _probe_shortcut(trained: Any, paths: list[str], texts: list[str], output: Path | None, *, as_json: bool) -> None:
    """Print whether a picture classifier relies on a mark instead of the object."""

    _check_picture_measure(trained, "probe", texts, output)
    with announce("answering with and without the mark"):
        result = trained.extras["probe"].call(*paths)
    if as_json:
        print(json.dumps(result.plain(), ensure_ascii=False))
        return
    label = result.label
    if result.exposed:
        print(f"A shortcut: the mark in a corner decides about {label}.")
    elif result.few:
        print(f"Too few pictures to tell: {result.own} of {label} and {result.others} others. Name more.")
    else:
        print("No shortcut found: what a mark in a corner changes is small, or within chance.")
    for words, count, with_mark, without in (
        (f"{label} labelled so", result.own, result.found, result.bare),
        (f"others labelled {label}", result.others, result.drawn, result.before),
    ):
        if with_mark is not None and without is not None:
            print(
                f"{words}, of {count:,}: {_format_percent(with_mark)} with the mark, {_format_percent(without)} without"
            )
    if result.lit is not None:
        print(f"share of the map for {label} that lies on the mark: {100 * result.lit:.1f} %")
    print(f"share of the picture that the mark covers: {100 * result.area:.1f} %")


def _show_anatomy(model: Path | None, texts: list[str], output: Path | None, *, device: str, as_json: bool) -> None:
    """Show the inside of a ViT as a picture, as JSON, or as a table of attention distances."""
    from rich.console import Console

    from regard import recipe
    from regard.cli.tables import FittedTable
    from regard.interpret import plots
    from regard.interpret.anatomy import lines

    check_writable(output, ("json", *PICTURE_FORMATS), inputs=[*map(Path, texts)])
    trained = recipe.load(model, device=device)
    if "anatomy" not in trained.extras:
        raise ValueError(f"--anatomy is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if not texts:
        raise ValueError("--anatomy needs pictures for attention to look at: name some, or a folder of them")
    anatomy = trained.extras["anatomy"].call(texts)
    json_text = json.dumps(anatomy.plain(), ensure_ascii=False)
    if output is not None:
        if output.suffix.lower() == ".json":
            output.write_text(f"{json_text}\n", encoding="utf-8")
        else:
            plots.save(plots.anatomy(anatomy, title=f"{trained.name}, pictures: {anatomy.pictures:,}"), output)
        print(f"{output}: inside the model")
    elif as_json:
        print(json_text)
    else:
        title = f"Attention distance in pixels, pictures: {anatomy.pictures:,}"
        note = f"A head that looks at all patches alike: {anatomy.even:.1f}. Filters and positions: -o anatomy.png"
        Console(highlight=False).print(FittedTable(["block", "heads, the nearest first"], lines(anatomy), title, note))


def _format_percent(share: tuple[float, float]) -> str:
    return f"{100 * share[0]:.1f} ± {100 * share[1]:.1f} %"


def _check_picture_measure(trained: Any, option: str, texts: list[str], output: Path | None) -> None:
    """Refuse models and arguments that a measure of pictures does not take."""
    if option not in trained.extras:
        raise ValueError(f"--{option} is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
    if texts or output is not None:
        raise ValueError(f"--{option} takes labelled pictures alone: leave the picture and -o out")


def _check_arguments(
    texts: list[str],
    input: Path | None,
    level: str | None,
    output: Path | None,
    *,
    alignments: bool,
    measured: bool,
    interventions: bool,
) -> None:
    """Refuse, before a model is loaded, what no model could do."""
    if level not in (None, "word", "subword"):
        raise ValueError(f"--level {level}: choose word or subword")
    if any(not text.strip() for text in texts):
        raise ValueError("the text is empty: there is nothing to explain in it")
    check_writable(output, FORMATS, inputs=(input,))
    page = output is not None and output.suffix.lower() in PAGE_ENDINGS
    if input is not None and (texts or not alignments):
        raise ValueError("-i reads many lines, which only --alignments shows: add it, or give one input")
    if measured and (bool(texts) != page or (page and interventions)):
        raise ValueError("--measures takes no text, or a text and -o page.html to put them into")
    if (
        len(texts) != 1
        and not measured
        and not (alignments and (texts or input))
        and not any(map(is_table_name, texts))
    ):
        remedy = "" if texts else "; of a graph name a --node, for a generator of pictures --seed alone will do"
        raise ValueError(f"give one input to explain, not {len(texts)}{remedy}")


def _single_input(lines: Iterator[str]) -> str:
    """Return the one input to explain, typed or from standard input."""
    texts = list(lines)
    if len(texts) != 1 or not texts[0].strip():
        raise ValueError(f"give one input to explain, not {len([text for text in texts if text.strip()])}")
    return texts[0]


def _print_links(trained: Any, lines: Iterator[str], to: str | None, view: View) -> None:
    """Print the links of every line; line n answers line n."""
    for text in lines:
        trace = trained.look(text, to=to or guess_language(trained, [text])) if text.strip() else None
        print(format_links(trace, view) if trace is not None else "")


def measure_heads(trained: Any, to: str | None, path: Path | None, *, interventions: bool, as_json: bool) -> None:
    """Print what the heads do over the sentences aligned by hand: in sentences, then in tables."""
    from rich.console import Console

    from regard.cli.tables import FittedTable
    from regard.interpret.alignment.summary import summary

    if path is not None and path.suffix.lower() != ".json":
        raise ValueError(f"{path}: measures are written as .json, or shown in the terminal without -o")
    reader, golds = _load_reader_and_golds(trained, to)
    tables = summary(reader, golds, intervene=interventions)
    json_text = json.dumps([asdict(table) for table in tables], ensure_ascii=False, indent=1)
    if as_json:
        print(json_text)
        return
    if path is not None:
        path.write_text(f"{json_text}\n", encoding="utf-8")
        print(f"{path}: what the heads do")
        return
    console = Console(highlight=False)
    for table in tables:
        console.print(table.finding, markup=False)
    for table in tables:
        if table.main:
            console.print()
            rows = [table.rows[number] for number in table.main]
            console.print(FittedTable(table.columns, rows, table.title, table.note))
    console.print("\nEvery head by itself: --json, or -o heads.json.")


def _page_extras(
    trained: Any, trace: Trace, view: View, to: str | None, with_measures: bool, gold: str | None
) -> dict[str, Any]:
    """Return what a page shows beside the weights: numbers of the heads, and links made by hand with their score."""
    from regard.interpret.alignment import measures, summary

    numbers: dict[str, Any] = dict(link_errors(trace, view, gold))
    if with_measures:
        reader, golds = _load_reader_and_golds(trained, to)
        numbers |= summary.measures_for_page(measures.examples(reader, golds))
    return {"measures": numbers, "gold": gold}


def _load_reader_and_golds(trained: Any, to: str | None) -> tuple[Any, list[Gold]]:
    """Return the model in forced decoding, and the pairs aligned by hand in its direction."""
    from regard.metrics import alignment

    if to not in ("en", "fr"):
        raise ValueError("the alignments are English and French: give --to en or --to fr")
    golds = alignment.read()
    directed_golds = [gold.swap_languages() for gold in golds] if to == "en" else golds
    return trained.extras["alignments"].call(to=to), directed_golds
