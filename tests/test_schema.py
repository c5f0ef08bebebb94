"""The JSON schemas of settings: types, defaults, help, choices and ranges, for every trained model."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from regard import config
from regard.config.ranges import Range, Seed
from regard.config.schema import json_schema
from regard.tasks import FACES

TYPES: dict[str, Any] = {
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "null": type(None),
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn."""

    temperature: Annotated[float, Range(above=0, most=10)] = 1.0
    """Below 1 safer, above 1 wilder."""
    top_k: Annotated[int, Range(1, 100)] | None = None


@dataclass(frozen=True, kw_only=True)
class Everything:
    """A setting of every type."""

    text: str
    """A text that must be given."""
    switch: bool = False
    choice: Literal["all", "none"] = "all"
    seed: Seed = 0
    folder: Path = Path("here")
    phrases: tuple[str, ...] = ("a",)
    pair: tuple[int, float] = (1, 2.0)
    either: int | str = 1
    names: dict[str, int] = field(default_factory=lambda: {"a": 1})
    anything: Any = None
    sampling: Sampling = field(default_factory=Sampling)


def test_a_schema_says_the_type_the_default_the_help_and_the_range_of_every_setting():
    schema = json_schema(Everything)
    assert json.loads(json.dumps(schema)) == schema
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["text"], False)
    properties = schema["properties"]
    assert properties["text"] == {"type": "string", "description": "A text that must be given."}
    assert properties["switch"] == {"type": "boolean", "default": False}
    assert properties["choice"] == {"enum": ["all", "none"], "default": "all"}
    assert properties["seed"] == {"type": "integer", "minimum": 1 - 2**63, "maximum": 2**63 - 1, "default": 0}
    assert properties["folder"] == {"type": "string", "default": "here"}
    assert properties["phrases"] == {"type": "array", "items": {"type": "string"}, "default": ["a"]}
    entries = [{"type": "integer"}, {"type": "number"}]
    counted = {"type": "array", "prefixItems": entries, "minItems": 2, "maxItems": 2}
    assert properties["pair"] == counted | {"default": [1, 2.0]}
    assert properties["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 1}
    assert properties["names"] == {
        "type": "object", "additionalProperties": {"type": "integer"}, "default": {"a": 1}
    }  # fmt: skip
    assert properties["anything"] == {"default": None}
    sampling = properties["sampling"]
    assert sampling["default"] == {"temperature": 1.0, "top_k": None}
    assert sampling["properties"]["temperature"] == {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 10,
        "default": 1.0,
        "description": "Below 1 safer, above 1 wilder.",
    }
    assert sampling["properties"]["top_k"] == {
        "type": ["integer", "null"], "minimum": 1, "maximum": 100, "default": None
    }  # fmt: skip


@pytest.mark.parametrize("name", FACES)
def test_the_options_of_every_trained_model_have_a_schema_whose_defaults_are_valid(name):
    options = FACES[name].Options
    schema = json_schema(options)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    assert not schema.get("required"), "a model answers without any option"
    for option, described in schema["properties"].items():
        assert described["description"], f"{option} has no help"
        check_value(described["default"], described)
        config.build(options, {option: described["default"]})


def check_value(value: Any, schema: dict[str, Any]) -> None:
    """Assert that a value fits a schema, as far as schemas of options go."""
    if "anyOf" in schema:
        assert any(fits(value, arm) for arm in schema["anyOf"]), (value, schema)
        return
    if "enum" in schema:
        assert value in schema["enum"]
    names = schema.get("type", list(TYPES))
    names = [names] if isinstance(names, str) else names
    assert any(isinstance(value, TYPES[name]) for name in names), (value, schema)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    assert value >= schema.get("minimum", value)
    assert value <= schema.get("maximum", value)
    assert value > schema.get("exclusiveMinimum", value - 1)
    assert value < schema.get("exclusiveMaximum", value + 1)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """True if a value fits a schema."""
    try:
        check_value(value, schema)
    except AssertionError:
        return False
    return True
