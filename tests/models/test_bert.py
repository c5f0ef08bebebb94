"""BERT's sizes, its laws, its heads, and proof that it learns."""

import pytest
import torch
from torch.nn import functional as F

from regard.attention.masks import Row
from regard.interpret.watch import watch
from regard.models.bert import BERT, BERTConfig
from tests.models.families import packed, padded, parameters, shaken, texts

VOCAB = 23
TINY = {"vocab": VOCAB, "width": 16, "heads": 4, "hidden": 24, "depth": 2, "context": 16, "dropout": 0.0}
VARIANTS = [
    {},
    {"offset": 2, "segments": 1, "eps": 1e-5, "pooler": False, "next_sentence": False},
    {"segments": 0, "norm": "pre", "positions": "rotary", "embedding_norm": False, "next_sentence": False},
    {"positions": "alibi", "activation": "gelu_tanh"},
    {"positions": "relative", "masked": False},
]
every = pytest.mark.parametrize("settings", VARIANTS, ids=str)


def build(**settings) -> BERT:
    return shaken(BERT(BERTConfig(**{**TINY, **settings})))


def read(model, *sequences):
    """Features of every token of every sequence, through a padded batch."""
    tokens, grid = padded(list(sequences))
    with torch.no_grad():
        return model(tokens, layout=grid)[grid.filled].split([*map(len, sequences)])


@pytest.mark.parametrize(
    ("preset", "settings", "expected"),
    [
        ("bert-base", {"masked": False, "next_sentence": False}, 109_482_240),
        ("bert-large", {"masked": False, "next_sentence": False}, 335_141_888),
        ("bert-base", {}, 110_106_428),
        ("roberta-base", {}, 124_697_433),
        ("roberta-large", {}, 355_412_057),
        ("distilbert-base", {"masked": False}, 66_362_880),
    ],
    ids=str,
)
def test_sizes_are_exact(preset, settings, expected):
    assert parameters("bert", preset, **settings) == (expected, expected)


@every
def test_a_config_says_how_many_weights_there_are(settings):
    model = BERT(BERTConfig(**{**TINY, **settings}))
    assert sum(weight.numel() for weight in model.parameters()) == model.config.parameters


@every
@pytest.mark.parametrize("fixed", [False, True])
def test_packed_is_padded(settings, fixed):
    model, sequences = build(**settings), texts([5, 1, 7, 3], VOCAB)
    row, layout = packed(sequences, fixed=fixed)
    tokens, grid = padded(sequences, filler=5)
    kinds = torch.arange(7) > 2  # the last tokens are of the second segment, where there are two
    segments = (kinds & grid.filled).long() * (model.config.segments == 2)
    laid = torch.cat([segments[grid.filled], torch.zeros(len(row) - 16, dtype=torch.int64)])
    with torch.no_grad():
        flat, lines = model(row, layout=layout, segments=laid), model(tokens, layout=grid, segments=segments)
        torch.testing.assert_close(flat[:16], lines[grid.filled])
        if model.config.pooler:
            assert model.pool_features(flat, layout).shape == (4, 16)
            torch.testing.assert_close(model.pool_features(flat, layout), model.pool_features(lines, grid))


@every
def test_watched_is_fused(settings):
    model, (tokens, grid) = build(**settings), padded(texts([6, 4], VOCAB))
    with torch.no_grad():
        fused = model(tokens, layout=grid)
        with watch(model) as seen:
            torch.testing.assert_close(model(tokens, layout=grid)[grid.filled], fused[grid.filled])
    assert list(seen) == ["blocks.0.attention", "blocks.1.attention"]
    assert all(each.ndim == 3 and each.gt(0).all() for each in seen["blocks.1.attention"]), "all look at all"


@every
def test_every_token_feels_every_other_of_its_sequence_and_none_of_another(settings):
    model, sequences = build(**settings), texts([4, 6, 5], VOCAB)
    row, layout = packed(sequences)
    with torch.no_grad():
        before = model(row, layout=layout)
        for place in (4, 9):
            other = row.clone()
            other[place] = (other[place] + 1) % VOCAB
            felt = (before - model(other, layout=layout)).abs().amax(-1) > 1e-6
            assert felt.tolist() == [False] * 4 + [True] * 6 + [False] * 5


def test_segments_are_felt_and_the_first_is_meant_without_them():
    model, (tokens, grid) = build(), padded(texts([6, 4], VOCAB))
    nought = torch.zeros_like(tokens)
    with torch.no_grad():
        silent = model(tokens, layout=grid)
        torch.testing.assert_close(model(tokens, layout=grid, segments=nought), silent)
        assert (model(tokens, layout=grid, segments=nought + 1) - silent).abs().max() > 0.01


def test_places_begin_at_the_offset():
    near, far = build(offset=0), build(offset=3)
    far.load_state_dict({**near.state_dict(), "positions.table.weight": torch.randn(19, 16)})
    far.positions.table.weight.data[3:] = near.positions.table.weight.data
    text = texts([16], VOCAB)
    torch.testing.assert_close(read(far, *text), read(near, *text))


def test_the_masked_head_is_dense_function_norm_matrix_and_bias():
    model = build()
    features = torch.randn(5, 16)
    norm = model.head.norm
    changed = F.layer_norm(F.gelu(model.head.dense(features)), (16,), norm.weight, norm.bias, eps=1e-12)
    torch.testing.assert_close(model.transform(features), changed)
    torch.testing.assert_close(model.logits(features), changed @ model.embedding.weight.T + model.bias)
    assert model.prediction is model.embedding.weight


def test_a_row_of_a_fixed_shape_is_pooled_for_as_many_sequences_as_there_may_be():
    model = build()
    row = Row.of([3, 2], longest=4, size=5, segments=6, most=4)
    features = torch.randn(5, 16)
    pooled = model.pool_features(features, row)
    assert pooled.shape == (4, 16)
    torch.testing.assert_close(pooled[:2], torch.tanh(model.pooler(features[[0, 3]])))
    assert model.following(pooled).shape == (4, 2)


def test_nothing_is_read_beyond_the_table_of_positions():
    tokens, grid = padded(texts([17], VOCAB))
    with pytest.raises(ValueError, match="a sequence of 17 tokens, and the model knows 16 positions"):
        build(offset=2)(tokens, layout=grid)
    assert build(positions="rotary")(tokens, layout=grid).isfinite().all()


def test_a_head_for_the_next_sentence_needs_the_pooler():
    with pytest.raises(ValueError, match=r"model\.next_sentence needs model\.pooler"):
        BERTConfig(pooler=False)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    "settings", [VARIANTS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in VARIANTS[1:3])], ids=str
)
def test_it_learns_one_batch_by_heart(settings):
    model = BERT(BERTConfig(**{**TINY, "width": 32, **settings}))
    row, layout = packed(texts([12, 9, 14], VOCAB))
    places = torch.tensor([3, 8, 15, 19, 24, 30])
    masked = row.index_fill(0, places, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(80):
        features = model(masked, layout=layout)
        loss = F.cross_entropy(model.logits(features[places]), row[places])
        if model.config.next_sentence:
            loss = loss + F.cross_entropy(
                model.following(model.pool_features(features, layout)), torch.tensor([0, 1, 0])
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
