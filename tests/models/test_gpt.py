"""GPT's sizes, its laws, and proof that it learns."""

import random

import pytest
import torch
from torch.nn import functional as F

from regard.decoding.beam import Beam, search
from regard.decoding.generate import generate
from regard.decoding.stepper import State, Stepper
from regard.interpret.watch import watch
from regard.models.gpt import GPT, GPTConfig
from regard.models.inference.cuda import FusedDecoder
from regard.models.inference.supported import Unknown
from tests.models.families import packed, padded, parameters, shaken, texts

VOCAB = 23
TINY = {"vocab": VOCAB, "width": 16, "heads": 4, "hidden": 24, "depth": 2, "context": 32, "dropout": 0.0}
LLAMA = {"positions": "rotary", "normalisation": "rms", "activation": "silu", "gated": True, "tied": False}
VARIANTS = [
    {},
    {"norm": "post", "activation": "gelu"},
    {"positions": "alibi", "embedding_norm": True},
    {**LLAMA, "groups": 2, "rotary_base": 500.0, "attention_bias": False, "mlp_bias": False, "eps": 1e-6},
    {"positions": "relative", "groups": 1, "gated": True},
    {"positions": "sinusoidal", "activation": "relu", "mlp_bias": False},
    {"positions": "none", "attention_bias": False, "norm": "post", "embedding_norm": True},
]
every = pytest.mark.parametrize("settings", VARIANTS, ids=str)


def build(**settings) -> GPT:
    return shaken(GPT(GPTConfig(**{**TINY, **settings})))


def read(model, *sequences):
    """Features of every token of every sequence, through a padded batch."""
    tokens, grid = padded(list(sequences))
    with torch.no_grad():
        return model(tokens, layout=grid)[grid.filled].split([*map(len, sequences)])


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("gpt1", 116_534_784),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("bloom-560m", 559_214_592),
        ("llama-7b", 6_738_415_616),
        ("llama2-70b", 68_976_648_192),
    ],
)
def test_sizes_are_exact(preset, expected):
    assert parameters("gpt", preset) == (expected, expected)


def test_the_largest_preset_can_be_described():
    assert round(GPTConfig(**GPTConfig.PRESETS["gpt3"]).parameters / 1e9) == 175
    with pytest.raises(ValueError, match="exceeds the limit"):
        GPTConfig(**{**GPTConfig.PRESETS["gpt3"], "depth": 192})


@every
def test_a_config_says_how_many_weights_there_are(settings):
    model = GPT(GPTConfig(**{**TINY, **settings}))
    assert sum(weight.numel() for weight in model.parameters()) == model.config.parameters


@every
@pytest.mark.parametrize("fixed", [False, True])
def test_packed_is_padded(settings, fixed):
    model, sequences = build(**settings), texts([5, 1, 7, 3], VOCAB)
    row, layout = packed(sequences, fixed=fixed)
    with torch.no_grad():
        torch.testing.assert_close(model(row, layout=layout)[:16], torch.cat(read(model, *sequences)))


@every
def test_watched_is_fused(settings):
    model, (tokens, grid) = build(**settings), padded(texts([6, 4], VOCAB))
    with torch.no_grad():
        fused = model(tokens, layout=grid)
        with watch(model) as seen:
            torch.testing.assert_close(model(tokens, layout=grid)[grid.filled], fused[grid.filled])
    assert list(seen) == ["blocks.0.attention", "blocks.1.attention"]
    assert [each.shape for each in seen["blocks.1.attention"]] == [(4, 6, 6), (4, 4, 4)]
    assert all(not each.triu(1).any() for each in seen["blocks.1.attention"])


@every
def test_the_future_changes_nothing(settings):
    model, [text] = build(**settings), texts([9], VOCAB)
    changed = text.clone()
    changed[5:] = (changed[5:] + 3) % VOCAB
    (before,), (after,) = read(model, text), read(model, changed)
    torch.testing.assert_close(before[:5], after[:5])
    assert (before[5:] - after[5:]).abs().amax(-1).gt(1e-3).all()


@every
def test_attention_never_crosses_packed_sequences(settings):
    model, (first, second, third) = build(**settings), texts([4, 6, 5], VOCAB)
    row, layout = packed([first, second, third])
    other = row.clone()
    other[4:10] = (other[4:10] + 1) % VOCAB
    with torch.no_grad():
        before, after = model(row, layout=layout), model(other, layout=layout)
    felt = (before - after).abs().amax(-1) > 1e-6
    assert felt.tolist() == [False] * 4 + [True] * 6 + [False] * 5


@every
def test_stepping_is_reading_at_once_with_prompts_of_any_length_and_any_reordering(settings):
    model, chance = build(**settings).double(), random.Random(0)
    assert isinstance(model, Stepper)
    prompts = texts([4, 1, 3], VOCAB)
    tokens, grid = padded(prompts, filler=9)
    logits, state = model.start(tokens, grid.lengths, beams=2, limit=6)
    assert isinstance(state, State)
    assert state.caches[0].keys.shape[2] == 4 + 2 * 6, "prompts are held once for all beams"
    written = [[prompt.tolist()] * 2 for prompt in prompts]
    for _ in range(6):
        ends = [features[-1] for texts in written for features in read(model, *map(torch.tensor, texts))]
        assert torch.allclose(logits.flatten(0, 1), model.logits(torch.stack(ends)), atol=1e-8)
        parents = [[chance.randrange(2), chance.randrange(2)] for _ in prompts]
        fed = [[chance.randrange(VOCAB), chance.randrange(VOCAB)] for _ in prompts]
        written = [
            [[*texts[parent], token] for parent, token in zip(*row, strict=True)]
            for texts, *row in zip(written, parents, fed, strict=True)
        ]
        logits, state = model.step(torch.tensor(fed), state.reorder(torch.tensor(parents)))


@every
def test_a_prompt_with_padding_is_one_without(settings):
    model, prompts = build(**settings), texts([6, 2, 4], VOCAB)
    tokens, grid = padded(prompts, filler=5)
    fed = torch.randint(VOCAB, (2, 3, 1))
    logits, state = model.start(tokens, grid.lengths, limit=3)
    together = [logits]
    for each in fed:
        logits, state = model.step(each, state)
        together.append(logits)
    for number, prompt in enumerate(prompts):
        alone, state = model.start(prompt[None], limit=3)
        torch.testing.assert_close(alone[0], together[0][number])
        for each, expected in zip(fed, together[1:], strict=True):
            alone, state = model.step(each[number : number + 1], state)
            torch.testing.assert_close(alone[0], expected[number])


def test_what_is_watched_while_writing_is_what_is_watched_while_reading():
    model, prompts = build(), texts([4, 2], VOCAB)
    tokens, grid = padded(prompts)
    with watch(model) as seen:
        found = search(model, [tokens, grid.lengths], Beam(beams=3), limit=4, eos=None)
    answers = [best for best, *_ in found]
    written = [torch.cat([prompt, torch.tensor(each.tokens)]) for prompt, each in zip(prompts, answers, strict=True)]
    with watch(model) as expected:
        read(model, *(text[:-1] for text in written))  # the last token was never fed
    for name, matrices in seen.along(answers).items():
        torch.testing.assert_close(matrices, expected[name])


@every
def test_the_search_and_the_draw_write_what_reading_says(settings):
    model, prompts = build(**settings), texts([3, 5], VOCAB)
    tokens, grid = padded(prompts)
    drawn = generate(model, [tokens, grid.lengths], limit=6, eos=None)
    found = search(model, [tokens, grid.lengths], Beam(beams=1), limit=6, eos=None)
    for prompt, [answer], [best] in zip(prompts, drawn, found, strict=True):
        text = prompt
        for _ in range(6):
            text = torch.cat([text, model.logits(read(model, text)[0][-1]).argmax()[None]])
        assert answer.tokens == best.tokens == text[len(prompt) :].tolist()
    wide = search(model, [tokens, grid.lengths], Beam(beams=4, nbest=4), limit=6, eos=2)
    for prompt, answers in zip(prompts, wide, strict=True):
        for answer in answers:
            text = torch.tensor([*prompt.tolist(), *answer.tokens, *[2] * answer.finished])
            scores = model.logits(read(model, text)[0]).log_softmax(-1)[len(prompt) - 1 : -1]
            written = scores.gather(1, text[len(prompt) :, None]).sum().detach()
            assert answer.score == pytest.approx(float(written), abs=1e-3)


@every
def test_the_fast_path_says_the_same_or_refuses(settings):
    model, (tokens, grid) = build(**settings), padded(texts([4, 2], VOCAB))
    try:
        lean = FusedDecoder(model)
    except Unknown:
        return
    (plain, past), (fast, fixed) = (each.start(tokens, grid.lengths, beams=2, limit=4) for each in (model, lean))
    for _ in range(4):
        torch.testing.assert_close(fast, plain, atol=1e-4, rtol=1e-4)
        fed = torch.randint(VOCAB, (2, 2))
        (plain, past), (fast, fixed) = model.step(fed, past), lean.step(fed, fixed)


def test_the_fast_path_is_told_of_a_norm_of_embeddings():
    model = build(embedding_norm=True, positions="alibi")
    assert model.stack.embedding_norm is model.embedding_norm
    assert build().stack.embedding_norm is None


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_nothing_is_read_beyond_a_table_of_positions(positions):
    model = build(positions=positions, context=8)
    tokens, grid = padded(texts([9], VOCAB))
    with pytest.raises(ValueError, match="a sequence of 9 tokens, and the model knows 8 positions: give a shorter one"):
        model(tokens, layout=grid)
    with pytest.raises(ValueError, match="a prompt of 5 and an answer of 4, together of 9 tokens"):
        model.start(tokens[:, :5], limit=4)
    _, state = model.start(tokens[:, :5], limit=3)
    for _ in range(3):
        _, state = model.step(tokens[:, :1], state)
    with pytest.raises(ValueError, match="a prompt of no tokens"):
        model.start(tokens[:, :0], limit=3)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "relative", "none"])
def test_positions_without_a_table_go_on_beyond_the_context(positions):
    model = build(positions=positions, context=4)
    tokens, grid = padded(texts([9], VOCAB))
    assert model(tokens, layout=grid).isfinite().all()
    assert model.start(tokens, limit=4)[0].isfinite().all()


def test_weights_begin_as_those_of_gpt2():
    model = GPT(GPTConfig(vocab=500, width=64, heads=4, hidden=256, depth=8))
    block = model.blocks[3]
    for weight, expected in (
        (model.embedding.weight, 0.02),
        (model.positions.table.weight, 0.02),
        (block.attention.query.weight, 0.02),
        (block.mlp.inner.weight, 0.02),
        (block.attention.output.weight, 0.02 / 4),
        (block.mlp.outer.weight, 0.02 / 4),
    ):
        assert weight.std().item() == pytest.approx(expected, rel=0.05)
    assert not block.attention.output.bias.any()


def test_dropout_of_embeddings_may_differ_and_comes_after_their_norm():
    model = GPT(GPTConfig(**{**TINY, "dropout": 0.5, "embedding_norm": True, "embedding_dropout": 0.25}))
    assert model.dropout.p == 0.25
    assert model.embedding.dropout.p == 0.0
    assert GPT(GPTConfig(**{**TINY, "dropout": 0.5})).dropout.p == 0.5


@pytest.mark.unchecked
@pytest.mark.parametrize(
    "settings", [VARIANTS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in VARIANTS[1:3]), LLAMA], ids=str
)
def test_it_learns_one_batch_by_heart(settings):
    model = GPT(GPTConfig(**{**TINY, "width": 32, **settings}))
    row, layout = packed(texts([12, 20, 9], VOCAB))
    keep = (layout.segment[1:] == layout.segment[:-1]).nonzero()[:, 0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(120):
        loss = F.cross_entropy(model.logits(model(row, layout=layout)[keep]), row[keep + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
