"""Word vectors in the text format of word2vec, which gensim and most other libraries read and write.

The first line has the number of words and of features; each further line is a word and its numbers, separated by
blanks. Files without the first line, such as GloVe's, are read too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.data.readers import lines

Vectors = Float[np.ndarray, "vocab width"]


def read(name: str) -> tuple[list[str], Vectors]:
    """Return the words of a file and their vectors, in the order of the file."""
    words: dict[str, int] = {}
    rows: list[np.ndarray] = []
    promised: tuple[int, int] | None = None
    for number, line in enumerate(lines(name), start=1):
        if line is None:
            raise ValueError(f"{name}:{number}: too long a line: give vectors in word2vec's text format")
        cells = line.rstrip(b" ").split(b" ")
        if number == 1 and len(cells) == 2:
            promised = _parse_header(name, cells)
            continue
        if not line.strip():
            continue
        word, row = _parse_row(f"{name}:{number}", cells, promised[1] if promised else len(rows[0]) if rows else None)
        if word in words:
            raise ValueError(f"{name}:{number}: {word!r} has a vector already, in line {words[word]}: remove one")
        words[word] = number
        rows.append(row)
    if promised is not None and promised[0] != len(rows):
        raise ValueError(f"{name}: has {len(rows)} words and promises {promised[0]}: the file is not complete")
    if not rows:
        raise ValueError(f"{name}: holds no vectors")
    return list(words), np.stack(rows)


def write(path: Path, words: Sequence[str], vectors: Vectors) -> None:
    """Write a file atomically; numbers are written without loss."""
    aside = path.with_name(f".{path.name}.tmp")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{len(words)} {vectors.shape[1]}\n")
            for word, vector in zip(words, vectors, strict=True):
                file.write(f"{word} {' '.join(f'{value:.9g}' for value in vector.tolist())}\n")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _parse_header(name: str, cells: Sequence[bytes]) -> tuple[int, int]:
    try:
        count, width = (int(cell) for cell in cells)
    except ValueError:
        raise ValueError(f"{name}:1: neither a word with its numbers nor the count of words and features") from None
    return count, width


def _parse_row(place: str, cells: Sequence[bytes], width: int | None) -> tuple[str, np.ndarray]:
    """Parse the word and the vector of a line."""
    try:
        word, vector = cells[0].decode("utf-8"), np.array([float(cell) for cell in cells[1:]], np.float32)
    except UnicodeDecodeError:
        raise ValueError(f"{place}: not UTF-8, convert the file first") from None
    except ValueError as error:
        raise ValueError(f"{place}: not a word and its numbers ({error})") from None
    if not word or not len(vector) or (width is not None and len(vector) != width):
        length = f"{len(vector)} number{'' if len(vector) == 1 else 's'}"
        raise ValueError(f"{place}: {length}, not {width or 'one or more'}, after the word {word!r}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{place}: the vector of {word!r} is not finite")
    return word, vector
