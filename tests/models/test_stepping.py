"""Writing token by token, beams and all, gives what reading the finished text at once gives."""

import random
from copy import deepcopy
from typing import get_args, get_type_hints

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from regard.attention.masks import Grid
from regard.models.transformer import Transformer, TransformerConfig

VOCAB = 23
SCHEMES = get_args(get_type_hints(TransformerConfig)["positions"])


def build(positions="sinusoidal", **settings):
    """A tiny Transformer that answers at random, sharply enough for a wrong past to show."""
    shape = {"width": 8, "heads": 2, "hidden": 16, "encoder": 1, "decoder": 2, "context": 24, "dropout": 0.5}
    model = Transformer(TransformerConfig(vocab=VOCAB, positions=positions, **(shape | settings))).eval()
    for number in model.parameters():
        if number.dim() > 1:
            torch.nn.init.normal_(number, std=0.5)
    return model.double()


class Beams:
    """A state of the model beside what every beam of every example has really been fed."""

    def __init__(self, model, lengths, *, beams=3, limit=6, prompt=2):
        self.model, self.sources = model, [torch.randint(4, VOCAB, (length,)).tolist() for length in lengths]
        prompts = torch.randint(4, VOCAB, (len(lengths), prompt))
        source = pad_sequence([torch.tensor(s) for s in self.sources], batch_first=True)
        self.logits, self.state = model.start(source, torch.tensor(lengths), prompts, beams=beams, limit=limit)
        self.texts = [[list(text) for _ in range(beams)] for text in prompts.tolist()]

    def reorder(self, generator):
        beams = len(self.texts[0])
        parents = [[generator.randrange(beams) for _ in range(beams)] for _ in self.texts]
        self.state = self.state.reorder(torch.tensor(parents))
        self.logits = torch.stack([logits[row] for logits, row in zip(self.logits, parents, strict=True)])
        self.texts = [[list(texts[k]) for k in row] for texts, row in zip(self.texts, parents, strict=True)]

    def step(self, generator):
        tokens = [[generator.randrange(4, VOCAB) for _ in texts] for texts in self.texts]
        self.logits, self.state = self.model.step(torch.tensor(tokens), self.state)
        self.texts = [
            [[*text, token] for text, token in zip(texts, row, strict=True)]
            for texts, row in zip(self.texts, tokens, strict=True)
        ]

    def keep(self, rows):
        self.state, self.logits = self.state.keep(torch.tensor(rows)), self.logits[rows]
        self.sources, self.texts = [self.sources[row] for row in rows], [self.texts[row] for row in rows]

    def join(self, other):
        self.state, self.logits = self.state.join(other.state), torch.cat([self.logits, other.logits])
        self.sources, self.texts = self.sources + other.sources, self.texts + other.texts

    def copy(self):
        twin = object.__new__(Beams)
        twin.__dict__ = dict(self.__dict__, state=deepcopy(self.state), texts=[[*map(list, t)] for t in self.texts])
        return twin

    def check(self):
        """Every beam's logits are those of reading its source and its own text from the start."""
        assert not self.logits.requires_grad
        sources = [torch.tensor(source) for source, texts in zip(self.sources, self.texts, strict=True) for _ in texts]
        targets = [torch.tensor(text) for texts in self.texts for text in texts]
        batches = [pad_sequence(side, batch_first=True) for side in (sources, targets)]
        layouts = [Grid(torch.tensor([*map(len, side)]), max(map(len, side))) for side in (sources, targets)]
        with torch.no_grad():
            features = self.model(*batches, layouts=tuple(layouts))
            read = self.model.logits(features[torch.arange(len(targets)), layouts[1].lengths - 1])
        assert torch.allclose(self.logits.flatten(0, 1), read, atol=1e-8)


@pytest.mark.parametrize("positions", SCHEMES)
def test_stepping_is_reading_at_once_for_every_position_scheme_and_any_reordering(positions):
    generator = random.Random(0)
    beams = Beams(build(positions), [4, 1, 3])
    beams.check()
    for _ in range(6):
        beams.step(generator)
        beams.check()
        beams.reorder(generator)


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "pre"},
        {"groups": 1},
        {"merge": "add"},
        {"share": "none", "target_vocab": VOCAB},
        {"share": "target"},
        {"encoder": 3, "decoder": 1},
        {"attention_bias": False},
    ],
    ids=str,
)
def test_stepping_is_reading_at_once_in_every_shape(settings):
    generator = random.Random(1)
    beams = Beams(build(**settings), [3, 2], beams=2, limit=3, prompt=1)
    for _ in range(3):
        beams.step(generator)
        beams.check()
        beams.reorder(generator)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative"])
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_any_history_of_steps_reorderings_departures_arrivals_and_branches_is_reading_at_once(positions, seed):
    generator, model = random.Random(seed), build(positions)
    beams = Beams(model, [3, 5], limit=4)
    for _ in range(8):
        if int(beams.state.where.taken.max()) < beams.state.where.slots.shape[2]:
            branch = beams.copy()
            branch.step(generator)  # a branch writes first, into memory of its own
            beams.step(generator)
            beams.check()
            branch.check()
        match generator.choice(["reorder", "reorder", "join", "keep"]):
            case "reorder":
                beams.reorder(generator)
            case "join":
                fresh = Beams(model, [generator.randrange(1, 7)], limit=generator.randrange(2, 7))
                for _ in range(generator.randrange(3)):
                    fresh.step(generator)
                    fresh.reorder(generator)
                beams.join(fresh)
            case "keep" if len(beams.texts) > 1:
                beams.keep(generator.sample(range(len(beams.texts)), len(beams.texts) - 1))
        beams.check()


def test_the_source_is_held_once_whatever_the_beams_and_never_copied():
    model, sizes = build(), set()
    for count in (1, 5):
        generator, beams = random.Random(0), Beams(model, [4, 2], beams=count, limit=3)
        held = [(m.keys.data_ptr(), m.values.data_ptr()) for m in beams.state.memories]
        sizes.add(tuple(memory.keys.shape for memory in beams.state.memories))
        assert beams.state.caches[0].keys.shape == (2, 2, 2 + 3 * count, 4)  # the prompt too is held once
        for _ in range(3):
            beams.step(generator)
            beams.reorder(generator)
            assert [(m.keys.data_ptr(), m.values.data_ptr()) for m in beams.state.memories] == held
    assert sizes == {((2, 2, 4, 4),) * 2}


def test_caches_stay_where_they_are_and_what_was_written_stays_as_it_is():
    generator, beams = random.Random(0), Beams(build("rotary"), [4, 2], limit=4)
    places = [(cache.keys.data_ptr(), cache.values.data_ptr()) for cache in beams.state.caches]
    for step in range(4):
        beams.reorder(generator)
        used = 2 + 3 * step
        before = [cache.keys[:, :, :used].clone() for cache in beams.state.caches]
        beams.step(generator)
        assert [(cache.keys.data_ptr(), cache.values.data_ptr()) for cache in beams.state.caches] == places
        for cache, keys in zip(beams.state.caches, before, strict=True):
            assert torch.equal(cache.keys[:, :, :used], keys)
            assert cache.keys[:, :, used : used + 3].ne(0).any()
            assert cache.keys[:, :, used + 3 :].eq(0).all()


def test_padding_and_company_never_change_an_answer():
    model = build()
    alone, tokens = torch.randint(4, VOCAB, (1, 3)), torch.randint(4, VOCAB, (1, 2))
    company = torch.cat([torch.nn.functional.pad(alone, (0, 4), value=9), torch.randint(4, VOCAB, (2, 7))])
    answers = []
    for source, lengths in ((alone, [3]), (company, [3, 7, 1])):
        prompt = torch.ones(len(source), 1, dtype=torch.int64)
        first, state = model.start(source, torch.tensor(lengths), prompt, beams=2, limit=2)
        second, _ = model.step(tokens.expand(len(source), -1), state)
        answers.append((first[0], second[0]))
    for lonely, accompanied in zip(*answers, strict=True):
        assert torch.allclose(lonely, accompanied, atol=1e-8)


def test_an_empty_source_is_answered_in_finite_numbers_and_leaves_its_neighbours_alone():
    beams = Beams(build(), [3, 0])
    beams.step(random.Random(0))
    assert beams.logits.isfinite().all()
    beams.keep([0])
    beams.check()


def test_everybody_may_leave_and_somebody_may_come():
    model = build()
    beams = Beams(model, [3, 2])
    nobody = beams.state.keep(torch.tensor([], dtype=torch.int64))
    logits, nobody = model.step(torch.zeros(0, 3, dtype=torch.int64), nobody)
    assert logits.shape == (0, 3, VOCAB)
    arrived = Beams(model, [4])
    arrived.state = nobody.join(arrived.state)
    arrived.step(random.Random(0))
    arrived.check()


def test_beams_start_equal():
    beams = Beams(build(), [3, 2], beams=4)
    assert torch.equal(beams.logits, beams.logits[:, :1].expand(-1, 4, -1))
