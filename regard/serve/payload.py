"""What clients send turned into what a model takes; whatever it would cost is known and bounded before that."""

from __future__ import annotations

import base64
import binascii
import functools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from regard import config
from regard.config.schema import json_schema
from regard.config.text import plain
from regard.data.images.decoding import Unusable, decode_bytes, measure_picture
from regard.serve.calls import Overloaded
from regard.serve.limits import Limits
from regard.serve.memory import reserve_bytes
from regard.serve.refusal import Refusal
from regard.tasks.inputs import InputKind, describe_inputs
from regard.tasks.trained import Trained

Result = TypeVar("Result")
PICTURE_SIDE = 1024  # pixels of the short side of a picture that a model is handed
MOST_DECODED = 4 * PICTURE_SIDE**2  # pixels of such a picture, whatever its shape
BYTES_OF_PIXEL = 3
PICTURE_KIND = "picture"
RATIO = 10  # tokens of an answer for each that is read, at most
UNPACKING = threading.Lock()  # of whoever unpacks a large picture whole
UNPACKING_SECONDS = 5  # after which another may try
DATA_URL = "data:"
PICTURE_SCHEMA: Mapping[str, Any] = {
    "type": "string",
    "contentEncoding": "base64",
    "description": "PNG, JPEG, WebP or TIFF; HEIC where the server has pillow-heif.",
}
FORCED = "prefix"  # the option that lists tokens of an answer
OPTION_LIMITS = {
    "beams": "beams",
    "nbest": "beams",
    "samples": "beams",
    "length": "new_tokens",
    "longest": "new_tokens",
    "minimum": "new_tokens",
    "max_length": "new_tokens",
    "batch": "inputs",
    "top": "inputs",
    "count": "inputs",
}
"""Options of models that cost time or memory, and the limits that bound them."""


def is_served(trained: Trained) -> bool:
    """True for a model whose inputs can be sent in a request, unlike tables of files."""
    kind = trained.inputs.kind
    return not kind.is_path or kind.name == PICTURE_KIND


def reads_pictures(trained: Trained) -> bool:
    """True for a model that reads images."""
    return trained.inputs.kind.name == PICTURE_KIND


def read_inputs(trained: Trained, value: Any, limits: Limits) -> list[Any]:
    """Return the inputs of a request, a single one or a list, as the model takes them."""
    kind = trained.inputs.kind
    items = list(value) if isinstance(value, list) and not _is_single(kind, value) else [value]
    if not items:
        raise Refusal(422, f"inputs is empty: give {kind.singular} or a list of {kind.plural}", "invalid_input")
    if len(items) > limits.inputs:
        message = f"{len(items)} inputs, at most {limits.inputs} in a request: send several, or a job (/v1/jobs)"
        raise Refusal(422, message, "too_many_inputs")
    if reads_pictures(trained):
        return _read_pictures(items, limits)
    check_characters(list_texts(trained, items), limits)
    inputs = [_read_item(trained, item, number) for number, item in enumerate(items, start=1)]
    check_sizes(kind, inputs, limits)
    return inputs


def list_texts(trained: Trained, items: Sequence[Any]) -> list[Any]:
    """Return the inputs that are bounded by their characters, unlike graphs."""
    sizes = trained.inputs.kind.sizes
    return [item for item in items if sizes is None or not sizes(item)]


def check_sizes(kind: InputKind, items: Sequence[Any], limits: Limits) -> None:
    """Raise Refusal if what a kind of input measures, such as the nodes of graphs, is too much together."""
    measure = kind.sizes
    if measure is None:
        return
    totals: Counter[str] = Counter()
    for item in items:
        totals.update(measure(item))
    for name, total in totals.items():
        if total > (most := getattr(limits, name)):
            raise Refusal(
                422, f"{total:,} {name.replace('_', ' ')}, at most {most:,} in a request: send less", "too_large"
            )


def check_members(payload: Collection[str], allowed: Collection[str]) -> None:
    """Refuse members that would be ignored."""
    if unknown := sorted(set(payload) - set(allowed)):
        message = f"unknown member {unknown[0][:40]!r}: there is {', '.join(sorted(allowed))}"
        raise Refusal(422, message, "unknown_member")


def check_characters(value: Any, limits: Limits) -> None:
    """Raise Refusal if texts have too many characters together, before they are tokenised."""
    if (count := count_characters(value)) > limits.characters:
        message = f"{count:,} characters, at most {limits.characters:,} in a request: send less, or a job (/v1/jobs)"
        raise Refusal(422, message, "too_long")


def count_characters(value: Any) -> int:
    """Return the number of characters in all texts of a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(count_characters(name) + count_characters(member) for name, member in value.items())
    return sum(map(count_characters, value)) if isinstance(value, list | tuple) else 0


def read_options(options_class: type, value: Any, limits: Limits) -> dict[str, Any]:
    """Return the options of a request, such as `trained.Options`; unknown, invalid and too large ones are refused.

    A default that is larger than a limit is lowered to it.
    """
    value = {} if value is None else value
    if not isinstance(value, dict):
        raise Refusal(422, "options must be an object", "invalid_option")
    check_characters(value, limits)
    try:
        checked = plain(config.build(options_class, value, where="options"))
    except ValueError as error:
        raise Refusal(422, str(error), "invalid_option") from None
    lowered: dict[str, Any] = {}
    for name, limit_name in OPTION_LIMITS.items():
        most = getattr(limits, limit_name)
        if not isinstance(checked.get(name), int) or checked[name] <= most:
            continue
        if name in value:
            raise Refusal(422, f"options.{name} is {checked[name]:,}, at most {most:,} here", "over_limit")
        lowered[name] = most
    if "longest" in checked and "ratio" in value and value["ratio"] > RATIO:
        raise Refusal(422, f"options.ratio is {value['ratio']}, at most {RATIO} here", "over_limit")
    for name, entries in value.items():
        most = limits.new_tokens if name == FORCED else limits.inputs
        if isinstance(entries, list) and len(entries) > most:
            raise Refusal(422, f"options.{name} has {len(entries)} entries, at most {most}", "over_limit")
    return {name: checked[name] for name in value if name in checked} | lowered


def lower_settings(settings: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return those of a model's own settings that are larger than the limits, lowered to them."""
    most = {name: getattr(limits, limit_name) for name, limit_name in OPTION_LIMITS.items()}
    return {name: most[name] for name, value in settings.items() if name in most and value > most[name]}


def request_schema(trained: Trained) -> dict[str, Any]:
    """Return the JSON schema of a request to a model."""
    one, example = input_schema(trained)
    several = {"type": "array", "items": one, "minItems": 1}
    properties = {
        "model": {"type": ["string", "null"], "description": "One of the models that /v1/models lists."},
        "inputs": {"anyOf": [one, several], "examples": [example]},
        "options": {**json_schema(trained.Options), "type": ["object", "null"]},
    }
    return {"type": "object", "properties": properties, "required": ["inputs"], "additionalProperties": False}


def input_schema(trained: Trained) -> tuple[dict[str, Any], Any]:
    """Return the JSON schema of one input of a model, and an example."""
    described = describe_inputs(trained)
    return dict(PICTURE_SCHEMA) if reads_pictures(trained) else described["schema"], described["example"]


def _is_single(kind: InputKind, value: list[Any]) -> bool:
    """True if a list of texts is a single input, such as a pair."""
    return not kind.accepts("") and bool(value) and all(isinstance(part, str) for part in value) and kind.accepts(value)


def _read_item(trained: Trained, item: Any, number: int) -> Any:
    """Return one input, parsed if it is a text."""
    inputs = trained.inputs
    if isinstance(item, str):
        if inputs.choices and item not in inputs.choices:
            choices: Sequence[str] = inputs.choices
            raise Refusal(422, f"input {number} must be one of {', '.join(choices)}", "invalid_input")
        return inputs.parse(item)
    if isinstance(item, bool) or not inputs.kind.accepts(item):
        raise Refusal(422, f"input {number} must be {inputs.kind.singular}", "invalid_input")
    return tuple(item) if isinstance(item, list) and inputs.kind.is_item is not None else item


def _read_pictures(items: list[Any], limits: Limits) -> list[Any]:
    """Return the shades of pictures that were sent as bytes or in base64; nothing is ever opened or fetched."""
    pictures = [
        item if isinstance(item, bytes) else _decode_base64(item, number) for number, item in enumerate(items, start=1)
    ]
    sizes = [_decode(measure_picture, data, number) for number, data in enumerate(pictures, start=1)]
    pixels = sum(size.pixels for size in sizes)
    if pixels > limits.pixels:
        message = f"pictures of {pixels:,} pixels, at most {limits.pixels:,} in a request: send smaller or fewer"
        raise Refusal(422, message, "too_large")
    reserve_bytes(sum(BYTES_OF_PIXEL * min(size.pixels, MOST_DECODED) for size in sizes))
    decode = functools.partial(decode_bytes, most=PICTURE_SIDE, most_pixels=MOST_DECODED)
    with _unpack_alone(max(size.unpacked_bytes for size in sizes)):
        return [_decode(decode, data, number) for number, data in enumerate(pictures, start=1)]


@contextmanager
def _unpack_alone(count: int) -> Iterator[None]:
    """Reserve bytes for a decoder that holds a large picture whole, one request at a time; 0: nothing to wait for."""
    if not count:
        yield
        return
    if not UNPACKING.acquire(blocking=False):
        raise Overloaded(UNPACKING_SECONDS)
    try:
        reserve_bytes(count)
        yield
    finally:
        UNPACKING.release()


def _decode(function: Callable[[bytes], Result], data: bytes, number: int) -> Result:
    """Return what a function makes of a picture; one that is unusable is refused by its number."""
    try:
        return function(data)
    except Unusable as error:
        raise Refusal(422, f"input {number}: {error}", "invalid_picture") from None


def _decode_base64(item: Any, number: int) -> bytes:
    if not isinstance(item, str):
        raise Refusal(422, f"input {number} must be a picture in base64", "invalid_picture")
    if item.startswith(("http:", "https:", "file:", "ftp:")):
        raise Refusal(422, f"input {number}: nothing is fetched: send the picture itself in base64", "invalid_picture")
    text = item.partition(",")[2] if item.startswith(DATA_URL) else item
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(422, f"input {number} is no picture in base64", "invalid_picture") from None
