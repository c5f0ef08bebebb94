"""The axial Transformer: its size, who reaches whom, writing as reading, and learning by heart."""

import random

import pytest
import torch
from torch.nn import functional as F

from regard.attention.masks import Grid, Row
from regard.decoding.generate import generate
from regard.decoding.stepper import State, Stepper
from regard.models.axial import Axial, AxialConfig
from regard.models.gpt import GPT, ImageGPTConfig
from tests.models.families import shaken

TINY = {"vocab": 11, "size": 3, "channels": 3, "width": 16, "heads": 2, "hidden": 24, "depth": 2}
PLACES = 27


def build(**settings) -> Axial:
    return shaken(Axial(AxialConfig(**{**TINY, "above": 2, **settings}))).double()


def build_gpt(**settings) -> GPT:
    return shaken(GPT(ImageGPTConfig(**{**TINY, "context": PLACES + 1, **settings}))).double()


def read(model, tokens: torch.Tensor) -> torch.Tensor:
    """Logits of every place of whole pictures."""
    return model.logits(model(tokens, layout=Grid(torch.full((len(tokens),), PLACES), PLACES)))


@pytest.mark.parametrize("make", [build, build_gpt])
@pytest.mark.parametrize("settings", [{}, {"channels": 1, "size": 5}, {"activation": "silu", "vocab": 300}])
def test_its_size_is_exact(make, settings):
    settings = {**settings, **({"context": 26} if make is build_gpt and "size" in settings else {})}
    model = make(**settings)
    assert model.config.parameters == sum(number.numel() for number in model.parameters())


@pytest.mark.parametrize("make", [build, build_gpt])
@pytest.mark.parametrize("settings", [{}, {"depth": 1}])
def test_every_earlier_pixel_reaches_a_prediction_and_no_later_one(make, settings):
    """By gradient: row n says which of the tokens read reach what is predicted in their place n."""
    model = make(**settings, **({"above": 1} if make is build else {}))
    held = {}

    def grip(module, given, vectors):
        held["x"] = vectors.detach().requires_grad_()
        return held["x"]

    model.embedding.register_forward_hook(grip)
    logits = read(model, torch.randint(0, 10, (1, PLACES)))[0]
    found = []
    for place in logits:
        [slope] = torch.autograd.grad(place.square().sum(), held["x"], retain_graph=True)
        found.append(slope[0].abs().sum(-1) > 0)
    assert torch.equal(torch.stack(found), torch.ones(PLACES, PLACES).tril().bool())


def test_a_packed_row_is_a_batch():
    model, tokens = build(), torch.randint(0, 10, (4, PLACES))
    flat = model.logits(model(tokens.flatten(), layout=Row.of([PLACES] * 4)))
    assert torch.allclose(flat.view(4, PLACES, -1), read(model, tokens), atol=1e-12)


@pytest.mark.parametrize("fed", [1, 9, 10, 20])
def test_writing_is_reading_whatever_is_reordered_kept_and_joined(fed):
    model, chance = build(), random.Random(fed)
    assert isinstance(model, Stepper)
    texts = torch.randint(0, 10, (3, fed))[:, None].expand(-1, 2, -1)
    logits, state = model.start(texts[:, 0], beams=2, limit=PLACES + 1 - fed)
    assert isinstance(state, State)
    for turn in range(PLACES - fed):
        tokens = torch.randint(0, 10, texts.shape[:2])
        texts = torch.cat([texts, tokens[..., None]], -1)
        logits, state = model.step(tokens, state)
        if turn % 4 == 1:
            parents = torch.tensor([[chance.randrange(2) for _ in range(2)] for _ in texts])
            state, texts = state.reorder(parents), texts.gather(1, parents[..., None].expand_as(texts))
            logits = logits.gather(1, parents[..., None].expand_as(logits))
        if turn == 6:
            some, others = torch.tensor([2, 0]), torch.tensor([1])
            state, texts = state.keep(some).join(state.keep(others)), texts[[2, 0, 1]]
            logits = logits[[2, 0, 1]]
        whole = F.pad(texts.flatten(0, 1), (0, PLACES - texts.shape[-1]))
        expected = read(model, whole)[:, texts.shape[-1] - 1].view_as(logits)
        assert torch.allclose(logits, expected, atol=1e-10)


def test_the_likeliest_picture_is_the_same_written_and_read():
    model = build()
    [[written]] = generate(model, [torch.tensor([[10]])], limit=PLACES, eos=None)
    tokens = torch.tensor([[10, *written.tokens]])
    assert read(model, tokens[:, :-1])[0].argmax(-1).tolist() == written.tokens


def test_what_is_no_picture_is_refused_in_a_line():
    model = build()
    with pytest.raises(ValueError, match="pictures of 26 tokens, and the model knows those of 27"):
        model(torch.zeros(1, 26, dtype=torch.int64), layout=Grid(torch.tensor([26]), 26))
    with pytest.raises(ValueError, match="a prompt of 3 tokens and 26 more, and a picture has 27"):
        model.start(torch.zeros(1, 3, dtype=torch.int64), limit=26)
    with pytest.raises(ValueError, match="3 heads do not divide a width of 16"):
        AxialConfig(**{**TINY, "heads": 3})
    with pytest.raises(ValueError, match="pictures of 27 tokens, and a context of 20"):
        ImageGPTConfig(**TINY, context=20)


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["axial", "gpt"])
def test_it_learns_one_batch_by_heart(name):
    model = Axial(AxialConfig(**TINY, above=1)) if name == "axial" else GPT(ImageGPTConfig(**TINY, context=28))
    pictures = torch.randint(0, 10, (2, PLACES))
    fed = F.pad(pictures[:, :-1], (1, 0), value=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(120):
        loss = F.cross_entropy(read(model, fed).flatten(0, 1), pictures.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1  # which of the two it is cannot be known at first: log 2 / 27 are left
