"""The search of a translator: from token ids of sources to hypotheses.

Alignment and teacher forcing, which read sources and answers together, build on it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.hardware import device_of
from regard.data.tokenizers import Tokenizer
from regard.decoding import constraints
from regard.decoding.batch import BrokenScores, Finished, stream
from regard.decoding.batching import by_length, by_width, in_order, padded, round_up
from regard.decoding.beam import Beam
from regard.decoding.engine import ROWS as LANE_ROWS
from regard.decoding.engine import Engine
from regard.decoding.generate import generate, seeded_noise
from regard.decoding.lane import Group
from regard.decoding.request import How, Request, Score
from regard.decoding.stepper import Hypothesis, Replayable, Stepper
from regard.decoding.teacher_forcing import Teacher
from regard.interpret.watch import SearchWatcher, attention_names
from regard.models.inference.fast_path import ENOUGH, FastPath
from regard.tasks.translation.model_calls import OnFinished, SearchCall
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.pipeline import TextTranslator
from regard.tasks.translation.policy import build_how, build_policy, build_rules

ROWS, BATCH = 512, 64  # maximum number of sentences decoded together on a GPU, and read together
STEP = 16  # lengths of sentences in a batch are rounded up to multiples of it, so that a GPU can replay captured work
GREEDY = Beam(beams=1)


class Searcher(TextTranslator):
    """A translation model and its tokenizers."""

    def __init__(
        self,
        model: Any,
        tokenizers: tuple[Tokenizer, Tokenizer],
        decoding: DecodingConfig,
        name: str = "translator",
        *,
        ready: FastPath | None = None,
    ) -> None:
        crossing = find_crossing(model)
        super().__init__(tokenizers, decoding, context=int(model.config.context), crossing=crossing, name=name)
        self.model = model
        self.ready = FastPath(model) if ready is None else ready

    @property
    def teacher(self) -> Teacher:
        """Return the model for teacher forcing."""
        return Teacher(self.model, begin=self.begin, end=self.end)

    def search_all(
        self, read: Sequence[list[int]], decoding: DecodingConfig, seeds: Sequence[int], on_finished: OnFinished
    ) -> None:
        """Search for answers to all sources; `on_finished` receives them with their numbers once finished."""
        model, pending = self.ready(len(read)), list(range(len(read)))
        if isinstance(model, Replayable) and read:
            pending = self._search_in_rows(model, read, decoding, seeds, on_finished)
            model = self.model
        copies = decoding.nbest if decoding.sample else max(decoding.beams, decoding.nbest)
        for places in by_length([len(read[number]) for number in pending], budget=max(1, decoding.tokens // copies)):
            batch = [pending[place] for place in places]
            on_finished(batch, self.hypotheses(read, batch, decoding, seeds, model))

    def _search_in_rows(
        self,
        model: Any,
        read: Sequence[list[int]],
        decoding: DecodingConfig,
        seeds: Sequence[int],
        on_finished: OnFinished,
    ) -> list[int]:
        """Search on a GPU in half precision, where finished sentences are replaced by new ones.

        Return the numbers of the sentences whose scores half precision cannot represent.
        """
        policy = build_policy(decoding, self.target, len(self.model.prediction))
        batches = by_width([len(ids) for ids in read], room=decoding.tokens, most=BATCH, step=STEP)
        groups = []
        for batch in batches:
            sources = [read[number] for number in batch]
            inputs = self._inputs(sources, model.device, min(round_up(len(sources[0]), STEP), self.context))
            limits = self._limits(read, batch, decoding)
            groups.append(Group(inputs, limits, seeded_noise(policy, limits, [seeds[number] for number in batch])))
        written = max(max(group.limit) for group in groups)
        size = model.row_bytes(beams=policy.beams, written=written, read=len(read[batches[0][0]]))

        def pass_on(finished: Sequence[Finished]) -> None:
            on_finished(
                [batches[answered.group][answered.place] for answered in finished],
                [answered.hypotheses for answered in finished],
            )

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
        """Search for answers to the sentences with these numbers, under additional constraints if any."""
        sources = [read[number] for number in numbers]
        inputs = self._inputs(sources, device_of(self.model))
        policy = build_policy(decoding, self.target, len(self.model.prediction), rules)
        limits = self._limits(read, numbers, decoding)
        seeds = [hash((decoding.seed, number)) if seeds is None else seeds[number] for number in numbers]
        return stream(model or self.model, [Group(inputs, limits, seeded_noise(policy, limits, seeds))], policy)[0]

    def search(self, call: SearchCall) -> list[list[Hypothesis]]:
        """Answer a call directly; answers go to its `on_finished`, if it has one, as soon as they are finished."""
        if call.on_finished is not None:
            assert call.decoding is not None
            assert call.seeds is not None
            self.search_all(call.sources, call.decoding, call.seeds, call.on_finished)
            return []
        how = DecodingConfig(beams=1) if call.decoding is None else call.decoding
        batches = by_length([len(ids) for ids in call.sources], budget=max(1, how.tokens // how.beams))
        return in_order(batches, [self._search_batch(call, batch) for batch in batches])

    def _search_batch(self, call: SearchCall, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        prefixes = () if call.prefixes is None else [call.prefixes[number] for number in numbers]
        rules = [constraints.Prefix(each=prefixes)] if prefixes else []
        if call.decoding is not None:
            return self.hypotheses(call.sources, numbers, call.decoding, call.seeds, rules=rules)
        limits = self._choose_limits(call)
        inputs = self._inputs([call.sources[number] for number in numbers], device_of(self.model))
        own = [limits[number] for number in numbers]
        return generate(self.model, inputs, limit=own, eos=self.end, constraints=rules)

    def _choose_limits(self, call: SearchCall) -> list[int]:
        """Return the maximum number of tokens of each answer to a call."""
        if call.limits is not None:
            return list(call.limits)
        assert call.decoding is not None
        return self._limits(call.sources, range(len(call.sources)), call.decoding)

    def make_requests(self, call: SearchCall) -> list[Request]:
        """Return the engine requests for a call."""
        how: How = GREEDY
        rules: tuple[constraints.Constraint, ...] = ()
        if call.decoding is not None:
            how = build_how(call.decoding)
            rules = build_rules(call.decoding, self.target, len(self.model.prediction))
        count = len(call.sources)
        prefixes = [()] * count if call.prefixes is None else [(constraints.Prefix(ids),) for ids in call.prefixes]
        seeds = [0] * count if call.seeds is None else call.seeds
        return [
            Request(inputs=self._request_inputs(ids), limit=limit, how=how, rules=(*rules, *prefix), seed=seed)
            for ids, limit, prefix, seed in zip(call.sources, self._choose_limits(call), prefixes, seeds, strict=True)
        ]

    def make_score_requests(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        *,
        top: int = 0,
        weights: tuple[str, ...] = (),
    ) -> list[Request]:
        """Return the engine requests for the scores of targets and their ends, and the weights of these attentions."""
        return [
            Request(inputs=self._request_inputs(ids), limit=1, how=Score([[*target, self.end]], top), weights=weights)
            for ids, target in zip(sources, targets, strict=True)
        ]

    def _request_inputs(self, ids: list[int]) -> tuple[Tensor, ...]:
        return torch.tensor(ids), torch.tensor(len(ids)), torch.tensor([self.begin])

    def make_engine(self, *, rows: int = LANE_ROWS) -> Engine:
        """Return an engine for such requests, with room for the model's whole context."""
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
        """Return the inputs of the model: padded sources, lengths, prompts."""
        source, lengths = padded(read, self.source.filler, longest)
        prompt = torch.full((len(read), 1), self.begin)
        return source.to(device), lengths.to(device), prompt.to(device)

    def _limits(self, read: Sequence[list[int]], numbers: Sequence[int], decoding: DecodingConfig) -> list[int]:
        """Return the maximum number of tokens of each answer."""
        limits = [min(self.context - 1, int(decoding.ratio * len(read[number])) + 10) for number in numbers]
        if isinstance(decoding.prefix, tuple):
            constraints.check_room(decoding.prefix, min(limits, default=self.context))
        return limits


def find_crossing(model: nn.Module) -> list[str]:
    """Return the names of the cross-attentions."""
    return [name for name in attention_names(model) if name.endswith("cross")]
