"""A trained BERT for inference: fills gaps in texts, is evaluated on masked tokens, and traces its attention."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import Row
from regard.config.ranges import Range
from regard.data.tokenizers import Tokenizer
from regard.decoding.batching import by_length, in_order
from regard.interpret.candidates import list_candidates
from regard.interpret.items import Weights, tokens
from regard.interpret.steps import Steps, inside
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.metrics.likelihood import IGNORE, cross_entropy, perplexity
from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics
from regard.models.bert import BERT, BERTConfig
from regard.tasks.inputs import TEXT, Inputs, list_inputs
from regard.tasks.pretraining.corpus import read
from regard.tasks.pretraining.gaps import PromptedBERT
from regard.tasks.pretraining.learning import Reader, evaluate_batches
from regard.tasks.pretraining.masking import MaskedBatch, MaskedRows
from regard.tasks.pretraining.tokenising import encode_parts
from regard.tasks.trained import DirectAnswers, resolve_options
from regard.training.task import Spread, alone

GAP = re.compile(  # the forms of a gap in a text; a line to write on has three underscores or more
    r"\[MASK\]|<mask>|(?<![^\W_])_{3,}(?![^\W_])", re.IGNORECASE
)
BUDGET = 1 << 13  # tokens per batch


@dataclass(frozen=True, kw_only=True)
class FillingConfig:
    """Settings for filling gaps."""

    top: Annotated[int, Range(1, 1000)] = 5
    """Candidates for every gap."""


@dataclass(frozen=True)
class Filled:
    """A text with its gaps filled by the likeliest tokens, and the candidates for each gap with their probabilities."""

    text: str
    filled: str
    gaps: list[list[tuple[str, float]]]

    def __str__(self) -> str:
        candidates = "; ".join(" ".join(f"{word} {share:.3f}" for word, share in gap) for gap in self.gaps)
        return f"{self.filled}\t{candidates}"

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        gaps = [[{"token": word, "probability": round(share, 6)} for word, share in gap] for gap in self.gaps]
        return {"text": self.text, "filled": self.filled, "gaps": gaps}


@dataclass(frozen=True)
class Guesses:
    """Predictions of masked tokens: for every batch the nats, the tokens, the correct ones, and their bytes."""

    batches: list[tuple[float, int, int, int]]
    first: list[int] = field(default_factory=list)
    """The guesses of the first batch."""

    def __post_init__(self) -> None:
        if not sum(scored for _, scored, _, _ in self.batches):
            raise ValueError("no token was masked: give more text to measure on")

    @property
    def metrics(self) -> dict[str, float]:
        """Return the metrics by name."""
        nats, scored, right, size = (sum(column) for column in zip(*self.batches, strict=True))
        return {"loss": nats / scored, "accuracy": right / scored, "bits_per_byte": nats / log(2) / max(size, 1)}


class Filler(PromptedBERT, Reader, DirectAnswers):
    """A trained masked language model that fills gaps."""

    task: ClassVar[str] = "masked-lm"
    verb: ClassVar[str] = "fill"
    kind: ClassVar[str] = "a masked language model"
    Options: ClassVar[type] = FillingConfig
    LookOptions: ClassVar[type] = FillingConfig

    @classmethod
    def serves(cls, model: Mapping[str, Any]) -> bool:
        """Return True if a model of any task can fill gaps: a BERT with its masked language modelling head."""
        return model.get("name") == BERTConfig.name and bool(model.get("masked"))

    @property
    def inputs(self) -> Inputs:
        """Return the description of inputs: texts with gaps."""
        return Inputs(kind=self.input_kind, parse=self.parse, example="Paris is the [MASK] of France.")

    def parse(self, text: str) -> str:
        """Return a text, or raise ValueError if it has no gap and the model could fill one."""
        if self.model.config.masked and not GAP.search(text):
            raise ValueError(f"no gap in {text[:40]!r}: write [MASK] where a word is missing")
        return text

    def count_tokens(self, item: Any) -> int | None:
        """Return the number of tokens of a text."""
        return self.tokenizer.count([item])

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Filled]:
        """Return each text with its gaps filled; options are those of `FillingConfig`."""
        how: FillingConfig = resolve_options(self, options)
        self._require_masked_head()
        inputs = list_inputs(inputs, TEXT, verb=self.verb)
        read_as = [self._encode(self.parse(text)) for text in inputs]
        batches = by_length([len(ids) for ids in read_as], budget=BUDGET)
        batch_guesses = [self._predict_gaps([read_as[number] for number in batch]) for batch in batches]
        texts_with_ids = zip(inputs, read_as, in_order(batches, batch_guesses), strict=True)
        return [self._fill_text(text, ids, guesses, how.top) for text, ids, guesses in texts_with_ids]

    def fill(self, text: str | Sequence[str], **options: Any) -> Any:
        """Fill the gaps of a text, or of several."""
        answers = self.answer(text, **options)
        return answers[0] if isinstance(text, str) else answers

    def evaluate(
        self, *files: str | Path, name: str | None = None, seed: int = 0, document: str | None = None
    ) -> Scores:
        """Score the predictions of randomly masked tokens of text files; the same seed masks the same tokens."""
        self._require_masked_head()
        batches: list[tuple[float, int, int, int]] = []
        for file in files:
            corpus = read([str(file)], self.tokenizer, end=document or self.document)
            rows = MaskedRows(corpus, self.tokenizer, self.model.config.context, 16, seed)
            batches += guess_masked_tokens(self.model, rows, self.tokenizer).batches
        if not batches:
            raise ValueError("no text to measure on: give at least one file")
        guesses = Guesses(batches)
        scored = [count for _, count, _, _ in batches]
        statistics = {
            "accuracy": mean_statistics([right for _, _, right, _ in batches], scored),
            "nats per token": mean_statistics([nats for nats, *_ in batches], scored, lower=True),
        }
        measures = {
            "perplexity of a masked token": f"{perplexity(sum(nats for nats, *_ in batches), sum(scored)):.4g}",
            "bits per byte": f"{guesses.metrics['bits_per_byte']:.4f} (of what was masked)",
            "masked tokens": f"{sum(scored):,}",
        }
        return Scores(name or self.name, self.task, statistics, measures=measures, details=guesses.metrics, unit="span")

    def look(self, text: str, **options: Any) -> Trace:
        """Fill the gaps of a text, if the model can, and trace the attention weights of all heads."""
        resolve_options(self, options)
        ids = self._encode(text)
        with watch(self.model) as watched:
            if self.model.config.masked:
                guesses = self._predict_gaps([ids])[0]
                answer = self._fill_text(text, ids, guesses, 5).filled
            else:
                self._features([ids])
                answer = text
        items = {"source": tokens(self.tokenizer, ids, shown=[self.tokenizer.role("mask")])}
        weights = [
            Weights(name, "source", "source", watched[name][0].cpu(), watched.visible(name)[0].cpu())
            for name in watched
        ]
        facts: dict[str, Any] = {"text": text, "answer": answer, "read": ids}
        if self.model.config.masked:
            facts |= {"predictions": self._list_candidates(ids, guesses), "predicted": "source"}
        return Trace(self.name, self.task, items, weights, facts, again=self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """Return the intermediate results of all (or the named) attentions while the text is read again."""
        names = names or [attention.name for attention in trace.weights]
        vectors, _ = inside(self.model, lambda: self._features([trace.facts["read"]]), names=names)
        return Steps(vectors, [])

    def _require_masked_head(self) -> None:
        """Raise ValueError if the model has no masked language modelling head."""
        if not self.model.config.masked:
            raise ValueError(
                f"{self.name} is a BERT without the head that guesses masked tokens: give one that has it; "
                "this one gives vectors of texts (regard embed) and can be looked into (regard explain)"
            )

    def _encode(self, text: str) -> list[int]:
        """Return the tokens of a text, with the mask token for every gap."""
        tokenizer = self.tokenizer
        first, *others = encode_parts(tokenizer, GAP.split(text))
        inner = [*first, *(token for part in others for token in (tokenizer.role("mask"), *part))]
        ids = [tokenizer.role("begin"), *inner, tokenizer.role("separator")]
        if len(ids) > self.model.config.context:
            raise ValueError(f"{len(ids)} tokens in one text, the model reads {self.model.config.context}: split it")
        return ids

    @torch.no_grad()
    def _predict_gaps(self, texts: Sequence[list[int]]) -> list[Float[Tensor, "gap vocab"]]:
        """Return the probabilities of all tokens at every gap of each text."""
        mask, lengths = self.tokenizer.role("mask"), [len(ids) for ids in texts]
        gaps = [[n for n, id in enumerate(ids) if id == mask] for ids in texts]
        starts = np.cumsum([0, *lengths])
        flat_positions = [int(starts[n]) + gap for n, gap_positions in enumerate(gaps) for gap in gap_positions]
        features = self._features(texts).index_select(
            0, torch.tensor(flat_positions, device=self.device, dtype=torch.long)
        )
        logits = self.model.logits(features).float()
        logits[:, self._unreadable] = float("-inf")
        return list(logits.softmax(-1).cpu().split([len(gap_positions) for gap_positions in gaps]))

    @torch.no_grad()
    def _features(self, texts: Sequence[list[int]]) -> Float[Tensor, "token width"]:
        flat = torch.tensor([id for ids in texts for id in ids], device=self.device)
        return self.model(flat, layout=Row.of([len(ids) for ids in texts]).to(self.device))

    def _fill_text(self, text: str, ids: list[int], guesses: Float[Tensor, "gap vocab"], top: int) -> Filled:
        tokenizer = self.tokenizer
        best = guesses.topk(min(top, guesses.shape[1] - len(self._unreadable)))
        gaps = [
            [(_format_candidate(tokenizer.pieces([id])[0]), share) for id, share in zip(token_ids, shares, strict=True)]
            for token_ids, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        likeliest = iter(best.indices[:, 0].tolist())
        filled_ids = [next(likeliest) if id == tokenizer.mask else id for id in ids]
        return Filled(text, tokenizer.decode(filled_ids), gaps)

    def _list_candidates(self, ids: Sequence[int], guesses: Float[Tensor, "gap vocab"]) -> list[dict[str, Any] | None]:
        """Return the likeliest tokens for every gap, in the place of the gap among the tokens read; None elsewhere."""
        filled = guesses.argmax(-1).tolist()
        candidates = iter(list_candidates(guesses.log(), filled, self.tokenizer.pieces))
        return [next(candidates) if id == self.tokenizer.mask else None for id in ids]

    @property
    def _unreadable(self) -> list[int]:
        """Return the tokens without text, and those that the model has but the tokenizer does not know."""
        return sorted(self.tokenizer.special | set(range(self.tokenizer.vocab, self.model.config.vocab)))


def _format_candidate(piece: str) -> str:
    """Return a token as a candidate, in quotes if it is only white space."""
    return piece.strip() or repr(piece)


def guess_masked_tokens(model: BERT, rows: MaskedRows, tokenizer: Tokenizer, *, spread: Spread = alone) -> Guesses:
    """Predict the masked tokens of all rows of an epoch."""
    piece_bytes = np.array([len(piece or b"") for piece in tokenizer.token_bytes])

    def guess_batch(batch: MaskedBatch) -> tuple[float, int, int, int, list[int]]:
        features = model(batch.tokens, layout=batch.row, segments=batch.kinds(model))
        logits = model.logits(features.index_select(0, batch.places))
        predicted, scored = logits.argmax(-1), batch.labels != IGNORE
        right = int((predicted == batch.labels)[scored].sum())
        size = int(piece_bytes[batch.labels[scored].cpu().numpy()].sum())
        return float(cross_entropy(logits, batch.labels)), int(scored.sum()), right, size, predicted.tolist()

    batch_scores = evaluate_batches(model, rows.rows, rows.batch, guess_batch, spread)
    return Guesses([scores[:4] for scores in batch_scores], batch_scores[0][4])
