"""Inputs in, answers out, with whatever model: typed, from standard input or a file; line n answers line n."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.grammar import parse_settings
from regard.cli.part_folders import check_folder
from regard.cli.resumable_output import Draft, identify_model, open_draft
from regard.cli.text_io import (
    PICTURE_FORMATS,
    check_writable,
    count_formulas,
    escape_name,
    expand_arguments,
    print_note,
    split_blocks,
    warn_about_formulas,
)
from regard.data.table_records import split_line

if TYPE_CHECKING:
    from regard.tasks.inputs import Inputs

BLOCK_SIZE = 1024  # inputs answered at a time
JSON_FORMATS = ("jsonl", "json")


@dataclass(frozen=True)
class AnswerRequest:
    """The inputs that a command line gives to a model, and where the answers go."""

    texts: list[str] | None
    file: Path | None
    output: Path | None
    settings: list[str] | None
    as_json: bool
    model: Path | None = None
    column: str | None = None
    """The column of a table to read, where somebody named it."""
    companions: tuple[Path, ...] = ()
    """Further models, which decode together with the first."""
    ray: str | None = None
    """The address of a cluster that answers, in a folder of parts; None for this process."""
    device: str = "auto"

    def check(self, *, inputs: Sequence[Path] = (), text: bool = False, file_endings: tuple[str, ...] = ()) -> None:
        """Refuse, before a model is loaded, what cannot be read or written; where `text` is read, names of files too.

        Files whose names end in one of `file_endings` are inputs of some models.
        """
        if self.texts and self.file is not None:
            raise ValueError("give either inputs, or - for standard input, or -i FILE")
        if self.column is not None and self.file is None:
            raise ValueError(f"--column {self.column} is for a table: name one with -i FILE")
        if text:
            expand_arguments(
                [text for text in self.texts or [] if not text.lower().endswith(file_endings)], option="-i"
            )
        if self.ray is not None:
            check_folder(self.ray, self.file, self.output, self.format)
            return
        check_writable(self.output, inputs=(self.file, *inputs))
        if self.as_json and self.output is not None and self.output.suffix.lower() == ".csv":
            raise ValueError(f"--json and {self.output} ask for two forms: leave one of them out")

    @property
    def format(self) -> str:
        """Return the format of the answers: that of the output's name, JSON if asked for, or plain lines."""
        kind = "" if self.output is None else self.output.suffix.lstrip(".").lower()
        return "jsonl" if self.as_json or kind in JSON_FORMATS else kind

    @property
    def checking_device(self) -> str:
        """Return the device of the model in this process, which only checks the request where a cluster answers it."""
        return self.device if self.ray is None else "cpu"

    @property
    def options(self) -> dict[str, Any]:
        """Return the settings of `-s` as keyword arguments."""
        return parse_settings(self.settings)


def join_lines(text: str, answer: Any) -> str:
    """Return an answer as one line."""
    return str(answer).replace("\n", " ")


def write_answers(
    trained: Any,
    request: AnswerRequest,
    *,
    key: str | None = "input",
    format_answer: Callable[[str, Any], str] = join_lines,
    blank_answer: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Answer every input and write each answer as a line; JSON has the input under `key`, an empty one `blank_answer`.
    Of several files, those that cannot be read are reported, their lines stay blank, and the command fails at its end.
    """
    if request.format in PICTURE_FORMATS:
        remedy = "use regard draw for pictures" if trained.verb in ("make", "draw") else "choose jsonl, csv or txt"
        raise ValueError(f"{request.output}: answers are written as text: {remedy}")
    answer_options = request.options | more
    unread_count = 0
    form = AnswerForm(key, format_answer, blank_answer)
    with open_answer_writer(request, form, answer_options) as (write, draft):
        for typed_texts, parsed in iterate_input_blocks(trained, request, draft.answered_count):
            answers, unreadable = answer_block(trained, parsed, answer_options)
            for message in unreadable:
                print_note(message)
            unread_count += len(unreadable)
            for text, answer in zip(typed_texts, answers, strict=True):
                write(text, answer)
            draft.commit(len(typed_texts))
    if unread_count:
        raise typer.Exit(1)


def answer_block(trained: Any, parsed: Sequence[Any], options: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Return an answer for each input, None for a blank one and one that cannot be read, and what to say of those."""
    unreadable: list[str] = []
    answers = iter(_answer_readable(trained, [item for item in parsed if item is not None], options, unreadable))
    return [None if item is None else next(answers) for item in parsed], unreadable


def _answer_readable(
    trained: Any, inputs: list[Any], options: Mapping[str, Any], unreadable: list[str], *, first_attempt: bool = True
) -> list[Any]:
    """Return an answer for each input; of several, None for one that cannot be read, which is added to those."""
    from regard.tasks.trained import Unreadable

    try:
        return list(trained.answer(inputs, **options))
    except Unreadable as error:
        if len(inputs) == 1:
            if first_attempt:
                raise
            unreadable.append(str(error))
            return [None]
    half = len(inputs) // 2
    return [
        item
        for some in (inputs[:half], inputs[half:])
        for item in _answer_readable(trained, some, options, unreadable, first_attempt=False)
    ]


def _names_several_files(text: str) -> bool:
    """Return True if one text names all files of an input instead of being one of them."""
    return len(text.split()) > 1 and not Path(text).exists()


def is_table_name(name: str) -> bool:
    """Return True for the name of a table, of which several may hold one input."""
    return name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def iterate_input_blocks(
    trained: Any, request: AnswerRequest, answered_count: int = 0, *, block_size: int | None = None
) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield blocks of inputs that are not answered yet beside their texts; None for a blank line.

    Notes about how a table is read are printed once its first lines are read: a refusal is a line of its own.
    """
    spec: Inputs = trained.inputs
    if (rows := read_joined_inputs(trained, request)) is not None:
        unanswered = rows[answered_count:]
        yield [name for name, _ in unanswered], [row for _, row in unanswered]
        return
    if request.texts and any(not text.strip() for text in request.texts):
        raise ValueError("one of the texts is empty: there is nothing to answer in it")
    messages: list[str] = []
    texts = (
        read_file_texts(trained, request, report=messages.append)
        if request.file is not None
        else read_typed_texts(spec, request.texts or ["-"])
    )
    first = next(texts, None)
    if first is None:
        raise ValueError(f"{request.file or 'standard input'} is empty: give {spec.option}, or lines to read")
    block_size = 1 << 62 if spec.together else block_size or BLOCK_SIZE
    for block in split_blocks(islice(chain([first], texts), answered_count, None), block_size):
        yield block, [spec.parse(text) if text.strip() else None for text in block]
        for message in messages:
            print_note(message)
        messages.clear()


def read_joined_inputs(trained: Any, request: AnswerRequest) -> list[tuple[str, Any]] | None:
    """Return the inputs of a model that reads whole tables or samples of several files, by name; None for any other."""
    spec: Inputs = trained.inputs
    if request.file is not None and spec.read is not None:  # a table is more than its lines
        if request.column is not None:
            raise ValueError(f"--column {request.column}: {trained.name} is {trained.kind}, leave it out")
        return [(request.file.name, row) for row in spec.read(request.file)]
    if request.file is not None and spec.join is not None and is_table_name(request.file.name):
        raise ValueError(f"{request.file} is a table, and several hold a sample: name them without -i")
    if request.texts and spec.join is not None and not any(map(_names_several_files, request.texts)):
        return [(row.names[0], row) for row in spec.join(request.texts)]
    return None


def read_file_texts(
    trained: Any, request: AnswerRequest, *, usual_names: Sequence[str] = (), report: Callable[[str], None] = print_note
) -> Iterator[str]:
    """Return the texts of the input file: its lines, or a column of a table, by one of `usual_names` or another."""
    from regard.cli.text_column import read_texts

    assert request.file is not None
    return read_texts(
        request.file, inputs=trained.inputs, column=request.column, usual_names=usual_names, report=report
    )


def read_typed_texts(inputs: Inputs, texts: list[str], *, option: str | None = "-i") -> Iterator[str]:
    """Return the texts of the command line; the name of a file is no text, unless the model reads files."""
    if not inputs.kind.is_path or "-" in texts:
        return expand_arguments(texts, option=option)
    if inputs.expand is None:
        return iter(texts)
    return (name for text in texts for name in inputs.expand(text))


@dataclass(frozen=True)
class AnswerForm:
    """How answers are written: as lines of text, or as JSON objects that have the input under `key`."""

    key: str | None = "input"
    format_answer: Callable[[str, Any], str] = join_lines
    blank_answer: Mapping[str, Any] | None = None
    """The JSON of an input without an answer."""

    def record(self, text: str, answer: Any) -> dict[str, Any]:
        """Return an answer as an object."""
        record = dict(self.blank_answer or {}) if answer is None else answer.plain()
        return record if self.key is None else {self.key: text, **record}

    def line(self, text: str, answer: Any, *, as_json: bool) -> str:
        """Return an answer as a line."""
        if as_json:
            return _to_json_line(self.record(text, answer))
        return "" if answer is None else self.format_answer(text, answer)

    def identify(self, request: AnswerRequest, options: Mapping[str, Any] | None) -> list[Any]:
        """Return what the answers to a file depend on, but for the file itself."""
        return [
            [part for model in (request.model, *request.companions) for part in identify_model(model)],
            dict(options or {}),
            request.format,
            getattr(self.format_answer, "__name__", ""),
            request.column,
        ]


@contextmanager
def open_answer_writer(
    request: AnswerRequest, form: AnswerForm, options: Mapping[str, Any] | None = None
) -> Iterator[tuple[Callable[[str, Any], None], Draft]]:
    """Open the writer of answers: as lines of text, JSON objects or rows of a table, saved block by block."""
    with open_draft(request.output, source=request.file, request=form.identify(request, options)) as draft:
        if request.format == "csv":
            assert request.output is not None
            table = AnswerTable(draft.write, split_line(draft.first_line))
            yield lambda text, answer: table.add(form.record(text, answer), has_answer=answer is not None), draft
            warn_about_formulas(table.formula_count, request.output)
        else:
            as_json = request.format == "jsonl"
            yield lambda text, answer: draft.write(form.line(text, answer, as_json=as_json)), draft


@dataclass
class AnswerTable:
    """A CSV table of answers, whose columns are those of the first answer; blank lines before it wait for them."""

    write: Callable[[str], None]
    column_names: list[str]
    """Empty until there is an answer; of a table that is continued, those of its first line."""
    formula_count: int = 0
    pending: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, record: Mapping[str, Any], *, has_answer: bool) -> None:
        """Write a row, unless the columns are not known yet."""
        self.pending.append(record)
        if not self.column_names and not has_answer:
            return
        if not self.column_names:
            self.column_names.extend(record)
            self.write(_to_csv_line(self.column_names))
        for pending_record in self.pending:
            cells = [_to_csv_cell(pending_record.get(name, "")) for name in self.column_names]
            self.formula_count += count_formulas(cells)
            self.write(_to_csv_line(cells))
        self.pending.clear()


def name_and_answer(name: str, answer: Any) -> str:
    """Return an answer behind the name of its file, in one line."""
    return f"{escape_name(name)}\t{answer}"


def _to_json_line(answer: Mapping[str, Any]) -> str:
    """Return an answer as a line of JSON, which has no word for a number that is not finite."""
    try:
        return json.dumps(answer, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise ValueError("an answer holds a number that is not finite: correct the input, or train again") from None


def _to_csv_line(cells: Sequence[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)  # a cell of several lines is quoted
    return buffer.getvalue().removesuffix("\n")


def _to_csv_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list, tuple)) else value
