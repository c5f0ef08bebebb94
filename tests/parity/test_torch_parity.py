"""With the same weights, torch's own attention and Transformer give the same numbers."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from regard.attention.masks import EVERYONE, Grid, Mask, allow, causal, padded
from regard.attention.multihead import MultiHead
from regard.models.transformer import Transformer, TransformerConfig

SIDES = ("query", "key", "value")


def give_attention(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    """Copy our projections into theirs."""
    layers = [getattr(ours, side) for side in SIDES]
    with torch.no_grad():
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        else:
            for side, layer in zip("qkv", layers, strict=True):
                getattr(theirs, f"{side}_proj_weight").copy_(layer.weight)
        if theirs.in_proj_bias is not None:
            theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


GRID = Grid(torch.tensor([5, 2, 1]), 5)
VISIBLE = torch.tensor([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0], [1, 0, 0, 1, 0]]).bool()


@pytest.mark.parametrize(
    ("mask", "theirs_told"),
    [
        (EVERYONE, {}),
        (causal(), {"attn_mask": ~torch.ones(5, 5).tril().bool()}),
        (padded(GRID), {"key_padding_mask": ~GRID.filled}),
        (allow(VISIBLE), {"attn_mask": ~VISIBLE}),
        (
            padded(GRID) & causal(),
            {"attn_mask": ~torch.ones(5, 5).tril().bool(), "key_padding_mask": ~GRID.filled},
        ),
    ],
    ids=["everyone", "causal", "padded", "boolean", "padded and causal"],
)
@pytest.mark.parametrize("memory_width", [None, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_our_multi_head_is_torchs(mask: Mask, theirs_told, memory_width, bias):
    ours = MultiHead(8, 4, memory_width=memory_width, bias=bias)
    theirs = nn.MultiheadAttention(8, 4, bias=bias, kdim=memory_width, vdim=memory_width, batch_first=True)
    for layer in ours.children():
        if isinstance(layer, nn.Linear) and bias:
            nn.init.normal_(layer.bias)
    give_attention(ours, theirs)
    x = torch.randn(3, 5, 8, requires_grad=True)
    memory = x if memory_width is None else torch.randn(3, 5, memory_width, requires_grad=True)
    expected, average = theirs(x, memory, memory, **theirs_told)
    _, weights = theirs(x, memory, memory, **theirs_told, average_attn_weights=False)
    seen = []
    fused = ours(x, None if memory is x else memory, mask=mask)
    ours.weights.register_forward_hook(lambda tap, inputs, value: seen.append(value))
    explicit = ours(x, None if memory is x else memory, mask=mask)
    for answer in (fused, explicit):
        assert torch.allclose(answer, expected, atol=1e-6)
        gradients = [torch.autograd.grad(each.square().sum(), x, retain_graph=True)[0] for each in (answer, expected)]
        assert torch.allclose(*gradients, atol=1e-5)
    assert torch.allclose(seen[0], weights, atol=1e-6)
    assert torch.allclose(seen[0].mean(1), average, atol=1e-6)


def give_block(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy one of our blocks into one of theirs."""
    attentions = [(ours.attention, theirs.self_attn)]
    norms = [ours.after_attention.norm, ours.after_mlp.norm]
    if hasattr(ours, "cross"):
        attentions.append((ours.cross, theirs.multihead_attn))
        norms.insert(1, ours.after_cross.norm)
    for mine, other in attentions:
        give_attention(mine, other)
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.mlp.inner.state_dict())
    theirs.linear2.load_state_dict(ours.mlp.outer.state_dict())


def torchs(ours: Transformer) -> nn.Transformer:
    """Torch's Transformer with our weights; it has final norms only where ours has them."""
    config, pre = ours.config, ours.config.norm == "pre"
    shape = {"dropout": 0.0, "norm_first": pre, "batch_first": True, "activation": config.activation}
    sizes = config.width, config.heads, config.hidden
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(*sizes, **shape),
        config.encoder,
        norm=nn.LayerNorm(config.width) if pre else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(*sizes, **shape), config.decoder, norm=nn.LayerNorm(config.width) if pre else None
    )
    theirs = nn.Transformer(*sizes[:2], custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    for mine, other in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for block, layer in zip(mine, other.layers, strict=True):
            give_block(block, layer)
    if pre:
        encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
        decoder.norm.load_state_dict(ours.decoder_norm.state_dict())
    return theirs


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_our_transformer_is_torchs(norm, activation):
    ours = Transformer(
        TransformerConfig(
            vocab=17, width=8, heads=2, hidden=12, encoder=3, decoder=2, norm=norm, activation=activation, dropout=0.0
        )
    )
    for number in ours.parameters():
        nn.init.normal_(number, std=0.4) if number.dim() > 1 else nn.init.uniform_(number, 0.3, 1.3)
    theirs = torchs(ours)
    lengths = torch.tensor([5, 3]), torch.tensor([2, 4])
    tokens = [pad_sequence([torch.randint(4, 17, (n,)) for n in side.tolist()], batch_first=True) for side in lengths]
    source, target = (Grid(side, int(side.max())) for side in lengths)
    features = ours(*tokens, layouts=(source, target))
    expected = theirs(
        ours.embedding(tokens[0], source.place, ours.encoder_positions),
        ours.embedding(tokens[1], target.place, ours.decoder_positions),
        tgt_mask=~torch.ones(4, 4).tril().bool(),
        src_key_padding_mask=~source.filled,
        tgt_key_padding_mask=~target.filled,
        memory_key_padding_mask=~source.filled,
    )
    assert torch.allclose(features[target.filled], expected[target.filled], atol=1e-5)
