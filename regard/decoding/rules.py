"""Settings that each example of a lane has for itself, by its number: rules, and distributions to sample from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.decoding.constraints import ABSENT, Constraint, Goal
from regard.decoding.sampling import Distribution

Setting = TypeVar("Setting")
Rules = tuple[Constraint, ...]
REMEMBERED = 64  # latest settings that new ones are compared with


def has_goals(rules: Rules) -> bool:
    """True if any rule takes several steps to fulfil."""
    return any(isinstance(rule, Goal) for rule in rules)


class RowRules:
    """The rule of a lane that applies each example's own rules."""

    def __init__(self) -> None:
        self.rules: dict[int, Rules] = {}

    def check(self, examples: int, vocab: int) -> None:
        """Check that the rules fit the vocabulary."""
        for rules in _distinct(self.rules.values()):
            for rule in rules:
                rule.check(1, vocab)

    def forbid(self, scores: Tensor, written: Tensor, rows: Tensor, eos: int) -> None:
        """Set the scores of tokens that may not follow to -inf, in place."""
        for rules, places in group_rows(self.rules, rows):
            if not rules:
                continue
            row_scores = scores if places is None else scores[places]
            text = written if places is None else written[places]
            for rule in rules:
                rule.forbid(row_scores, text, _alone(text), eos)
            if places is not None:
                scores[places] = row_scores


class RowGoals(RowRules):
    """The rule of a lane in which some examples have goals, which take several steps to fulfil."""

    def progress(self, written: Tensor, tokens: Tensor, rows: Tensor) -> Tensor:
        """Return the progress of each answer with one more token."""
        totals = torch.zeros_like(tokens)
        for goal, places in self._goals(rows):
            text = written[places]
            totals[places] += goal.progress(text, tokens[places], _alone(text))
        return totals

    def next_tokens(self, written: Tensor, rows: Tensor) -> Tensor:
        """Return tokens that would advance an answer, negative where there is none."""
        parts = [torch.full((*written.shape[:2], 0), ABSENT)]
        for goal, places in self._goals(rows):
            text = written[places]
            tokens = goal.next_tokens(text, _alone(text))
            part = torch.full((*written.shape[:2], tokens.shape[-1]), ABSENT)
            part[places] = tokens
            parts.append(part)
        return torch.cat(parts, -1)

    def _goals(self, rows: Tensor) -> Iterator[tuple[Goal, Tensor]]:
        for rules, places in group_rows(self.rules, rows):
            everywhere = torch.arange(len(rows)) if places is None else places
            yield from ((rule, everywhere) for rule in rules if isinstance(rule, Goal))


class RowDistributions:
    """The distributions that the examples of a lane are sampled from, one for each."""

    def __init__(self) -> None:
        self.distributions: dict[int, Distribution] = {}

    def warp(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Return the logits of the distributions to sample from."""
        warped: Tensor | None = None
        for distribution, places in group_rows(self.distributions, rows):
            if places is None:
                return distribution.warp(logits)
            warped = torch.empty_like(logits) if warped is None else warped
            warped[places] = distribution.warp(logits[places])
        return logits if warped is None else warped


def group_rows(settings: Mapping[int, Setting], rows: Tensor) -> Iterator[tuple[Setting, Tensor | None]]:
    """Yield each distinct setting with the indices of its rows, or with None if all rows share it.

    Settings are the same if they are the same object.
    """
    numbers = rows.tolist()
    if not numbers:
        return
    places: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places.setdefault(id(settings[number]), []).append(place)
    for group in places.values():
        everywhere = len(group) == len(numbers)
        yield settings[numbers[group[0]]], None if everywhere else torch.tensor(group, device=rows.device)


class Interner:
    """A store that replaces equal settings of the latest requests by one object."""

    def __init__(self) -> None:
        self._known: deque[Any] = deque(maxlen=REMEMBERED)

    def intern(self, setting: Setting) -> Setting:
        """Return an equal setting seen before, or this one."""
        for remembered in self._known:
            if type(remembered) is type(setting) and remembered == setting:
                return remembered  # type: ignore[no-any-return]
        self._known.append(setting)
        return setting


def _alone(text: Tensor) -> Tensor:
    """Return the example number in a rule for one example, which is 0, for each row."""
    return torch.zeros(len(text), dtype=torch.int64, device=text.device)


def _distinct(settings: Any) -> list[Any]:
    return list({id(setting): setting for setting in settings}.values())
