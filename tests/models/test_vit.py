"""ViT's sizes, its laws, its positions, and proof that it learns."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.interpret.watch import watch
from regard.models.parts.blocks import StochasticDepth
from regard.models.vit import ViT, ViTConfig
from tests.models.families import parameters, shaken

TINY = {"classes": 5, "size": 12, "patch": 4, "width": 16, "heads": 2, "hidden": 24, "depth": 2}
VARIANTS = [
    {},
    {"pooling": "mean", "positions": "sinusoidal", "pooler": True},
    {"pooling": "attention", "positions": "rotary", "activation": "gelu_tanh"},
    {"positions": "rotary", "classes": 0},
    {"positions": "none", "channels": 1},
]
every = pytest.mark.parametrize("settings", VARIANTS, ids=str)


def build(**settings) -> ViT:
    return shaken(ViT(ViTConfig(**{**TINY, **settings})))


def pictures(model: ViT, count: int = 3) -> torch.Tensor:
    return torch.randn(count, model.config.channels, model.config.size, model.config.size)


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("vit-ti16", 5_717_416),
        ("vit-s16", 22_050_664),
        ("vit-b16", 86_567_656),
        ("vit-l16", 304_326_632),
        ("vit-h14", 632_045_800),
    ],
)
def test_sizes_are_exact(preset, expected):
    assert parameters("vit", preset) == (expected, expected)


@every
def test_a_config_says_how_many_weights_there_are(settings):
    model = ViT(ViTConfig(**{**TINY, **settings}))
    assert sum(weight.numel() for weight in model.parameters()) == model.config.parameters


@every
@torch.no_grad()
def test_watched_is_fused_and_a_picture_is_answered_alone_as_among_others(settings):
    model = build(**settings)
    pixels = pictures(model)
    fused = model(pixels)
    assert fused.shape == (3, model.config.classes or model.config.width)
    with watch(model) as seen:
        torch.testing.assert_close(model(pixels), fused)
    tokens = 9 + (model.config.pooling == "class")
    assert [each.shape for each in seen["blocks.1.attention"]] == [(2, tokens, tokens)] * 3
    torch.testing.assert_close(seen["blocks.0.attention"][0].sum(-1), torch.ones(2, tokens))
    torch.testing.assert_close(model(pixels[1:2]), fused[1:2])


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_the_last_block_reads_for_the_token_of_the_picture_alone(positions):
    model = build(positions=positions).double()
    pixels = pictures(model).double()
    labels = torch.tensor([0, 3, 1])
    whole = model.head(model.pool_features(model.features(pixels)))  # every token goes through every block
    torch.testing.assert_close(model(pixels), whole, rtol=1e-12, atol=1e-12)
    gradients = [
        torch.autograd.grad(F.cross_entropy(logits, labels), list(model.parameters()), allow_unused=True)
        for logits in (model(pixels), whole)
    ]
    for own, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-10, atol=1e-12)
    seen = []
    model.blocks[-1].mlp.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[1]))
    model(pixels)
    model.train()(pixels)
    assert seen == [1, 1]


@every
@torch.no_grad()
def test_regions_are_the_patches_row_by_row(settings):
    model = build(**settings, depth=1)
    pixels = pictures(model, 1)
    regions = model.regions(pixels)
    assert regions.shape == (1, 9, 16)
    assert model.grid == (3, 3)
    model.blocks = nn.ModuleList()  # without a look at the others a patch is felt in its own region alone
    other = pixels.clone()
    other[:, :, 4:8, 8:12] += 1.0  # the second row, the third column
    changed = (model.regions(other) - model.regions(pixels)).abs().amax(-1)[0] > 1e-6
    assert changed.nonzero().flatten().tolist() == [5]


@torch.no_grad()
def test_patches_are_a_convolution():
    model = build()
    weight = model.patches.weight.unflatten(1, (3, 4, 4))
    pixels = pictures(model)
    expected = F.conv2d(pixels, weight, model.patches.bias, stride=4).flatten(2).transpose(1, 2)
    torch.testing.assert_close(model.patches(pixels), expected, rtol=1e-5, atol=1e-5)


def test_positions_tell_patches_apart_and_none_does_not():
    for positions in ("learned", "sinusoidal", "rotary", "none"):
        model = build(pooling="mean", positions=positions)
        pixels = pictures(model, 1)
        cut = pixels.unflatten(3, (3, 4)).unflatten(2, (3, 4))  # batch channel row y column x
        turned = cut.transpose(2, 4).flatten(4, 5).flatten(2, 3)  # patches change places, pixels in them do not
        with torch.no_grad():
            same = torch.allclose(model(pixels), model(turned), atol=1e-4)
        assert same == (positions == "none"), positions


@pytest.mark.parametrize("pooling", ["class", "mean"])
@torch.no_grad()
def test_weights_fit_pictures_of_another_size(pooling):
    small, large = build(pooling=pooling), build(pooling=pooling, size=20)
    state = large.resize_weights(small.state_dict())
    large.load_state_dict(state)
    before = int(pooling == "class")
    table, grown = (each.positions.table.weight for each in (small, large))
    assert torch.equal(table[:before], grown[:before])
    square = table[before:].T.unflatten(1, (3, 3))[None]
    expected = F.interpolate(square, size=(5, 5), mode="bicubic").flatten(2)[0].T
    torch.testing.assert_close(grown[before:], expected)
    assert all(each is state[name] for name, each in large.resize_weights(state).items()), (
        "of its own size nothing changes"
    )
    with pytest.raises(ValueError, match="none of a square picture"):
        large.resize_weights({**state, "positions.table.weight": table[: before + 7]})


def test_stochastic_depth_leaves_out_whole_examples_and_keeps_the_mean():
    torch.manual_seed(0)
    skip, x = StochasticDepth(0.25), torch.ones(4000, 2, 3)
    y = skip(x)
    kept = y[:, 0, 0] > 0
    assert torch.equal(y, kept[:, None, None] * x / 0.75)
    assert abs(kept.float().mean() - 0.75) < 0.03
    assert skip.eval()(x) is x
    model = ViT(ViTConfig(**TINY, stochastic_depth=0.5))
    assert "StochasticDepth" not in str(model.blocks[0]), "the first block is never left out"
    assert model.blocks[1].after_mlp.dropout[1].share == 0.5


def test_the_narrower_a_vit_the_larger_are_the_weights_it_begins_with():
    for width in (32, 128):
        torch.manual_seed(0)
        mlp = ViT(ViTConfig(size=8, patch=4, width=width, hidden=4 * width, heads=2, depth=2)).blocks[0].mlp
        for matrix in (mlp.inner.weight, mlp.outer.weight):  # Glorot and Bengio 2010, as in the paper's own code
            assert matrix.std().item() == pytest.approx((2 / (5 * width)) ** 0.5, rel=0.05)


def test_bad_sizes_are_refused_in_a_line():
    with pytest.raises(ValueError, match="a picture of 30 pixels is no row of patches of 16: set model"):
        ViTConfig(size=30)
    with pytest.raises(ValueError, match="2-D rotary positions turn features by fours, not 6"):
        ViTConfig(size=32, width=12, heads=2, positions="rotary")
    with pytest.raises(ValueError, match="pictures of 3 x 16 x 12, and the model reads 3 x 12 x 12"):
        build()(torch.zeros(1, 3, 16, 12))


@every
def test_it_overfits_a_batch(settings):
    torch.manual_seed(1)
    model = ViT(ViTConfig(**{**TINY, **settings, "classes": 5}))
    pixels, labels = pictures(model, 10), torch.arange(10) % 5
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(80):
        loss = F.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3
    assert all(weight.grad is not None for weight in model.parameters())
