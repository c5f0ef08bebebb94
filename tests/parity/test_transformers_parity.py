"""With the same weights and distances, the models of the `transformers` library give the same numbers."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from regard.attention.masks import Grid, causal
from regard.attention.positions import ALiBi, Relative
from regard.models.transformer import Transformer, TransformerConfig

SIZES = {"width": 16, "heads": 4, "hidden": 24, "encoder": 3, "decoder": 2}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (8, 20)])
def test_buckets_are_those_of_t5(backwards, buckets, furthest):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-300, 301)[None]
    theirs = T5Attention._relative_position_bucket(
        distance, bidirectional=not backwards, num_buckets=buckets, max_distance=furthest
    )
    ours = Relative(2, causal=backwards, buckets=buckets, furthest=furthest).bucket(distance)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 16])
def test_slopes_are_those_of_bloom(heads):
    """Its bias counts from the first key, ours from the query: the softmax drops the difference."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 7, dtype=torch.int64), heads, torch.float32).view(heads, 1, 7)
    visible = torch.ones(7, 7).tril().bool()
    difference = ALiBi(heads).bias(causal().distance(7, 7)) - theirs
    spread = difference.masked_fill(~visible, float("nan")).nan_to_num(nan=0.0) - difference[:, :, :1]
    assert spread[:, visible].abs().max() < 1e-6


def marian(ours: Transformer):
    """Marian with our weights."""
    from transformers import MarianConfig, MarianMTModel

    config = ours.config
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab, d_model=config.width, activation_function=config.activation,
            encoder_layers=config.encoder, encoder_attention_heads=config.heads, encoder_ffn_dim=config.hidden,
            decoder_layers=config.decoder, decoder_attention_heads=config.heads, decoder_ffn_dim=config.hidden,
            max_position_embeddings=32, static_position_embeddings=True, scale_embedding=True,
            normalize_before=False, normalize_embedding=False, add_final_layer_norm=False,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, forced_eos_token_id=None, decoder_start_token_id=1,
        )
    ).eval()  # fmt: skip
    names = {"self_attn": "attention", "encoder_attn": "cross", "out_proj": "output", "q_proj": "query",
             "k_proj": "key", "v_proj": "value", "fc1": "mlp.inner", "fc2": "mlp.outer",
             "self_attn_layer_norm": "after_attention.norm", "encoder_attn_layer_norm": "after_cross.norm",
             "final_layer_norm": "after_mlp.norm"}  # fmt: skip
    weights = ours.state_dict()
    given = set()
    for name, tensor in theirs.named_parameters():
        parts = name.removeprefix("model.").split(".")
        if parts[-2] in ("shared", "embed_tokens", "lm_head"):
            mine = "embedding.weight"
        elif parts[-2] == "embed_positions":
            continue  # computed by both
        else:
            mine = ".".join(names.get(part, part) for part in parts if part != "layers")
        tensor.data.copy_(weights[mine])
        given.add(mine)
    assert given == set(weights)
    return theirs


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_our_transformer_is_marian(activation):
    ours = Transformer(
        TransformerConfig(vocab=40, positions="sinusoidal_halves", dropout=0.0, activation=activation, **SIZES)
    ).eval()
    for number in ours.parameters():
        torch.nn.init.normal_(number, std=0.4) if number.dim() > 1 else torch.nn.init.uniform_(number, 0.3, 1.3)
    theirs = marian(ours)
    lengths = torch.tensor([7, 3, 1]), torch.tensor([2, 6, 4])
    tokens = [pad_sequence([torch.randint(4, 40, (n,)) for n in side.tolist()], batch_first=True) for side in lengths]
    source, target = (Grid(side, int(side.max())) for side in lengths)
    with torch.no_grad():
        logits = ours.logits(ours(*tokens, layouts=(source, target)))
        expected = theirs(
            input_ids=tokens[0],
            attention_mask=source.filled.long(),
            decoder_input_ids=tokens[1],
            decoder_attention_mask=target.filled.long(),
        ).logits
    assert expected[target.filled].std() > 0.5
    assert torch.allclose(logits[target.filled], expected[target.filled], atol=1e-5)


def test_rotation_is_that_of_llama():
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    from regard.attention.positions import Rotary

    query, key = torch.randn(2, 1, 2, 5, 8)
    rotary, places = Rotary(8), torch.arange(5)
    angles = torch.cat([places[:, None] * rotary.rates] * 2, dim=-1)[None]
    theirs = apply_rotary_pos_emb(query, key, angles.cos(), angles.sin())
    assert torch.allclose(rotary.turn(query, places), theirs[0], atol=1e-6)
    assert torch.allclose(rotary.turn(key, places), theirs[1], atol=1e-6)


def test_our_gpt_over_pixels_is_imagegpt():
    """It never predicts the token that begins a picture, for which our matrix has a row more."""
    from transformers import ImageGPTConfig as TheirConfig
    from transformers import ImageGPTForCausalImageModeling

    from regard.models.gpt import GPT, ImageGPTConfig

    sizes = {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 25, "vocab_size": 33, "n_inner": 24}
    theirs = ImageGPTForCausalImageModeling(TheirConfig(**sizes)).eval()
    for number in theirs.parameters():
        torch.nn.init.normal_(number, std=0.4) if number.dim() > 1 else torch.nn.init.uniform_(number, 0.3, 1.3)
    kind = {"normalisation": "rms", "activation": "quick_gelu", "tied": False, "positions": "learned"}
    shape = {"width": 16, "depth": 3, "heads": 4, "context": 25, "vocab": 33, "hidden": 24, "size": 5}
    ours = GPT(ImageGPTConfig(**shape, **kind)).eval()
    weights = {name: tensor.detach() for name, tensor in theirs.named_parameters()}
    given = {
        "embedding.weight": weights.pop("transformer.wte.weight"),
        "positions.table.weight": weights.pop("transformer.wpe.weight"),
        "norm.weight": weights.pop("transformer.ln_f.weight"),
        "output.weight": torch.nn.functional.pad(weights.pop("lm_head.weight"), (0, 0, 0, 1)),
    }
    names = {"ln_1": "after_attention.norm", "ln_2": "after_mlp.norm", "attn.c_proj": "attention.output",
             "mlp.c_fc": "mlp.inner", "mlp.c_proj": "mlp.outer"}  # fmt: skip
    for name, tensor in weights.items():
        number, part = name.removeprefix("transformer.h.").split(".", 1)
        part, kind_of = part.rsplit(".", 1)
        turned = tensor.T if tensor.dim() > 1 else tensor  # their linear layers are convolutions
        if part == "attn.c_attn":
            for own, third in zip(("query", "key", "value"), turned.chunk(3), strict=True):
                given[f"blocks.{number}.attention.{own}.{kind_of}"] = third
        else:
            given[f"blocks.{number}.{names[part]}.{kind_of}"] = turned
    ours.load_state_dict(given)
    pixels = torch.randint(0, 32, (3, 25))
    pixels[:, 0] = 32
    with torch.no_grad():
        expected = theirs(input_ids=pixels).logits
        logits = ours.logits(ours(pixels, layout=Grid(torch.full((3,), 25), 25)))
    assert expected.std() > 0.5
    assert torch.allclose(logits[..., :-1], expected, atol=1e-5)
