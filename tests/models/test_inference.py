"""A lean model says step by step what the model says, whatever the model is made of."""

import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from regard.attention.scores import Bilinear, cosine, dot
from regard.decoding.beam import Beam, search
from regard.interpret.watch import watch
from regard.models.gpt import GPT, GPTConfig
from regard.models.inference import fast_path
from regard.models.inference.cuda import FusedDecoder
from regard.models.inference.fast_path import FastPath
from regard.models.inference.supported import Unknown
from regard.models.parts.blocks import DecoderBlock
from regard.models.t5 import T5, T5Config
from regard.models.transformer import Transformer, TransformerConfig
from tests.decoding.steppers import Writer

VOCAB = 11
BASE = {"width": 16, "heads": 4, "hidden": 24, "encoder": 1, "decoder": 2, "context": 32, "dropout": 0.1}
KINDS = [
    {"positions": "sinusoidal"},
    {"positions": "learned", "norm": "pre", "groups": 2},
    {"positions": "rotary", "share": "target", "activation": "gelu", "groups": 1},
    {"positions": "alibi", "norm": "pre", "share": "none", "activation": "silu"},
    {"positions": "relative", "attention_bias": False},
    {"positions": "none", "norm": "pre"},
]


def make(**settings):
    model = Transformer(TransformerConfig(vocab=VOCAB, **{**BASE, **settings})).eval()
    for number in model.parameters():
        torch.nn.init.normal_(number, std=0.3)
    return model


def inputs():
    return torch.randint(VOCAB, (3, 5)), torch.tensor([5, 2, 4]), torch.randint(VOCAB, (3, 2))


def stepped_as_the_model(model, given=None, fast_model=None):
    lean, given = fast_model or FusedDecoder(model), given or inputs()
    (plain, past), (fast, fixed) = (each.start(*given, beams=3, limit=6) for each in (model, lean))
    torch.testing.assert_close(fast, plain)
    for _ in range(5):
        tokens, parents = torch.randint(VOCAB, (3, 3)), torch.randint(3, (3, 3))
        plain, past = model.step(tokens, past.reorder(parents))
        fast, after = lean.step(tokens, fixed.reorder(parents))
        assert after is fixed
        torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["positions"])
def test_every_step_gives_the_models_logits(kind):
    stepped_as_the_model(make(**kind))


def test_it_is_a_copy_that_leaves_the_model_alone():
    model = make()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    lean = FusedDecoder(model.train())
    for weight in lean.model.parameters():
        weight.zero_()
    assert all(bool((weight == before[name]).all()) for name, weight in model.state_dict().items())
    assert model.training
    assert not lean.model.training
    assert next(model.parameters()).requires_grad


def test_what_is_cast_around_it_does_not_concern_it():
    lean, given = FusedDecoder(make()), inputs()
    logits, _ = lean.start(*given, beams=1, limit=2)
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = lean.start(*given, beams=1, limit=2)
    torch.testing.assert_close(cast, logits, rtol=0, atol=0)


def other_scores():
    """Models whose attention compares in other ways than by a scaled dot product."""
    return {"dot": dot, "cosine": cosine, "bilinear": Bilinear(4, 4, heads=4)}


@pytest.mark.parametrize("name", other_scores())
def test_another_score_is_asked_not_left_out(name):
    model = make(positions="alibi")
    for block in model.decoder:
        block.attention.score = block.cross.score = other_scores()[name]
    stepped_as_the_model(model)


TEXTS = [
    {"positions": "learned"},
    {"positions": "learned", "norm": "post", "activation": "gelu"},
    {"positions": "alibi", "embedding_norm": True, "activation": "relu"},
    {"positions": "rotary", "normalisation": "rms", "eps": 1e-6, "activation": "silu", "gated": True, "groups": 2}
    | {"attention_bias": False, "mlp_bias": False, "tied": False},
    {"positions": "relative", "gated": True},
    {"positions": "none", "normalisation": "rms", "norm": "post", "embedding_norm": True, "mlp_bias": False},
]


def written(**settings):
    sizes = {"vocab": VOCAB, "width": 16, "heads": 4, "hidden": 24, "depth": 2, "context": 32, "dropout": 0.1}
    model = GPT(GPTConfig(**{**sizes, **settings})).eval()
    for number in model.parameters():
        torch.nn.init.normal_(number, std=0.3)
    return model


@pytest.mark.parametrize("settings", TEXTS, ids=lambda settings: settings["positions"])
def test_every_gpt_is_stepped_as_the_model(settings):
    model, given = written(**settings), (torch.randint(VOCAB, (3, 5)), torch.tensor([5, 2, 4]))
    fast = FusedDecoder(model)
    stepped_as_the_model(model, given, fast)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.9)
    fast.take(model)  # where graphs would go on reading
    stepped_as_the_model(model, given, fast)


@pytest.mark.parametrize(
    "settings", [{}, {"tied": False, "gated": True, "activation": "gelu_tanh"}], ids=["1.0", "1.1"]
)
def test_t5_is_stepped_as_the_model(settings):
    sizes = {"vocab": VOCAB, "width": 16, "depth": 8, "heads": 4, "hidden": 24, "encoder": 1, "decoder": 2}
    model = T5(T5Config(**sizes, buckets=8, furthest=6, **settings)).eval()
    for number in model.parameters():
        torch.nn.init.normal_(number, std=0.3)
    stepped_as_the_model(model)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "relative", "none"])
@pytest.mark.parametrize("pre", [True, False])
def test_a_stack_that_looks_at_no_source_is_stepped_as_the_model(positions, pre):
    model = Writer(VOCAB, width=16, heads=4, hidden=24, blocks=2, context=32, positions=positions, pre=pre, groups=2)
    for number in model.eval().parameters():
        torch.nn.init.normal_(number, std=0.3)
    stepped_as_the_model(model, (torch.randint(VOCAB, (3, 5)), torch.tensor([5, 2, 4])))


class Adapter(nn.Module):
    """A projection with a small change beside it (Hu et al. 2021)."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.change = inner, nn.Linear(inner.in_features, inner.out_features)
        self.out_features = inner.out_features

    def forward(self, x):
        return self.inner(x) + self.change(x)


class OtherBlock(DecoderBlock):
    """A block with something of its own."""


def adapted(model):
    model.decoder[1].attention.query = Adapter(model.decoder[1].attention.query)


def normed(model):
    model.decoder[0].after_mlp.norm = nn.GroupNorm(1, 16)


def no_eps(model):
    model.decoder[0].after_mlp.norm = nn.RMSNorm(16)  # one that depends on the precision


def hooked(model):
    model.decoder[0].mlp.register_forward_hook(lambda module, given, answer: 2 * answer)


def extended(model):
    model.decoder[1].cross.gate = nn.Linear(16, 16)


def parametrized(model):
    nn.utils.parametrizations.weight_norm(model.decoder[0].mlp.outer)


def activated(model):
    model.decoder[0].mlp.activation = torch.tanh


def mixed(model):
    model.decoder[0].after_mlp.pre = not model.decoder[0].after_mlp.pre


def half_biased(model):
    model.decoder[0].attention.key.bias = None


def half_gated(model):
    model.decoder[0].mlp.gate = nn.Linear(16, 24, bias=False)


def other_block(model):
    model.decoder[1].__class__ = OtherBlock


STRANGE = [
    adapted,
    normed,
    no_eps,
    hooked,
    extended,
    parametrized,
    activated,
    mixed,
    half_biased,
    half_gated,
    other_block,
]


@pytest.mark.parametrize("change", STRANGE, ids=lambda change: change.__name__)
def test_what_it_does_not_know_is_refused_and_the_model_generates_as_it_is(change, everywhere):
    model = make()
    change(model)
    with pytest.raises(Unknown):
        FusedDecoder(model)
    ready = FastPath(model)
    with pytest.warns(UserWarning, match="does not know this model"):
        assert ready(1000) is model
    assert ready(1000) is model  # said once


@pytest.fixture
def everywhere(monkeypatch):
    """The fast path pays on a CPU as well."""
    monkeypatch.setattr(fast_path, "pays", lambda device: True)


def test_little_work_is_left_to_the_model_and_much_to_its_copy(everywhere):
    model = make()
    one_by_one = FastPath(model)
    chosen = [one_by_one(1) for _ in range(fast_path.ENOUGH)]
    assert all(each is model for each in chosen[:-1])
    assert isinstance(chosen[-1], FusedDecoder)
    assert isinstance(FastPath(model)(fast_path.ENOUGH), FusedDecoder)
    warmed = FastPath(model)
    warmed.warm()
    assert isinstance(warmed(1), FusedDecoder)


def test_a_watched_model_generates_as_it_is_and_changed_weights_are_taken_over_in_place(everywhere):
    model, given = make(), inputs()
    ready = FastPath(model)
    fast = ready(1000)
    with watch(model):
        search(ready(1), given, Beam(beams=2), limit=2, eos=0)
    assert ready(1) is fast
    places = [weight.data_ptr() for layer in fast.layers for weight in layer.past[:2]]
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.3)
    assert ready(1) is fast
    assert places == [weight.data_ptr() for layer in fast.layers for weight in layer.past[:2]]
    stepped_as_the_model(model, given, fast)
    adapted(model)
    with pytest.warns(UserWarning, match="Adapter"):
        assert ready(1) is model


def test_the_copy_dies_with_its_owner(everywhere):
    model = make()
    ready = FastPath(model)
    search(ready(1000), inputs(), Beam(beams=2), limit=5, eos=0)
    held = weakref.ref(ready(1)), weakref.ref(ready(1).tables[0])
    del ready
    assert [each() for each in held] == [None, None]


def test_threads_that_ask_at_once_share_one_copy(monkeypatch):
    made, model = [], make()

    class Slow(FusedDecoder):
        def __init__(self, *given):
            made.append(given)
            time.sleep(0.05)
            super().__init__(*given)

    monkeypatch.setattr(fast_path, "FusedDecoder", Slow)
    monkeypatch.setattr(fast_path, "pays", lambda device: True)
    ready = FastPath(model)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ready(fast_path.ENOUGH), range(8)))
    assert len(made) == 1
    assert {id(each) for each in answers} == {id(answers[0])}
    assert isinstance(answers[0], Slow)
