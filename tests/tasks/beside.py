"""What models do beside answering, in small: every extra called once, every option set once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from regard.config.schema import json_schema
from tests.tasks.every import Line

Call = Callable[[Any, Callable[..., Any], Line, Path], Any]


def call_join(trained: Any, line: Line) -> Any:
    """Return all samples in the tables of a line."""
    return trained.inputs.join([word for word in line.inputs[0].split() if "sample=" not in word])


def call_gallery(trained: Any, call: Callable[..., Any], line: Line, place: Path) -> Any:
    """Hang pictures that were drawn."""
    return call(None, trained.extras["draw"].call(seed=1))


CALLS: Mapping[str, Call] = {
    "alignments": lambda trained, call, line, place: call().trained is trained,
    "anatomy": lambda trained, call, line, place: call(line.inputs),
    "boxes": lambda trained, call, line, place: call(torch.zeros(2, *trained.inputs.limits.values())),
    "draw": lambda trained, call, line, place: call(samples=1),
    "draw_importance": lambda trained, call, line, place: call(call_join(trained, line), place / "importance.png"),
    "gallery": call_gallery,
    "importance": lambda trained, call, line, place: call(call_join(trained, line)),
    "judge": lambda trained, call, line, place: call(*line.files, grids=2, singles=2),
    "look_again": lambda trained, call, line, place: call(line.inputs[0], zoom=3),
    "make": lambda trained, call, line, place: call(count=2),
    "picture": lambda trained, call, line, place: call(line.inputs[0]),
    "probe": lambda trained, call, line, place: call(*line.files),
    "sequences": lambda trained, call, line, place: call(3, count=2),
    "stream": lambda trained, call, line, place: list(call(line.inputs[0], length=3)),
    "tree": lambda trained, call, line, place: call(trained.inputs.parse(line.inputs[0])),
    "workloads": lambda trained, call, line, place: list(call([trained.inputs.parse(line.inputs[0])], [1])),
}
"""How every extra is called with what a line has; an extra without an entry is not done."""


def call_extras(trained: Any, line: Line, place: Path) -> dict[str, str]:
    """Call every extra of a model once; return what each gave, in a word, or the line that says why it cannot."""
    outcomes = {}
    for name, extra in trained.extras.items():
        assert name in CALLS, f"no call for {name}: add one to tests/tasks/beside.py"
        assert extra.help.endswith("."), f"{name} is not explained in a sentence"
        json_schema(extra.Options)
        try:
            outcomes[name] = type(CALLS[name](trained, extra.call, line, place)).__name__
        except ValueError as error:
            outcomes[name] = str(error)
    return outcomes


def answer_with_options(trained: Any, line: Line) -> dict[str, Any]:
    """Answer one input with every option set once; return how many answers came, or the refusal, by option."""
    outcomes: dict[str, Any] = {}
    for name, value in other_values(json_schema(trained.Options)):
        try:
            outcomes[name] = len(trained.answer([trained.inputs.parse(line.inputs[0])], **{name: value}))
        except ValueError as error:
            outcomes[name] = str(error)
    return outcomes


def other_values(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every option with a valid value that is not its default, if its schema leads to one."""
    for name, described in schema["properties"].items():
        default, types = described["default"], described.get("type", ())
        if "enum" in described:
            yield name, next(choice for choice in described["enum"] if choice != default)
        elif types == "boolean":
            yield name, not default
        elif {"integer", "number"} & set([types] if isinstance(types, str) else types):
            yield name, other_number(described, "integer" in types)
        else:
            yield name, default


def other_number(described: Mapping[str, Any], whole: bool) -> float:
    """Return a number near the default of an option, or near its least value."""
    step = 1 if whole else 0.25
    low = described.get("minimum", described.get("exclusiveMinimum", 0))
    near = (low if described["default"] is None else described["default"]) + step
    high = described.get("maximum", near)
    return near if near <= high else described["default"] - step
