"""A model's own weights stepped with fewer calls say what the model says."""

import pytest
import torch
from torch import nn

from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Forbid
from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler
from regard.decoding.stepper import Replayable
from regard.interpret.watch import watch
from regard.models.inference.cpu import LeanDecoder
from regard.models.inference.fast_path import FastPath
from regard.models.t5 import T5, T5Config
from tests.models.test_inference import KINDS, TEXTS, VOCAB, adapted, inputs, make, other_scores, written

T5S = [{}, {"tied": False, "gated": True, "activation": "gelu_tanh"}]


def t5(**settings):
    sizes = {"vocab": VOCAB, "width": 16, "depth": 8, "heads": 4, "hidden": 24, "encoder": 1, "decoder": 2}
    model = T5(T5Config(**sizes, buckets=8, furthest=6, **settings)).eval()
    for number in model.parameters():
        nn.init.normal_(number, std=0.3)
    return model


def stepped_as_the_model(model, given, beams, lean=None):
    """Through reordering, somebody leaving, and somebody joining in the middle."""
    both = model, lean or LeanDecoder(model)
    (plain, past), (fast, mine) = (each.start(*given, beams=beams, limit=9) for each in both)
    for step in range(8):
        if step == 3:
            past, mine = (state.keep(torch.tensor([2, 0])) for state in (past, mine))
        if step == 5:
            past, mine = (
                state.join(each.start(*given, beams=beams, limit=9)[1])
                for state, each in zip((past, mine), both, strict=True)
            )
        rows = len(past.where.taken)
        tokens, parents = torch.randint(VOCAB, (rows, beams)), torch.randint(beams, (rows, beams))
        plain, past = model.step(tokens, past.reorder(parents))
        fast, mine = both[1].step(tokens, mine.reorder(parents))
        torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["positions"])
def test_every_step_gives_the_models_logits(kind, beams):
    stepped_as_the_model(make(**kind), inputs(), beams)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("settings", T5S, ids=["1.0", "1.1"])
def test_t5_is_stepped_as_the_model(settings, beams):
    stepped_as_the_model(t5(**settings), inputs(), beams)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("lengths", [(), (torch.tensor([5, 2, 4]),)], ids=["even", "padded"])
@pytest.mark.parametrize("settings", TEXTS, ids=lambda settings: settings["positions"])
def test_every_gpt_is_stepped_as_the_model(settings, lengths, beams):
    stepped_as_the_model(written(**settings), (torch.randint(VOCAB, (3, 5)), *lengths), beams)


@pytest.mark.parametrize("name", other_scores())
def test_another_score_is_asked_not_left_out(name):
    model = make(positions="alibi")
    for block in model.decoder:
        block.attention.score = block.cross.score = other_scores()[name]
    stepped_as_the_model(model, inputs(), 2)


def test_what_is_cast_around_it_does_not_concern_it():
    model = written()
    lean, prompt = LeanDecoder(model), torch.randint(VOCAB, (2, 4))
    [first, second] = generate(lean, (prompt,), limit=6, eos=None)
    with torch.autocast("cpu", torch.bfloat16):
        assert generate(lean, (prompt,), limit=6, eos=None) == [first, second]


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("pick", [None, {"temperature": 0.7, "top_p": 0.9}], ids=["greedy", "drawn"])
def test_texts_are_those_of_the_model(pick, samples):
    model, prompt = written(), torch.randint(VOCAB, (4, 6))
    lengths = torch.tensor([6, 2, 5, 1])
    for given in ((prompt,), (prompt, lengths)):
        found = [
            generate(
                *(each, given),
                limit=[12, 3, 12, 7],
                eos=3,
                pick=pick and Sampler(**pick, generator=torch.Generator().manual_seed(4)),
                samples=samples,
                constraints=[Forbid([[1], [5]])],
            )
            for each in (model, LeanDecoder(model))
        ]
        texts = [[[(one.tokens, one.finished) for one in some] for some in each] for each in found]
        assert texts[0] == texts[1]


def test_beams_are_those_of_the_model():
    model, given = make(), inputs()
    plain, fast = (search(each, given, Beam(beams=4), limit=8, eos=0) for each in (model, LeanDecoder(model)))
    assert [[one.tokens for one in some] for some in plain] == [[one.tokens for one in some] for some in fast]


def test_where_there_is_no_gpu_it_writes_from_the_first_example_on_and_nothing_is_copied():
    model, given = make(), inputs()
    ready = FastPath(model)
    fast = ready(1)
    assert isinstance(fast, LeanDecoder)
    assert not isinstance(fast, Replayable)  # nobody waits for rounds that ran ahead in vain
    held = {weight.data_ptr() for weight in model.parameters()}
    own = [part for block in fast.blocks for part in block.parts]
    assert {each.weight.data_ptr() for part in own for each in part if hasattr(each, "weight")} <= held
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.3)
    assert ready(1) is fast
    stepped_as_the_model(model, given, 2, fast)


def test_a_model_that_is_watched_or_changed_is_never_stepped_with_what_it_was():
    model, given = make(), inputs()
    ready = FastPath(model)
    fast = ready(1)
    with watch(model):
        assert ready(1) is model
        search(ready(1), given, Beam(beams=2), limit=2, eos=0)
    assert ready(1) is fast
    outer = model.decoder[0].mlp.outer
    outer.weight = nn.Parameter(torch.randn_like(outer.weight))
    stepped_as_the_model(model, given, 2, ready(1))
    handle = model.decoder[1].mlp.register_forward_hook(lambda module, inputs, answer: 2 * answer)
    assert ready(1) is model
    handle.remove()
    assert isinstance(ready(1), LeanDecoder)
    adapted(model)
    assert ready(1) is model
