"""Base class of trained language models, which continue texts token by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.config.ranges import Amount, Count, Length, Part, Range, Seed, Whole
from regard.data.tokenizers import Tokenizer
from regard.decoding.beam import Beam
from regard.decoding.constraints import Constraint, check_room, force_tokens
from regard.decoding.engine import ROWS, Engine
from regard.decoding.exchange import Exchange, Progress, TextStream
from regard.decoding.generate import generate, stream_one
from regard.decoding.request import Request, Sampling
from regard.decoding.sampling import Sampler
from regard.decoding.search_tree import SearchTree
from regard.interpret.watch import SearchWatcher
from regard.models.inference.fast_path import ENOUGH, FastPath
from regard.tasks.search_options import ContinuationTreeOptions
from regard.tasks.trained import Extra, Face, NoOptions, Workload, describe_model
from regard.tasks.writing_search import evaluating, search_continuation

TIMED_TOKENS = 100  # tokens generated to measure speed
MAX_TOKENS = 4096  # most tokens per request for a model without a limit
STOP_CHECK_INTERVAL = 16  # tokens per request if there is a stop sequence
PARTIAL_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # decoded form of an incomplete character


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Settings of sampling."""

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
        """Return the decoding method: greedy search at temperature 0, else sampling."""
        if self.temperature == 0:
            return Beam(beams=1)
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p)

    def sampler(self) -> Sampler | None:
        """Return the sampler of tokens; None where the likeliest is taken."""
        if self.temperature == 0:
            return None
        settings = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        return Sampler(**settings, generator=torch.Generator().manual_seed(self.seed))


@dataclass(frozen=True, kw_only=True)
class ContinuationOptions(SamplingConfig):
    """Options of the continuation of a prompt."""

    length: Length = 200
    """Tokens written."""
    stop: str = ""
    """Stop sequence: a text ends before the first of these; blank: where the model ends it."""
    prefix: tuple[Whole, ...] = ()
    """Ids of tokens that the continuation must begin with."""


@dataclass(frozen=True, kw_only=True)
class WritingConfig(ContinuationOptions):
    """Settings of writing texts."""

    prompt: str = ""
    """Prompt: how every text begins."""


@dataclass(frozen=True)
class Text:
    """A generated text, including its prompt, and the log-probability of the continuation."""

    text: str
    score: float
    tokens: int = field(default=0, compare=False, repr=False)
    """Number of generated tokens."""
    finished: bool = field(default=False, compare=False, repr=False)
    """True if the model or a stop sequence ended the text, rather than its maximum length."""

    def __str__(self) -> str:
        return self.text

    def plain(self) -> dict[str, Any]:
        """Return the text as JSON."""
        return {"text": self.text, "score": round(self.score, 6)}


@dataclass(frozen=True)
class Draft:
    """The tokens generated so far, their log-probability, and a flag for the end of the text."""

    tokens: tuple[int, ...] = ()
    score: float = 0.0
    finished: bool = False


class Writes(Face):
    """Base class of language models in use; subclasses define the tokens of texts and the context."""

    verb: ClassVar[str] = "write"
    kind: ClassVar[str] = "a language model"
    Options: ClassVar[type] = ContinuationOptions
    LookOptions: ClassVar[type] = ContinuationOptions
    context: int | None = None
    """Most tokens of the model's context; None: unlimited."""
    eos: int | None = None
    """The end token of a text; None if there is none."""
    __repr__ = describe_model

    def __init__(self, model: Any, tokenizer: Tokenizer, writing: WritingConfig, name: str = "writer") -> None:
        self.model, self.tokenizer, self.writing, self.name = model, tokenizer, writing, name
        self.ready = FastPath(model)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Texts that continue one prompt, streaming, the tree of a search, and workloads to time."""
        return {
            "tree": Extra(self.tree, ContinuationTreeOptions, "A beam search for a continuation, with what it left."),
            "stream": Extra(self.stream, WritingConfig, "One text in pieces, as they are written."),
            "workloads": Extra(self.workloads, NoOptions, "Texts to time, by one and by many."),
        }

    @property
    def opening(self) -> list[int]:
        """Tokens before every text."""
        raise NotImplementedError

    @property
    def unreadable(self) -> Constraint:
        """A constraint against tokens that must not be generated."""
        raise NotImplementedError

    def begin(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt."""
        raise NotImplementedError

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self.tokenizer.decode(tokens)

    def decode_many(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each list of tokens."""
        return [self.decode(tokens) for tokens in texts]

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Text]:
        """Return one continuation of every prompt; options are those of `ContinuationOptions`."""
        self._check_options(options)
        return [self.write(prompt, **{**options, "samples": 1})[0] for prompt in inputs]

    def exchange(self, inputs: Sequence[str], **options: Any) -> Exchange[list[Text]]:
        """Continue all prompts in parallel with an external engine.

        With a stop sequence a text is requested in pieces, each with its own random numbers.
        """
        self._check_options(options)
        pending = [_PendingText.of(self, self.how(prompt, {**options, "samples": 1})) for prompt in inputs]
        return (yield from self._exchange_texts(pending))

    def open_stream(self, item: str, **options: Any) -> TextStream:
        """Return the continuation of a prompt, to be read while an engine generates it; options as in `exchange`."""
        self._check_options(options)
        return _ContinuationStream(self, _PendingText.of(self, self.how(item, {**options, "samples": 1})))

    def _exchange_texts(self, pending: Sequence[_PendingText]) -> Exchange[list[Text]]:
        while going := [text for text in pending if text.left and not text.draft.finished]:
            requests = [self._request(text) for text in going]
            answers = yield requests
            for text, request, [best] in zip(going, requests, answers, strict=True):
                before = text.draft
                text.draft = Draft((*before.tokens, *best.tokens), before.score + best.score, best.finished)
                text.left -= request.limit
                if text.how.stop and text.how.stop in self._continuation(text.tokens, text.draft):
                    text.left = 0
        return [self._finish_text(text.tokens, text.draft, text.how.stop) for text in pending]

    def make_engine(self, *, rows: int = ROWS) -> Engine:
        """Return an engine for texts up to the model's context."""
        room = MAX_TOKENS if self.context is None else self.context - 1
        model, watch = self.ready(ENOUGH), partial(SearchWatcher, self.model)
        return Engine(model, eos=self.eos, longest=room, prompt=room, rows=rows, device=self.device, watch=watch)

    def model_inputs(self, window: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the inputs of the model for a window, without the axis of the batch."""
        return (torch.tensor(window),)

    def _request(self, text: _PendingText) -> Request:
        """Return a request for as many tokens as fit after the window."""
        window = self.window([*text.tokens, *text.draft.tokens])
        limit = min(text.left, self.free_tokens(window), STOP_CHECK_INTERVAL if text.how.stop else MAX_TOKENS)
        seed = int(torch.randint(2**63 - 1, (1,), generator=text.seeds))
        rules = tuple(self.rules(text.how.prefix, len(text.draft.tokens)))
        return Request(inputs=self.model_inputs(window), limit=limit, how=text.how.build_how(), rules=rules, seed=seed)

    def rules(self, prefix: Sequence[int], written: int) -> list[Constraint]:
        """Return the constraints of a continuation of which so many tokens are written: what is forced comes first."""
        return [self.unreadable, *force_tokens(prefix[written:], vocab=self.tokenizer.vocab)]

    def tree(self, prompt: str, **options: Any) -> SearchTree:
        """Search for the likeliest continuation of a prompt by beams, and return the search as a tree.

        Options are those of `ContinuationTreeOptions`. Sampling and greedy writing have no tree.
        """
        return search_continuation(self, prompt, config.build(ContinuationTreeOptions, options, where="options"))

    def workloads(self, inputs: Sequence[str], batches: Sequence[int]) -> Iterator[Workload]:
        """Yield workloads: continuations of the first input, alone and in batches."""
        weights = sum(parameter.nbytes for parameter in self.model.parameters())
        prompt = {"prompt": inputs[0]} if inputs else {}
        for batch in batches:
            write = partial(self.write, length=TIMED_TOKENS, samples=batch, **prompt)
            yield Workload(f"writing, {batch} at a time", write, batch * TIMED_TOKENS, TIMED_TOKENS * weights)

    def write(self, prompt: str | None = None, **changes: Any) -> list[Text]:
        """Return texts that begin with the prompt; `changes` are settings of `WritingConfig`."""
        how = self.how(prompt, changes)
        prompt_tokens = self.begin(how.prompt)
        drafts = self._drafts(prompt_tokens, how)
        texts = self.decode_many([[*prompt_tokens, *draft.tokens] for draft in drafts])
        return [
            self._cut_at_stop(prompt_tokens, text, draft, how.stop) for text, draft in zip(texts, drafts, strict=True)
        ]

    def stream(self, prompt: str | None = None, **changes: Any) -> Iterator[str]:
        """Yield one text, including the prompt, in pieces as they are generated."""
        how = replace(self.how(prompt, changes), samples=1)
        prompt_tokens, written, draft = self.begin(how.prompt), "", Draft()
        for draft in self._write_stream(prompt_tokens, how):
            text, sure = self._sure_text(prompt_tokens, draft, how.stop)
            if len(sure) > len(written):
                yield sure[len(written) :]
                written = sure
            if how.stop and len(text) < len(self._finish_text(prompt_tokens, draft, "").text):
                return
        text = self._finish_text(prompt_tokens, draft, how.stop).text
        if len(text) > len(written):
            yield text[len(written) :]

    def _sure_text(self, prompt_tokens: Sequence[int], draft: Draft, stop: str) -> tuple[str, str]:
        """Return the text so far, and the part of it that later tokens cannot change."""
        text = self._finish_text(prompt_tokens, draft, stop).text
        whole_characters = text.rstrip(PARTIAL_CHARACTER)
        return text, whole_characters if draft.finished else whole_characters[: _length_before_stop(text, stop)]

    def how(self, prompt: str | None, changes: dict[str, Any]) -> WritingConfig:
        """Return the generation settings: the model's defaults, with changes."""
        defaults = {name: getattr(self.writing, name) for name in WritingConfig.__dataclass_fields__}
        prompt_setting = {} if prompt is None else {"prompt": prompt}
        how = config.build(WritingConfig, {**defaults, **changes, **prompt_setting}, where="writing")
        check_room(how.prefix, how.length)
        return how

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Raise an error for a prompt among the options of an answer, as every input is a prompt."""
        if "prompt" in options:
            raise ValueError("prompt: every input is a prompt itself, leave it out")

    def _drafts(self, prompt_tokens: list[int], how: WritingConfig) -> list[Draft]:
        """Return all samples; when the context is full, each continues from its last half."""
        if how.stop and how.samples == 1:
            return [self._write_until_stop(prompt_tokens, how)]
        drafts, left, sampler = [Draft()] * how.samples, how.length, how.sampler()
        with evaluating(self.model):
            while left and (going := [number for number, draft in enumerate(drafts) if not draft.finished]):
                windows = [self.window([*prompt_tokens, *drafts[number].tokens]) for number in going]
                limit = min(left, self.free_tokens(windows[0]))
                together = not drafts[going[0]].tokens  # initially all samples share the prompt, which is read once
                tokens = torch.tensor(windows[:1] if together else windows, device=self.device)
                answers = generate(
                    self.ready(len(going)),
                    [tokens],
                    limit=limit,
                    eos=self.eos,
                    pick=sampler,
                    samples=how.samples if together else 1,
                    constraints=self.rules(how.prefix, len(drafts[going[0]].tokens)),
                )
                for number, draft in zip(going, (draft for some in answers for draft in some), strict=True):
                    before = drafts[number]
                    drafts[number] = Draft((*before.tokens, *draft.tokens), before.score + draft.score, draft.finished)
                left -= limit
        return drafts

    def _write_stream(self, prompt_tokens: list[int], how: WritingConfig) -> Iterator[Draft]:
        """Yield one sample repeatedly as it grows."""
        draft, left, sampler = Draft(), how.length, how.sampler()
        with evaluating(self.model):
            while left and not draft.finished:
                window = self.window([*prompt_tokens, *draft.tokens])
                limit, before = min(left, self.free_tokens(window)), draft
                tokens = torch.tensor([window], device=self.device)
                model, rules = self.ready(1), self.rules(how.prefix, len(draft.tokens))
                for answer in stream_one(model, [tokens], limit=limit, eos=self.eos, pick=sampler, constraints=rules):
                    draft = Draft((*before.tokens, *answer.tokens), before.score + answer.score, answer.finished)
                    yield draft
                left -= limit

    def _write_until_stop(self, prompt_tokens: list[int], how: WritingConfig) -> Draft:
        """Return one sample that stops as soon as its stop sequence is generated."""
        draft = Draft()
        for draft in self._write_stream(prompt_tokens, how):
            if how.stop in self._continuation(prompt_tokens, draft):
                return draft
        return draft

    def window(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens that the model reads: the whole text with its opening, or the last half of a context."""
        all_tokens = [*self.opening, *tokens]
        if self.context is None or len(all_tokens) < self.context:
            return all_tokens
        return all_tokens[-max(1, self.context // 2) :]

    def free_tokens(self, window: Sequence[int]) -> int:
        """Return the number of tokens that fit after a window."""
        return 1 << 30 if self.context is None else self.context - len(window)

    def _finish_text(self, prompt_tokens: Sequence[int], draft: Draft, stop: str) -> Text:
        """Return the generated text, up to the stop sequence."""
        return self._cut_at_stop(prompt_tokens, self.decode([*prompt_tokens, *draft.tokens]), draft, stop)

    def _cut_at_stop(self, prompt_tokens: Sequence[int], text: str, draft: Draft, stop: str) -> Text:
        finished = draft.finished
        if stop and (stop_place := text.find(stop, len(self.decode(prompt_tokens)))) >= 0:
            text, finished = text[:stop_place], True
        return Text(text, draft.score, len(draft.tokens), finished)

    def _continuation(self, prompt_tokens: Sequence[int], draft: Draft) -> str:
        return self.decode([*prompt_tokens, *draft.tokens])[len(self.decode(prompt_tokens)) :]


@dataclass
class _PendingText:
    """A text in progress: its prompt, the draft so far, the number of remaining tokens, and its seeds."""

    tokens: list[int]
    how: WritingConfig
    left: int
    seeds: torch.Generator
    draft: Draft = field(default_factory=Draft)

    @classmethod
    def of(cls, writer: Writes, how: WritingConfig) -> _PendingText:
        """Return a text without generated tokens."""
        return cls(writer.begin(how.prompt), how, how.length, torch.Generator().manual_seed(how.seed))


class _ContinuationStream:
    """The text stream of a prompt and its continuation."""

    def __init__(self, writer: Writes, pending: _PendingText) -> None:
        self._writer, self._pending = writer, pending

    def exchange(self) -> Exchange[list[Text]]:
        """Return the exchange whose answer is this text."""
        return self._writer._exchange_texts([self._pending])

    def read(self, progress: Sequence[Progress]) -> str:
        """Return the beginning of the text that cannot change any more, including the prompt."""
        before, stop = self._pending.draft, self._pending.how.stop
        tokens = progress[0].settled_tokens if progress else []
        draft = Draft((*before.tokens, *tokens), before.score)
        return self._writer._sure_text(self._pending.tokens, draft, stop)[1]

    def text_of(self, answer: Text) -> str:
        """Return the whole text, including the prompt."""
        return answer.text


def _length_before_stop(text: str, stop: str) -> int:
    """Return the length of a text without an ending that may be the beginning of a stop sequence."""
    longest = next((size for size in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:size])), 0)
    return len(text) - longest
