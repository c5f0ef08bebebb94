"""Limits checked on a tokenizer.json before the library loads it: sizes, and consistency of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from regard.config.expressions import explosive
from regard.config.words import as_json
from regard.data.tokenizers.charsmap import charsmaps, check_charsmap

MOST_MERGES = 2_000_000
MOST_ADDED = 100_000
MOST_STEPS = 32  # of a normalizer, a pre-tokenizer, a post-processor or a decoder
MOST_GROWING = {"ByteLevel": 2, "Precompiled": 1}  # steps that lengthen a text each time
MOST_FRAME = 64  # tokens that may be added around a text
LONGEST_TEXT = 1000  # characters that a step may insert
GROWTH = 20  # factor by which all Replace steps together may lengthen a text
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
INNER = ("normalizers", "pretokenizers", "processors", "decoders")


def check_tokenizer(document: Any) -> None:
    """Raise ValueError for a tokenizer.json on which the library could panic, or that lengthens texts excessively.

    Only the file is checked, which is cheap; an imported tokenizer is also tried in a separate process.
    """
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise ValueError("a tokenizer.json must be an object with a model")
    check_added_tokens(document)
    check_merges(document["model"])
    if document["model"].get("dropout"):
        raise ValueError("its model has dropout, so the same text would get other tokens every time")
    for name in ("padding", "truncation"):
        if document.get(name) is not None:
            raise ValueError(f"its {name} must be null: texts are neither filled up nor cut by it")
    for part in PARTS:
        steps = list(_steps(document.get(part)))
        if len(steps) > MOST_STEPS:
            raise ValueError(f"its {part} has {len(steps):,} steps, and {MOST_STEPS} are possible")
        for kind, most in MOST_GROWING.items():
            if sum(step.get("type") == kind for step in steps) > most:
                raise ValueError(f"its {part} has more than {most} {kind} steps, and every one makes texts longer")
        if (growth := prod(map(_growth, steps))) > GROWTH:
            raise ValueError(f"its {part} can make a text {growth:,} times as long: {GROWTH} times are possible")
        for step in steps:
            _check_template(step)
    for charsmap in charsmaps(document.get("normalizer")):
        check_charsmap(charsmap)


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a part, with sequences flattened."""
    if not isinstance(part, dict):
        return
    if part.get("type") != "Sequence":
        yield part
        return
    for name in INNER:
        inner = part.get(name)
        for step in inner if isinstance(inner, list) else ():
            yield from _steps(step)


def _growth(step: Mapping[str, Any]) -> int:
    """Return by how much a step that replaces texts can lengthen one; 1 for all others."""
    for name in ("content", "prepend"):
        if isinstance(text := step.get(name), str) and len(text) > LONGEST_TEXT:
            raise ValueError(f"a step puts in {len(text):,} characters, and {LONGEST_TEXT:,} are possible")
    content, pattern = step.get("content"), step.get("pattern")
    if step.get("type") != "Replace" or not isinstance(content, str) or not isinstance(pattern, dict):
        return 1
    if isinstance(text := pattern.get("String"), str) and text:
        return max(1, -(-len(content) // len(text)))
    return max(1, len(content) + _matches_nothing(pattern.get("Regex")))


def _matches_nothing(pattern: Any) -> bool:
    """True if an expression can match the empty string, as far as that can be determined."""
    try:
        return re.match(pattern, "") is not None
    except (re.error, TypeError, RecursionError, OverflowError):
        return True


def _check_template(step: Mapping[str, Any]) -> None:
    """Raise ValueError for a template with an unlisted token, a repeated text, or too many tokens."""
    if step.get("type") != "TemplateProcessing":
        return
    listed = step.get("special_tokens")
    for form in ("single", "pair"):
        pieces = step.get(form)
        if not isinstance(listed, dict) or not isinstance(pieces, list) or not all(isinstance(p, dict) for p in pieces):
            raise ValueError("its template must be lists of pieces, and the special tokens in them")
        names = [_piece_id(piece, "SpecialToken") for piece in pieces if "SpecialToken" in piece]
        if unknown := next((name for name in names if name not in listed), None):
            raise ValueError(f"its template puts in the token {as_json(unknown)}, which it does not list")
        tokens = sum(_token_count(listed[name]) for name in names)
        if tokens > MOST_FRAME:
            raise ValueError(f"its template puts more than {MOST_FRAME} tokens around every text")
        texts = [_piece_id(piece, "Sequence") for piece in pieces if "Sequence" in piece]
        if len(texts) != len(set(texts)):
            raise ValueError("its template repeats a text: every text may be there once")


def _piece_id(piece: Mapping[str, Any], kind: str) -> str:
    name = piece[kind].get("id") if isinstance(piece[kind], dict) else None
    if not isinstance(name, str):
        raise ValueError(f"a piece of its template must name its {kind}, not be {as_json(piece)}")
    return name


def _token_count(token: Any) -> int:
    ids = token.get("ids") if isinstance(token, dict) else None
    return len(ids) if isinstance(ids, Sequence) else 1


def check_added_tokens(document: Mapping[str, Any]) -> None:
    """Raise ValueError for a list of added tokens that is too long or has duplicates."""
    listed = document.get("added_tokens") or []
    if not isinstance(listed, list) or not all(isinstance(token, dict) for token in listed):
        raise ValueError("added_tokens must be a list of objects")
    if len(listed) > MOST_ADDED:
        raise ValueError(f"added_tokens lists {len(listed):,} tokens, and {MOST_ADDED:,} are possible")
    names = set()
    for token in listed:
        name = token.get("content")
        if not isinstance(name, str) or not name:
            raise ValueError(f"a token must be an object with content, not {as_json(token)}")
        if name in names:
            raise ValueError(f"added_tokens lists {as_json(name)} twice")
        names.add(name)


def check_merges(model: Any) -> None:
    """Raise ValueError for too many merges, or for pieces that the vocabulary lacks."""
    merges = model.get("merges") if isinstance(model, dict) else None
    if not isinstance(merges, list) or not isinstance(model.get("vocab"), dict):
        return
    if len(merges) > MOST_MERGES:
        raise ValueError(f"the tokenizer has {len(merges):,} merges, and {MOST_MERGES:,} are possible")
    vocab, prefix = model["vocab"], model.get("continuing_subword_prefix") or ""
    for first, second in _pairs(merges):
        merged = first + second[len(prefix) :]
        if lacking := next((piece for piece in (first, second, merged) if piece not in vocab), None):
            pair = f"{as_json(first)} and {as_json(second)}"
            raise ValueError(f"a merge joins {pair}, and the vocabulary lacks {as_json(lacking)}")


def _pairs(merges: list[Any]) -> Iterator[tuple[str, str]]:
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(piece, str) for piece in pair):
            raise ValueError(f"a merge must name two pieces, not be {as_json(merge)}")
        yield pair[0], pair[1]


def refuse_explosive(document: Any) -> None:
    """Raise ValueError for a regular expression that may take exponential time."""
    for pattern in _patterns(document):
        if explosive(pattern):
            why = "which may take exponential time on some of them"
            raise ValueError(f"tokenizer.json splits texts by {pattern[:60]!r}, {why}")


def _patterns(value: Any) -> Iterator[str]:
    """Yield the regular expressions of a tokenizer.json."""
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if name == "Regex" and isinstance(inner, str):
            yield inner
        elif name not in ("vocab", "merges", "added_tokens") and isinstance(inner, dict | list):
            yield from _patterns(inner)
