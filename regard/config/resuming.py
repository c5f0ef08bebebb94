"""Rules for changing settings when a run is resumed, written on the field itself: `device: Free[str]`.

A section passes its verdict on to its fields that have none; the default is a warning. A field of several sections
whose order differs from that of another declares it in its metadata, `{"resume": "refused"}`: to Python, annotations
that differ only in the order of a union are the same.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from regard.config.fields import bare, hints, sections
from regard.config.words import join

T = TypeVar("T")
Verdict = Literal["refused", "warned", "free", "fingerprint"]


@dataclass(frozen=True)
class Resume:
    """The consequence of resuming a run with another value."""

    verdict: Verdict


Fixed = Annotated[T, Resume("refused")]
"""The weights, or what the optimizer remembers, would no longer fit."""
Warned = Annotated[T, Resume("warned")]
"""The run can go on, but is no longer the one that began."""
Free = Annotated[T, Resume("free")]
"""No weight depends on it."""
Fingerprinted = Annotated[T, Resume("fingerprint")]
"""It decides which examples there are: free while their fingerprint stays the same, otherwise refused."""


def verdicts(cls: type, *, where: str = "", default: Verdict = "warned") -> dict[str, Verdict]:
    """Return the verdict of each setting below a dataclass, and of sections; entries of lists have the list's name."""
    by_name: dict[str, Verdict] = {}
    kinds = hints(cls)
    for field in dataclasses.fields(cls):
        name, kind = join(where, field.name), kinds[field.name]
        by_name[name] = verdict = field.metadata.get("resume") or _find_verdict(kind) or default
        for section in sections(kind):
            by_name = verdicts(section, where=name, default=verdict) | by_name
    return by_name


def _find_verdict(kind: Any) -> Verdict | None:
    noted = [note.verdict for note in bare(kind)[1] if isinstance(note, Resume)]
    return noted[-1] if noted else None
