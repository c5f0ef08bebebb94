"""Models that label: padding changes nothing, one direction sees no future, pooling is what its name says."""

import pytest
import torch
from torch.nn import functional as F

from regard.attention.masks import Grid, Row
from regard.interpret.watch import watch
from regard.models.parts.convolution import TextConvolution
from regard.models.text_classifier import (
    ConvolutionEncoderConfig,
    Labeller,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
)

SIZES = {"vocab": 20, "classes": 3, "embedding": 8, "dropout": 0.0}
BLOCKS = {"width": 8, "heads": 2, "hidden": 16, "depth": 2}
READERS = [
    *[RecurrentEncoderConfig(**SIZES, width=6, pool=pool) for pool in ("last", "mean", "max", "attention")],
    *[RecurrentEncoderConfig(**SIZES, width=6, cell=cell, depth=2, bidirectional=False) for cell in ("rnn", "gru")],
    *[ConvolutionEncoderConfig(**SIZES, widths=(2, 3, 5), maps=4, pool=pool) for pool in ("max", "mean", "attention")],
    *[TransformerEncoderConfig(**SIZES, **BLOCKS, pool=pool) for pool in ("class", "mean", "max", "attention")],
    TransformerEncoderConfig(**SIZES, **{**BLOCKS, "width": 12}, positions="rotary", norm="post", causal=True),
]


def texts(*lengths: int):
    torch.manual_seed(1)
    return [torch.randint(4, 20, (length,)) for length in lengths]


def laid(lines, longest: int):
    tokens = torch.zeros(len(lines), longest, dtype=torch.int64)
    for number, line in enumerate(lines):
        tokens[number, : len(line)] = line
    return tokens, Grid(torch.tensor([len(line) for line in lines]), longest)


def packed(lines, **shape):
    """The same in one row, filled up to a shape if there is one."""
    row = Row.of([len(line) for line in lines], **shape)
    return torch.cat([*lines, torch.zeros(len(row.segment) - sum(map(len, lines)), dtype=torch.int64)]), row


def phrase(config) -> str:
    return f"{config.name}-{config.pool}-{getattr(config, 'cell', '')}{getattr(config, 'positions', '')}"


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("config", READERS, ids=phrase)
def test_padding_and_company_change_nothing(config, each):
    torch.manual_seed(0)
    model = Labeller(type(config)(**{**vars(config), "per_token": each})).eval()
    lines = texts(1, 7, 3)
    together = model(*laid(lines, 11))
    for number, line in enumerate(lines):
        alone = model(*laid([line], len(line)))[0]
        beside = together[number, : len(line)] if each else together[number]
        torch.testing.assert_close(alone, beside, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", [{}, {"longest": 8, "size": 40, "segments": 9, "most": 5}], ids=["bare", "fixed"])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("config", READERS, ids=phrase)
def test_a_packed_row_gives_the_logits_and_gradients_of_a_padded_batch(config, each, shape):
    torch.manual_seed(0)
    model = Labeller(type(config)(**{**vars(config), "per_token": each}))
    lines = texts(1, 7, 3, 8)
    weights = torch.randn(sum(map(len, lines)) if each else len(lines), 3)
    found = {}
    for name, (tokens, layout) in (("padded", laid(lines, 11)), ("packed", packed(lines, **shape))):
        logits = model(tokens, layout)
        assert len(logits) == (len(tokens) if each or name == "padded" else 5 if shape else 4)
        if each and name == "padded":
            logits = torch.cat([line[: len(own)] for line, own in zip(logits, lines, strict=True)])
        logits = logits[: len(weights)]  # what lies behind is of the tail, which no label looks at
        model.zero_grad()
        (logits * weights).sum().backward()
        found[name] = logits, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    torch.testing.assert_close(*(logits for logits, _ in found.values()), atol=1e-5, rtol=1e-4)
    one, other = (gradients for _, gradients in found.values())
    assert len(one) == len(other) > 3
    for here, there in zip(one, other, strict=True):
        assert here.isfinite().all()
        torch.testing.assert_close(here, there, atol=1e-5, rtol=1e-4)


def test_features_are_missing_throughout_a_text_of_a_row_and_others_in_the_next():
    model = Labeller(ConvolutionEncoderConfig(**{**SIZES, "embedding": 64}, embedding_dropout=0.5))
    torch.manual_seed(0)
    with torch.no_grad():
        model.embedding.weight.fill_(1.0)
    one, other = model._embed(*packed(texts(9, 5))).split([9, 5])
    assert (one == one[0]).all()
    assert (other == other[0]).all()
    assert not torch.equal(one[0], other[0])


@pytest.mark.parametrize(
    "config",
    [
        RecurrentEncoderConfig(**SIZES, per_token=True, bidirectional=False),
        TransformerEncoderConfig(**SIZES, **BLOCKS, per_token=True, causal=True),
    ],
    ids=phrase,
)
def test_a_model_that_reads_one_way_sees_no_future(config):
    model = Labeller(config).eval()
    [line] = texts(6)
    other = line.clone()
    other[4:] = 4
    one, two = (model(*laid([each], 6))[0] for each in (line, other))
    torch.testing.assert_close(one[:4], two[:4])
    assert not torch.allclose(one[4:], two[4:])


def test_the_convolution_is_its_equation_with_zeros_beyond_the_ends():
    torch.manual_seed(0)
    convolution = TextConvolution(4, 3, (2, 3))
    x = torch.randn(1, 5, 4)
    found = convolution(x, torch.zeros(1, 5, dtype=torch.int64))
    narrow, wide = convolution.filters
    beyond = torch.cat([torch.zeros(1, 4), x[0], torch.zeros(1, 4)])
    for place in range(5):
        two = F.relu(torch.einsum("okw,wk->o", narrow.weight, beyond[place + 1 : place + 3].T.T) + narrow.bias)
        three = F.relu(torch.einsum("okw,wk->o", wide.weight, beyond[place : place + 3]) + wide.bias)
        torch.testing.assert_close(found[0, place], torch.cat([two, three]))


def test_mean_and_maximum_are_those_of_the_real_tokens():
    for pool, by_hand in (("mean", lambda x: x.mean(0)), ("max", lambda x: x.amax(0))):
        model = Labeller(ConvolutionEncoderConfig(**SIZES, widths=(3,), maps=4, pool=pool)).eval()
        tokens, grid = laid(texts(4, 2), 6)
        read = model.reader(model.embedding(tokens), grid)
        expected = torch.stack([by_hand(line[:size]) for line, size in zip(read.features, grid.lengths, strict=True)])
        torch.testing.assert_close(model(tokens, grid), model.output(expected))


def test_the_last_state_is_that_of_either_direction():
    model = Labeller(RecurrentEncoderConfig(**SIZES, width=6, cell="gru", pool="last")).eval()
    [line] = texts(5)
    x = model.embedding(line)[None]
    seen, last = model.reader(x, Grid(torch.tensor([5]), 5))
    torch.testing.assert_close(last[0], torch.cat([seen[0, -1, :6], seen[0, 0, 6:]]))


@pytest.mark.parametrize("config", [READERS[3], READERS[8], READERS[12]], ids=phrase)
def test_attention_pooling_is_watched_as_one_query_whose_weights_sum_to_one(config):
    model = Labeller(config).eval()
    tokens, grid = laid(texts(4, 2), 6)
    with watch(model) as seen:
        watched = model(tokens, grid)
    torch.testing.assert_close(watched, model(tokens, grid))
    assert [tuple(weights.shape) for weights in seen["pool"]] == [(1, 1, 4), (1, 1, 2)]
    assert all(weights.sum(-1).allclose(torch.ones(())) for weights in seen["pool"])


def test_in_training_words_become_unknown_and_features_are_missing_throughout_a_text():
    model = Labeller(RecurrentEncoderConfig(**{**SIZES, "embedding": 64}, word_dropout=0.5, embedding_dropout=0.5))
    torch.manual_seed(0)
    with torch.no_grad():
        model.embedding.weight.fill_(1.0)
        model.embedding.weight[3] = 2.0
    x = model._embed(torch.full((1, 200), 7), Grid(torch.tensor([200]), 200))
    missing = (x == 0).all(1)
    assert 0.3 < missing.float().mean() < 0.7
    kept = x[0, :, ~missing[0]]
    assert 0.4 < (kept == 4.0).float().mean() < 0.6  # 2, and as much again for what is missing
    assert (kept == kept[:, :1]).all()
    model.eval()
    assert (model._embed(torch.full((1, 9), 7), Grid(torch.tensor([9]), 9)) == 1).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ConvolutionEncoderConfig(widths=()), "widths must have one entry at least"),
        (lambda: TransformerEncoderConfig(causal=True, pool="class"), "pool: class"),
        (lambda: TransformerEncoderConfig(**SIZES, width=10, heads=4), "4 heads do not divide a width of 10"),
    ],
)
def test_shapes_that_cannot_be_are_told_in_one_line(make, said):
    with pytest.raises(ValueError, match=said):
        make()
