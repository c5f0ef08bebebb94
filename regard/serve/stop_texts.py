"""Stop texts of a completion: it ends before the first of them, and what may become one is held back in a stream."""

from __future__ import annotations

from collections.abc import Sequence


def cut_at_stop(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Return a text up to the earliest occurrence of a stop text, and True if there is one."""
    places = _find_stops(text, stops)
    return (text[: min(places)], True) if places else (text, False)


def settle_before_stop(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Return the beginning of a growing text that no stop text can take back, and True if the text ends there.

    An ending that may be the beginning of a stop text is held back. A stop text that is there already decides nothing
    while another may have begun before it, so that the earliest wins in whatever pieces the text arrives.
    """
    held_back = min((_find_beginning(text, stop) for stop in stops), default=len(text))
    places = _find_stops(text, stops)
    is_ended = bool(places) and min(places) <= held_back
    return text[: min([held_back, *places])], is_ended


def _find_stops(text: str, stops: Sequence[str]) -> list[int]:
    """Return the place of the first occurrence of each stop text that occurs."""
    return [place for stop in stops if (place := text.find(stop)) >= 0]


def _find_beginning(text: str, stop: str) -> int:
    """Return where the longest ending of a text starts that is a beginning of a stop text, but not all of it."""
    place = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while place >= 0 and not stop.startswith(text[place:]):
        place = text.find(stop[0], place + 1)
    return len(text) if place < 0 else place
