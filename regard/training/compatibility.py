"""Changes of settings and data between the start of a run and its resuming: refused, warned about, or free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.config.resuming import Verdict


@dataclass(frozen=True)
class Changes:
    """Changes, each as `model.width: 128 -> 256`, grouped by whether they are refused, warned about, or free."""

    refused: list[str] = field(default_factory=list)
    """Changes with which the run cannot be resumed."""
    warned: list[str] = field(default_factory=list)
    """Changes with which the run can be resumed, but gives other results."""
    free: list[str] = field(default_factory=list)
    """Changes that do not affect the weights."""


def judge_changes(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    data_before: Mapping[str, Any],
    data_after: Mapping[str, Any],
    *,
    verdicts: Mapping[str, Verdict],
) -> Changes:
    """Classify the changes of settings and data since the run began; data are compared by their reports in data.json.

    `verdicts` are those that `config.verdicts` reads from the fields of the settings.
    """
    judged = Changes()
    data = list(_data_changes(data_before, data_after))
    has_fingerprints = bool(_fingerprints(data_before)) and bool(_fingerprints(data_after))
    for name, first, second in differences(before, after):
        verdict = _verdict(name, verdicts)
        if verdict == "fingerprint":
            verdict = "refused" if data or not has_fingerprints else "free"
        getattr(judged, verdict).append(f"{name}: {_abbreviate(first)} -> {_abbreviate(second)}")
    judged.refused.extend(data)
    return judged


def differences(before: Any, after: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield every setting that differs, with both values; a missing one counts as null."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from differences(before.get(key), after.get(key), f"{name}.{key}" if name else str(key))
    elif _sections(before) and _sections(after) and len(before) == len(after):
        for number, (first, second) in enumerate(zip(before, after, strict=True)):
            yield from differences(first, second, f"{name}[{number}]")
    elif _as_lists(before) != _as_lists(after):
        yield name, before, after


def _sections(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(v, Mapping) for v in value)


def _as_lists(value: Any) -> Any:
    """Convert tuples to lists, as YAML does."""
    return [_as_lists(entry) for entry in value] if isinstance(value, list | tuple) else value


def _verdict(name: str, verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict of a setting, or else of the nearest section around it."""
    plain = re.sub(r"\[\d+\]", "", name)
    while plain and plain not in verdicts:
        plain = plain.rpartition(".")[0]
    return verdicts.get(plain, "warned")


def _fingerprints(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprints in a data report by the name of their dataset."""
    sets = {name: value.get("fingerprint") for name, value in data.items() if isinstance(value, Mapping)}
    return {name: fingerprint for name, fingerprint in sets.items() if fingerprint}


def _data_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between the examples of two data reports, by file where known."""
    for name, first, second in differences(before.get("vocab"), after.get("vocab"), "vocab"):
        yield f"{name}: {_abbreviate(first)} -> {_abbreviate(second)} tokens"
    old, new = _fingerprints(before), _fingerprints(after)
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            first, second = before.get(name, {}), after.get(name, {})
            files = list(_file_changes(first.get("corpora", []), second.get("corpora", [])))
            if first.get("pairs", 0) != second.get("pairs", 0):
                files.append(f"{name} pairs: {first.get('pairs', 0):,} -> {second.get('pairs', 0):,}")
            short = " -> ".join(str(fingerprints.get(name, "null"))[:12] for fingerprints in (old, new))
            yield from files or [f"data.json.{name}.fingerprint: {short}"]


def _file_changes(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the files whose contents differ between two lists of corpora."""
    if len(before) != len(after):
        yield f"corpora: {len(before)} -> {len(after)}"
    for first, second in zip(before, after, strict=False):
        old, new = (list(zip(corpus["files"], corpus.get("sha256", []), strict=False)) for corpus in (first, second))
        for (name, digest), (renamed, redigest) in zip(old, new, strict=False):
            if digest != redigest:
                names = renamed if name == renamed else f"{name} -> {renamed}"
                lines = f", {first['read']:,} -> {second['read']:,} lines" if first["read"] != second["read"] else ""
                yield f"{names}: sha256 {digest[:12]} -> {redigest[:12]}{lines}"


def _abbreviate(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
