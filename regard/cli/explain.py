"""The command that explains: where a model looked, as a matrix, links, arithmetic, a page, a picture, a trace."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli import explain_options as option
from regard.cli.anatomy import show_anatomy
from regard.cli.answers import is_table_name, read_typed_texts
from regard.cli.classify import check_reads_nodes
from regard.cli.grammar import Device, split_model
from regard.cli.head_measures import measure_heads, measure_pronouns, page_extras
from regard.cli.search_tree import check_tree_request, show_tree
from regard.cli.second_look import show_second_look
from regard.cli.text_io import PICTURE_FORMATS, check_writable, guess_language
from regard.cli.trace_views import PAGE_ENDINGS, View, check_attention, format_links, show, show_generated

FORMATS = ("html", "png", "json", "csv", "npy", "htm", *PICTURE_FORMATS)


def explain(
    words: option.Words = None,
    input: option.Input = None,
    output: option.Output = None,
    attention: option.Attention = None,
    head: option.Head = None,
    level: option.Level = None,
    specials: option.Specials = False,
    numbers: option.Numbers = False,
    tree: option.Tree = False,
    beams: option.Beams = None,
    step: option.Step = None,
    about: option.About = None,
    look_again: option.LookAgain = False,
    anatomy: option.Anatomy = False,
    node: option.Node = None,
    seed: option.Seed = None,
    pronouns: option.Pronouns = False,
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

    view = View(attention, head, level, specials, numbers, as_json, step)
    model, inputs = split_model(words or [])
    request = ExplainRequest([*inputs, *(node or [])], input, output, about or [], bool(node))
    translation = TranslationRequest(to, gold, alignments, measures or interventions, interventions)
    check_tree_request(view, output, [*translation.flags, *(["--about"] if about else [])], beams, tree=tree)
    if about and anatomy:
        raise ValueError("--about is for one picture: leave it out with --anatomy")
    if anatomy:
        show_anatomy(model, request.inputs, output, device=device, as_json=as_json)
    elif look_again:
        _look_again(recipe.load(model, device=device), request, attention, as_json=as_json)
    elif pronouns:
        _check_alone(request, translation)
        measure_pronouns(recipe.load(model, device=device), to, output, as_json=as_json)
    elif seed is not None:
        check_writable(output, FORMATS)
        show_generated(recipe.load(model, device=device), request.inputs, seed, view, output=output)
    elif tree:
        _check_requests(request, translation, level)
        _show_tree(recipe.load(model, device=device), request, to, beams, as_json=as_json)
    else:
        _check_requests(request, translation, level)
        trained = recipe.load(model, device=device)
        explain_model = _explain_translator if "alignments" in trained.extras else _explain_other
        explain_model(trained, request, translation, view)


@dataclass(frozen=True)
class ExplainRequest:
    """The input to explain, and where the explanation goes."""

    inputs: list[str]
    file: Path | None
    output: Path | None
    about: list[str]
    """The labels whose evidence is shown."""
    has_node: bool
    """Whether a node of a graph was named."""

    @property
    def is_page(self) -> bool:
        """Return True if a page was asked for."""
        return self.output is not None and self.output.suffix.lower() in PAGE_ENDINGS

    def read(self, trained: Any) -> Iterator[str]:
        """Return the inputs as a model reads them, refusing options that it has no use for."""
        from regard.cli.text_column import plain_lines

        lines = plain_lines(self.file) if self.file else read_typed_texts(trained.inputs, self.inputs, option=None)
        if self.has_node:
            check_reads_nodes(trained)
        if self.about and "about" not in trained.LookOptions.__dataclass_fields__:
            raise ValueError(f"--about is for classifiers of pictures: {trained.name} is {trained.kind}, leave it out")
        return lines


@dataclass(frozen=True)
class TranslationRequest:
    """What is asked of translators alone."""

    to: str | None
    gold: str | None
    alignments: bool
    measures: bool
    interventions: bool

    @property
    def flags(self) -> list[str]:
        """Return the flags that were given."""
        values = {"to": self.to, "gold": self.gold, "alignments": self.alignments, "measures": self.measures}
        return [f"--{name}" for name, value in values.items() if value]


def _check_requests(request: ExplainRequest, translation: TranslationRequest, level: str | None) -> None:
    """Refuse, before a model is loaded, what no model could do."""
    inputs, file, measures = request.inputs, request.file, translation.measures
    if level not in (None, "word", "subword"):
        raise ValueError(f"--level {level}: choose word or subword")
    if any(not text.strip() for text in inputs):
        raise ValueError("the text is empty: there is nothing to explain in it")
    check_writable(request.output, FORMATS, inputs=(file,))
    if file is not None and (inputs or not translation.alignments):
        raise ValueError("-i reads many lines, which only --alignments shows: add it, or give one input")
    if measures and bool(inputs) != request.is_page:
        raise ValueError("--measures takes no text, or a text and -o page.html to put them into")
    has_several = measures or (translation.alignments and (inputs or file)) or any(map(is_table_name, inputs))
    has_several = has_several or (request.is_page and len(inputs) == 2 and not request.has_node)  # may be two pictures
    if len(inputs) != 1 and not has_several:
        remedy = "" if inputs else "; of a graph name a --node, for a generator of pictures --seed alone will do"
        raise ValueError(f"give one input to explain, not {len(inputs)}{remedy}")


def _look_again(trained: Any, request: ExplainRequest, attention: str | None, *, as_json: bool) -> None:
    """Answer again to the brightest part of a picture, for the one label that may be asked about."""
    if len(request.about) > 1:
        raise ValueError("--look-again looks once more, for one label: give --about once")
    options = {"about": request.about[0]} if request.about else {}
    options |= {"method": attention} if attention else {}
    show_second_look(trained, request.inputs, request.output, as_json=as_json, **options)


def _check_alone(request: ExplainRequest, translation: TranslationRequest) -> None:
    """Refuse inputs and other measures beside --pronouns, which has its own sentences."""
    flags = [flag for flag in translation.flags if flag != "--to"]
    if request.inputs or request.file or flags:
        others = flags[0] if flags else "an input"
        raise ValueError(f"--pronouns reads sentences of its own: leave {others} out")
    check_writable(request.output, FORMATS)


def _explain_translator(trained: Any, request: ExplainRequest, translation: TranslationRequest, view: View) -> None:
    """Show the links of lines, the measures of all heads, or where the model looked as it translated a text."""
    lines, to = request.read(trained), translation.to
    if translation.alignments:
        return _print_links(trained, lines, to, view)
    if not request.inputs:
        interventions = translation.interventions
        return measure_heads(trained, to, request.output, interventions=interventions, as_json=view.as_json)
    text = _single_input(lines)
    check_attention(trained, view.attention)
    to = to or guess_language(trained, [text])  # a model of one direction is not asked for it; the measures are
    trace = trained.look(text, to=to if trained.languages or not translation.measures else None)
    gold = translation.gold
    extra = {}
    if request.is_page:
        ways = {"measures": translation.measures, "interventions": translation.interventions}
        extra = page_extras(trained, trace, view, to=to, gold=gold, **ways)
    show(trace, view, output=request.output, gold=gold, extra=extra)


def _explain_other(trained: Any, request: ExplainRequest, translation: TranslationRequest, view: View) -> None:
    """Show where a model that is no translator looked as it answered one input, or two pictures on one page."""
    from regard.tasks.inputs import PICTURE

    lines = request.read(trained)
    if flags := translation.flags:
        raise ValueError(f"{flags[0]} is for translators: {trained.name} is {trained.kind}, leave it out")
    check_attention(trained, view.attention)
    has_several_files = trained.inputs.join is not None and len(request.inputs) > 1  # files hold the input
    options = {"about": request.about} if request.about else {}
    if trained.inputs.kind is PICTURE and request.is_page and len(request.inputs) == 2:
        trace, other = (trained.look(trained.inputs.parse(name), **options) for name in request.inputs)
        return show(trace, view, output=request.output, extra={"beside": other})
    text = shlex.join(request.inputs) if has_several_files else _single_input(lines)
    show(trained.look(trained.inputs.parse(text), **options), view, output=request.output)


def _show_tree(trained: Any, request: ExplainRequest, to: str | None, beams: int | None, *, as_json: bool) -> None:
    """Show how the answer to one input was searched for."""
    text = _single_input(request.read(trained))
    translates = "alignments" in trained.extras
    if to and not translates:
        raise ValueError(f"--to is for translators: {trained.name} is {trained.kind}, leave it out")
    options: dict[str, Any] = {"to": to or guess_language(trained, [text])} if translates and trained.languages else {}
    options |= {} if beams is None else {"beams": beams}
    show_tree(trained, trained.inputs.parse(text), request.output, as_json=as_json, **options)


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
