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

from regard.metrics.scores import Scores
from regard.tasks.inputs import PAIR, TEXT, Inputs
from regard.tasks.promptable import Gap, Promptable
from regard.tasks.prompting import evaluation, files
from regard.tasks.prompting.scoring import calibrate, probabilities, score_labels
from regard.tasks.prompting.template import Template, Texts

BLOCK = 1024  # texts answered at a time
SEPARATOR = re.compile(r"\t| \|\|\| ")  # what separates two texts of a line


@dataclass(frozen=True)
class Choice:
    """The predicted label of a text, with the probabilities of all labels, calibrated and plain."""

    texts: Texts
    label: str
    corrected: dict[str, float]
    """By what the model says of the text over what it says of an empty one."""
    uncorrected: dict[str, float]

    def __str__(self) -> str:
        return f"{self.label}\t{self.corrected[self.label]:.3f} corrected\t{self.uncorrected[self.label]:.3f} plain"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        rounded = [
            {label: round(share, 6) for label, share in shares.items()} for shares in (self.corrected, self.uncorrected)
        ]
        return {**texts_to_json(self.texts), "label": self.label, "corrected": rounded[0], "plain": rounded[1]}


@dataclass(frozen=True)
class Written:
    """The text that a model generated for an input."""

    texts: Texts
    answer: str

    def __str__(self) -> str:
        return self.answer

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {**texts_to_json(self.texts), "answer": self.answer}


def texts_to_json(texts: Texts) -> dict[str, str]:
    """Return texts as JSON."""
    return {"text": texts.x, **({"second": texts.y} if texts.y else {})}


class AnswerScores:
    """The log-probabilities of all answers to some texts, and to content-free inputs."""

    def __init__(self, template: Template, tokens: Any, empty: Any) -> None:
        self.template, self.tokens, self.empty = template, tokens, empty

    @property
    def lengths_differ(self) -> bool:
        """True if answers differ in their number of tokens, so that sum and mean can rank them differently."""
        return any(len({len(answer) for answer in text}) > 1 for text in self.tokens)

    def chances(self, *, per_token: bool) -> tuple[Float[np.ndarray, "text label"], Float[np.ndarray, "text label"]]:
        """Return the label probabilities, plain and calibrated by content-free inputs."""
        label_scores, empty_scores = (self._scores(tokens, per_token) for tokens in (self.tokens, self.empty))
        return probabilities(label_scores), calibrate(label_scores, empty_scores)

    def calibrate_by_batch(self, *, per_token: bool) -> Float[np.ndarray, "text label"]:
        """Return the label probabilities calibrated by their mean over these texts (Zhou et al. 2024)."""
        label_scores = self._scores(self.tokens, per_token)
        return calibrate(label_scores, label_scores)

    def _scores(self, tokens: Any, per_token: bool) -> Float[np.ndarray, "text label"]:
        return score_labels(tokens, [len(words) for words in self.template.phrases], per_token=per_token)


class Prompter:
    """A language model with a prompt template, used without training."""

    def __init__(self, trained: Any, template: Template) -> None:
        if not isinstance(trained, Promptable):
            raise ValueError(
                f"{trained.name} is {trained.kind}; a prompt needs a language model: a GPT, a BERT or a T5"
            )
        self.trained: Any = trained
        self.template = template
        self.name = trained.name
        if trained.left_to_right and (late := template.text_after_answer):
            raise ValueError(f"{late} follows [Z], and {self.name} reads from left to right alone: put [Z] last")
        if template.kind != "choose" and not trained.writes:
            raise ValueError(f"{self.name} is {trained.kind} and cannot write: give a template with answers")
        if template.kind == "choose":
            self._check_answers_differ()

    @property
    def inputs(self) -> Inputs:
        """The kind of input: a text, or a pair if the template takes two."""
        return Inputs(kind=PAIR if self.template.pair else TEXT, parse=self.parse)

    def parse(self, text: str) -> Texts:
        """Parse an input: a text, or two texts separated by a tab or ` ||| `."""
        parts = SEPARATOR.split(text) if self.template.pair else [text]
        if self.template.pair and len(parts) != 2:
            raise ValueError(f"{text[:40]!r} is one text, the template takes two: write them as TEXT ||| TEXT")
        return Texts(*parts)

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[Choice] | list[Written]:
        """Return the label of each text, or the text that the model generates for it."""
        assert not options, "a template says all there is to say"
        texts = [self.parse(entry) if isinstance(entry, str) else Texts(*entry) for entry in inputs]
        places = [repr(part.x[:40]) for part in texts]
        if self.template.kind != "choose":
            return [Written(entry, text) for entry, text in zip(texts, self.write(texts, places), strict=True)]
        plain, calibrated = self.score_candidates(texts, places).chances(per_token=self.template.per_token)
        best = (calibrated if self.template.correct else plain).argmax(1).tolist()
        label_chances = [
            [dict(zip(self.template.labels, row, strict=True)) for row in part.tolist()] for part in (calibrated, plain)
        ]
        part = zip(texts, best, *label_chances, strict=True)
        return [Choice(entry, self.template.labels[number], after, before) for entry, number, after, before in part]

    def evaluate(self, *names: str | Path, name: str | None = None) -> Scores:
        """Evaluate the answers on files of texts with labels or references."""
        examples, notes = list[files.Example](), list[str]()
        for file in names:
            file_examples, file_notes = files.read(str(file), self.template)
            examples += file_examples
            notes += file_notes
        if not examples:
            raise ValueError("no text to measure on: give at least one file")
        texts, places = [example.texts for example in examples], [example.place for example in examples]
        called = name or self.name
        if self.template.kind == "choose":
            result = evaluation.score_choices(called, examples, self.score_candidates(texts, places))
        else:
            result = evaluation.score_writing(called, examples, self.write(texts, places), self.template)
        return replace(result, notes=[*result.notes, *notes])

    def score_candidates(self, texts: Sequence[Texts], places: Sequence[str]) -> AnswerScores:
        """Return the log-probabilities of all answers to these texts."""
        tokens = [
            log_probs
            for block in self._fit_prompts(texts, places)
            for log_probs in self.trained.score_candidates(block)
        ]
        return AnswerScores(self.template, tokens, self._empty)

    def write(self, texts: Sequence[Texts], places: Sequence[str]) -> list[str]:
        """Return the texts that the model generates for these inputs."""
        how = {"length": self.template.length, "stop": self.template.stop}
        return [answer for block in self._fit_prompts(texts, places) for answer in self.trained.complete(block, **how)]

    @cached_property
    def _empty(self) -> list[list[list[float]]]:
        """The log-probabilities of all answers to content-free inputs."""
        return self.trained.score_candidates([self.template.gap(Texts(text, text)) for text in self.template.empty])

    def _fit_prompts(self, inputs: Sequence[Texts], places: Sequence[str]) -> Iterator[list[Gap]]:
        """Yield blocks of prompts within the model's context; texts that are too long are cut, the template never."""
        for first in range(0, len(inputs), BLOCK):
            texts, where = list(inputs[first : first + BLOCK]), places[first : first + BLOCK]
            gaps = [self.template.gap(text) for text in texts]
            remaining = list(range(len(gaps)))
            while remaining:
                sizes = self._sizes([gaps[n] for n in remaining])
                too_long = [(n, size) for n, size in zip(remaining, sizes, strict=True) if size > self.trained.reach]
                for n, size in too_long:
                    texts[n] = self._cut_text(texts[n], size, where[n])
                    gaps[n] = self.template.gap(texts[n])
                remaining = [n for n, _ in too_long]
            yield gaps

    def _sizes(self, gaps: Sequence[Gap]) -> list[int]:
        length = 0 if self.template.kind == "choose" else self.template.length
        return self.trained.sizes(gaps, length=length)

    def _cut_text(self, texts: Texts, size: int, place: str) -> Texts:
        """Return the texts with the longer one shortened; raise ValueError if it must not or cannot be cut."""
        limit, cut = self.trained.reach, self.template.cut
        sides = [text.split() for text in texts]
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
        removed = max(1, (size - limit) * len(sides[longer]) // size)
        sides[longer] = sides[longer][: len(sides[longer]) - removed] if cut == "end" else sides[longer][removed:]
        return Texts(*map(" ".join, sides))

    def _check_answers_differ(self) -> None:
        """Raise ValueError if answers have the same tokens, or one is a prefix of another in a left-to-right model."""
        words = self.template.candidates
        owners = [
            label
            for label, label_phrases in zip(self.template.labels, self.template.phrases, strict=True)
            for _ in label_phrases
        ]
        pieces = self.trained.pieces(self.template.gap(Texts("", "")))
        for number, ids in enumerate(pieces):
            for other in (n for n in range(len(pieces)) if owners[n] != owners[number]):
                if ids == pieces[other] or not ids:
                    raise ValueError(
                        f"answers: {words[number]!r} and {words[other]!r} are the same tokens to {self.name}: "
                        "choose words that it knows apart"
                    )
                if self.trained.left_to_right and pieces[other][: len(ids)] == ids:
                    raise ValueError(
                        f"answers: {words[other]!r} begins with {words[number]!r} and can never be likelier: "
                        "choose words of which none begins another"
                    )


def prompt(trained: Any, template: Template, texts: Any = None) -> Any:
    """Return a prompter, or its answer to a text, or its answers to several."""
    prompter = Prompter(trained, template)
    if texts is None:
        return prompter
    return prompter.answer([texts])[0] if isinstance(texts, str) else prompter.answer(texts)
