"""The Transformer's sizes, its laws, and proof that it learns."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from regard.attention.masks import Grid, Row
from regard.attention.multihead import MultiHead
from regard.attention.positions import SCHEMES
from regard.attention.tap import Tap
from regard.models import MODELS
from regard.models.parts.blocks import DecoderBlock, EncoderBlock, Residual
from regard.models.transformer import Transformer, TransformerConfig

TINY = {"vocab": 19, "width": 8, "heads": 2, "hidden": 16, "encoder": 2, "decoder": 2, "dropout": 0.0, "context": 16}


def build(**settings):
    """A tiny Transformer with weights large enough for every path to be felt."""
    model = Transformer(TransformerConfig(**(TINY | settings)))
    for number in model.parameters():
        if number.dim() > 1:
            torch.nn.init.normal_(number, std=0.4)
    return model


def sequences(lengths, vocab=19):
    """Random token sequences."""
    return [torch.randint(4, vocab, (length,)) for length in lengths]


def packed_features(model, sources, targets, *, tails=(0, 0), most=None):
    """Features of all target tokens, through rows that may be filled up to a fixed shape."""
    sides, rows = [], []
    for side, tail in zip((sources, targets), tails, strict=True):
        lengths = [*map(len, side)]
        bounds = {"longest": 6, "size": sum(lengths) + tail, "segments": len(lengths) + 3} if any(tails) else {}
        rows.append(Row.of(lengths, **bounds, most=most))
        sides.append(torch.cat([*side, torch.zeros(tail, dtype=torch.int64)]))
    return model(*sides, layouts=tuple(rows))[: sum(map(len, targets))]


def padded_features(model, sources, targets):
    """Features of all target tokens, through padded batches."""
    grids = [Grid(torch.tensor([*map(len, side)]), max(map(len, side))) for side in (sources, targets)]
    batches = [pad_sequence(side, batch_first=True, padding_value=7) for side in (sources, targets)]
    return model(*batches, layouts=tuple(grids))[grids[1].filled]


def count(**settings):
    """How many parameters such a model has, without holding them."""
    with torch.device("meta"):
        model = Transformer(TransformerConfig(**settings))
    return sum(number.numel() for number in model.parameters())


@pytest.mark.parametrize(
    ("preset", "settings", "expected"),
    [
        ("base", {}, 63_082_496),
        ("base", {"attention_bias": False}, 63_045_632),
        ("big", {}, 214_245_376),
        ("base", {"share": "target"}, 63_082_496 + 37_000 * 512),
        ("base", {"share": "none"}, 63_082_496 + 2 * 37_000 * 512),
        ("base", {"norm": "pre"}, 63_082_496 + 2 * 2 * 512),
        ("base", {"groups": 2}, 63_082_496 - 18 * 2 * (512 + 1) * 384),
        ("base", {"positions": "learned"}, 63_082_496 + 2 * 1024 * 512),
        ("base", {"positions": "relative"}, 63_082_496 + 2 * 32 * 8),
        ("base", {"positions": "rotary"}, 63_082_496),
    ],
    ids=str,
)
def test_sizes_are_exact(preset, settings, expected):
    assert count(**(TransformerConfig.PRESETS[preset] | {"vocab": 37_000} | settings)) == expected


@pytest.mark.parametrize("preset", TransformerConfig.PRESETS)
def test_every_preset_is_a_model(preset):
    assert count(vocab=1000, **TransformerConfig.PRESETS[preset]) > 1000


def test_base_has_thirty_sub_layers():
    with torch.device("meta"):
        model = Transformer(TransformerConfig(vocab=10, **TransformerConfig.PRESETS["base"]))
    layers = [[sum(isinstance(part, Residual) for part in block.modules()) for block in stack]
              for stack in (model.encoder, model.decoder)]  # fmt: skip
    assert layers == [[2] * 6, [3] * 6]
    assert sum(map(sum, layers)) == 30
    assert sum(isinstance(part, MultiHead) for part in model.modules()) == 18


def test_the_registry_knows_the_transformer():
    assert MODELS["transformer"] == (Transformer, TransformerConfig)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_only_attention_mixes_tokens(norm):
    model, (sources, targets) = build(norm=norm), (sequences([4, 3]), sequences([3, 5]))

    def changes(side, number, place):
        """Which target tokens, and which source tokens in the memory, feel one token being replaced."""
        texts = {"source": [*map(torch.clone, sources)], "target": [*map(torch.clone, targets)]}
        row = Row.of([4, 3])
        outcomes = []
        for _ in range(2):
            memory = model.encode(torch.cat(texts["source"]), row)
            outcomes.append((packed_features(model, texts["source"], texts["target"]), memory))
            texts[side][number][place] = 4 + (texts[side][number][place] - 3) % 15
        return [(a - b).abs().amax(-1).gt(1e-5).nonzero()[:, 0].tolist() for a, b in zip(*outcomes, strict=True)]

    assert changes("source", 0, 1) == [[0, 1, 2], [0, 1, 2, 3]]  # everything of its own pair, nothing of the other
    assert changes("target", 1, 2) == [[5, 6, 7], []]  # itself and what comes after
    for part in model.modules():
        if isinstance(part, Tap):
            part.register_forward_hook(lambda tap, inputs, weights: torch.zeros_like(weights))
    assert changes("source", 0, 1) == [[], [1]]
    assert changes("target", 1, 2) == [[5], []]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_norm_stands_where_it_should(norm):
    model, tokens = build(norm=norm, positions="none", encoder=1), torch.tensor([[5, 6, 7]])
    (block,) = model.encoder
    x, first, second = model.embedding.weight[tokens] * 8**0.5, block.after_attention.norm, block.after_mlp.norm
    with torch.no_grad():
        for layer in (first, second):
            layer.weight.uniform_(0.5, 2)
            layer.bias.uniform_(-1, 1)
    if norm == "post":
        middle = first(x + block.attention(x))
        expected = second(middle + block.mlp(middle))
    else:
        middle = x + block.attention(first(x))
        expected = F.layer_norm(middle + block.mlp(second(middle)), (8,))  # and one more at the end of the stack
    assert torch.allclose(model.encode(tokens, Grid(torch.tensor([3]), 3)), expected, atol=1e-5)


@pytest.mark.parametrize("positions", SCHEMES)
@settings(max_examples=4)
@given(pairs=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=3))
def test_packed_padded_and_filled_up_agree_in_outputs_and_gradients_for_every_position_scheme(positions, pairs):
    torch.manual_seed(0)
    model = build(positions=positions, norm="pre", groups=1).double()
    sources, targets = (sequences(side) for side in zip(*pairs, strict=True))
    ways = [
        lambda: packed_features(model, sources, targets),
        lambda: padded_features(model, sources, targets),
        lambda: packed_features(model, sources, targets, tails=(7, 3)),
        lambda: torch.cat([packed_features(model, [s], [t]) for s, t in zip(sources, targets, strict=True)]),
    ]
    expected = None
    for way in ways:
        features = way()
        loss = (model.logits(features) * torch.linspace(-1, 1, 19)).sum()
        outcome = [features, *torch.autograd.grad(loss, [*model.parameters()], allow_unused=True)]
        expected = expected or outcome
        for mine, theirs in zip(outcome, expected, strict=True):
            assert (mine is None) == (theirs is None)
            assert mine is None or torch.allclose(mine, theirs, atol=1e-8)


def test_learned_distances_look_both_ways_in_the_encoder_and_only_back_in_the_decoder():
    model = build(positions="relative")
    both = model.encoder_positions.bias(torch.tensor([[-2, 0, 2, 5]]))
    back = model.decoder_positions.bias(torch.tensor([[0, 2, 5]]))
    assert len(both[0, 0].unique()) == 4
    assert len(back[0, 0].unique()) == 1  # whoever cannot be seen needs no number
    assert model.encoder_positions.table is not model.decoder_positions.table


def test_sharing_embeddings_is_having_equal_ones():
    shared, target, separate = (build(share=share) for share in ("all", "target", "none"))
    weights = shared.state_dict()
    target.load_state_dict(weights | {"target_embedding.weight": weights["embedding.weight"]})
    separate.load_state_dict(target.state_dict() | {"output.weight": weights["embedding.weight"]})
    sources, targets = sequences([4, 2]), sequences([3, 3])
    answers = [model.logits(packed_features(model, sources, targets)) for model in (shared, target, separate)]
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])
    assert shared.prediction is shared.embedding.weight
    assert target.prediction is target.target_embedding.weight is not target.embedding.weight
    assert separate.prediction is separate.output.weight


@pytest.mark.parametrize("share", ["target", "none"])
def test_source_and_target_may_have_vocabularies_of_their_own(share):
    model = build(share=share, target_vocab=11)
    features = packed_features(model, sequences([4]), sequences([3], vocab=11))
    assert model.logits(features).shape == (3, 11)


def test_one_embedding_for_two_vocabularies_is_refused():
    with pytest.raises(ValueError, match=r"model\.share: all needs one vocabulary"):
        TransformerConfig(vocab=19, target_vocab=11)
    TransformerConfig(vocab=19, target_vocab=19)


def test_a_deep_encoder_may_feed_a_shallow_decoder():
    model = build(encoder=5, decoder=1)
    assert [type(block) for block in model.encoder] == [EncoderBlock] * 5
    assert [type(block) for block in model.decoder] == [DecoderBlock]
    assert packed_features(model, sequences([4]), sequences([3])).shape == (3, 8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "3 heads do not divide a width of 8"),
        ({"heads": 4, "groups": 3}, "3 groups of keys do not divide 4 heads"),
        ({"heads": 8, "positions": "rotary"}, "1 per head is odd"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


@pytest.mark.parametrize("settings", [{}, {"share": "none", "norm": "pre", "positions": "relative"}], ids=str)
def test_weights_share_no_memory_bear_readable_names_and_survive_safetensors(settings):
    model = build(**settings)
    weights = model.state_dict()
    assert len({tensor.data_ptr() for tensor in weights.values()}) == len(weights)
    assert sum(tensor.numel() for tensor in weights.values()) == sum(n.numel() for n in model.parameters())
    part = r"(attention|cross)\.(query|key|value|output)|after_(attention|cross|mlp)\.norm|mlp\.(inner|outer)"
    whole = r"(target_)?embedding|output|(encoder|decoder)_(norm|positions\.table)"
    pattern = re.compile(rf"((encoder|decoder)\.\d\.({part})|{whole})\.(weight|bias)")
    assert [name for name in weights if not pattern.fullmatch(name)] == []
    again = build(**settings)
    again.load_state_dict(load(save(weights)))
    sources, targets = sequences([4, 2]), sequences([3, 3])
    assert torch.equal(packed_features(model, sources, targets), packed_features(again, sources, targets))


@pytest.mark.unchecked
@pytest.mark.parametrize("settings", [{"norm": "post"}, {"norm": "pre", "positions": "rotary", "groups": 1}], ids=str)
def test_a_model_learns_one_batch_by_heart_and_recites_it(settings):
    model = Transformer(TransformerConfig(**(TINY | {"width": 32, "hidden": 64, "heads": 4} | settings)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    sources, answers = sequences([5, 3, 6, 2]), sequences([4, 6, 2, 5])
    targets = [F.pad(answer, (1, 0), value=1) for answer in answers]
    labels = torch.cat([F.pad(answer, (0, 1), value=2) for answer in answers])
    for _ in range(120):
        loss = F.cross_entropy(model.logits(packed_features(model, sources, targets)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.02:
            break
    assert loss < 0.05
    batch, lengths = pad_sequence(sources, batch_first=True), torch.tensor([*map(len, sources)])
    logits, state = model.eval().start(batch, lengths, torch.ones(4, 1, dtype=torch.int64), limit=8)
    written = []
    for _ in range(7):
        written.append(logits.argmax(-1))
        logits, state = model.step(written[-1], state)
    for line, answer in zip(torch.cat(written, dim=1), answers, strict=True):
        assert line[: len(answer) + 1].tolist() == [*answer.tolist(), 2]


@pytest.mark.parametrize("pre", [False, True])
def test_dropping_every_change_leaves_the_input(pre):
    residual, x = Residual(8, pre=pre, dropout=1.0), torch.randn(3, 8)
    assert torch.equal(residual(x, torch.exp), x if pre else residual.norm(x))


def test_dropout_acts_in_training_only():
    model = build(dropout=0.5, attention_dropout=0.5)
    sources, targets = sequences([4, 2]), sequences([3, 3])
    assert not torch.equal(packed_features(model, sources, targets), packed_features(model, sources, targets))
    model.eval()
    assert torch.equal(packed_features(model, sources, targets), packed_features(model, sources, targets))
