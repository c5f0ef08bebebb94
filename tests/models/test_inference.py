"""A lean model says step by step what the model says, whatever the model is made of."""

import pytest
import torch

from regard.models.inference import FusedDecoder, for_generation
from regard.models.transformer import Transformer, TransformerConfig

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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["positions"])
def test_every_step_gives_the_models_logits(kind):
    model = make(**kind)
    lean = FusedDecoder(model)
    given = inputs()
    (plain, past), (fast, fixed) = (each.start(*given, beams=3, limit=6) for each in (model, lean))
    torch.testing.assert_close(fast, plain)
    for _ in range(5):
        tokens, parents = torch.randint(VOCAB, (3, 3)), torch.randint(3, (3, 3))
        plain, past = model.step(tokens, past.reorder(parents))
        fast, after = lean.step(tokens, fixed.reorder(parents))
        assert after is fixed
        torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-4)


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


def test_where_there_is_no_gpu_the_model_itself_is_searched():
    model = make()
    assert for_generation(model) is model
