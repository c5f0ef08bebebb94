"""Base class of trained text encoders with a head: batched outputs and attention traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import Row
from regard.attention.tap import Tap
from regard.data.tokenizers import Tokenizer
from regard.interpret import items as traced
from regard.interpret.items import Item, Weights
from regard.interpret.steps import Prediction, Steps, inside
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.text_encoders.dataset import TextModel
from regard.tasks.text_encoders.encoder_task import TextModelConfig
from regard.tasks.text_encoders.input_format import EncodedText, build_format
from regard.tasks.trained import DirectAnswers, describe_model

BATCH_TOKENS = 1 << 14  # tokens per batch, padding included
LABEL_ITEMS = "label"  # trace items of the answer
READER_PREFIX = "reader."  # prefix of attention names that users may leave out


class TrainedEncoder(DirectAnswers):
    """Base class of trained models that encode texts or pairs and answer with the output of a head."""

    pairs: ClassVar[bool] = False
    """True if inputs are pairs of texts."""
    __repr__ = describe_model

    def __init__(
        self, model: TextModel, tokenizer: Tokenizer, data: dict[str, Any], name: str, *, style: str | None = None
    ) -> None:
        self.model, self.tokenizer, self.data, self.name = model, tokenizer, data, name
        self.style: str = style or model.config.input_style
        self.format = build_format(tokenizer, self.style, pairs=self.pairs)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.runner.device

    @property
    def config(self) -> TextModelConfig:
        """The config of the model."""
        return self.model.config

    def count_tokens(self, item: Any) -> int | None:
        """Return the number of tokens of a text, or of all texts of an input."""
        return self.tokenizer.count([item] if isinstance(item, str) else item)

    @torch.no_grad()
    def _compute_outputs(self, texts: Sequence[EncodedText]) -> list[Float[Tensor, "..."]]:
        """Return the outputs for each text or each of its tokens, in batches of similar length."""
        lengths = [len(text.tokens) for text in texts]

        def compute_batch(batch: list[int]) -> Sequence[Tensor]:
            outputs = self._activate(self._logits([texts[number] for number in batch]).float()).cpu()
            return outputs.split([lengths[number] for number in batch]) if self.config.per_token else outputs.unbind()

        return answer_by_length(lengths, compute_batch, budget=BATCH_TOKENS)

    def _activate(self, logits: Float[Tensor, "*label classes"]) -> Float[Tensor, "*label classes"]:
        """Return the outputs computed from logits; by default the logits themselves."""
        return logits

    def _logits(self, texts: Sequence[EncodedText]) -> Float[Tensor, "*label classes"]:
        """Return the logits of one batch of texts."""
        return self.runner(*self._model_inputs(texts))

    def _model_inputs(self, texts: Sequence[EncodedText]) -> tuple[Any, ...]:
        """Return what the model reads: a packed row of texts, its layout, and segments if it knows them."""
        tokens = torch.tensor([token for text in texts for token in text.tokens], device=self.device)
        row = Row.of([len(text.tokens) for text in texts]).to(self.device)
        if not (self.pairs and self.style == "bert"):
            return tokens, row
        second_starts = torch.tensor([text.second_start for text in texts], device=self.device)
        return tokens, row, (row.place >= second_starts[row.segment]).long()

    @torch.no_grad()
    def _watch_attention(self, encoded: EncodedText) -> tuple[Tensor, list[Weights]]:
        """Return the outputs for one text, and the weights of every attention; the label pools tokens."""
        if not any(isinstance(module, Tap) for module in self.model.modules()):
            pool = "" if self.config.per_token else " or model.pool=attention"
            raise ValueError(f"this model has no attention to show: train with model.name=transformer-encoder{pool}")
        with watch(self.model) as watched:
            [outputs] = self._compute_outputs([encoded])
        return outputs, [
            Weights(
                name.removeprefix(READER_PREFIX),
                LABEL_ITEMS if name.removeprefix(READER_PREFIX) == "pool" else "source",
                "source",
                watched[name][0].cpu(),
                watched.visible(name)[0].cpu(),
            )
            for name in watched
        ]

    def _build_trace(
        self, encoded: EncodedText, weights: list[Weights], items: dict[str, list[Item]], facts: dict[str, Any]
    ) -> Trace:
        """Return an answer with the weights of every attention."""
        facts = {**facts, "read": encoded.tokens, "second": encoded.second_start}
        return Trace(self.name, self.task, items, weights, facts, again=self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """Return the vectors inside all attentions, or those in `names`, by reading the text again."""
        encoded = EncodedText(trace.facts["read"], trace.facts["second"])
        attention_names = names or [attention.name for attention in trace.weights]
        module_names = {name.removeprefix(READER_PREFIX): name for name, module in self.model.named_modules() if name}
        inside_modules, [outputs] = inside(
            self.model,
            lambda: self._compute_outputs([encoded]),
            names=[module_names.get(name, name) for name in attention_names],
        )
        vectors = {
            name.removeprefix(READER_PREFIX): replace(attention, name=name.removeprefix(READER_PREFIX))
            for name, attention in inside_modules.items()
        }
        return Steps(vectors, self._rank_predictions(trace, outputs), of=LABEL_ITEMS)

    def _rank_predictions(self, trace: Trace, outputs: Float[Tensor, "..."]) -> list[Prediction]:
        """Return predictions for all labels, the most probable first; none if there are no labels."""
        return []

    def _items(self, tokens: Sequence[int], shown: Sequence[str]) -> list[Item]:
        """Return tokens as items of a trace."""
        if self.tokenizer.closed and shown:  # words or characters: each token is one item
            return [Item(text, word=number) for number, text in enumerate(shown)]
        return traced.tokens(self.tokenizer, tokens)
