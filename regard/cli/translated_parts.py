"""Translations of a long file by a cluster: the lines of each part as `regard translate` writes them by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from regard.cli.answers import AnswerForm, AnswerRequest
from regard.cli.cluster_answers import run_parts
from regard.cli.text_io import guess_language, print_note, read_lines
from regard.cli.translated_documents import BLOCK_SIZE
from regard.cli.translated_lines import AnswerCounts, answer_form, read_lines_or_column, translate_block
from regard.cluster.parts import Part, PartWork

UNKNOWN = "unknown "  # before the code of a language that the model does not know


def translate_in_parts(
    load: Callable[..., Any],
    request: AnswerRequest,
    to: str | None,
    decoding_options: dict[str, Any],
    *,
    is_plain: bool,
) -> None:
    """Have a file of lines, or a column of a table, translated by a cluster; workers `load` the model."""
    if not is_plain:
        raise ValueError("--ray translates lines: leave it out for documents, --html, --terms and --alternatives")
    translator = load(device="cpu")
    translator.settings(**decoding_options)
    to = None if to is None else translator.language([], to)
    texts = read_texts(request, to, translator, report=print_note)
    target = to or guess_language(translator, list(islice(texts, BLOCK_SIZE)))
    form = answer_form(translator, request, decoding_options)
    work = PartWork(
        load=partial(load, device=request.device),
        read=partial(read_texts, request, to),
        answer=partial(translate_texts, form, request.format == "jsonl", target, decoding_options),
        size=BLOCK_SIZE,
    )
    notes = run_parts(translator, request, work, form.identify(request, {"to": target, **decoding_options}))
    for note in read_counts(notes.counts).notes(translator, target):
        print_note(note)


def read_texts(
    request: AnswerRequest, to: str | None, translator: Any, *, report: Callable[[str], None] = lambda message: None
) -> Iterator[str]:
    """Read the lines of the file, or the column of a table in the other language."""
    assert request.file is not None
    return read_lines_or_column(translator, request, read_lines(request.file), to, report=report)


def translate_texts(
    form: AnswerForm,
    as_json: bool,
    to: str | None,
    decoding_options: dict[str, Any],
    translator: Any,
    first: int,
    texts: list[str],
) -> Part:
    """Translate the lines of a part."""
    answers, counts = translate_block(translator, texts, first, to, decoding_options)
    lines = [form.line(text, answer, as_json=as_json) for text, answer in zip(texts, answers, strict=True)]
    return Part(lines, write_counts(counts))


def write_counts(counts: AnswerCounts) -> Counter[str]:
    """Return counts by their names."""
    named = {"copied": counts.copied, "kept": counts.kept, "unfinished": counts.unfinished}
    languages = {f"{UNKNOWN}{code}": number for code, number in counts.unknown_languages.items()}
    return +Counter({**named, **languages})


def read_counts(counts: Counter[str]) -> AnswerCounts:
    """Return counts that were written by their names."""
    languages = Counter(
        {name.removeprefix(UNKNOWN): number for name, number in counts.items() if name.startswith(UNKNOWN)}
    )
    return AnswerCounts(counts["copied"], counts["kept"], counts["unfinished"], languages)
