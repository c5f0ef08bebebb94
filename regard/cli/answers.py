"""Inputs in, answers out, with whatever model: typed, from standard input or a file; line n answers line n."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.grammar import options
from regard.cli.lines import PICTURES, arguments, blocks, count_formulas, note, tell_formulas, writable
from regard.cli.resumable import Draft, drafted, identity
from regard.data.table_records import split_line

if TYPE_CHECKING:
    from regard.tasks.inputs import Inputs

BLOCK = 1024  # inputs answered at a time
JSON = ("jsonl", "json")


@dataclass(frozen=True)
class Asked:
    """What a command line asks of a model, and where the answers go."""

    texts: list[str] | None
    file: Path | None
    output: Path | None
    settings: list[str] | None
    as_json: bool
    model: Path | None = None
    column: str | None = None
    """The column of a table to read, where somebody named it."""

    def check(self, *, reads: Sequence[Path] = (), text: bool = False, opened: tuple[str, ...] = ()) -> None:
        """Stop before a model is loaded at what cannot be answered or written; where `text` is read, at files too.

        Files whose names end in one of those `opened` are what some models read.
        """
        if self.texts and self.file is not None:
            raise ValueError("give either inputs, or - for standard input, or -i FILE")
        if self.column is not None and self.file is None:
            raise ValueError(f"--column {self.column} is for a table: name one with -i FILE")
        if text:
            arguments([text for text in self.texts or [] if not text.lower().endswith(opened)], option="-i")
        writable(self.output, reads=(self.file, *reads))
        if self.as_json and self.output is not None and self.output.suffix.lower() == ".csv":
            raise ValueError(f"--json and {self.output} ask for two forms: leave one of them out")

    @property
    def kind(self) -> str:
        """The form of the answers: that of the file's name, JSON where asked for, or plain lines."""
        kind = "" if self.output is None else self.output.suffix.lstrip(".").lower()
        return "jsonl" if self.as_json or kind in JSON else kind

    @property
    def options(self) -> dict[str, Any]:
        """What `-s` sets."""
        return options(self.settings)


def respond(
    trained: Any,
    asked: Asked,
    *,
    key: str | None = "input",
    form: Callable[[str, Any], str] = lambda text, answer: str(answer).replace("\n", " "),
    blank: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Answer every input with a line; JSON has the input under `key`, and `blank` for an input that is empty.

    Of several files those that cannot be read are told, their lines stay blank, and the command fails at its end.
    """
    if asked.kind in PICTURES:
        remedy = "use regard generate for pictures" if trained.verb in ("make", "draw") else "choose jsonl, csv or txt"
        raise ValueError(f"{asked.output}: answers are written as text: {remedy}")
    given, unread = asked.options | more, 0
    with writing(asked, key, form, blank, given) as (write, draft):
        for texts, inputs in given_inputs(trained, asked, draft.done):
            answers = _answers(trained, [one for one in inputs if one is not None], given)
            found, unread = iter(answers), unread + answers.count(None)
            for text, one in zip(texts, inputs, strict=True):
                write(text, None if one is None else next(found))
            draft.keep(len(texts))
    if unread:
        raise typer.Exit(1)


def _answers(trained: Any, inputs: list[Any], given: Mapping[str, Any], *, whole: bool = True) -> list[Any]:
    """An answer for each input; of several, None for one that cannot be read, which is told."""
    from regard.tasks.trained import Unreadable

    try:
        return list(trained.answer(inputs, **given))
    except Unreadable as error:
        if len(inputs) == 1:
            if whole:
                raise
            print(f"regard: {error}", file=sys.stderr)
            return [None]
    half = len(inputs) // 2
    return [one for some in (inputs[:half], inputs[half:]) for one in _answers(trained, some, given, whole=False)]


def _several(text: str) -> bool:
    """Whether one text names all files of an input by itself, instead of being one of them."""
    return len(text.split()) > 1 and not Path(text).exists()


def tabular(name: str) -> bool:
    """Whether it names a table, of which several may hold one input."""
    return name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def given_inputs(
    trained: Any, asked: Asked, done: int = 0, *, size: int | None = None
) -> Iterator[tuple[list[str], list[Any]]]:
    """Blocks of inputs that are not answered yet beside how they were written; None for a blank line.

    What is read of a table is said once the first of them are answered: a refusal is a line of its own.
    """
    known: Inputs = trained.inputs
    if asked.file is not None and known.read is not None:  # a table is more than its lines
        if asked.column is not None:
            raise ValueError(f"--column {asked.column}: {trained.name} is {trained.kind}, leave it out")
        rows = known.read(asked.file)[done:]
        yield [asked.file.name] * len(rows), list(rows)
        return
    if asked.file is not None and known.join is not None and tabular(asked.file.name):
        raise ValueError(f"{asked.file} is a table, and several hold a sample: name them without -i")
    if asked.texts and known.join is not None and not any(map(_several, asked.texts)):
        rows = known.join(asked.texts)[done:]
        yield [row.names[0] for row in rows], list(rows)
        return
    if asked.texts and any(not text.strip() for text in asked.texts):
        raise ValueError("one of the texts is empty: there is nothing to answer in it")
    notes: list[str] = []
    reads = (
        file_texts(trained, asked, tell=notes.append) if asked.file is not None else typed(known, asked.texts or ["-"])
    )
    first = next(reads, None)
    if first is None:
        raise ValueError(f"{asked.file or 'standard input'} is empty: give {known.option}, or lines to read")
    size = 1 << 62 if known.together else size or BLOCK
    for block in blocks(islice(chain([first], reads), done, None), size):
        yield block, [known.parse(text) if text.strip() else None for text in block]
        for said in notes:
            note(said)
        notes.clear()


def file_texts(
    trained: Any, asked: Asked, *, usual: Sequence[str] = (), tell: Callable[[str], None] = note
) -> Iterator[str]:
    """Return the texts of the file that was named: its lines, or a column of a table, by a `usual` name or another."""
    from regard.cli.text_column import read_texts

    assert asked.file is not None
    return read_texts(asked.file, inputs=trained.inputs, column=asked.column, usual=usual, tell=tell)


def typed(inputs: Inputs, texts: list[str], *, option: str | None = "-i") -> Iterator[str]:
    """The words of a command; the name of a file is no text, unless files are what the model reads."""
    if not inputs.kind.is_path or "-" in texts:
        return arguments(texts, option=option)
    if inputs.expand is None:
        return iter(texts)
    return (name for text in texts for name in inputs.expand(text))


@contextmanager
def writing(
    asked: Asked,
    key: str | None,
    form: Callable[[str, Any], str],
    blank: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Callable[[str, Any], None], Draft]]:
    """Write an answer as a line of text, as a JSON object or as a row of a table, kept as it comes."""

    def plain(text: str, answer: Any) -> dict[str, Any]:
        told = dict(blank or {}) if answer is None else answer.plain()
        return told if key is None else {key: text, **told}

    same = [identity(asked.model), dict(given or {}), asked.kind, getattr(form, "__name__", ""), asked.column]
    with drafted(asked.output, source=asked.file, asked=same) as draft:
        write = draft.write
        if asked.kind == "jsonl":
            yield lambda text, answer: write(_json(plain(text, answer))), draft
        elif asked.kind == "csv":
            head = split_line(draft.head)
            late: list[dict[str, Any]] = []
            formulas = 0

            def row(text: str, answer: Any) -> None:
                nonlocal formulas
                late.append(plain(text, answer))
                if answer is None and not head:
                    return  # the columns are those of the first answer
                if not head:
                    head.extend(late[-1])
                    write(_row(head))
                for one in late:
                    cells = [_cell(one.get(name, "")) for name in head]
                    formulas += count_formulas(cells)
                    write(_row(cells))
                late.clear()

            yield row, draft
            assert asked.output is not None
            tell_formulas(formulas, asked.output)
        else:
            yield lambda text, answer: write("" if answer is None else form(text, answer)), draft


def _json(answer: Mapping[str, Any]) -> str:
    """An answer as a line of JSON, which has no word for a number that is not finite."""
    try:
        return json.dumps(answer, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise ValueError("an answer holds a number that is not finite: correct the input, or train again") from None


def _row(cells: Sequence[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)  # a cell of several lines is quoted
    return buffer.getvalue().removesuffix("\n")


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list, tuple)) else value
