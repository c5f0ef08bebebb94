"""On a GPU: rounds that are captured and replayed give what the plain search gives, run after run."""

import pytest
import torch

from regard.decoding import engine
from regard.decoding.beam import Beam, search
from regard.models.inference import FusedDecoder
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
    groups = [engine.Group(inputs(8, seed), torch.randint(1, 20, (8,)).tolist()) for seed in range(6)]
    found = engine.stream(fast, groups, beam, eos=0, rows=16)
    for group, answers in zip(groups, found, strict=True):
        same(answers, search(model, group.inputs, beam, limit=group.limit, eos=0), within=0.13)


def test_ranking_in_kernels_is_ranking_in_torch(monkeypatch):
    for batch, beams, vocab in [(5, 1, 5000), (3, 4, 5000), (2, 5, 7)]:
        logits, total = 3 * torch.randn(batch, beams, vocab, device="cuda"), -torch.rand(batch, beams, device="cuda")
        made = []
        for there in (True, False):
            monkeypatch.setattr(engine, "kernels_run", lambda tensor, there=there: there)
            front = (total.clone(), *torch.zeros(2, batch, beams, dtype=torch.int64, device="cuda"))
            record = torch.zeros(1, batch, 3, 2 * beams, dtype=torch.int32, device="cuda")
            engine.choose(logits, front, record, torch.zeros(batch, dtype=torch.int64, device="cuda"), eos=1)
            made.append((*front[1:], record[:, :, 1:], front[0], record[:, :, 0].view(torch.float32)))
        for one, other in zip(*made, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
