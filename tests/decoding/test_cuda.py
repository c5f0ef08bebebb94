"""On a GPU: rounds that are captured and replayed give what the plain search gives, run after run."""

import pytest
import torch

from regard.decoding import tables
from regard.decoding.batch import stream
from regard.decoding.beam import Beam, SearchPolicy, search
from regard.decoding.constraints import Forbid, Force, MinimumLength, NoRepeat, Prefix
from regard.decoding.generate import generate
from regard.decoding.lane import Group
from regard.decoding.sampling import Sampler
from regard.models.inference.cuda import FusedDecoder
from regard.models.transformer import Transformer, TransformerConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

VOCAB = 3000


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    sizes = {"width": 64, "heads": 4, "hidden": 128, "encoder": 1, "decoder": 2, "dropout": 0.0}
    model = Transformer(TransformerConfig(vocab=VOCAB, **sizes)).eval().cuda()
    for number in model.parameters():
        torch.nn.init.normal_(number, std=0.3)
    return model


def inputs(batch, seed):
    torch.manual_seed(seed)
    source, lengths = torch.randint(4, VOCAB, (batch, 9)), torch.randint(1, 10, (batch,))
    return tuple(each.cuda() for each in (source, lengths, torch.ones(batch, 1, dtype=torch.int64)))


def same(one, other, within, gap=1e-3):
    differ = 0
    for own, theirs in zip(one, other, strict=True):
        texts = [[(answer.tokens, answer.path, answer.finished) for answer in each] for each in (own, theirs)]
        differ += texts[0] != texts[1]
        if texts[0] == texts[1]:
            assert [answer.score for answer in own] == pytest.approx([answer.score for answer in theirs], abs=gap)
    assert differ <= within * len(one)


@pytest.mark.parametrize("batch", [1, 3, 40])  # projections by one kernel, or by the library's
@pytest.mark.parametrize("beams", [1, 4])
def test_replayed_rounds_give_what_the_plain_search_gives(model, batch, beams):
    fast = FusedDecoder(model)
    beam = Beam(beams=beams, nbest=min(beams, 2))
    for seed in range(5):  # as it is, twice, then captured, then replayed
        given = inputs(batch, seed)
        room = torch.randint(1, 20, (batch,)).tolist()
        plain = search(model, given, beam, limit=room, eos=0)
        same(search(fast, given, beam, limit=room, eos=0), plain, within=0.03)


def test_half_precision_answers_as_full_precision_does_as_far_as_it_can(model):
    fast, given, beam = FusedDecoder(model, torch.float16), inputs(64, 7), Beam(beams=4)
    plain = search(model, given, beam, limit=12, eos=0)
    for _ in range(4):
        same([own[:1] for own in search(fast, given, beam, limit=12, eos=0)], plain, within=0.4, gap=0.1)


@pytest.mark.parametrize("beams", [1, 4])
def test_examples_that_take_the_rows_of_others_get_their_own_answers(model, beams):
    fast, beam = FusedDecoder(model), Beam(beams=beams)
    groups = [Group(inputs(8, seed), torch.randint(1, 20, (8,)).tolist()) for seed in range(6)]
    found = stream(fast, groups, SearchPolicy(beam, 0), rows=16)
    for group, answers in zip(groups, found, strict=True):
        same(answers, search(model, group.inputs, beam, limit=group.limit, eos=0), within=0.13)


RULES = {
    "prefix": (Prefix([20, 10]),),
    "no repeated pair": (NoRepeat(2),),
    "forbidden": (Forbid([[3], [10, 20]]), MinimumLength(3)),
    "forced": (Force([[4, 5], [1]]),),
}


@pytest.mark.parametrize("rules", RULES)
def test_replayed_rounds_obey_the_same_rules(model, rules):
    fast, beam = FusedDecoder(model), Beam(beams=4)
    for seed in range(5):
        given = inputs(6, seed)
        plain = search(model, given, beam, limit=12, eos=0, constraints=RULES[rules])
        same(search(fast, given, beam, limit=12, eos=0, constraints=RULES[rules]), plain, within=0.2)
    assert len(fast.tables) == 1


@pytest.mark.parametrize("filters", [None, {}, {"temperature": 0.7, "top_k": 50}, {"top_p": 0.9}, {"min_p": 0.05}])
def test_replayed_draws_are_those_drawn_step_by_step(model, filters):
    fast = FusedDecoder(model)
    for seed in range(5):
        given, found = inputs(6, seed), []
        for each in (model, fast):
            pick = None if filters is None else Sampler(**filters, generator=torch.Generator().manual_seed(seed))
            rules = RULES["forbidden"]
            found.append(generate(each, given, limit=12, eos=0, pick=pick, samples=2, constraints=rules))
        same(found[1], found[0], within=0.2)
    assert len(fast.tables) == 1


def test_memory_of_many_searches_with_changing_weights_is_that_of_two(model):
    fast, held = FusedDecoder(model, torch.float16), []
    for _ in range(8):
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1.0)
        fast.take(model)
        for _ in range(4):
            search(fast, inputs(16, 0), Beam(beams=4), limit=12, eos=0)
        held.append(torch.cuda.memory_allocated())
    assert held[-1] == held[1]
    before = torch.cuda.memory_allocated()
    del fast
    assert torch.cuda.memory_allocated() < before


def test_ranking_in_kernels_is_ranking_in_torch(model, monkeypatch):
    whole = FusedDecoder(model)
    for batch, beams, vocab in [(5, 1, 5000), (3, 4, 5000), (2, 5, 7)]:
        logits, total = 3 * torch.randn(batch, beams, vocab, device="cuda"), -torch.rand(batch, beams, device="cuda")
        made = []
        for there in (True, False):
            monkeypatch.setattr(tables, "kernels_run", lambda tensor, there=there: there)
            policy = SearchPolicy(Beam(beams=beams), 1)
            table = tables.StaticBatch(whole, policy, rows=batch, longest=4)
            clock = torch.zeros(batch, dtype=torch.int64, device="cuda")
            live = tables.LiveHypotheses.blank(clock, policy, text=0, noise=None)._replace(total=total.clone())
            record, after = table._choose(logits, live, clock, None)
            made.append(
                (after.tokens, after.parents, record[:, :, 1:3], after.total, record[:, :, 0].view(torch.float32))
            )
        for one, other in zip(*made, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
