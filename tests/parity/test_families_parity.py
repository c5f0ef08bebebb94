"""With our weights, the families of GPT, BERT and T5 in the `transformers` library give our logits."""

import re
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn

from regard.models.bert import BERT, BERTConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.t5 import T5, T5Config
from tests.models.families import padded, shaken, texts

VOCAB, SIZES = 40, {"width": 16, "heads": 4, "hidden": 24, "depth": 3, "dropout": 0.0}
Names = Iterable[tuple[str, str]]

CONVOLUTION = [
    (r"transformer\.h\.", "blocks."),
    (r"attn\.c_proj", "attention.output"),
    (r"mlp\.c_fc", "mlp.inner"),
    (r"mlp\.c_proj", "mlp.outer"),
    (r"ln_1", "after_attention.norm"),
    (r"ln_2", "after_mlp.norm"),
    (r"attn\.c_attn", "attention.query+key+value"),
    (r"transformer\.(wte|tokens_embed)", "embedding"),
    (r"transformer\.(wpe|positions_embed)", "positions.table"),
    (r"transformer\.ln_f", "norm"),
]
BLOOM = [
    (r"transformer\.h\.", "blocks."),
    (r"self_attention\.query_key_value", "attention.query/key/value"),
    (r"self_attention\.dense", "attention.output"),
    (r"input_layernorm", "after_attention.norm"),
    (r"post_attention_layernorm", "after_mlp.norm"),
    (r"dense_h_to_4h", "inner"),
    (r"dense_4h_to_h", "outer"),
    (r"transformer\.word_embeddings_layernorm", "embedding_norm"),
    (r"transformer\.word_embeddings", "embedding"),
    (r"transformer\.ln_f", "norm"),
]
LLAMA = [
    (r"model\.layers\.", "blocks."),
    (r"self_attn\.q_proj", "attention.query"),
    (r"self_attn\.k_proj", "attention.key"),
    (r"self_attn\.v_proj", "attention.value"),
    (r"self_attn\.o_proj", "attention.output"),
    (r"input_layernorm", "after_attention.norm"),
    (r"post_attention_layernorm", "after_mlp.norm"),
    (r"gate_proj", "gate"),
    (r"up_proj", "inner"),
    (r"down_proj", "outer"),
    (r"model\.embed_tokens", "embedding"),
    (r"model\.norm", "norm"),
    (r"lm_head", "output"),
]
ENCODER = [
    (r"(bert|roberta)\.encoder\.layer\.", "blocks."),
    (r"attention\.self\.", "attention."),
    (r"attention\.output\.dense", "attention.output"),
    (r"attention\.output\.LayerNorm", "after_attention.norm"),
    (r"intermediate\.dense", "mlp.inner"),
    (r"(\d)\.output\.dense", r"\1.mlp.outer"),
    (r"(\d)\.output\.LayerNorm", r"\1.after_mlp.norm"),
    (r"(bert|roberta)\.embeddings\.word_embeddings", "embedding"),
    (r"(bert|roberta)\.embeddings\.position_embeddings", "positions.table"),
    (r"(bert|roberta)\.embeddings\.token_type_embeddings", "segments"),
    (r"(bert|roberta)\.embeddings\.LayerNorm", "embedding_norm"),
    (r"bert\.pooler\.dense", "pooler"),
    (r"cls\.predictions\.transform\.dense|lm_head\.dense", "head.dense"),
    (r"cls\.predictions\.transform\.LayerNorm|lm_head\.layer_norm", "head.norm"),
    (r"cls\.predictions\.bias|lm_head\.bias", "bias"),
    (r"cls\.seq_relationship", "next_sentence"),
]


def renamed(name: str, names: Names) -> str:
    """What a weight is called here."""
    for pattern, ours in names:
        name = re.sub(pattern, ours, name)
    return name


def of_t5(name: str) -> str:
    """What a weight of T5 is called here."""
    name = re.sub(r"block\.0\.layer\.0\.SelfAttention\.relative_attention_bias", "positions.table", name)
    name = name.replace("coder.positions", "coder_positions").replace("coder.final_layer_norm", "coder_norm")
    part, kind = re.match(r"(\w*)", name)[1], {"SelfAttention": "attention", "EncDecAttention": "cross"}
    steps = {"encoder": ["attention", "mlp"], "decoder": ["attention", "cross", "mlp"]}.get(part, [])
    name = re.sub(r"layer\.(\d)\.layer_norm", lambda found: f"after_{steps[int(found[1])]}.norm", name)
    name = re.sub(r"layer\.\d\.(SelfAttention|EncDecAttention)", lambda found: kind[found[1]], name)
    name = re.sub(r"layer\.\d\.DenseReluDense", "mlp", name).replace(".block.", ".")
    for theirs, ours in {"q": "query", "k": "key", "v": "value", "o": "output"}.items():
        name = name.replace(f"attention.{theirs}.", f"attention.{ours}.").replace(f"cross.{theirs}.", f"cross.{ours}.")
    for theirs, ours in {"wi_0": "gate", "wi_1": "inner", "wi": "inner", "wo": "outer"}.items():
        name = name.replace(f"mlp.{theirs}.", f"mlp.{ours}.")
    return name.replace("shared.", "embedding.").replace("lm_head.", "output.")


def give(ours: nn.Module, theirs: nn.Module, name_of: Callable[[str], str], *, transposed: bool = False) -> None:
    """Copy all of our weights into their model."""
    weights, given = ours.state_dict(), set()
    for name, tensor in theirs.named_parameters():
        mine = name_of(name)
        several = re.match(r"(.*)\.query([+/])key.value\.(\w+)", mine)
        names = [f"{several[1]}.{part}.{several[3]}" for part in ("query", "key", "value")] if several else [mine]
        parts: list[Tensor] = [weights[each] for each in names]
        given |= set(names)
        if several and several[2] == "/":  # by head
            value = torch.stack([part.unflatten(0, (ours.config.heads, -1)) for part in parts], 1).flatten(0, 2)
        else:
            value = torch.cat(parts)
        tensor.data.copy_(value.T if transposed and value.dim() == 2 and "blocks" in mine else value)
    assert given == set(weights)


def shapes(**settings) -> dict:
    return {**SIZES, "vocab": VOCAB, "context": 32, **settings}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 16, "n_head": 4, "n_inner": 24, "n_layer": 3, "n_positions": 32}
    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, **sizes))
    return GPTConfig(**shapes()), theirs, CONVOLUTION


def gpt1():
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    sizes = {"n_embd": 16, "n_head": 4, "n_layer": 3, "n_positions": 32}
    theirs = OpenAIGPTLMHeadModel(OpenAIGPTConfig(vocab_size=VOCAB, **sizes))
    return GPTConfig(**shapes(norm="post", hidden=64)), theirs, CONVOLUTION


def bloom():
    from transformers import BloomConfig, BloomForCausalLM

    sizes = {"hidden_size": 16, "n_head": 4, "n_layer": 3}
    theirs = BloomForCausalLM(BloomConfig(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, **sizes))
    return GPTConfig(**shapes(positions="alibi", embedding_norm=True, hidden=64)), theirs, BLOOM


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
    more = {"intermediate_size": 24, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
    rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}
    theirs = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, max_position_embeddings=32, **sizes, **more, **rope))
    kind = {"normalisation": "rms", "positions": "rotary", "activation": "silu", "gated": True, "tied": False}
    biases = {"attention_bias": False, "mlp_bias": False}
    return GPTConfig(**shapes(groups=2, rotary_base=500.0, **kind, **biases)), theirs, LLAMA


@pytest.mark.parametrize("family", [gpt2, gpt1, bloom, llama])
def test_our_gpt_is_theirs(family):
    config, theirs, names = family()
    ours = shaken(GPT(config))
    give(ours, theirs.eval(), lambda name: renamed(name, names), transposed=names is CONVOLUTION)
    tokens, grid = padded(texts([7, 3, 1, 12], VOCAB))
    with torch.no_grad():
        logits = ours.logits(ours(tokens, layout=grid))[grid.filled]
        expected = theirs(input_ids=tokens, attention_mask=grid.filled.long()).logits[grid.filled]
    agree(logits, expected)


def agree(logits: Tensor, expected: Tensor) -> None:
    """Numbers that differ among themselves, and not from one another."""
    assert expected.std() > 0.5
    assert torch.allclose(logits, expected, atol=1e-5)


def encoder_sizes(**settings) -> dict:
    sizes = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24, "num_hidden_layers": 3}
    return {"vocab_size": VOCAB, **sizes, **settings}


def test_our_bert_is_theirs():
    from transformers import BertConfig, BertForPreTraining

    ours = shaken(BERT(BERTConfig(**shapes())))
    theirs = BertForPreTraining(BertConfig(**encoder_sizes(max_position_embeddings=32))).eval()
    give(ours, theirs, lambda name: renamed(name, ENCODER))
    tokens, grid = padded(texts([7, 3, 1, 12], VOCAB))
    segments = torch.randint(2, tokens.shape)
    with torch.no_grad():
        features = ours(tokens, layout=grid, segments=segments)
        expected = theirs(input_ids=tokens, attention_mask=grid.filled.long(), token_type_ids=segments)
        agree(ours.logits(features)[grid.filled], expected.prediction_logits[grid.filled])
        agree(ours.following(ours.pool_features(features, grid)), expected.seq_relationship_logits)


def test_our_roberta_is_theirs():
    from transformers import RobertaConfig, RobertaForMaskedLM

    own = {"offset": 2, "segments": 1, "eps": 1e-5, "pooler": False, "next_sentence": False}
    ours = shaken(BERT(BERTConfig(**shapes(**own))))
    settings = encoder_sizes(max_position_embeddings=34, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)
    theirs = RobertaForMaskedLM(RobertaConfig(**settings)).eval()
    give(ours, theirs, lambda name: renamed(name, ENCODER))
    tokens, grid = padded(texts([7, 3, 1, 12], VOCAB), filler=1)
    with torch.no_grad():
        expected = theirs(input_ids=tokens, attention_mask=grid.filled.long()).logits
        agree(ours.logits(ours(tokens, layout=grid))[grid.filled], expected[grid.filled])


@pytest.mark.parametrize("newer", [False, True])
def test_our_t5_is_theirs(newer):
    from transformers import T5Config as TheirConfig
    from transformers import T5ForConditionalGeneration

    own = {"gated": True, "activation": "gelu_tanh", "tied": False} if newer else {}
    sizes = {"vocab": VOCAB, "width": 16, "depth": 6, "heads": 3, "hidden": 24, "encoder": 3, "decoder": 2}
    ours = shaken(T5(T5Config(**sizes, buckets=8, furthest=20, dropout=0.0, **own)))
    nn.init.normal_(ours.embedding.weight)
    settings = {"vocab_size": VOCAB, "d_model": 16, "d_kv": 6, "num_heads": 3, "d_ff": 24}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    kind = {"feed_forward_proj": "gated-gelu" if newer else "relu", "tie_word_embeddings": not newer}
    shape = TheirConfig(**settings, **buckets, **kind, num_layers=3, num_decoder_layers=2, decoder_start_token_id=0)
    theirs = T5ForConditionalGeneration(shape).eval()
    if newer:
        theirs.lm_head.weight = nn.Parameter(torch.empty(VOCAB, 16))  # tied until other weights are loaded
    give(ours, theirs, of_t5)
    lengths = [30, 3, 1], [4, 12, 25]
    (source, first), (target, second) = (padded(texts(side, VOCAB)) for side in lengths)
    with torch.no_grad():
        logits = ours.logits(ours(source, target, layouts=(first, second)))
        expected = theirs(
            input_ids=source,
            attention_mask=first.filled.long(),
            decoder_input_ids=target,
            decoder_attention_mask=second.filled.long(),
        ).logits
    agree(logits[second.filled], expected[second.filled])
