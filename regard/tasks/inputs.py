"""What trained models read: one description for commands, forms and servers, and checks of what Python hands over."""

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

MAX_QUOTED = 40  # letters of a wrong value that a message shows


WORD_FILES = (".conll", ".conllu")  # endings of files with a word in each line
STRING: Mapping[str, Any] = {"type": "string"}


@dataclass(frozen=True)
class InputKind:
    """What a model reads one of at a time."""

    name: str
    singular: str
    plural: str
    is_one: Callable[[Any], bool]
    """True for an input that stands alone, outside a list."""
    is_item: Callable[[Any], bool] | None = None
    """True for one in a list, where that may be written otherwise."""
    is_path: bool = False
    """True if a text among them is the name of a file or a folder."""
    example: str = "A short text."
    """One as somebody types it."""
    schema: Mapping[str, Any] = field(default_factory=lambda: STRING)
    """The JSON schema of one."""

    def accepts(self, item: Any) -> bool:
        """True for what may stand in a list of inputs."""
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
    """What a trained model reads, and how people write it: in a command, in a file, in a form."""

    kind: InputKind
    parse: Callable[[str], Any]
    """Turns one input, as somebody types it, into what `answer` takes."""
    read: Callable[[Path], Sequence[Any]] | None = None
    """Reads the inputs of a file that is more than its lines; None: every line is an input."""
    expand: Callable[[str], Sequence[str]] | None = None
    """Lists the inputs that one stands for, as a folder stands for its pictures."""
    join: Callable[[Sequence[str]], Sequence[Any]] | None = None
    """Reads inputs that lie in several files at once, as samples lie in tables."""
    together: bool = False
    """True if inputs belong together, as the frames of a film do, and are answered at once."""
    option: str = "inputs"
    """How messages name them: the option that a command has for them, if there is one."""
    example: str = ""
    """One as somebody types it, where that of its kind will not do."""
    choices: Sequence[str] = ()
    """All inputs that there are, where they are known, such as the labels of a generator."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """What an input may have at most, such as tokens, by name."""
    text_column: TextColumn = field(default_factory=TextColumn)
    """Which column of a table held the texts in training, so that other tables are read alike."""
    word_files: Sequence[str] = WORD_FILES
    """Endings of files that have a word in each line, and so no text."""


def describe_inputs(trained: Any) -> dict[str, Any]:
    """Return what a model reads as plain JSON, from which a form, a server or the description of a tool is made."""
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
    """Return the inputs of a call as a list, one alone as a list of one; anything else is an error that names it."""
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
    """Return the one input of a call; anything else is an error that names it."""
    if not kind.accepts(value):
        raise ValueError(f"{verb} takes {kind.singular}, not {_describe(value)}")
    _check_name(value, kind, verb=verb)
    return value


def check_path(value: Any, what: str) -> Path:
    """Return a path as it was given; anything else, and an empty name, is an error that says `what` it should name."""
    if not isinstance(value, (str, Path)):
        raise ValueError(f"{what}, not {_describe(value)}")
    if isinstance(value, str) and not value.strip():
        raise ValueError(f"{what}, not an empty text")
    return Path(value)


def list_tasks(task: Any) -> list[str] | None:
    """Return the tasks of which a model must have learnt one; None for any."""
    names = [task] if isinstance(task, str) else task
    if names is None:
        return None
    if not isinstance(names, (tuple, list)) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"task takes the name of a task or several, not {_describe(task)}")
    return list(names)


def check_files(trained: Any, files: Sequence[Any], what: str) -> None:
    """Raise an error if a model is to be measured on no files."""
    if not files:
        raise ValueError(f"{trained.name} is measured on {what}: name at least one file of them")


def accept_lists(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Make an evaluation take a list of files as well as files, nothing else, and say which of them were trained on."""

    @functools.wraps(evaluate)
    def evaluate_files(trained: Any, *files: Any, **options: Any) -> Any:
        listed = files[0] if len(files) == 1 and isinstance(files[0], (list, tuple)) else files
        for file in listed:
            check_path(file, "evaluate takes the names of files")
        scores = evaluate(trained, *listed, **options)
        return _note_overlap(scores, trained, [str(file) for file in listed])

    return evaluate_files


def _note_overlap(scores: Any, trained: Any, files: Sequence[str]) -> Any:
    """Return the scores with a note on files among these that the model was trained on."""
    if trained.learnt_from == {} or trained.remembers:
        return scores  # made by no `load`, or it tells of its training examples itself
    if scores.details.get("part") == "test" or trained.name in shipped.models():
        return scores  # measured on a part that was set aside, or its page says what it was trained on
    return note_overlap(scores, trained.learnt_from, files)


def explain_missing(trained: Any, name: str, uses: Iterable[tuple[str, str]]) -> AttributeError:
    """Return the error for the verb of another kind of model; `uses` are verbs and kinds of all models."""
    trained_class, kinds = type(trained), dict(reversed(list(uses)))  # the first of a verb is the usual one
    if name not in kinds:
        return AttributeError(f"{trained_class.__name__!r} object has no attribute {name!r}")
    model_name = vars(trained).get("name", trained_class.__name__)
    return AttributeError(
        f"{model_name} is {trained_class.kind}; {name} needs {kinds[name]} (try {trained_class.verb})"
    )


def _check_name(item: Any, kind: InputKind, *, verb: str) -> None:
    """Raise an error for an empty name of a file, which would be that of the current folder."""
    if kind.is_path and isinstance(item, str) and not item.strip():
        raise ValueError(f"{verb} takes {kind.singular}, not an empty name")


def _describe(value: Any) -> str:
    """Describe a value that is no input in a few words."""
    if value is None:
        return "None"
    text = repr(value)
    quotation = f" {text}" if len(text) <= MAX_QUOTED and not text.startswith("<") else ""
    return f"{type(value).__name__}{quotation}"
