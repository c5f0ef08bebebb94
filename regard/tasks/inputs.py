"""What Python hands to a trained model, checked: inputs, test files, and verbs that belong to another kind of model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import shipped
from regard.training.provenance import note_overlap

QUOTED = 40  # letters of a wrong value that a message shows


@dataclass(frozen=True)
class InputKind:
    """What a model reads one of at a time."""

    singular: str
    plural: str
    is_one: Callable[[Any], bool]
    """True for an input that stands alone, outside a list."""
    is_item: Callable[[Any], bool] | None = None
    """True for one in a list, where that may be written otherwise."""
    is_path: bool = False
    """True if a text among them is the name of a file or a folder."""

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


TEXT = InputKind("a text", "texts", _is_text)
WORD = InputKind("a word", "words", _is_text)
LABEL = InputKind("a label", "labels", _is_text)
SENTENCE = InputKind("a sentence", "sentences", _is_text, _are_texts)
PAIR = InputKind("a pair of texts", "pairs", _is_tuple_of_two, _are_two_texts)
QUESTION = InputKind("a tuple of texts", "tuples", _is_tuple_of_texts, _are_texts)
PICTURE = InputKind("a picture file or array", "pictures", _is_picture, is_path=True)
NODE = InputKind("the name of a node", "names", _is_node)
ROW = InputKind("a row by the names of its columns", "rows", _is_row)
FILE = InputKind("the name of a file", "names of files", lambda value: isinstance(value, (str, Path)), is_path=True)


def list_inputs(given: Any, kind: InputKind, *, verb: str) -> list[Any]:
    """The inputs of a call as a list, one alone as a list of one; anything else is an error that names it."""
    if kind.is_one(given):
        return [check_input(given, kind, verb=verb)]
    if isinstance(given, (str, bytes, bytearray, Mapping, Set)) or not isinstance(given, Iterable):
        raise ValueError(f"{verb} takes {kind.singular} or a list of {kind.plural}, not {_describe(given)}")
    items = list(given)
    for number, item in enumerate(items, start=1):
        if not kind.accepts(item):
            raise ValueError(f"{verb}: number {number} of {len(items)} is {_describe(item)}: give {kind.singular}")
        _check_name(item, kind, verb=verb)
    return items


def check_input(given: Any, kind: InputKind, *, verb: str) -> Any:
    """The one input of a call; anything else is an error that names it."""
    if not kind.accepts(given):
        raise ValueError(f"{verb} takes {kind.singular}, not {_describe(given)}")
    _check_name(given, kind, verb=verb)
    return given


def check_path(given: Any, what: str) -> Path:
    """A path as it was given; anything else, and a name that is empty, is an error which says `what` is named by it."""
    if not isinstance(given, (str, Path)):
        raise ValueError(f"{what}, not {_describe(given)}")
    if isinstance(given, str) and not given.strip():
        raise ValueError(f"{what}, not an empty text")
    return Path(given)


def list_tasks(given: Any) -> list[str] | None:
    """The tasks of which a model must have learnt one; None where nobody asks."""
    names = [given] if isinstance(given, str) else given
    if names is None:
        return None
    if not isinstance(names, (tuple, list)) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"task takes the name of a task or several, not {_describe(given)}")
    return list(names)


def check_files(trained: Any, files: Sequence[Any], what: str) -> None:
    """Stop where a model is to be measured and no file is named."""
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
    """The scores, with what is known of training on these files."""
    if not hasattr(trained, "learnt_from") or getattr(trained, "remembers", False):
        return scores  # made by no `load`, or it tells of its training examples itself
    if scores.details.get("part") == "test" or trained.name in shipped.models():
        return scores  # measured on a part that was set aside, or its page says what it was trained on
    return note_overlap(scores, trained.learnt_from, files)


def explain_missing(trained: Any, name: str, uses: Iterable[tuple[str, str]]) -> AttributeError:
    """Say of the verb of another kind of model what is needed for it; `uses` are verbs and kinds of all models."""
    kind, kinds = type(trained), dict(reversed(list(uses)))  # the first of a verb is the usual one
    if name not in kinds:
        return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    called = vars(trained).get("name", kind.__name__)
    return AttributeError(f"{called} is {kind.kind}; {name} needs {kinds[name]} (try {kind.verb})")


def _check_name(item: Any, kind: InputKind, *, verb: str) -> None:
    """Stop at a name of a file that is empty, which would be that of the folder here."""
    if kind.is_path and isinstance(item, str) and not item.strip():
        raise ValueError(f"{verb} takes {kind.singular}, not an empty name")


def _describe(value: Any) -> str:
    """A value that is no input, in a few words."""
    if value is None:
        return "None"
    written = repr(value)
    shown = f" {written}" if len(written) <= QUOTED and not written.startswith("<") else ""
    return f"{type(value).__name__}{shown}"
