"""Probabilities of candidate answers in the gap of a text, by a GPT, a BERT and a T5, and their own answers.

An answer is tokenised together with the text before it, so that " word" after a space is not "word". A GPT reads the
text before the gap once and every answer after it; a BERT reads as many masks as an answer has tokens, which are
revealed one by one from left to right (a pseudo-log-likelihood); a T5 reads a sentinel and generates the span and its
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.attention.hardware import device_of
from regard.attention.masks import Row
from regard.data.tokenizers import Tokenizer
from regard.decoding.batching import by_length, in_order, padded
from regard.decoding.generate import generate
from regard.decoding.teacher_forcing import score_continuations
from regard.tasks.pretraining.tokenising import encode_ends, encode_parts
from regard.tasks.promptable import Gap

BUDGET = 1 << 13  # tokens per batch
SENTINEL = "<extra_id_0>"
Split = tuple[list[int], list[list[int]]]


def split_at_gaps(tokenizer: Tokenizer, gaps: Sequence[Gap]) -> list[Split]:
    """Return for each gap the tokens before it, and the tokens of every candidate after these.

    If a candidate shares a token with the end of the text before it, all candidates start with that end.
    """
    splits = []
    for head, ends in zip(*encode_ends(tokenizer, [(gap.before, gap.candidates) for gap in gaps]), strict=True):
        before, *wholes = ends
        shared = min(
            (min(_common_prefix_length(before, whole), len(whole) - 1) for whole in wholes), default=len(before)
        )
        splits.append(([*head, *before[:shared]], [whole[shared:] for whole in wholes]))
    return splits


def _common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


class Prompted:
    """Base of the three model families."""

    left_to_right: ClassVar[bool] = False
    writes: ClassVar[bool] = True
    model: Any
    tokenizer: Tokenizer

    @property
    def reach(self) -> int:
        """Return the maximum number of tokens that the model reads."""
        return self.model.config.context

    def pieces(self, gap: Gap) -> list[list[int]]:
        """Return the tokens of each candidate in this text."""
        return split_at_gaps(self.tokenizer, [gap])[0][1]

    def _encode_after(self, gaps: Sequence[Gap]) -> list[list[int]]:
        """Return the tokens after each gap."""
        return [encode_parts(self.tokenizer, ["a", gap.after])[1] for gap in gaps]


class PromptedGPT(Prompted):
    """A GPT, which answers with a continuation."""

    left_to_right: ClassVar[bool] = True
    eos: int | None
    opening: Any
    unreadable: Any
    decode: Any

    def sizes(self, gaps: Sequence[Gap], *, length: int = 0) -> list[int]:
        """Return the number of tokens of each text with its longest candidate, or with an answer of this length."""
        return [
            len(self._prompt_ids(before)) + max([length, *map(len, answers)])
            for before, answers in split_at_gaps(self.tokenizer, gaps)
        ]

    @torch.no_grad()
    def score_candidates(self, gaps: Sequence[Gap]) -> list[list[list[float]]]:
        """Return the log-probabilities of every candidate's tokens after the text before the gap, read once."""
        parts = [(self._prompt_ids(before), answers) for before, answers in split_at_gaps(self.tokenizer, gaps)]
        self.model.eval()
        batches = by_length([len(before) for before, _ in parts], budget=BUDGET)
        batch_scores = []
        for batch in batches:
            tokens, lengths = padded([parts[n][0] for n in batch], self.tokenizer.filler)
            inputs = [tensor.to(device_of(self.model)) for tensor in (tokens, lengths)]
            batch_scores.append(score_continuations(self.model, inputs, [parts[n][1] for n in batch]))
        return in_order(batches, batch_scores)

    @torch.no_grad()
    def complete(self, gaps: Sequence[Gap], *, length: int, stop: str = "") -> list[str]:
        """Return the likeliest continuation of the text before each gap, up to the stop sequence."""
        prompts = [self._prompt_ids(before) for before, _ in split_at_gaps(self.tokenizer, gaps)]
        self.model.eval()
        batches = by_length([len(ids) for ids in prompts], budget=BUDGET)
        continuations = []
        for batch in batches:
            tokens, lengths = padded([prompts[n] for n in batch], self.tokenizer.filler)
            inputs = [tensor.to(device_of(self.model)) for tensor in (tokens, lengths)]
            written = generate(self.model, inputs, limit=length, eos=self.eos, constraints=[self.unreadable])
            continuations.append([hypothesis.tokens for [hypothesis] in written])
        completed = zip(prompts, in_order(batches, continuations), strict=True)
        return [_cut_at_stop(self._decode_continuation(before, after), stop) for before, after in completed]

    def _prompt_ids(self, before: list[int]) -> list[int]:
        """Return the input before an answer: the opening and the text, or an end token if both are empty."""
        return [*self.opening, *before] or [self.tokenizer.role("end")]

    def _decode_continuation(self, before: list[int], after: list[int]) -> str:
        return self.decode([*before, *after])[len(self.decode(before)) :]


class PromptedBERT(Prompted):
    """A BERT, which scores answers at masks."""

    writes: ClassVar[bool] = False
    _require_masked_head: Any

    def sizes(self, gaps: Sequence[Gap], *, length: int = 0) -> list[int]:
        """Return the number of tokens of each text with its longest candidate, or with an answer of this length."""
        parts = zip(split_at_gaps(self.tokenizer, gaps), self._encode_after(gaps), strict=True)
        return [2 + len(before) + max([length, *map(len, answers)]) + len(after) for (before, answers), after in parts]

    def score_candidates(self, gaps: Sequence[Gap]) -> list[list[list[float]]]:
        """Return the log-probabilities of every candidate's tokens, later ones masked; equal inputs are read once."""
        self._require_masked_head()
        texts: dict[tuple[int, ...], int] = {}
        gap_questions: list[list[list[tuple[int, int, int]]]] = []  # text, position, token
        for (before, answers), after in zip(split_at_gaps(self.tokenizer, gaps), self._encode_after(gaps), strict=True):
            steps = [list(self._steps(before, answer, after)) for answer in answers]
            gap_questions.append(
                [[(texts.setdefault(ids, len(texts)), *rest) for ids, *rest in candidate] for candidate in steps]
            )  # type: ignore[misc]
        questions = [question for gap in gap_questions for candidate in gap for question in candidate]
        log_probs = iter(self._token_log_probs(list(texts), questions))
        return [[[next(log_probs) for _ in candidate] for candidate in gap] for gap in gap_questions]

    def complete(self, gaps: Sequence[Gap], *, length: int, stop: str = "") -> list[str]:
        """Raise AssertionError, since a BERT does not generate."""
        raise AssertionError("a masked language model cannot write")

    def _steps(self, before: list[int], answer: list[int], after: list[int]) -> Any:
        """Yield for each token of an answer the input, its position, and the token."""
        tokenizer = self.tokenizer
        first = [tokenizer.role("begin"), *before]
        for position, token in enumerate(answer):
            masks = [tokenizer.role("mask")] * (len(answer) - position)
            yield (
                (*first, *answer[:position], *masks, *after, tokenizer.role("separator")),
                len(first) + position,
                token,
            )

    @torch.no_grad()
    def _token_log_probs(
        self, texts: Sequence[Sequence[int]], questions: Sequence[tuple[int, int, int]]
    ) -> list[float]:
        """Return the log-probability of each token at its position in its text."""
        device = device_of(self.model)
        self.model.eval()
        by_text: dict[int, list[int]] = {}
        for number, (text, _, _) in enumerate(questions):
            by_text.setdefault(text, []).append(number)
        answers = [0.0] * len(questions)
        for batch in by_length([len(ids) for ids in texts], budget=BUDGET):
            row = Row.of([len(texts[n]) for n in batch]).to(device)
            flat = torch.tensor([id for n in batch for id in texts[n]], device=device)
            starts = dict(zip(batch, row.offsets.tolist(), strict=False))
            numbers = [number for text in batch for number in by_text[text]]
            positions = [starts[questions[number][0]] + questions[number][1] for number in numbers]
            distinct = sorted(set(positions))
            features = self.model(flat, layout=row).index_select(0, torch.tensor(distinct, device=device))
            logits = _promote_to_float32(self.model.logits(features)).log_softmax(-1)
            lines = torch.tensor([distinct.index(position) for position in positions], device=device)
            tokens = torch.tensor([questions[number][2] for number in numbers], device=device)
            for number, value in zip(numbers, logits[lines, tokens].tolist(), strict=True):
                answers[number] = value
        return answers


class PromptedT5(Prompted):
    """A T5, which answers with the span for a sentinel."""

    answer: Any
    _sentinel: Any

    def sizes(self, gaps: Sequence[Gap], *, length: int = 0) -> list[int]:
        """Return the number of tokens of each text as it is read; the decoder's length is separate."""
        return [len(ids) for ids in self._sources(gaps)]

    @torch.no_grad()
    def score_candidates(self, gaps: Sequence[Gap]) -> list[list[list[float]]]:
        """Return the log-probabilities of every candidate's tokens and its end."""
        tokenizer, device = self.tokenizer, device_of(self.model)
        end, sources = tokenizer.role("end"), self._sources(gaps)
        answers = [[[*ids, end] for ids in candidates] for _, candidates in split_at_gaps(tokenizer, gaps)]
        self.model.eval()
        batches = by_length([len(ids) for ids in sources], budget=BUDGET)
        batch_scores = []
        for batch in batches:
            source, lengths = padded([sources[n] for n in batch], tokenizer.filler)
            prompt = torch.tensor([[tokenizer.filler, self._sentinel(SENTINEL)]] * len(batch))
            inputs = [tensor.to(device) for tensor in (source, lengths, prompt)]
            batch_scores.append(score_continuations(self.model, inputs, [answers[n] for n in batch]))
        return in_order(batches, batch_scores)

    def complete(self, gaps: Sequence[Gap], *, length: int, stop: str = "") -> list[str]:
        """Return the likeliest span for the sentinel of each gap."""
        texts = [f"{gap.before}{SENTINEL}{gap.after}" for gap in gaps]
        spans = [(restored.spans or [restored.answer])[0] for restored in self.answer(texts, length=length)]
        return [_cut_at_stop(span, stop) for span in spans]

    def _sources(self, gaps: Sequence[Gap]) -> list[list[int]]:
        tokenizer, gap = self.tokenizer, self._sentinel(SENTINEL)
        parts = zip(split_at_gaps(tokenizer, gaps), self._encode_after(gaps), strict=True)
        return [[*before, gap, *after, tokenizer.role("end")] for (before, _), after in parts]


def _cut_at_stop(text: str, stop: str) -> str:
    """Return a text up to the first stop sequence after its first visible character."""
    text = text.lstrip()
    return (text.partition(stop)[0] if stop else text).strip()


def _promote_to_float32(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
