"""A trained text-to-text T5 for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard import config
from regard.checkpoint import Checkpoint
from regard.data.readers import add_prefix
from regard.decoding.exchange import Exchange
from regard.decoding.search_tree import SearchTree
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks.inputs import TEXT, list_inputs
from regard.tasks.search_options import ForcedOptions, TreeOptions
from regard.tasks.trained import Extra, load_model
from regard.tasks.translation import evaluation, scoring
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.pairs import open_with_pad
from regard.tasks.translation.translator import Translator, read_tokenizers

WRITING: dict[str, Any] = {"beams": 1, "split": False, "copy": "none", "truecase": False, "longest": 512}
"""An answer need not be as long as what was read, nor have the same words."""


@dataclass(frozen=True, kw_only=True)
class PrefixOptions:
    """The prefix that names the task of a text."""

    ask: str | None = None
    """What to put in front of texts, where the model knows several prefixes and a text begins with none of them."""


@dataclass(frozen=True, kw_only=True)
class ReplyLookOptions(PrefixOptions, ForcedOptions):
    """The prefix of a text, and the beginning of its answer."""


@dataclass(frozen=True, kw_only=True)
class ReplyTreeOptions(PrefixOptions, TreeOptions):
    """The prefix of a text, and how its answer is searched for."""


@dataclass(frozen=True, kw_only=True)
class WritingOptions(PrefixOptions, DecodingConfig):
    """Settings for generating an answer: beam search, sampling, constraints."""


@dataclass(frozen=True)
class Reply:
    """A text and the answer to it."""

    text: str
    answer: str
    score: float

    def __str__(self) -> str:
        return self.answer

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {"text": self.text, "answer": self.answer, "score": round(self.score, 6)}


class Respondent(Translator):
    """A text-to-text model that answers texts."""

    task: ClassVar[str] = "text-to-text"
    verb: ClassVar[str] = "reply"
    kind: ClassVar[str] = "a text-to-text model"
    Options: ClassVar[type] = WritingOptions
    LookOptions: ClassVar[type] = ReplyLookOptions
    prefixes: tuple[str, ...] = ()
    """What it was asked by in training."""

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Respondent:
        """Load the model of a checkpoint directory."""
        decoding = config.build(DecodingConfig, checkpoint.config.get("decoding", {}), where="decoding")
        tokenizer = open_with_pad(read_tokenizers(checkpoint)[0])
        respondent = cls(
            load_model(checkpoint, device), (tokenizer, tokenizer), decoding, name=checkpoint.directory.name
        )
        respondent.prefixes = tuple(str(prefix).strip() for prefix in checkpoint.config.get("prefixes", ()))
        return respondent

    def reply(self, texts: str | Sequence[str], **settings: Any) -> str | list[str]:
        """Answer one text, or a list of them with a list; settings are those of `WritingOptions`."""
        answers = [written_reply.answer for written_reply in self.answer(texts, **settings)]
        return answers[0] if isinstance(texts, str) else answers

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Any]:
        """Return answers with their scores; options are those of `WritingOptions`."""
        ask = options.pop("ask", None)
        inputs = list_inputs(inputs, TEXT, verb=self.verb)
        prompts = [self.add_prefix(text, ask) for text in inputs]
        answers = self.answers(prompts, **options)
        return [Reply(text, written.text, written.score) for text, written in zip(inputs, answers, strict=True)]

    def exchange(self, inputs: Sequence[str], *, ask: str | None = None, **options: Any) -> Exchange[Any]:
        """Answer texts as `answer` does, by requests to an engine."""
        inputs = list_inputs(inputs, TEXT, verb=self.verb)
        answers = yield from super().exchange([self.add_prefix(text, ask) for text in inputs], **options)
        return [Reply(text, answer.text, answer.score) for text, answer in zip(inputs, answers, strict=True)]

    def open_stream(self, item: str, **options: Any) -> None:
        """Return None: an answer comes in one piece."""

    def add_prefix(self, text: str, ask: str | None = None) -> str:
        """Add the prefix of the task to a text, unless it has one."""
        prefixes = [prefix for prefix in self.prefixes if prefix]
        if any(text.startswith(f"{prefix} ") for prefix in prefixes):
            return text
        if ask is not None or not prefixes or "" in self.prefixes:
            return add_prefix(ask or "", text)
        if len(prefixes) > 1:
            alternatives = ", ".join(map(repr, prefixes))
            raise ValueError(f"say what is asked of {text[:40]!r}: begin it with one of {alternatives}, or set ask")
        return add_prefix(prefixes[0], text)

    def encode_many(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """Return the token ids of texts as the model reads them; long texts are truncated."""
        most = min(self.decoding.longest, self.context) - 1
        return [[*ids[:most], self.end] for ids in self.source.encode_many(texts)]

    def evaluate(
        self,
        *files: str | Path,
        columns: tuple[int, int] | None = None,
        name: str | None = None,
        ask: str | None = None,
        tokenize: str = "13a",
        **settings: Any,
    ) -> Scores:
        """Score exact matches and overlap on one file of pairs, or on a file of texts and one of answers."""
        test = [(self.add_prefix(text, ask), answer) for text, answer in scoring.pairs(*files, columns=columns)]
        called = name or self.name
        scores = scoring.overlap_scores(evaluation.evaluate(self, test, name=called, tokenize=tokenize, **settings))
        judged_test = zip(test, scores.examples, strict=True)
        right = [100.0 * (judged.answer.strip() == reference.strip()) for (_, reference), judged in judged_test]
        exact = mean_statistics(right)
        return replace(
            scores,
            task=self.task,
            statistics={"exact match, %": exact, **scores.statistics},
            tables=[*self._table_by_prefix(test, right), *scores.tables],
            details={"exact_match": exact.score, **scores.details},
            unit="text",
        )

    def _table_by_prefix(self, test: Sequence[tuple[str, str]], right: Sequence[float]) -> list[Table]:
        """Return the exact match rate by prefix, if there are several."""
        rows = []
        for prefix in [candidate for candidate in self.prefixes if candidate]:
            hits = [hit for (text, _), hit in zip(test, right, strict=True) if text.startswith(f"{prefix} ")]
            if hits:
                rows.append((prefix, f"{sum(hits) / len(hits):.1f}", f"{len(hits):,}"))
        return [Table("exact match by prefix", ("prefix", "%", "texts"), rows)] if len(rows) > 1 else []

    def look(self, text: str, **options: Any) -> Trace:
        """Answer one text, and trace the attention weights of all heads along the best hypothesis."""
        return super().look(self.add_prefix(text, options.pop("ask", None)), **options)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Return those of a translator; a search may also be told what is asked of a text."""
        return {**super().extras, "tree": replace(super().extras["tree"], call=self.tree, Options=ReplyTreeOptions)}

    def tree(self, text: str, **options: Any) -> SearchTree:
        """Answer one text, and return its beam search as a tree; options are those of `ReplyTreeOptions`."""
        return super().tree(self.add_prefix(text, options.pop("ask", None)), **options)
