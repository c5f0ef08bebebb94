"""A language model with a template: it answers texts with labels, or writes, and is measured; nothing is trained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.config.words import quantity
from regard.metrics.scores import Scores
from regard.tasks.gaps import FillsGaps, Gap
from regard.tasks.inputs import PAIR, TEXT, Inputs
from regard.tasks.prompting import evaluation, files
from regard.tasks.prompting.scoring import corrected, probabilities, scores
from regard.tasks.prompting.template import Template, Texts

BLOCK = 1024  # texts answered at a time
SEPARATOR = re.compile(r"\t| \|\|\| ")  # what separates two texts of a line


@dataclass(frozen=True)
class Choice:
    """The label of a text, with the probabilities of all labels, corrected and plain."""

    given: Texts
    label: str
    corrected: dict[str, float]
    """By what the model says of the text over what it says of an empty one."""
    uncorrected: dict[str, float]

    def __str__(self) -> str:
        return f"{self.label}\t{self.corrected[self.label]:.3f} corrected\t{self.uncorrected[self.label]:.3f} plain"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        each = [{label: round(share, 6) for label, share in one.items()} for one in (self.corrected, self.uncorrected)]
        return {**shown(self.given), "label": self.label, "corrected": each[0], "plain": each[1]}


@dataclass(frozen=True)
class Written:
    """What a model wrote in answer to a text."""

    given: Texts
    answer: str

    def __str__(self) -> str:
        return self.answer

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {**shown(self.given), "answer": self.answer}


def shown(given: Texts) -> dict[str, str]:
    """Texts as JSON."""
    return {"text": given.x, **({"second": given.y} if given.y else {})}


class Weighed:
    """The log-probabilities of all answers to some texts, beside those to inputs without content."""

    def __init__(self, template: Template, tokens: Any, empty: Any) -> None:
        self.template, self.tokens, self.empty = template, tokens, empty

    @property
    def uneven(self) -> bool:
        """Whether answers differ in length, so that the sum and the mean over their tokens differ."""
        return any(len({len(one) for one in text}) > 1 for text in self.tokens)

    def chances(self, *, per_token: bool) -> tuple[Float[np.ndarray, "text label"], Float[np.ndarray, "text label"]]:
        """Probabilities of the labels, plain and corrected."""
        found, without = (self._scores(each, per_token) for each in (self.tokens, self.empty))
        return probabilities(found), corrected(found, without)

    def levelled(self, *, per_token: bool) -> Float[np.ndarray, "text label"]:
        """Probabilities corrected by the mean over these very texts (batch calibration, Zhou et al. 2024)."""
        found = self._scores(self.tokens, per_token)
        return corrected(found, found)

    def _scores(self, tokens: Any, per_token: bool) -> Float[np.ndarray, "text label"]:
        return scores(tokens, [len(each) for each in self.template.phrases], per_token=per_token)


class Prompter:
    """A trained language model with a template."""

    def __init__(self, trained: Any, template: Template) -> None:
        if not isinstance(trained, FillsGaps):
            raise ValueError(
                f"{trained.name} is {trained.kind}; a prompt needs a language model: a GPT, a BERT or a T5"
            )
        self.trained: Any = trained
        self.template = template
        self.name = trained.name
        if trained.onward and (late := template.answered_first):
            raise ValueError(f"{late} follows [Z], and {self.name} reads from left to right alone: put [Z] last")
        if template.kind != "choose" and not trained.writes:
            raise ValueError(f"{self.name} is {trained.kind} and cannot write: give a template with answers")
        if template.kind == "choose":
            self._check_apart()

    @property
    def inputs(self) -> Inputs:
        """Texts, or pairs of them where the template takes two."""
        return Inputs(kind=PAIR if self.template.pair else TEXT, parse=self.parse)

    def parse(self, text: str) -> Texts:
        """An input as somebody types it: a text, or two between a tab or ` ||| `."""
        parts = SEPARATOR.split(text) if self.template.pair else [text]
        if self.template.pair and len(parts) != 2:
            raise ValueError(f"{text[:40]!r} is one text, the template takes two: write them as TEXT ||| TEXT")
        return Texts(*parts)

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[Choice] | list[Written]:
        """The label of each text, or what the model writes in answer to it."""
        assert not options, "a template says all there is to say"
        given = [self.parse(one) if isinstance(one, str) else Texts(*one) for one in inputs]
        places = [repr(each.x[:40]) for each in given]
        if self.template.kind != "choose":
            return [Written(one, text) for one, text in zip(given, self.write(given, places), strict=True)]
        plain, corrected = self.weigh(given, places).chances(per_token=self.template.per_token)
        best = (corrected if self.template.correct else plain).argmax(1).tolist()
        named = [
            [dict(zip(self.template.labels, row, strict=True)) for row in each.tolist()] for each in (corrected, plain)
        ]
        each = zip(given, best, *named, strict=True)
        return [Choice(one, self.template.labels[number], after, before) for one, number, after, before in each]

    def evaluate(self, *names: str | Path, name: str | None = None) -> Scores:
        """How good the answers are on files of texts with their labels or references."""
        examples, left = list[files.Example](), 0
        for each in names:
            own, without = files.read(str(each), self.template)
            examples, left = [*examples, *own], left + without
        if not examples:
            raise ValueError("no text to measure on: give at least one file")
        given, places = [one.given for one in examples], [one.place for one in examples]
        called = name or self.name
        if self.template.kind == "choose":
            found = evaluation.chosen(called, examples, self.weigh(given, places))
        else:
            found = evaluation.written(called, examples, self.write(given, places), self.template)
        notes = (
            [f"{quantity(left, 'text')} left out: no answer for {'its label' if left == 1 else 'their labels'}"]
            if left
            else []
        )
        return replace(found, notes=[*found.notes, *notes])

    def weigh(self, given: Sequence[Texts], places: Sequence[str]) -> Weighed:
        """The log-probabilities of all answers to these texts."""
        tokens = [one for block in self._fitted(given, places) for one in self.trained.weigh(block)]
        return Weighed(self.template, tokens, self._empty)

    def write(self, given: Sequence[Texts], places: Sequence[str]) -> list[str]:
        """What the model writes in answer to these texts."""
        how = {"length": self.template.length, "stop": self.template.stop}
        return [one for block in self._fitted(given, places) for one in self.trained.complete(block, **how)]

    @cached_property
    def _empty(self) -> list[list[list[float]]]:
        """The same of inputs without content."""
        return self.trained.weigh([self.template.gap(Texts(each, each)) for each in self.template.empty])

    def _fitted(self, given: Sequence[Texts], places: Sequence[str]) -> Iterator[list[Gap]]:
        """Prompts in blocks, each as long as the model reads: of what is too long texts are cut, never the template."""
        for first in range(0, len(given), BLOCK):
            texts, where = list(given[first : first + BLOCK]), places[first : first + BLOCK]
            gaps = [self.template.gap(each) for each in texts]
            open = list(range(len(gaps)))
            while open:
                sizes = self._sizes([gaps[n] for n in open])
                long = [(n, size) for n, size in zip(open, sizes, strict=True) if size > self.trained.reach]
                for n, size in long:
                    texts[n] = self._shorter(texts[n], size, where[n])
                    gaps[n] = self.template.gap(texts[n])
                open = [n for n, _ in long]
            yield gaps

    def _sizes(self, gaps: Sequence[Gap]) -> list[int]:
        length = 0 if self.template.kind == "choose" else self.template.length
        return self.trained.sizes(gaps, length=length)

    def _shorter(self, texts: Texts, size: int, place: str) -> Texts:
        """Texts without some words of the longer one, or the line that says why not."""
        limit, cut = self.trained.reach, self.template.cut
        sides = [each.split() for each in texts]
        longer = max((0, 1), key=lambda side: len(sides[side]))
        if not sides[longer]:
            raise ValueError(
                f"the template alone has {size} tokens, {self.name} reads {limit}: shorten it, or give fewer examples"
            )
        if cut == "refuse":
            raise ValueError(
                f"{place}: {size} tokens with the template, {self.name} reads {limit}: shorten the text, "
                "or let its end be cut off (cut=end, cut=start)"
            )
        gone = max(1, (size - limit) * len(sides[longer]) // size)
        sides[longer] = sides[longer][: len(sides[longer]) - gone] if cut == "end" else sides[longer][gone:]
        return Texts(*map(" ".join, sides))

    def _check_apart(self) -> None:
        """Stop at answers that this model cannot tell apart: the same tokens, or the beginning of another's."""
        words = self.template.candidates
        owners = [label for label, own in zip(self.template.labels, self.template.phrases, strict=True) for _ in own]
        pieces = self.trained.pieces(self.template.gap(Texts("", "")))
        for number, ids in enumerate(pieces):
            for other in (n for n in range(len(pieces)) if owners[n] != owners[number]):
                if ids == pieces[other] or not ids:
                    raise ValueError(
                        f"answers: {words[number]!r} and {words[other]!r} are the same tokens to {self.name}: "
                        "choose words that it knows apart"
                    )
                if self.trained.onward and pieces[other][: len(ids)] == ids:
                    raise ValueError(
                        f"answers: {words[other]!r} begins with {words[number]!r} and can never be likelier: "
                        "choose words of which none begins another"
                    )


def prompt(trained: Any, template: Template, texts: Any = None) -> Any:
    """A model with a template, or its answer to a text, or its answers to several."""
    found = Prompter(trained, template)
    if texts is None:
        return found
    return found.answer([texts])[0] if isinstance(texts, str) else found.answer(texts)
