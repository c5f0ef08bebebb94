"""A trained T5 for inference: answers texts, and fills the gaps of texts with sentinels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import Grid
from regard.config.ranges import Length, Range
from regard.data.tokenizers import Tokenizer
from regard.decoding.batching import by_length, in_order, padded
from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Constraint, Forbid, check_room, force_tokens
from regard.decoding.engine import ROWS, Engine
from regard.decoding.exchange import Exchange
from regard.decoding.request import Request
from regard.decoding.search_tree import SearchTree, record_search
from regard.decoding.teacher_forcing import Teacher
from regard.interpret.candidates import list_candidates
from regard.interpret.items import Weights, attention_axes, tokens
from regard.interpret.steps import Steps, inside, predictions
from regard.interpret.trace import Trace
from regard.interpret.watch import SearchWatcher, watch
from regard.metrics.likelihood import perplexity
from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics
from regard.models.inference.fast_path import ENOUGH, FastPath
from regard.models.t5 import T5
from regard.tasks.inputs import TEXT, check_input, list_inputs
from regard.tasks.pretraining.corpus import read
from regard.tasks.pretraining.gaps import PromptedT5
from regard.tasks.pretraining.learning import Reader, evaluate_batches, sum_cross_entropy
from regard.tasks.pretraining.spans import SpanBatch, SpanRows
from regard.tasks.pretraining.tokenising import encode_parts
from regard.tasks.search_options import ForcedOptions
from regard.tasks.trained import Extra, Face, resolve_options

LONGEST = 512  # maximum answer length of an engine if the model's context is shorter
BUDGET = 1 << 12  # tokens per batch
SENTINEL = re.compile(r"(<extra_id_\d+>)")


@dataclass(frozen=True, kw_only=True)
class RestoringConfig(ForcedOptions):
    """Settings for generating an answer."""

    length: Length = 64
    """Most tokens of an answer."""
    beams: Annotated[int, Range(1, 100)] = 1
    """Beam size; 1 is greedy."""

    def __post_init__(self) -> None:
        check_room(self.prefix, self.length)


@dataclass(frozen=True)
class Restored:
    """An answer of the model, and the span for each gap."""

    text: str
    answer: str
    spans: list[str]
    score: float

    def __str__(self) -> str:
        return self.answer

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {"text": self.text, "answer": self.answer, "spans": self.spans, "score": round(self.score, 6)}


class Restorer(PromptedT5, Reader, Face):
    """A trained T5 that answers a text with a text."""

    task: ClassVar[str] = "span-corruption"
    verb: ClassVar[str] = "restore"
    kind: ClassVar[str] = "a text-to-text model"
    Options: ClassVar[type] = RestoringConfig
    LookOptions: ClassVar[type] = RestoringConfig

    def __init__(self, model: T5, tokenizer: Tokenizer, name: str = "restorer") -> None:
        super().__init__(model, tokenizer, name)
        self.ready = FastPath(model)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """The search for one answer as a tree."""
        return {"tree": Extra(self.tree, RestoringConfig, "The search for one answer, with what it left.")}

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Restored]:
        """Return an answer to each text; options are those of `RestoringConfig`."""
        how: RestoringConfig = resolve_options(self, options)
        inputs = list_inputs(inputs, TEXT, verb=self.verb)
        read_as = [self._encode(text) for text in inputs]
        batches = by_length([len(ids) for ids in read_as], budget=BUDGET)
        hypotheses = [self._search_batch([read_as[number] for number in batch], how) for batch in batches]
        return [
            self._parse_answer(text, best) for text, best in zip(inputs, in_order(batches, hypotheses), strict=True)
        ]

    def exchange(self, inputs: Sequence[str], **options: Any) -> Exchange[list[Restored]]:
        """Answer texts as `answer` does, by requests to an engine."""
        how: RestoringConfig = resolve_options(self, options)
        inputs = list_inputs(inputs, TEXT, verb=self.verb)
        begin, rules = torch.tensor([self.tokenizer.filler]), tuple(self._rules(how))
        requests = [
            Request(
                inputs=(torch.tensor(ids), torch.tensor(len(ids)), begin),
                limit=how.length,
                how=Beam(beams=how.beams),
                rules=rules,
            )
            for ids in map(self._encode, inputs)
        ]
        hypotheses = (yield requests) if requests else []
        return [self._parse_answer(text, best) for text, [best, *_] in zip(inputs, hypotheses, strict=True)]

    def make_engine(self, *, rows: int = ROWS) -> Engine:
        """Return an engine for texts up to the model's context; answers have a separate limit."""
        size = self.model.config.context
        engine = Engine(
            self.ready(ENOUGH),
            eos=self.tokenizer.role("end"),
            longest=max(size, LONGEST),
            rows=rows,
            source=size,
            device=self.device,
            watch=partial(SearchWatcher, self.model),
        )
        engine.use_teacher(Teacher(self.model, begin=self.tokenizer.filler, end=self.tokenizer.role("end")))
        return engine

    def restore(self, text: str, **options: Any) -> Restored:
        """Return the answer to a text with gaps."""
        return self.answer([check_input(text, TEXT, verb=self.verb)], **options)[0]

    def evaluate(
        self, *files: str | Path, name: str | None = None, seed: int = 0, document: str | None = None
    ) -> Scores:
        """Score randomly left-out spans of text files; the same seed leaves out the same spans."""
        spans: list[tuple[float, int, int]] = []
        for file in files:
            context = min(512, self.model.config.context)
            corpus = read([str(file)], self.tokenizer, end=document or self.document)
            rows = SpanRows(corpus, self.tokenizer, context, 8, seed)
            spans += evaluate_batches(self.model, rows.rows, rows.batch, self._batch_loss)
        if not spans:
            raise ValueError("no text to measure on: give at least one file")
        nats, scored, size = (sum(column) for column in zip(*spans, strict=True))
        loss = {
            "nats per token": mean_statistics(
                [amount for amount, *_ in spans], [amount for _, amount, _ in spans], lower=True
            )
        }
        bits = nats / log(2) / max(size, 1)
        measures = {
            "perplexity of a target token": f"{perplexity(nats, scored):.4g}",
            "bits per byte": f"{bits:.4f} (of what was left out)",
            "tokens": f"{scored:,}",
        }
        details = {"loss": nats / scored, "perplexity": perplexity(nats, scored), "bits_per_byte": bits}
        return Scores(name or self.name, self.task, loss, measures=measures, details=details, unit="span")

    def look(self, text: str, **options: Any) -> Trace:
        """Answer a text, and trace the attention weights of all heads along the best hypothesis."""
        how: RestoringConfig = resolve_options(self, options)
        read_as = self._encode(text)
        with watch(self.model) as watched:
            [best] = self._search_batch([read_as], how, plain=True)
        end = self.tokenizer.role("end")
        written = [*best.tokens, end][: len(best.path) + 1]
        sides = {"source": read_as, "target": written, "fed": [self.tokenizer.filler, *written[:-1]]}
        gaps = {id for ids in sides.values() for id in ids if SENTINEL.fullmatch(self.tokenizer.pieces([id])[0])}
        items = {side: tokens(self.tokenizer, ids, shown=gaps) for side, ids in sides.items()}
        along, visible = watched.along([best]), watched.visible_along([best])
        weights = [Weights(name, *attention_axes(name), along[name][0], visible[name][0]) for name in along]
        facts = {"text": text, "answer": self._parse_answer(text, best).answer, "read": read_as, "written": written}
        with torch.no_grad():
            facts["predictions"] = list_candidates(self._read_again(read_as, written), written, self.tokenizer.pieces)
        return Trace(self.name, self.task, items, weights, facts, again=self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None, top: int = 10) -> Steps:
        """Return the intermediate results of the decoder's (or the named) attentions while the answer is read again."""
        read_as, written = trace.facts["read"], trace.facts["written"]
        names = names or [attention.name for attention in trace.weights if attention.name.startswith("decoder")]
        vectors, logits = inside(self.model, lambda: self._read_again(read_as, written), names=names)
        return Steps(vectors, predictions(logits, written, lambda token: self.tokenizer.pieces([token])[0], top=top))

    def tree(self, text: str, **options: Any) -> SearchTree:
        """Answer a text, and return the beam search as a tree; options are those of `RestoringConfig`."""
        how: RestoringConfig = resolve_options(self, options)
        with record_search() as record:
            [best] = self._search_batch([self._encode(text)], how, plain=True)
        words = {"model": self.name, "text": text, "answer": self._parse_answer(text, best).answer}
        return record.tree(self.tokenizer.pieces, prefix=list(how.prefix), **words)

    def _read_again(self, read_as: Sequence[int], written: Sequence[int]) -> Float[Tensor, "written vocab"]:
        """Return the logits in the place of every token of an answer, which is read in one pass."""
        fed, device = [self.tokenizer.filler, *written[:-1]], self.device
        inputs = torch.tensor([list(read_as)], device=device), torch.tensor([fed], device=device)
        layouts = tuple(Grid(torch.tensor([len(ids)], device=device), len(ids)) for ids in (read_as, fed))
        return self.model.logits(self.model(*inputs, layouts=layouts))[0]

    def _encode(self, text: str) -> list[int]:
        """Return the tokens of a text with its sentinels and the end token."""
        tokenizer = self.tokenizer
        first, *others = encode_parts(tokenizer, SENTINEL.split(text)[::2])
        gaps = map(self._sentinel, SENTINEL.findall(text))
        inner = (token for gap, part in zip(gaps, others, strict=True) for token in (gap, *part))
        ids = [*first, *inner, tokenizer.role("end")]
        if len(ids) > self.model.config.context:
            raise ValueError(f"{len(ids)} tokens in one text, the model reads {self.model.config.context}: split it")
        return ids

    def _sentinel(self, name: str) -> int:
        token = self.tokenizer.find_special(name)
        if token is None:
            raise ValueError(f"this model knows no {name}: number gaps from <extra_id_0> on")
        return token

    def _search_batch(self, texts: Sequence[list[int]], how: RestoringConfig, *, plain: bool = False) -> list[Any]:
        """Return the best answer to each text; decoding starts with the pad token."""
        source, lengths = padded(texts, self.tokenizer.filler, None)
        prompt = torch.full((len(texts), 1), self.tokenizer.filler)
        inputs = [tensor.to(self.device) for tensor in (source, lengths, prompt)]
        model: Any = self.model if plain else self.ready(len(texts))
        hypotheses = search(
            model,
            inputs,
            Beam(beams=how.beams),
            limit=how.length,
            eos=self.tokenizer.role("end"),
            constraints=self._rules(how),
        )
        return [best for best, *_ in hypotheses]

    def _rules(self, how: RestoringConfig) -> list[Constraint]:
        """Return constraints against tokens that the tokenizer does not know, and for a forced beginning."""
        unknown_tokens = range(self.tokenizer.vocab, self.model.config.vocab)
        unwritable = [Forbid([[token] for token in unknown_tokens])] if unknown_tokens else []
        return [*unwritable, *force_tokens(how.prefix, vocab=self.tokenizer.vocab)]

    def _parse_answer(self, text: str, best: Any) -> Restored:
        names = self.tokenizer.pieces(best.tokens)
        parts, spans, inner = list[str](), list[str](), list[int]()
        for id, name in zip(best.tokens, names, strict=True):
            if SENTINEL.fullmatch(name):
                spans += [self.tokenizer.decode(inner)] if parts or inner else []
                parts, inner = [*parts, self.tokenizer.decode(inner), name], []
            else:
                inner.append(id)
        rest = self.tokenizer.decode(inner)
        whole = " ".join(part.strip() for part in [*parts, rest] if part.strip())
        return Restored(text, whole, [span.strip() for span in ([*spans, rest] if parts else [])], best.score)

    def _batch_loss(self, batch: SpanBatch) -> tuple[float, int, int]:
        """Return nats, tokens and bytes of the left-out spans; sentinels count for the nats but have no bytes."""
        features = self.model(batch.source, batch.target, layouts=batch.rows)
        labels = batch.labels[batch.labels >= 0].tolist()
        size = sum(len(self.tokenizer.token_bytes[label] or b"") for label in labels)
        return float(sum_cross_entropy(self.model, features, batch.labels)), len(labels), size
