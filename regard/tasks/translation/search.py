"""The search of a translator: token ids of sources in, hypotheses out. What becomes of texts is above.

Everything that reads sources and answers together, such as alignment and teacher forcing, stands on it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.attention.hardware import device_of
from regard.data.tokenizers import Tokenizer
from regard.decoding import constraints
from regard.decoding.batch import BrokenScores, Finished, stream
from regard.decoding.batching import by_length, by_width, padded, round_up
from regard.decoding.engine import ROWS as LANE_ROWS
from regard.decoding.engine import Engine
from regard.decoding.generate import seeded_noise
from regard.decoding.lane import Group
from regard.decoding.request import Request
from regard.decoding.stepper import Hypothesis, Replayable, Stepper
from regard.decoding.teacher_forcing import Teacher
from regard.interpret.watch import SearchWatcher
from regard.models.inference import ENOUGH, Ready
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.policy import build_how, build_policy, build_rules

ROWS, BATCH = 512, 64  # most sentences side by side on a GPU, and most that are read together there
STEP = 16  # lengths of sentences read together are multiples of it, so that a GPU can replay the work
OnFinished = Callable[[Iterable[int], Sequence[Sequence[Hypothesis]]], None]


class Searcher:
    """A translation model and its tokenizers."""

    kind: ClassVar[str] = "a translator"

    def __init__(
        self,
        model: Any,
        tokenizers: tuple[Tokenizer, Tokenizer],
        decoding: DecodingConfig,
        name: str = "translator",
        *,
        ready: Ready | None = None,
    ) -> None:
        self.model = model
        self.ready = Ready(model) if ready is None else ready
        self.source, self.target = tokenizers
        self.begin, self.end = self.target.opening, self.target.role("end")
        self.decoding = decoding
        self.name = name

    @property
    def languages(self) -> list[str]:
        """Target languages to choose from; none when there is only one."""
        return list(self.source.tags)

    @property
    def context(self) -> int:
        """The most tokens of a source or an answer."""
        return int(self.model.config.context)

    @property
    def teacher(self) -> Teacher:
        """The model as it reads sources and given answers side by side."""
        return Teacher(self.model, begin=self.begin, end=self.end)

    def encode(self, text: str, to: str | None = None) -> list[int]:
        """Token ids of a sentence as the model reads it: the tag of the language asked for, the text, the end."""
        return self.encode_many([text], to)[0]

    def encode_many(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """Token ids of sentences as the model reads them."""
        tag, end, room = self.tag(to), self.source.role("end"), self.context - 1
        found = [[*tag, *ids, end] for ids in self.source.encode_many(texts)]
        longest = max(map(len, found), default=0) - 1
        if longest > room:
            raise ValueError(f"{longest} tokens in one sentence, the model reads {room}: split the text")
        return found

    def tag(self, to: str | None = None) -> list[int]:
        """What asks for a language: one token, or none where there is nothing to choose."""
        if to is None:
            if len(self.languages) > 1:
                raise ValueError(f"say which language to translate to: {', '.join(self.languages)}")
            return [self.source.tag(name) for name in self.languages]
        if not self.languages:
            raise ValueError(f"this model has only one direction: leave out the language {to}")
        return [self.source.tag(to)]

    def search_all(
        self, read: Sequence[list[int]], decoding: DecodingConfig, seeds: Sequence[int], on_finished: OnFinished
    ) -> None:
        """Search for answers to all sources; `on_finished` gets them, with their numbers, as soon as they are there."""
        model, left = self.ready(len(read)), list(range(len(read)))
        if isinstance(model, Replayable) and read:
            left = self._search_in_rows(model, read, decoding, seeds, on_finished)
            model = self.model
        copies = decoding.nbest if decoding.sample else max(decoding.beams, decoding.nbest)
        for places in by_length([len(read[number]) for number in left], budget=max(1, decoding.tokens // copies)):
            batch = [left[place] for place in places]
            on_finished(batch, self.hypotheses(read, batch, decoding, seeds, model))

    def _search_in_rows(
        self,
        model: Any,
        read: Sequence[list[int]],
        decoding: DecodingConfig,
        seeds: Sequence[int],
        on_finished: OnFinished,
    ) -> list[int]:
        """Search on a GPU in half precision, sentences taking the rows of those that are done.

        Return the numbers of those whose scores half precision cannot hold.
        """
        policy = build_policy(decoding, self.target, len(self.model.prediction))
        batches = by_width([len(ids) for ids in read], room=decoding.tokens, most=BATCH, step=STEP)
        groups = []
        for batch in batches:
            own = [read[number] for number in batch]
            inputs = self._inputs(own, model.device, min(round_up(len(own[0]), STEP), self.context))
            limits = self._limits(read, batch, decoding)
            groups.append(Group(inputs, limits, seeded_noise(policy, limits, [seeds[number] for number in batch])))
        written = max(max(group.limit) for group in groups)
        size = model.row_bytes(beams=policy.beams, written=written, read=len(read[batches[0][0]]))

        def pass_on(finished: Sequence[Finished]) -> None:
            on_finished([batches[each.group][each.place] for each in finished], [each.hypotheses for each in finished])

        try:
            stream(model, groups, policy, rows=min(model.count_rows(ROWS, size), len(read)), hear=pass_on)
        except BrokenScores as error:
            if len(error.failed) > len(read) / 2:
                self.ready.give_up("half precision cannot hold its scores")
            return [batches[group][place] for group, place in error.failed]
        return []

    def hypotheses(
        self,
        read: Sequence[list[int]],
        numbers: Sequence[int],
        decoding: DecodingConfig,
        seeds: Sequence[int] | None = None,
        model: Stepper | None = None,
        *,
        rules: Sequence[constraints.Constraint] = (),
    ) -> list[list[Hypothesis]]:
        """The search itself, over the token ids of the sentences with these numbers, under further rules if any."""
        own = [read[number] for number in numbers]
        inputs = self._inputs(own, device_of(self.model))
        policy = build_policy(decoding, self.target, len(self.model.prediction), rules)
        limits = self._limits(read, numbers, decoding)
        seeds = [hash((decoding.seed, number)) if seeds is None else seeds[number] for number in numbers]
        return stream(model or self.model, [Group(inputs, limits, seeded_noise(policy, limits, seeds))], policy)[0]

    def make_requests(self, read: Sequence[list[int]], decoding: DecodingConfig, seeds: Sequence[int]) -> list[Request]:
        """Return what asks an engine for the answers to these sources."""
        limits = self._limits(read, range(len(read)), decoding)
        how, rules = build_how(decoding), build_rules(decoding, self.target, len(self.model.prediction))
        begin = torch.tensor([self.begin])
        return [
            Request(
                inputs=(torch.tensor(ids), torch.tensor(len(ids)), begin), limit=limit, how=how, rules=rules, seed=seed
            )
            for ids, limit, seed in zip(read, limits, seeds, strict=True)
        ]

    def make_engine(self, *, rows: int = LANE_ROWS) -> Engine:
        """Return an engine for such requests, with room for everything that the model reads and writes."""
        size = self.context
        engine = Engine(
            self.ready(ENOUGH),
            eos=self.end,
            longest=size,
            rows=rows,
            source=size,
            device=device_of(self.model),
            watch=partial(SearchWatcher, self.model),
        )
        engine.use_teacher(self.teacher)
        return engine

    def _inputs(
        self, read: Sequence[list[int]], device: torch.device, longest: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Token ids as what a translation model starts from: source, lengths, prompt."""
        source, lengths = padded(read, self.source.filler, longest)
        prompt = torch.full((len(read), 1), self.begin)
        return source.to(device), lengths.to(device), prompt.to(device)

    def _limits(self, read: Sequence[list[int]], numbers: Sequence[int], decoding: DecodingConfig) -> list[int]:
        """The most tokens of each answer."""
        return [min(self.context - 1, int(decoding.ratio * len(read[number])) + 10) for number in numbers]
