"""Vectors as a reader types them: numbers between blanks, vectors between semicolons."""

MAX_VECTORS = 12  # and numbers of each, that a picture has room for
MAX_NUMBER = 1_000  # scores of larger ones would not be told apart from a lookup


def parse_vectors(option: str, text: str) -> list[list[float]]:
    """Parse vectors between semicolons, their numbers between blanks or commas."""
    parts = [part.replace(",", " ").split() for part in text.split(";")]
    try:
        vectors = [[float(number) for number in part] for part in parts]
    except ValueError as error:
        wrong = next(number for part in parts for number in part if not _is_number(number))
        raise ValueError(f'{option} {text!r}: {wrong} is no number: write vectors as "1 0; 0.5 -2"') from error
    flat = [number for vector in vectors for number in vector]
    if len({len(vector) for vector in vectors}) > 1 or not flat:
        raise ValueError(f"{option} {text!r}: give every vector as many numbers, at least one")
    if not all(abs(number) <= MAX_NUMBER for number in flat):
        raise ValueError(f"{option} {text!r}: give numbers from {-MAX_NUMBER:,} to {MAX_NUMBER:,}")
    if len(vectors) > MAX_VECTORS or len(vectors[0]) > MAX_VECTORS:
        raise ValueError(
            f"{option}: {len(vectors)} vectors of {len(vectors[0])} numbers: give at most {MAX_VECTORS} of each"
        )
    return vectors


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
