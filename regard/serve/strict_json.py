"""Reading of bodies that accepts nothing doubtful: what JSON does not know, says twice, or could not be said again."""

from __future__ import annotations

import json
import math
from typing import Any
from urllib.parse import parse_qsl

from regard.serve.refusal import Refusal

MAX_DEPTH = 32  # lists within lists
MAX_DIGITS = 100  # of a number
MAX_FIELDS = 100  # of a form
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text; errors never quote it."""
    text = decode_text(body)
    try:
        value = make_decoder().decode(text)
    except json.JSONDecodeError as error:
        raise malformed_error(f"{error.msg.lower()} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise malformed_error("it is nested too deeply") from None
    check_value(value)
    return value


def decode_text(body: bytes) -> str:
    """Return the text of a body, which must be UTF-8 without a byte order mark."""
    if body.startswith(BYTE_ORDER_MARK):
        raise malformed_error("it begins with a byte order mark")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed_error("it is not UTF-8") from None


def make_decoder() -> json.JSONDecoder:
    """Return a decoder of JSON that accepts nothing doubtful; what it returns has yet to pass `check_value`."""
    return json.JSONDecoder(
        parse_constant=_refuse_constant,
        parse_int=_parse_integer,
        parse_float=_parse_float,
        object_pairs_hook=_unique_object,
    )


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; other values are refused."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise Refusal(400, "the body must be a JSON object", "malformed_body")
    return value


def parse_form(body: bytes | str) -> dict[str, Any]:
    """Return the fields of a form or query; repeated fields become a list."""
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Refusal(
            400, f"the form cannot be read: give at most {MAX_FIELDS} fields in UTF-8", "malformed_body"
        ) from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            fields[name] = [*(fields[name] if isinstance(fields[name], list) else [fields[name]]), value]
        else:
            fields[name] = value
    check_value(fields)
    return fields


def check_value(value: Any, depth: int = 0) -> None:
    """Refuse texts with a NUL character or a lone surrogate, and lists within too many lists."""
    if isinstance(value, str):
        if "\0" in value:
            raise malformed_error("a text holds the character NUL")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise malformed_error("a text holds half of a character, a lone surrogate") from None
    elif isinstance(value, dict | list):
        if depth == MAX_DEPTH:
            raise malformed_error(f"it is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, dict):
            for name in value:
                check_value(name)
        for member in value.values() if isinstance(value, dict) else value:
            check_value(member, depth + 1)


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise malformed_error("an object names a member twice")
    return members


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise malformed_error(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits) if len(digits) <= MAX_DIGITS else math.inf
    if not math.isfinite(number):
        raise malformed_error("a number is too large or has too many digits")
    return number


def _refuse_constant(name: str) -> None:
    raise malformed_error("NaN and Infinity are no JSON")


def malformed_error(reason: str) -> Refusal:
    """Return the error for a malformed JSON body."""
    return Refusal(400, f"the body cannot be read as JSON: {reason}", "malformed_body")
