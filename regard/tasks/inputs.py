"""The inputs of trained models: their description for commands, forms and servers, and checks of Python calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard import shipped
from regard.data.text_columns import TextColumn
from regard.training.provenance import note_overlap

MAX_QUOTED = 40  # characters of a wrong value shown in a message


WORD_FILES = (".conll", ".conllu")  # endings of files with a word in each line
STRING: Mapping[str, Any] = {"type": "string"}


@dataclass(frozen=True)
class InputKind:
    """A kind of input of models, such as a text or an image."""

    name: str
    singular: str
    plural: str
    is_one: Callable[[Any], bool]
    """True for a single input that is not in a list."""
    is_item: Callable[[Any], bool] | None = None
    """True for an input in a list, if it may have another form there."""
    is_path: bool = False
    """True if a string is the name of a file or a folder."""
    example: str = "A short text."
    """An example as typed by a user."""
    schema: Mapping[str, Any] = field(default_factory=lambda: STRING)
    """The JSON schema of an input."""
    sizes: Callable[[Any], Mapping[str, int]] | None = None
    """Measures an input that is bounded by more than its characters, such as the nodes and edges of a graph."""

    def accepts(self, item: Any) -> bool:
        """True if a value may be an item of a list of inputs."""
        return self.is_one(item) or (self.is_item is not None and self.is_item(item))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(part, str) for part in value)


def _are_two_texts(value: Any) -> bool:
    return _are_texts(value) and len(value) == 2


def _is_tuple_of_two(value: Any) -> bool:
    return isinstance(value, tuple) and _are_two_texts(value)


def _is_tuple_of_texts(value: Any) -> bool:
    return isinstance(value, tuple) and _are_texts(value)


def _is_picture(value: Any) -> bool:
    return isinstance(value, (str, Path)) or (isinstance(value, np.ndarray) and value.ndim < 4)


def _is_node(value: Any) -> bool:
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping)


def _texts_schema(least: int, most: int | None = None) -> Mapping[str, Any]:
    """Return the schema of a list of texts."""
    return {"type": "array", "items": STRING, "minItems": least} | ({} if most is None else {"maxItems": most})


TEXT = InputKind("text", "a text", "texts", _is_text)
WORD = InputKind("word", "a word", "words", _is_text, example="house")
LABEL = InputKind("label", "a label", "labels", _is_text, example="dog")
SENTENCE = InputKind(
    "sentence",
    "a sentence",
    "sentences",
    _is_text,
    _are_texts,
    example="The house is old .",
    schema={"anyOf": [STRING, _texts_schema(1)]},
)
PAIR = InputKind(
    "pair",
    "a pair of texts",
    "pairs",
    _is_tuple_of_two,
    _are_two_texts,
    example="A man sleeps.\tA man is asleep.",
    schema=_texts_schema(2, 2),
)
QUESTION = InputKind(
    "question",
    "a tuple of texts",
    "tuples",
    _is_tuple_of_texts,
    _are_texts,
    example="It was cold.\tHe put on a coat.\tHe went swimming.",
    schema=_texts_schema(3),
)
PICTURE = InputKind("picture", "a picture file or array", "pictures", _is_picture, is_path=True, example="photo.png")
NODE = InputKind("node", "the name of a node", "names", _is_node, example="n1")
ROW = InputKind(
    "row",
    "a row by the names of its columns",
    "rows",
    _is_row,
    example="length=1,mass=0.5",
    schema={"type": "object", "additionalProperties": {"type": "number"}},
)
FILE = InputKind(
    "file", "the name of a file", "names of files", lambda value: isinstance(value, (str, Path)), is_path=True
)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Description of a trained model's inputs, and how they are parsed from text and read from files."""

    kind: InputKind
    parse: Callable[[str], Any]
    """Parses one input typed by a user into an input of `answer`."""
    read: Callable[[Path], Sequence[Any]] | None = None
    """Reads the inputs of a file; None: every line is an input."""
    expand: Callable[[str], Sequence[str]] | None = None
    """Lists the inputs of a collection, such as the images in a folder."""
    join: Callable[[Sequence[str]], Sequence[Any]] | None = None
    """Reads inputs spread over several files, such as samples in several tables."""
    together: bool = False
    """True if all inputs form one sequence, such as the frames of a film, and are answered together."""
    option: str = "inputs"
    """Name of the inputs in messages: the option of the command, if there is one."""
    example: str = ""
    """An example as typed by a user, if the one of the input's kind does not fit."""
    choices: Sequence[str] = ()
    """All possible inputs, if they are known, such as the labels of a generator."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits of an input by name, such as its number of tokens."""
    text_column: TextColumn = field(default_factory=TextColumn)
    """The column of the texts in training tables, by which other tables are read."""
    word_files: Sequence[str] = WORD_FILES
    """Endings of files with one word per line, which have no texts."""


def describe_inputs(trained: Any) -> dict[str, Any]:
    """Return the description of a model's inputs as JSON, for forms, servers and tool descriptions."""
    inputs: Inputs = trained.inputs
    kind, schema = inputs.kind, dict(inputs.kind.schema)
    return {
        "kind": kind.name,
        "title": kind.singular,
        "titles": kind.plural,
        "example": inputs.example or kind.example,
        "schema": schema | {"enum": list(inputs.choices)} if inputs.choices else schema,
        "limits": dict(inputs.limits),
        "files": kind.is_path,
        "folders": inputs.expand is not None,
        "reads_whole_files": inputs.read is not None,
        "joins_files": inputs.join is not None,
        "together": inputs.together,
    }


def list_inputs(value: Any, kind: InputKind, *, verb: str) -> list[Any]:
    """Return the inputs of a call as a list; a single input becomes a list of one, and other values are an error."""
    if kind.is_one(value):
        return [check_input(value, kind, verb=verb)]
    if isinstance(value, (str, bytes, bytearray, Mapping, Set)) or not isinstance(value, Iterable):
        raise ValueError(f"{verb} takes {kind.singular} or a list of {kind.plural}, not {_describe(value)}")
    items = list(value)
    for number, item in enumerate(items, start=1):
        if not kind.accepts(item):
            raise ValueError(f"{verb}: number {number} of {len(items)} is {_describe(item)}: give {kind.singular}")
        _check_name(item, kind, verb=verb)
    return items


def check_input(value: Any, kind: InputKind, *, verb: str) -> Any:
    """Return the single input of a call; other values are an error."""
    if not kind.accepts(value):
        raise ValueError(f"{verb} takes {kind.singular}, not {_describe(value)}")
    _check_name(value, kind, verb=verb)
    return value


def check_path(value: Any, what: str) -> Path:
    """Return a value as a path; other types and empty names are an error that says `what` is expected."""
    if not isinstance(value, (str, Path)):
        raise ValueError(f"{what}, not {_describe(value)}")
    if isinstance(value, str) and not value.strip():
        raise ValueError(f"{what}, not an empty text")
    return Path(value)


def list_tasks(task: Any) -> list[str] | None:
    """Return the accepted tasks as a list; None accepts any."""
    names = [task] if isinstance(task, str) else task
    if names is None:
        return None
    if not isinstance(names, (tuple, list)) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"task takes the name of a task or several, not {_describe(task)}")
    return list(names)


def check_files(trained: Any, files: Sequence[Any], what: str) -> None:
    """Raise an error if a model is evaluated without files."""
    if not files:
        raise ValueError(f"{trained.name} is measured on {what}: name at least one file of them")


def accept_lists(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an evaluation so that it accepts a list of files as well, and notes files that were trained on."""

    @functools.wraps(evaluate)
    def evaluate_files(trained: Any, *files: Any, **options: Any) -> Any:
        listed = files[0] if len(files) == 1 and isinstance(files[0], (list, tuple)) else files
        for file in listed:
            check_path(file, "evaluate takes the names of files")
        scores = evaluate(trained, *listed, **options)
        return _note_overlap(scores, trained, [str(file) for file in listed])

    return evaluate_files


def _note_overlap(scores: Any, trained: Any, files: Sequence[str]) -> Any:
    """Return the scores with a note on files that the model was trained on."""
    if trained.learnt_from == {} or trained.remembers:
        return scores  # not made by `load`, or notes training examples itself
    if scores.details.get("part") == "test" or trained.name in shipped.models():
        return scores  # evaluated on a held-out part, or documented on its page
    return note_overlap(scores, trained.learnt_from, files)


def explain_missing(trained: Any, name: str, uses: Iterable[tuple[str, str]]) -> AttributeError:
    """Return the error for a method of another kind of model; `uses` has the verbs and kinds of all models."""
    trained_class, kinds = type(trained), dict(reversed(list(uses)))  # the first kind of a verb has priority
    if name not in kinds:
        return AttributeError(f"{trained_class.__name__!r} object has no attribute {name!r}")
    model_name = vars(trained).get("name", trained_class.__name__)
    return AttributeError(
        f"{model_name} is {trained_class.kind}; {name} needs {kinds[name]} (try {trained_class.verb})"
    )


def _check_name(item: Any, kind: InputKind, *, verb: str) -> None:
    """Raise an error for an empty file name, which would mean the current folder."""
    if kind.is_path and isinstance(item, str) and not item.strip():
        raise ValueError(f"{verb} takes {kind.singular}, not an empty name")


def _describe(value: Any) -> str:
    """Describe an unsuitable value in a few words."""
    if value is None:
        return "None"
    text = repr(value)
    quotation = f" {text}" if len(text) <= MAX_QUOTED and not text.startswith("<") else ""
    return f"{type(value).__name__}{quotation}"
