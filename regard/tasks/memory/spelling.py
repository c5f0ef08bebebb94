"""Sequences as text: `1011 0110` to copy, `1011 0110 x3` to repeat, `10 11 / 01 00 / 11 01 ? 01 00` to recall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard.tasks.memory.sequences import LONGEST, Sequences, SequencesConfig, laid_out

STOP = "stop"  # what a machine says after the last repeat
FORMS = {
    "copy": "vectors of {bits} bits between spaces, such as {vector} {vector}",
    "repeat-copy": "vectors of {bits} bits between spaces and how often, such as {vector} {vector} x3",
    "recall": "items of {size} vectors of {bits} bits between / and one to ask about after ?, such as "
    "{item} / {item} ? {item}",
}


@dataclass(frozen=True)
class Asked:
    """A sequence, the item asked about and how often to repeat it."""

    bits: np.ndarray
    item: int = 0
    repeats: int = 1

    def sequences(self, config: SequencesConfig) -> Sequences:
        """As a model reads it."""
        return laid_out(config, self.bits[None], np.array([self.item]), repeats=self.repeats)


def spelled(bits: np.ndarray | Tensor, width: int, *, ends: bool = False) -> str:
    """Vectors of bits as text; what they hold beyond their bits is left out, or `ends` the text."""
    return " ".join(
        STOP if ends and any(vector[width:]) else "".join(str(int(bit)) for bit in vector[:width])
        for vector in bits.tolist()
    )


def typed(asked: Asked, config: SequencesConfig) -> str:
    """A question as somebody would type it."""
    if config.kind != "recall":
        return spelled(asked.bits, config.bits) + (f" x{asked.repeats}" if config.kind == "repeat-copy" else "")
    items = [spelled(item, config.bits) for item in np.split(asked.bits, len(asked.bits) // config.item)]
    return f"{' / '.join(items)} ? {items[asked.item]}"


def parse(text: str, config: SequencesConfig) -> Asked:
    """What `typed` writes."""
    shown = text if len(text) < 60 else f"{text[:57]}..."
    try:
        return _parsed(text, config)
    except LookupError:
        raise ValueError(
            f"{shown!r}: the item after ? is none of those before the last: ask about one of them"
        ) from None
    except ValueError:
        vector = "10" * (config.bits // 2) + "1" * (config.bits % 2)
        item = " ".join([vector] * config.item)
        form = FORMS[config.kind].format(vector=vector, item=item, bits=config.bits, size=config.item)
        raise ValueError(f"{shown!r} cannot be read as {form}") from None


def _parsed(text: str, config: SequencesConfig) -> Asked:
    words, repeats = text.split(), 1
    if config.kind == "repeat-copy":
        times = words.pop() if words else ""
        repeats = int(times.removeprefix("x"))
        if not times.startswith("x") or not 1 <= repeats <= LONGEST:
            raise ValueError
    if config.kind != "recall":
        return Asked(_vectors(words, config), repeats=repeats)
    told, question = text.split("?")
    items = [_vectors(item.split(), config) for item in told.split("/")]
    wanted = _vectors(question.split(), config)
    if any(len(item) != config.item for item in (*items, wanted)):
        raise ValueError
    places = [number for number, item in enumerate(items[:-1]) if (item == wanted).all()]
    return Asked(np.concatenate(items), places[0])


def _vectors(words: list[str], config: SequencesConfig) -> np.ndarray:
    if not 1 <= len(words) <= LONGEST * config.item or any(
        len(word) != config.bits or set(word) - {"0", "1"} for word in words
    ):
        raise ValueError
    return np.array([[int(bit) for bit in word] for word in words])
