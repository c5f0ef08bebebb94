"""The body of a job read one input at a time, by the same strict rules as other bodies.

A job is far larger than other requests. Read as a whole it would take many times its bytes as Python objects, and the
interpreter would belong to the JSON parser until it is done. So no more than one input exists at a time, and a single
input has no more characters than the body of a request may have bytes.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any

from regard.serve.memory import reserve_bytes
from regard.serve.payload import check_members
from regard.serve.refusal import Refusal
from regard.serve.strict_json import check_value, decode_text, make_decoder, malformed_error

INPUTS = "inputs"  # the member that is a list of any length
EXPONENT = "e+"  # where a number may be cut that seems to be whole
BLANKS = re.compile(r"[ \t\n\r]*")


def read_job(
    body: bytes, members: Collection[str], *, longest: int, take_input: Callable[[Any], None]
) -> dict[str, Any]:
    """Return the members of a job but its inputs, which are handed to `take_input` one after the other.

    There are no members but these, and `longest` is the number of characters that a single value may have.
    """
    text = _JobText(body, longest)
    job: dict[str, Any] = {}
    for name in text.read_names():
        if name in job:
            raise malformed_error("an object names a member twice")
        check_members({name: None}, members)
        job[name] = None
        if name == INPUTS:
            for item in text.read_items():
                take_input(item)
        else:
            job[name] = text.read_value(name, 1)
    return {name: value for name, value in job.items() if name != INPUTS}


class _JobText:
    """A text of JSON and how far it is read; values are parsed from a window of twice the longest one."""

    def __init__(self, body: bytes, longest: int) -> None:
        self.text, self.longest = decode_text(body), longest
        reserve_bytes(sys.getsizeof(self.text))
        self._decoder = make_decoder()
        self._place = self._begin = 0
        self._window = ""
        self._move_window()

    def read_names(self) -> Iterator[str]:
        """Yield the names of the members of the object; whoever asks for the next has read the value of the last."""
        if self._peek() != "{":
            raise Refusal(400, "the body must be a JSON object", "malformed_body")
        for _ in self._read_entries("}"):
            name = self.read_value("a name", 1)
            if not isinstance(name, str):
                raise malformed_error("the name of a member is no text")
            self._expect(":")
            yield name
        if self._peek():
            raise malformed_error(f"there is more behind the object, from character {self._place + 1:,} on")

    def read_items(self) -> Iterator[Any]:
        """Yield the items of the list that comes next."""
        if self._peek() != "[":
            raise Refusal(422, "inputs must be a list of inputs", "invalid_input")
        for number in self._read_entries("]"):
            yield self.read_value(f"number {number}", 2)

    def read_value(self, where: str, depth: int) -> Any:
        """Return the value that comes next, in so many lists and objects, checked, and go behind it."""
        self._peek()
        try:
            value, end = self._parse()
        except json.JSONDecodeError:  # perhaps only since the window ends within it
            self._move_window()
            try:
                value, end = self._parse()
            except json.JSONDecodeError as error:
                raise self._explain(error, where) from None
        if end - self._place > self.longest:
            raise Refusal(422, f"{where} has more than {self.longest:,} characters", "too_large")
        self._place = end
        check_value(value, depth)
        return value

    def _read_entries(self, closing: str) -> Iterator[int]:
        """Yield the number of each entry, which is read by whoever asks, between brackets and commas."""
        self._place += 1
        if self._peek() == closing:
            self._place += 1
            return
        for number in itertools.count(1):
            yield number
            if self._expect(",", closing) == closing:
                return

    def _parse(self) -> tuple[Any, int]:
        """Return the value that begins here, and where it ends; one that may go on behind the window is an error."""
        try:
            value, end = self._decoder.raw_decode(self._window, self._place - self._begin)
        except RecursionError:
            raise malformed_error("it is nested too deeply") from None
        is_last = self._begin + len(self._window) == len(self.text)
        if not is_last and end + len(EXPONENT) >= len(self._window):
            raise json.JSONDecodeError("Unfinished value", self._window, end)
        return value, self._begin + end

    def _explain(self, error: json.JSONDecodeError, where: str) -> Refusal:
        """Return the refusal of a value that is no JSON, as far as the longest one reaches."""
        if len(self.text) - self._place > len(self._window):
            return malformed_error(f"{where} is none, or has more than {self.longest:,} characters")
        return malformed_error(f"{error.msg.lower()} in {where}")

    def _move_window(self) -> None:
        """Let the window begin where reading goes on."""
        self._begin = self._place
        self._window = self.text[self._begin : self._begin + 2 * self.longest]

    def _peek(self) -> str:
        """Return the next character that is no blank, and go to it; at the end none."""
        blanks = BLANKS.match(self.text, self._place)
        assert blanks is not None
        self._place = blanks.end()
        return self.text[self._place : self._place + 1]

    def _expect(self, *characters: str) -> str:
        """Go behind the next character, which must be one of these, and return it."""
        character = self._peek()
        if character not in characters:
            raise malformed_error(f"{' or '.join(characters)} is missing at character {self._place + 1:,}")
        self._place += 1
        return character
