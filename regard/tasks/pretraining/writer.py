"""A trained GPT in use: it continues a text, measures how probable one is, and shows where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.attention.masks import Grid
from regard.checkpoint import Checkpoint
from regard.config.ranges import Length
from regard.data.tokenizers import Tokenizer
from regard.decoding.constraints import Forbid
from regard.interpret.items import Weights, tokens
from regard.interpret.steps import Steps, inside, predictions
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.metrics.scores import Scores
from regard.models.gpt import GPT
from regard.tasks.pretraining.corpus import Corpus, corpus_from_text, read
from regard.tasks.pretraining.gaps import PromptedGPT
from regard.tasks.pretraining.learning import evaluate_batches, sum_cross_entropy, tokenizer_of
from regard.tasks.pretraining.rows import CausalBatch, EvaluationBatches, split_batch
from regard.tasks.pretraining.tokenising import decode, encode, line_end_is_end_token, opening_token
from regard.tasks.surprisal import Surprisal, total_surprisal
from regard.tasks.trained import load_model
from regard.tasks.writing import Writes, WritingConfig
from regard.training.task import Spread, alone

TOKENS_SHOWN = 24  # tokens written before it is shown where the model looked
BUDGET = 1 << 14  # tokens that are measured together
BUDGET_ON_CPU = 1 << 10  # of these, tokens read at a time by a CPU, which gains nothing by holding more features


class Writer(PromptedGPT, Writes):
    """Writes text with a trained GPT."""

    task: ClassVar[str] = "causal-lm"
    document: str = "file"
    """Where documents end in the files that it is evaluated on, as in those that it was trained on."""

    def __init__(
        self, model: GPT, tokenizer: Tokenizer, writing: WritingConfig, name: str = "writer", *, opened: bool = True
    ) -> None:
        super().__init__(model, tokenizer, writing, name)
        self.opened = opened
        self.context, self.eos = model.config.context, tokenizer.end

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Writer:
        """The writer a checkpoint directory holds."""
        settings, tokenizer = checkpoint.config, tokenizer_of(checkpoint)
        assert tokenizer is not None
        writing = config.build(WritingConfig, settings.get("writing", {}), where="writing")
        has_opening = bool(settings.get("opened", True))
        writer = cls(
            load_model(checkpoint, device), tokenizer, writing, name=checkpoint.directory.name, opened=has_opening
        )
        writer.document = str(settings.get("document", "file"))
        return writer

    def model_inputs(self, window: Sequence[int]) -> tuple[Tensor, ...]:
        """What the model starts from, without the axis of the batch: tokens, and how many there are."""
        return torch.tensor(window), torch.tensor(len(window))

    @property
    def opening(self) -> list[int]:
        """The token before a text."""
        return [opening_token(self.tokenizer)] if self.opened else []

    @property
    def unreadable(self) -> Forbid:
        """Tokens that stand for no text, and those that the model counts but the tokenizer does not know."""
        tokenizer = self.tokenizer
        unknown_tokens = set(range(tokenizer.vocab, self.model.config.vocab))
        return Forbid([[token] for token in sorted((tokenizer.special - {tokenizer.end}) | unknown_tokens)])

    def begin(self, prompt: str) -> list[int]:
        """The tokens of a beginning; characters that the model does not know are an error."""
        if unknown := self.tokenizer.unknown_characters(prompt):
            raise ValueError(
                f"the model has never seen {' '.join(map(repr, unknown[:5]))}: begin with characters of its text"
            )
        if self.model.config.context < 2:
            raise ValueError("a model that holds 1 token has no room to write: give it a context of 2 or more")
        ids = encode(self.tokenizer, prompt) if prompt else []
        if not ids and not self.opened and self.tokenizer.end is None:
            raise ValueError("this model has no token to begin with: give a prompt")
        return ids or ([] if self.opened else [self.tokenizer.role("end")])

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return decode(self.tokenizer, tokens)

    def decode_many(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of tokens; of pieces of words many at once, in parallel."""
        return (
            [self.decode(tokens) for tokens in texts]
            if line_end_is_end_token(self.tokenizer)
            else self.tokenizer.decode_many(texts)
        )

    def evaluate(
        self,
        *files: str | Path,
        name: str | None = None,
        stride: Length | None = None,
        document: str | None = None,
    ) -> Scores:
        """How much text files surprise the model, in windows of its context that do not overlap.

        With a `stride`, windows begin so many tokens apart, and only what is new in each is judged. A `document` ends
        with its file, line or at a blank line, as in training if nobody says.
        """
        spans: list[tuple[float, int]] = []
        surprises = []
        for file in files:
            corpus = read([str(file)], self.tokenizer, end=document or self.document)
            text_surprisal, batch_spans = measure_surprisal(self.model, corpus, self._span(stride), stride=stride)
            surprises.append(text_surprisal)
            spans += batch_spans
        if not spans:
            raise ValueError("no text to measure on: give at least one file")
        return total_surprisal(surprises).scores(name or self.name, self.task, spans)

    def look(self, text: str, **options: Any) -> Trace:
        """Continue a text a little and keep where every head looked while it was read and written."""
        how = self.how(text, {"length": TOKENS_SHOWN, "temperature": 0.0, **options})
        prompt_ids = self.begin(how.prompt)
        [draft] = self._drafts(
            prompt_ids, config.build(WritingConfig, {**config.plain(how), "samples": 1}, where="writing")
        )
        all_ids = self._window([*prompt_ids, *draft.tokens])
        all_ids = [*all_ids, self.tokenizer.role("end")] if draft.finished else all_ids
        fed, written = all_ids[:-1], all_ids[1:]
        with watch(self.model) as watched, torch.no_grad():
            self._features(fed)
        items = {"target": tokens(self.tokenizer, written), "fed": tokens(self.tokenizer, fed)}
        weights = [Weights(name, "target", "fed", watched[name][0]) for name in watched]
        facts = {"text": text, "answer": self.decode([*prompt_ids, *draft.tokens]), "read": fed, "written": written}
        return Trace(self.name, self.task, items, weights, facts, again=self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None, top: int = 10) -> Steps:
        """The vectors of all attentions (or of those named) as the text is read again, and what came next."""
        read, written = trace.facts["read"], trace.facts["written"]
        names = names or [attention.name for attention in trace.weights]
        with torch.no_grad():
            vectors, logits = inside(self.model, lambda: self.model.logits(self._features(read))[0], names=names)
        return Steps(vectors, predictions(logits, written, lambda token: self.tokenizer.pieces([token])[0], top=top))

    def measure(self, text: str) -> Surprisal:
        """How much a text surprises the model, read from its beginning."""
        if not text:
            raise ValueError("an empty text has no perplexity: give at least one character")
        return measure_surprisal(self.model, corpus_from_text(text, self.tokenizer), self._span(None))[0]

    def _features(self, ids: Sequence[int]) -> Tensor:
        device = device_of(self.model)
        grid = Grid(torch.tensor([len(ids)], device=device), len(ids))
        return self.model(torch.tensor([list(ids)], device=device), layout=grid)

    def _span(self, stride: int | None) -> int:
        """Tokens of a window."""
        assert self.context is not None
        if stride is not None and not (isinstance(stride, int) and 0 < stride <= self.context):
            raise ValueError(f"stride is {stride}, the model reads {self.context} tokens: choose from 1 to as many")
        return self.context


def measure_surprisal(
    model: GPT, corpus: Corpus, context: int, *, stride: int | None = None, spread: Spread = alone
) -> tuple[Surprisal, list[tuple[float, int]]]:
    """How improbable a model finds texts, and the nats and tokens of every batch of windows."""
    batches = EvaluationBatches(corpus, context, max(1, BUDGET // context), stride=stride)

    on_cpu = device_of(model).type == "cpu"

    def score_batch(batch: CausalBatch) -> tuple[float, int]:
        parts = split_batch(batch, BUDGET_ON_CPU) if on_cpu else [batch]
        losses = [sum_cross_entropy(model, model(part.tokens, layout=part.row), part.labels) for part in parts]
        return float(torch.stack(losses).sum()), int((batch.labels >= 0).sum())

    spans = evaluate_batches(model, len(batches), batches.__getitem__, score_batch, spread)
    nats, scored = (sum(column) for column in zip(*spans, strict=True))
    return Surprisal(nats, scored, corpus.characters, corpus.words, corpus.bytes), spans
