"""T5's sizes, its laws, and proof that it learns."""

import random

import pytest
import torch
from torch.nn import functional as F

from regard.attention.scores import dot
from regard.decoding.beam import Beam, search
from regard.decoding.generate import generate
from regard.interpret.watch import watch
from regard.models.inference.cuda import FusedDecoder
from regard.models.inference.supported import Unknown
from regard.models.t5 import T5, T5Config
from tests.models.families import packed, padded, parameters, shaken, texts

VOCAB = 23
TINY = {"vocab": VOCAB, "width": 16, "depth": 6, "heads": 3, "hidden": 24, "encoder": 2, "decoder": 2, "dropout": 0.0}
VARIANTS = [
    {},
    {"gated": True, "tied": False, "activation": "gelu_tanh"},
    {"buckets": 4, "furthest": 5, "decoder": 1},
]
every = pytest.mark.parametrize("settings", VARIANTS, ids=str)


def build(**settings) -> T5:
    return shaken(T5(T5Config(**{**TINY, **settings})))


def read(model, sources, targets):
    """Features of every target token, through padded batches."""
    (source, first), (target, second) = padded(sources), padded(targets)
    with torch.no_grad():
        return model(source, target, layouts=(first, second))[second.filled].split([*map(len, targets)])


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("t5-small", 60_506_624),
        ("t5-base", 222_903_552),
        ("t5-large", 737_668_096),
        ("t5-11b", 11_307_321_344),
        ("t5-v1.1-small", 76_961_152),
        ("t5-v1.1-base", 247_577_856),
    ],
)
def test_sizes_are_exact(preset, expected):
    assert parameters("t5", preset) == (expected, expected)


@every
@pytest.mark.parametrize("fixed", [False, True])
def test_packed_is_padded(settings, fixed):
    model, sources, targets = build(**settings), texts([5, 1, 7], VOCAB), texts([2, 6, 4], VOCAB)
    (source, first), (target, second) = packed(sources, fixed=fixed), packed(targets, fixed=fixed)
    with torch.no_grad():
        features = model(source, target, layouts=(first, second))[:12]
    torch.testing.assert_close(features, torch.cat(read(model, sources, targets)))


@every
def test_watched_is_fused(settings):
    model, sources, targets = build(**settings), texts([6, 4], VOCAB), texts([3, 5], VOCAB)
    fused = read(model, sources, targets)
    with watch(model) as seen:
        torch.testing.assert_close(read(model, sources, targets), fused)
    assert {"encoder.0.attention", "decoder.0.attention", "decoder.0.cross"} <= set(seen)
    assert [each.shape for each in seen["decoder.0.cross"]] == [(3, 3, 6), (3, 5, 4)]


@every
def test_the_source_is_felt_everywhere_and_the_target_only_later(settings):
    model, sources, targets = build(**settings), texts([4, 3], VOCAB), texts([5, 4], VOCAB)
    (source, first), (target, second) = packed(sources), packed(targets)

    def felt(place, *, side):
        changed = [source.clone(), target.clone()]
        changed[side][place] = (changed[side][place] + 1) % VOCAB
        with torch.no_grad():
            before = model(source, target, layouts=(first, second))
            after = model(*changed, layouts=(first, second))
        return ((before - after).abs().amax(-1) > 1e-6).tolist()

    assert felt(5, side=0) == [False] * 5 + [True] * 4
    assert felt(2, side=1) == [False] * 2 + [True] * 3 + [False] * 4


@every
def test_stepping_is_reading_at_once(settings):
    model, chance = build(**settings).double(), random.Random(0)
    sources = texts([4, 1, 3], VOCAB)
    source, grid = padded(sources, filler=9)
    prompt = torch.randint(VOCAB, (3, 1))
    logits, state = model.start(source, grid.lengths, prompt, beams=2, limit=5)
    written = [[[token], [token]] for token in prompt[:, 0].tolist()]
    for _ in range(5):
        for line, own, beams in zip(logits, sources, written, strict=True):
            ends = torch.stack([each[-1] for each in read(model, [own, own], [*map(torch.tensor, beams)])])
            assert torch.allclose(line, model.logits(ends), atol=1e-8)
        parents = [[chance.randrange(2), chance.randrange(2)] for _ in sources]
        fed = [[chance.randrange(VOCAB), chance.randrange(VOCAB)] for _ in sources]
        written = [
            [[*beams[parent], token] for parent, token in zip(*row, strict=True)]
            for beams, *row in zip(written, parents, fed, strict=True)
        ]
        logits, state = model.step(torch.tensor(fed), state.reorder(torch.tensor(parents)))


@every
def test_the_search_and_the_draw_write_what_reading_says(settings):
    model, sources = build(**settings), texts([3, 5], VOCAB)
    source, grid = padded(sources)
    inputs = [source, grid.lengths, torch.zeros(2, 1, dtype=torch.int64)]
    drawn, found = generate(model, inputs, limit=5, eos=None), search(model, inputs, Beam(beams=1), limit=5, eos=None)
    for own, [answer], [best] in zip(sources, drawn, found, strict=True):
        text = torch.zeros(1, dtype=torch.int64)
        for _ in range(5):
            text = torch.cat([text, model.logits(read(model, [own], [text])[0][-1]).argmax()[None]])
        assert answer.tokens == best.tokens == text[1:].tolist()


@every
def test_the_fast_path_says_the_same_or_refuses(settings):
    model, (source, grid) = build(**settings), padded(texts([4, 2], VOCAB))
    try:
        lean = FusedDecoder(model)
    except Unknown:
        return
    inputs = source, grid.lengths, torch.zeros(2, 1, dtype=torch.int64)
    (plain, past), (fast, fixed) = (each.start(*inputs, beams=2, limit=4) for each in (model, lean))
    for _ in range(4):
        torch.testing.assert_close(fast, plain, atol=1e-4, rtol=1e-4)
        fed = torch.randint(VOCAB, (2, 2))
        (plain, past), (fast, fixed) = model.step(fed, past), lean.step(fed, fixed)


def test_features_are_scaled_for_a_matrix_that_also_embeds():
    tied, apart = build(), build(tied=False)
    apart.load_state_dict({**tied.state_dict(), "output.weight": tied.embedding.weight})
    sources, targets = texts([4], VOCAB), texts([3], VOCAB)
    torch.testing.assert_close(read(tied, sources, targets)[0] * 4, read(apart, sources, targets)[0])
    assert tied.stack.scale == 0.25
    assert apart.stack.scale == 1.0


def test_it_has_one_table_of_distances_a_stack_and_no_other_biases():
    model = build()
    names = [name for name, _ in model.named_parameters()]
    assert [name for name in names if "positions" in name] == [
        "encoder_positions.table.weight",
        "decoder_positions.table.weight",
    ]
    assert not [name for name in names if "bias" in name]
    assert all(part.score is dot for part in model.modules() if hasattr(part, "score"))


def test_dropout_is_where_t5_has_it():
    model = T5(T5Config(**{**TINY, "dropout": 0.25}))
    assert [part.dropout.p for part in (model.encoder[0].mlp, model.decoder[1].mlp)] == [0.25, 0.25]
    assert model.embedding.dropout.p == model.dropout.p == model.decoder[0].after_cross.dropout.p == 0.25
    inner, x = model.encoder[0].mlp.train(), torch.randn(3, 16)
    assert not torch.equal(inner(x), inner(x))
    assert torch.equal(inner.eval()(x), inner(x))


@pytest.mark.parametrize(
    ("settings", "message"), [({"buckets": 5}, "buckets must be even"), ({"furthest": 16}, "furthest must exceed half")]
)
def test_buckets_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        T5Config(**settings)


@pytest.mark.unchecked
@pytest.mark.parametrize("settings", [VARIANTS[0], pytest.param(VARIANTS[1], marks=pytest.mark.slow)], ids=str)
def test_it_learns_one_batch_by_heart(settings):
    model = T5(T5Config(**{**TINY, "width": 32, **settings}))
    sources, targets = texts([8, 5, 9], VOCAB), texts([6, 9, 4], VOCAB)
    (source, first), (target, second) = packed(sources), packed(targets)
    keep = (second.segment[1:] == second.segment[:-1]).nonzero()[:, 0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(80):
        features = model(source, target, layouts=(first, second))
        loss = F.cross_entropy(model.logits(features[keep]), target[keep + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
