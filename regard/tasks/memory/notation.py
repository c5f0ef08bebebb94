"""Sequences as text: `1011 0110` to copy, `1011 0110 x3` to repeat, `10 11 / 01 00 / 11 01 ? 01 00` to recall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard.tasks.memory.sequences import MAX_LENGTH, Sequences, SequencesConfig, build_sequences

STOP = "stop"  # printed for the stop bit after the last repeat
FORMS = {
    "copy": "vectors of {bits} bits between spaces, such as {vector} {vector}",
    "repeat-copy": "vectors of {bits} bits between spaces and how often, such as {vector} {vector} x3",
    "recall": "items of {size} vectors of {bits} bits between / and one to ask about after ?, such as "
    "{item} / {item} ? {item}",
}


@dataclass(frozen=True)
class SequenceInput:
    """A sequence of bits, the queried item and the number of repeats."""

    bits: np.ndarray
    item: int = 0
    repeats: int = 1

    def to_batch(self, config: SequencesConfig) -> Sequences:
        """Return the sequence as a batch of one."""
        return build_sequences(config, self.bits[None], np.array([self.item]), repeats=self.repeats)


def format_bits(bits: np.ndarray | Tensor, width: int, *, ends: bool = False) -> str:
    """Return vectors of bits as text; a mark beyond the bits is left out, or with `ends` written as `stop`."""
    return " ".join(
        STOP if ends and any(vector[width:]) else "".join(str(int(bit)) for bit in vector[:width])
        for vector in bits.tolist()
    )


def format_input(sequence: SequenceInput, config: SequencesConfig) -> str:
    """Return an input as text that `parse_input` reads."""
    if config.kind != "recall":
        return format_bits(sequence.bits, config.bits) + (
            f" x{sequence.repeats}" if config.kind == "repeat-copy" else ""
        )
    items = [format_bits(item, config.bits) for item in np.split(sequence.bits, len(sequence.bits) // config.item)]
    return f"{' / '.join(items)} ? {items[sequence.item]}"


def parse_input(text: str, config: SequencesConfig) -> SequenceInput:
    """Parse text such as `format_input` writes."""
    shown = text if len(text) < 60 else f"{text[:57]}..."
    try:
        return _parse(text, config)
    except LookupError:
        raise ValueError(
            f"{shown!r}: the item after ? is none of those before the last: ask about one of them"
        ) from None
    except ValueError:
        vector = "10" * (config.bits // 2) + "1" * (config.bits % 2)
        item = " ".join([vector] * config.item)
        form = FORMS[config.kind].format(vector=vector, item=item, bits=config.bits, size=config.item)
        raise ValueError(f"{shown!r} cannot be read as {form}") from None


def _parse(text: str, config: SequencesConfig) -> SequenceInput:
    words, repeats = text.split(), 1
    if config.kind == "repeat-copy":
        times = words.pop() if words else ""
        repeats = int(times.removeprefix("x"))
        if not times.startswith("x") or not 1 <= repeats <= MAX_LENGTH:
            raise ValueError
    if config.kind != "recall":
        return SequenceInput(_parse_vectors(words, config), repeats=repeats)
    listing, question = text.split("?")
    items = [_parse_vectors(item.split(), config) for item in listing.split("/")]
    queried_item = _parse_vectors(question.split(), config)
    if any(len(item) != config.item for item in (*items, queried_item)):
        raise ValueError
    places = [number for number, item in enumerate(items[:-1]) if (item == queried_item).all()]
    return SequenceInput(np.concatenate(items), places[0])


def _parse_vectors(words: list[str], config: SequencesConfig) -> np.ndarray:
    if not 1 <= len(words) <= MAX_LENGTH * config.item or any(
        len(word) != config.bits or set(word) - {"0", "1"} for word in words
    ):
        raise ValueError
    return np.array([[int(bit) for bit in word] for word in words])
