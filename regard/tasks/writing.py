"""What all trained language models share: they continue a text, token by token, and measure how probable one is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.config.ranges import Amount, Count, Length, Part, Range, Seed
from regard.data.tokenizers import Tokenizer
from regard.decoding.beam import Beam
from regard.decoding.constraints import Constraint
from regard.decoding.engine import ROWS, Engine
from regard.decoding.exchange import Exchange
from regard.decoding.generate import generate, stream_one
from regard.decoding.request import Request, Sampling
from regard.decoding.sampling import Sampler
from regard.interpret.watch import SearchWatcher
from regard.models.inference import ENOUGH, Ready
from regard.tasks.trained import Extra, Face, NoOptions, Workload, described

TIMED = 100  # tokens written to measure speed
LONGEST = 4096  # tokens asked for at once where a model has no limit of its own
PIECE = 16  # where a text may end at a stop sequence
BROKEN = "\N{REPLACEMENT CHARACTER}"  # how part of a character reads


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How tokens are drawn."""

    temperature: Amount = 1.0
    """Below 1 safer, above 1 wilder; 0 always takes the likeliest token."""
    top_k: Count | None = None
    """Only the k likeliest tokens."""
    top_p: Annotated[float, Range(above=0, most=1)] | None = None
    """Only the likeliest tokens that together have this probability."""
    min_p: Part | None = None
    """Only tokens at least this share as likely as the likeliest."""
    samples: Annotated[int, Range(1, 10_000)] = 2
    """How many of them."""
    seed: Seed = 0
    """Random seed."""

    def build_how(self) -> Beam | Sampling:
        """Return the way in which one of them is written."""
        if self.temperature == 0:
            return Beam(beams=1)
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p)

    def sampler(self) -> Sampler | None:
        """How tokens are drawn; None where the likeliest is taken."""
        if self.temperature == 0:
            return None
        drawn = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        return Sampler(**drawn, generator=torch.Generator().manual_seed(self.seed))


@dataclass(frozen=True, kw_only=True)
class ContinuationOptions(SamplingConfig):
    """How a prompt is continued."""

    length: Length = 200
    """Tokens written."""
    stop: str = ""
    """Stop sequence: a text ends before the first of these; blank: where the model ends it."""


@dataclass(frozen=True, kw_only=True)
class WritingConfig(ContinuationOptions):
    """How a text is gone on with."""

    prompt: str = ""
    """Prompt: how every text begins."""


@dataclass(frozen=True)
class Text:
    """A text that was written, its beginning included, and the log-probability of what was added."""

    text: str
    score: float

    def __str__(self) -> str:
        return self.text

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"text": self.text, "score": round(self.score, 6)}


@dataclass(frozen=True)
class Draft:
    """Tokens added to a beginning so far, their log-probability, and whether the model ended them."""

    tokens: tuple[int, ...] = ()
    score: float = 0.0
    finished: bool = False


class Writes(Face):
    """A language model in use; who inherits says how a text is turned into tokens, and what the model can hold."""

    verb: ClassVar[str] = "write"
    kind: ClassVar[str] = "a language model"
    Options: ClassVar[type] = ContinuationOptions
    LookOptions: ClassVar[type] = ContinuationOptions
    context: int | None = None
    """Tokens that the model can hold; None: any number."""
    eos: int | None = None
    """The token with which a text ends; None: it never does."""
    __repr__ = described

    def __init__(self, model: Any, tokenizer: Tokenizer, writing: WritingConfig, name: str = "writer") -> None:
        self.model, self.tokenizer, self.writing, self.name = model, tokenizer, writing, name
        self.ready = Ready(model)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return device_of(self.model)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Texts of one beginning, piece by piece, and what there is to time."""
        return {
            "stream": Extra(self.stream, WritingConfig, "One text in pieces, as they are written."),
            "workloads": Extra(self.workloads, NoOptions, "Texts to time, by one and by many."),
        }

    @property
    def opening(self) -> list[int]:
        """What stands before every text."""
        raise NotImplementedError

    @property
    def unreadable(self) -> Constraint:
        """What must not be written."""
        raise NotImplementedError

    def begin(self, prompt: str) -> list[int]:
        """The tokens of a beginning."""
        raise NotImplementedError

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self.tokenizer.decode(tokens)

    def decode_many(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of tokens."""
        return [self.decode(tokens) for tokens in texts]

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Text]:
        """One continuation of every beginning; options are those of `ContinuationOptions`."""
        self._check_options(options)
        return [self.write(prompt, **{**options, "samples": 1})[0] for prompt in inputs]

    def exchange(self, inputs: Sequence[str], **options: Any) -> Exchange[list[Text]]:
        """The same, with somebody else to write, all beginnings side by side.

        A text that ends before a stop sequence is asked for in pieces, for each of which numbers are drawn anew.
        """
        self._check_options(options)
        begun = [_Begun.of(self, self.how(prompt, {**options, "samples": 1})) for prompt in inputs]
        while going := [one for one in begun if one.left and not one.draft.finished]:
            requests = [self._request(one) for one in going]
            answers = yield requests
            for one, request, [best] in zip(going, requests, answers, strict=True):
                before = one.draft
                one.draft = Draft((*before.tokens, *best.tokens), before.score + best.score, best.finished)
                one.left -= request.limit
                if one.how.stop and one.how.stop in self._added(one.tokens, one.draft):
                    one.left = 0
        return [self._text(one.tokens, one.draft, one.how.stop) for one in begun]

    def make_engine(self, *, rows: int = ROWS) -> Engine:
        """Return an engine for texts as long as the model can hold."""
        room = LONGEST if self.context is None else self.context - 1
        model, watch = self.ready(ENOUGH), partial(SearchWatcher, self.model)
        return Engine(model, eos=self.eos, longest=room, prompt=room, rows=rows, device=self.device, watch=watch)

    def model_inputs(self, window: Sequence[int]) -> tuple[Tensor, ...]:
        """What the model starts from, without the axis of the batch."""
        return (torch.tensor(window),)

    def _request(self, one: _Begun) -> Request:
        """Ask for as much of a text as fits behind what the model reads of it."""
        window = self._window([*one.tokens, *one.draft.tokens])
        limit = min(one.left, self._room(window), PIECE if one.how.stop else LONGEST)
        seed = int(torch.randint(2**63 - 1, (1,), generator=one.seeds))
        rules = (self.unreadable,)
        return Request(inputs=self.model_inputs(window), limit=limit, how=one.how.build_how(), rules=rules, seed=seed)

    def workloads(self, inputs: Sequence[str], batches: Sequence[int]) -> Iterator[Workload]:
        """What to time: texts that go on from the first input, by one and by many."""
        weights = sum(parameter.nbytes for parameter in self.model.parameters())
        begun = {"prompt": inputs[0]} if inputs else {}
        for batch in batches:
            write = partial(self.write, length=TIMED, samples=batch, **begun)
            yield Workload(f"writing, {batch} at a time", write, batch * TIMED, TIMED * weights)

    def write(self, prompt: str | None = None, **changes: Any) -> list[Text]:
        """Texts that begin with the prompt; `changes` are settings of `WritingConfig`."""
        how = self.how(prompt, changes)
        begun = self.begin(how.prompt)
        drafts = self._drafts(begun, how)
        wholes = self.decode_many([[*begun, *draft.tokens] for draft in drafts])
        return [self._stopped(begun, whole, draft, how.stop) for whole, draft in zip(wholes, drafts, strict=True)]

    def stream(self, prompt: str | None = None, **changes: Any) -> Iterator[str]:
        """One text, its beginning included, in pieces as they are written."""
        how = replace(self.how(prompt, changes), samples=1)
        begun, told, draft = self.begin(how.prompt), "", Draft()
        for draft in self._growing(begun, how):
            text = self._text(begun, draft, how.stop).text
            sure = text.rstrip(BROKEN) if draft.finished else text.rstrip(BROKEN)[: _safe(text, how.stop)]
            if len(sure) > len(told):
                yield sure[len(told) :]
                told = sure
            if how.stop and len(text) < len(self._text(begun, draft, "").text):
                return
        text = self._text(begun, draft, how.stop).text
        if len(text) > len(told):
            yield text[len(told) :]

    def how(self, prompt: str | None, changes: dict[str, Any]) -> WritingConfig:
        """The settings of a text: those of the model, and what is asked for."""
        own = {name: getattr(self.writing, name) for name in WritingConfig.__dataclass_fields__}
        given = {} if prompt is None else {"prompt": prompt}
        return config.build(WritingConfig, {**own, **changes, **given}, where="writing")

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Stop at a prompt among the options of an answer: every input is one."""
        if "prompt" in options:
            raise ValueError("prompt: every input is a prompt itself, leave it out")

    def _drafts(self, begun: list[int], how: WritingConfig) -> list[Draft]:
        """All samples; past the context, each goes on with the last half of what it has."""
        if how.stop and how.samples == 1:
            return [self._last(begun, how)]
        drafts, left, sampler = [Draft()] * how.samples, how.length, how.sampler()
        with self._evaluating():
            while left and (going := [number for number, one in enumerate(drafts) if not one.finished]):
                windows = [self._window([*begun, *drafts[number].tokens]) for number in going]
                limit = min(left, self._room(windows[0]))
                together = not drafts[going[0]].tokens  # at first all begin alike, and are read once
                tokens = torch.tensor(windows[:1] if together else windows, device=self.device)
                answers = generate(
                    self.ready(len(going)),
                    [tokens],
                    limit=limit,
                    eos=self.eos,
                    pick=sampler,
                    samples=how.samples if together else 1,
                    constraints=[self.unreadable],
                )
                for number, one in zip(going, (one for some in answers for one in some), strict=True):
                    before = drafts[number]
                    drafts[number] = Draft((*before.tokens, *one.tokens), before.score + one.score, one.finished)
                left -= limit
        return drafts

    def _growing(self, begun: list[int], how: WritingConfig) -> Iterator[Draft]:
        """One sample, longer each time."""
        draft, left, sampler = Draft(), how.length, how.sampler()
        with self._evaluating():
            while left and not draft.finished:
                window = self._window([*begun, *draft.tokens])
                limit, before = min(left, self._room(window)), draft
                tokens = torch.tensor([window], device=self.device)
                model, rules = self.ready(1), [self.unreadable]
                for one in stream_one(model, [tokens], limit=limit, eos=self.eos, pick=sampler, constraints=rules):
                    draft = Draft((*before.tokens, *one.tokens), before.score + one.score, one.finished)
                    yield draft
                left -= limit

    def _last(self, begun: list[int], how: WritingConfig) -> Draft:
        """One sample that stops as soon as its stop sequence is written."""
        draft = Draft()
        for draft in self._growing(begun, how):
            if how.stop in self._added(begun, draft):
                return draft
        return draft

    def _window(self, tokens: Sequence[int]) -> list[int]:
        """What the model reads of a text: all of it with its opening, or the last half of what it can hold."""
        whole = [*self.opening, *tokens]
        if self.context is None or len(whole) < self.context:
            return whole
        return whole[-max(1, self.context // 2) :]

    def _room(self, window: Sequence[int]) -> int:
        """How many tokens fit behind these."""
        return 1 << 30 if self.context is None else self.context - len(window)

    def _text(self, begun: Sequence[int], draft: Draft, stop: str) -> Text:
        """What was written, up to the stop sequence."""
        return self._stopped(begun, self.decode([*begun, *draft.tokens]), draft, stop)

    def _stopped(self, begun: Sequence[int], whole: str, draft: Draft, stop: str) -> Text:
        if stop and (at := whole.find(stop, len(self.decode(begun)))) >= 0:
            whole = whole[:at]
        return Text(whole, draft.score)

    def _added(self, begun: Sequence[int], draft: Draft) -> str:
        return self.decode([*begun, *draft.tokens])[len(self.decode(begun)) :]

    def _evaluating(self) -> _Evaluating:
        return _Evaluating(self.model)


@dataclass
class _Begun:
    """A text on its way: its beginning, what is written of it, how many tokens are left, and where seeds come from."""

    tokens: list[int]
    how: WritingConfig
    left: int
    seeds: torch.Generator
    draft: Draft = field(default_factory=Draft)

    @classmethod
    def of(cls, writer: Writes, how: WritingConfig) -> _Begun:
        """Before anything is written."""
        return cls(writer.begin(how.prompt), how, how.length, torch.Generator().manual_seed(how.seed))


class _Evaluating:
    """A model without dropout, for as long as the block lasts."""

    def __init__(self, model: Any) -> None:
        self.model, self.training = model, model.training

    def __enter__(self) -> None:
        self.model.eval()

    def __exit__(self, *error: object) -> None:
        self.model.train(self.training)


def _safe(text: str, stop: str) -> int:
    """How many characters of a text cannot be the beginning of a stop sequence."""
    longest = next((size for size in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:size])), 0)
    return len(text) - longest
