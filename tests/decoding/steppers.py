"""Small models that obey the stepper's contract to the letter, and punish whoever does not.

A state that has been stepped, reordered, kept or joined is spent: its memory belongs to its descendant, and using it
again fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.cache import DecoderState, LayerCache
from regard.attention.masks import Grid, Stepping, causal, padded, stepping
from regard.attention.multihead import Heads
from regard.attention.positions import scheme
from regard.decoding.beam import Beam
from regard.decoding.stepper import Stepper
from regard.models import seq2seq as networks
from regard.models.parts.blocks import BlockShape, Embedding, EncoderBlock, Stack
from regard.models.transformer import Transformer, TransformerConfig

ROOM = 12  # tokens that any text here has at most


@dataclass(frozen=True)
class Case:
    """A model under test: examples can be chosen, and decoded together or alone."""

    model: Any
    inputs: Callable[[list[int]], tuple[Any, ...]]
    """The model's inputs for these examples, as one batch."""
    examples: int
    vocab: int
    eos: int
    read: dict[tuple[int, ...], tuple[list[float], Any]] = field(default_factory=dict)

    def every(self) -> tuple[Any, ...]:
        """The inputs for all examples."""
        return self.inputs(list(range(self.examples)))

    def following(self, example: int, tokens: Sequence[int]) -> list[float]:
        """Log-probabilities of what may follow a text, by feeding it one token at a time to a single beam."""
        return self._reading(example, *tokens)[0]

    def _reading(self, example: int, *tokens: int) -> tuple[list[float], Any]:
        """The same with the state there, each text read once."""
        text = (example, *tokens)
        if text not in self.read:
            if tokens:
                _, state = self._reading(*text[:-1])
                logits, state = self.model.step(torch.tensor([tokens[-1:]]), deepcopy(state))
            else:
                logits, state = self.model.start(*self.inputs([example]), beams=1, limit=ROOM)
            self.read[text] = logits[0, 0].detach().log_softmax(-1).tolist(), state
        return self.read[text]


class Spent:
    """What is left of a state that has moved on."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("this state was superseded: its memory belongs to its newest descendant")


class Strict:
    """A state whose tensors move to its descendant; all of them have a row for each example."""

    def __init__(self, tensors: dict[str, Tensor], beams: int):
        self.tensors: Any = tensors
        self.beams = beams

    @contextmanager
    def moved(self) -> Iterator[dict[str, Tensor]]:
        """The tensors, for the descendant only."""
        tensors = dict(self.tensors.items())
        self.tensors = Spent()
        yield tensors

    def keep(self, rows: Tensor) -> Strict:
        assert rows.dtype == torch.int64
        assert rows.unique().numel() == rows.numel()
        with self.moved() as mine:
            return type(self)({name: tensor[rows].clone() for name, tensor in mine.items()}, self.beams)

    def join(self, other: Strict) -> Strict:
        assert self.beams == other.beams
        with self.moved() as mine, other.moved() as theirs:
            return type(self)({name: torch.cat([mine[name], theirs[name]]) for name in mine}, self.beams)

    def copy(self) -> Strict:
        return type(self)({name: tensor.clone() for name, tensor in self.tensors.items()}, self.beams)

    def parents(self, parents: Tensor) -> Tensor:
        assert parents.dtype == torch.int64
        assert parents.shape[1] == self.beams
        assert int(parents.min()) >= 0
        assert int(parents.max()) < self.beams
        return parents


class MarkovState(Strict):
    """The last token of every beam."""

    def reorder(self, parents: Tensor) -> MarkovState:
        with self.moved() as mine:
            return MarkovState({**mine, "last": mine["last"].gather(1, self.parents(parents))}, self.beams)


class Markov:
    """The next token depends on the example, the place and the last token, through a table."""

    def __init__(self, table: Tensor):
        self.table = table  # (examples, place, vocab + 1, vocab); the last row of a place begins

    def start(self, example: Tensor, *, beams: int, limit: int) -> tuple[Tensor, MarkovState]:
        tensors = {
            "example": example.clone(),
            "last": torch.full((len(example), beams), -1),
            "place": torch.zeros(len(example), dtype=torch.int64),
            "limit": torch.full((len(example),), limit),
        }
        logits = self.table[example, 0, -1][:, None].expand(-1, beams, -1)  # a view, as a real model's may be
        return logits, MarkovState(tensors, beams)

    def step(self, tokens: Tensor, state: MarkovState) -> tuple[Tensor, MarkovState]:
        with state.moved() as mine:
            place = mine["place"] + 1
            assert bool((place < mine["limit"]).all()), "stepped past the limit"
            assert tokens.dtype == torch.int64
            assert tokens.shape == mine["last"].shape
            assert bool(((tokens >= 0) & (tokens < self.table.shape[-1])).all())
            after = {**mine, "last": tokens.clone(), "place": place}
            return self.table[mine["example"][:, None], place[:, None], tokens], MarkovState(after, state.beams)


class RecurrentState(Strict):
    """A hidden vector for every beam."""

    def reorder(self, parents: Tensor) -> RecurrentState:
        with self.moved() as mine:
            index = self.parents(parents)[..., None].expand_as(mine["hidden"])
            return RecurrentState({**mine, "hidden": mine["hidden"].gather(1, index)}, self.beams)


class Recurrent:
    """The next token depends on all before it, through a vector that forgets slowly."""

    def __init__(self, examples: int, vocab: int, width: int = 16, sharpness: float = 3.0):
        self.first = torch.randn(examples, width)
        self.embedding = torch.randn(vocab, width)
        self.transition = torch.randn(width, width) / width**0.5
        self.output = sharpness * torch.randn(width, vocab) / width**0.5

    def start(self, example: Tensor, *, beams: int, limit: int) -> tuple[Tensor, RecurrentState]:
        hidden = self.first[example][:, None].repeat(1, beams, 1)
        return hidden @ self.output, RecurrentState({"hidden": hidden}, beams)

    def step(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        with state.moved() as mine:
            hidden = torch.tanh(mine["hidden"] @ self.transition + self.embedding[tokens])
            mine["hidden"].fill_(float("nan"))
            return hidden @ self.output, RecurrentState({"hidden": hidden}, state.beams)


class SlotState(Strict):
    """A fixed cache of what every beam was fed, never moved, and whose slot holds each position of a beam's past."""

    def reorder(self, parents: Tensor) -> SlotState:
        with self.moved() as mine:
            index = self.parents(parents)[..., None].expand_as(mine["slots"])
            return SlotState({**mine, "slots": mine["slots"].gather(1, index)}, self.beams)


@dataclass
class Slots:
    """The next token depends on every token before it and its place, read from a cache along each beam's slots."""

    examples: int
    vocab: int
    seen: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)
    """(example, position, slot) -> the text that the beam in that slot had then."""

    def __post_init__(self) -> None:
        self.weight = 1.5 * torch.randn(self.examples, ROOM, self.vocab, self.vocab)
        self.first = torch.randn(self.examples, self.vocab)

    def start(self, example: Tensor, *, beams: int, limit: int) -> tuple[Tensor, SlotState]:
        tensors = {
            "example": example.clone(),
            "fed": torch.full((len(example), limit - 1, beams), -1),
            "slots": torch.zeros(len(example), beams, limit - 1, dtype=torch.int64),
            "length": torch.zeros(len(example), dtype=torch.int64),
        }
        return self.first[example][:, None].expand(-1, beams, -1), SlotState(tensors, beams)

    def step(self, tokens: Tensor, state: SlotState) -> tuple[Tensor, SlotState]:
        with state.moved() as mine:
            logits = torch.empty(*tokens.shape, self.vocab)
            for row, (example, at) in enumerate(zip(mine["example"].tolist(), mine["length"].tolist(), strict=True)):
                mine["fed"][row, at] = tokens[row]
                mine["slots"][row, :, at] = torch.arange(state.beams)
                for beam, slots in enumerate(mine["slots"][row, :, : at + 1].tolist()):
                    past = [int(mine["fed"][row, t, slot]) for t, slot in enumerate(slots)]
                    self.seen[example, at, beam] = past
                    terms = [self.weight[example, at - t, token] for t, token in enumerate(past)]
                    logits[row, beam] = 3 * torch.sin(torch.stack(terms).sum(0) + self.first[example])
            mine["length"] += 1
            return logits, SlotState(mine, state.beams)


def case(model: Any, *, examples: int, vocab: int, eos: int = 0) -> Case:
    """A model whose only input is the examples' numbers."""
    return Case(model, lambda chosen: (torch.tensor(chosen, dtype=torch.int64),), examples, vocab, eos)


def markov(examples: int = 5, vocab: int = 4) -> Case:
    """Nothing but the last token and the place matters."""
    return case(Markov(1.5 * torch.randn(examples, ROOM, vocab + 1, vocab)), examples=examples, vocab=vocab)


def recurrent(examples: int = 5, vocab: int = 4) -> Case:
    """Everything before matters, and states are overwritten."""
    return case(Recurrent(examples, vocab), examples=examples, vocab=vocab)


def slots(examples: int = 5, vocab: int = 4) -> Case:
    """Everything before matters, and is found by its slot."""
    return case(Slots(examples, vocab), examples=examples, vocab=vocab)


def transformer(examples: int = 5, vocab: int = 6) -> Case:
    """The real thing: caches with slots, and a source of its own length for each example."""
    sizes = {"width": 16, "heads": 2, "hidden": 16, "encoder": 1, "decoder": 2, "positions": "rotary", "dropout": 0.0}
    return translating(Transformer(TransformerConfig(vocab=vocab, **sizes)), examples, vocab)


def looking(examples: int = 5, vocab: int = 6) -> Case:
    """A real recurrent network: a state for each beam, which looks at a source held once."""
    sizes = {"width": 16, "embedding": 16, "cell": "lstm", "decoder": 2, "attention": "bahdanau", "dropout": 0.0}
    return translating(networks.Seq2Seq(networks.Seq2SeqConfig(vocab=vocab, **sizes)), examples, vocab)


def blind(examples: int = 5, vocab: int = 6) -> Case:
    """One that does not look: what it knows of the source goes from step to step."""
    sizes = {"width": 16, "embedding": 16, "attention": "none", "dropout": 0.0}
    return translating(networks.Seq2Seq(networks.Seq2SeqConfig(vocab=vocab, **sizes)), examples, vocab)


def translating(model: Any, examples: int, vocab: int) -> Case:
    """A model of this package, with a source of its own length for each example."""
    model = model.eval()
    for number in model.parameters():  # sharp enough for answers to differ
        torch.nn.init.normal_(number, std=0.5)
    sources, lengths = torch.randint(vocab, (examples, 6)), torch.randint(1, 7, (examples,))

    def inputs(chosen: list[int]) -> tuple[Tensor, ...]:
        return sources[chosen], lengths[chosen], torch.ones(len(chosen), 1, dtype=torch.int64)

    return Case(model, inputs, examples, vocab, eos=0)


class Writer(nn.Module):
    """A decoder-only Transformer: blocks without a look at a source, whose prompts have lengths of their own."""

    def __init__(self, vocab: int, *, width: int, heads: int, hidden: int, blocks: int, context: int, **more: Any):
        super().__init__()
        rest = {"positions": "sinusoidal", "pre": True, "groups": None, "dropout": 0.0, **more}
        shape = BlockShape(width, Heads(heads, rest["groups"]), hidden, pre=rest["pre"], dropout=rest["dropout"])
        self.embedding = Embedding(vocab, width)
        self.positions = scheme(rest["positions"], width=width, heads=heads, context=context, causal=True)
        self.blocks = nn.ModuleList(EncoderBlock(shape) for _ in range(blocks))
        self.norm = nn.LayerNorm(width) if shape.pre else nn.Identity()

    @property
    def stack(self) -> Stack:
        return Stack(self.embedding, self.positions, list(self.blocks), self.norm, self.embedding.weight)

    @torch.no_grad()
    def start(self, prompt: Tensor, lengths: Tensor, *, beams: int = 1, limit: int) -> tuple[Tensor, DecoderState]:
        room = prompt.shape[1]
        where = Stepping.begin(lengths, beams=beams, limit=limit, room=room)
        like, size = self.blocks[0].attention.remember(self.embedding.weight[prompt]), room + beams * limit
        caches = tuple(LayerCache.empty(like.keys, like.values.shape[-1], size) for _ in self.blocks)
        grid = Grid(lengths, room)
        features = self._through(prompt, grid.place, caches, padded(grid, grid) & causal())
        last = features[torch.arange(len(prompt)), lengths - 1]
        return (last @ self.embedding.weight.T)[:, None].expand(-1, beams, -1), DecoderState(where, caches)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        past = state.advance()
        features = self._through(tokens, past.where.newest, past.caches, stepping(past.where))
        return features @ self.embedding.weight.T, past

    def _through(self, tokens: Tensor, places: Tensor, caches: Any, mask: Any) -> Tensor:
        x = self.embedding(tokens, places, self.positions)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, mask=mask, positions=self.positions, cache=cache)
        return self.norm(x)


def alone(examples: int = 5, vocab: int = 6) -> Case:
    """A stack that looks at nothing but what it has written and a prompt of its own length."""
    model = Writer(vocab, width=16, heads=2, hidden=16, blocks=2, context=32, positions="rotary").eval()
    for number in model.parameters():
        torch.nn.init.normal_(number, std=0.5)
    prompts, lengths = torch.randint(vocab, (examples, 5)), torch.randint(1, 6, (examples,))
    return Case(model, lambda chosen: (prompts[chosen], lengths[chosen]), examples, vocab, eos=0)


CASES: dict[str, Callable[..., Case]] = {
    "markov": markov,
    "recurrent": recurrent,
    "slots": slots,
    "transformer": transformer,
    "looking": looking,
    "blind": blind,
    "alone": alone,
}


def surprises(case: Case, example: int, tokens: list[int]) -> list[float]:
    """The log-probability of each token of a text."""
    return [case.following(example, tokens[:place])[token] for place, token in enumerate(tokens)]


def every_text(case: Case, example: int, limit: int) -> list[tuple[list[int], float, bool]]:
    """(tokens, log-probability, finished) of everything that can be written within a limit, by brute force."""
    found: list[tuple[list[int], float, bool]] = []

    def visit(tokens: list[int], score: float) -> None:
        for token, gain in enumerate(case.following(example, tokens)):
            if token == case.eos:
                found.append((tokens, score + gain, True))
            elif len(tokens) + 1 == limit:
                found.append(([*tokens, token], score + gain, False))
            else:
                visit([*tokens, token], score + gain)

    visit([], 0.0)
    return found


def ranked(texts: list[tuple[list[int], float, bool]], beam: Beam) -> list[tuple[list[int], float, bool]]:
    """Finished texts first, then by normalized score."""
    return sorted(texts, key=lambda t: (t[2], beam.normalize_score(t[1], len(t[0]) + t[2])), reverse=True)


assert isinstance(Markov(torch.zeros(1, 1, 2, 1)), Stepper)
