"""GPT-1, GPT-2, BLOOM and Llama: autoregressive language models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from regard.interop.family import Family
from regard.interop.fields import Fields
from regard.interop.links import Link, identity_link, interleaved_link, stacked_link, transposed_link
from regard.models.gpt import GPTConfig

ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
FIRST_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}  # GPT-1 has different names
SUMMARY = frozenset(
    f"summary_{name}" for name in ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")
)  # of a head that classifies texts
PROJECTIONS = ("query", "key", "value")
HEAD = "lm_head.weight"


class CausalFamily(Family):
    """Base of the autoregressive families: the output matrix is separate, or tied to the token embeddings."""

    model = GPTConfig
    prefix = "transformer."
    tokens: ClassVar[str]
    """The name of the table of tokens."""

    @classmethod
    def tied_weights(cls, shape: GPTConfig) -> Mapping[str, str]:
        """Return the output matrix if it is tied to the token embeddings."""
        return {HEAD: cls.tokens} if shape.tied else {}


class GPT2(CausalFamily):
    """GPT-2 (Radford et al. 2019), with transposed matrices and one matrix for query, key and value."""

    kind = "gpt2"
    architecture = "GPT2LMHeadModel"
    tokens = "transformer.wte.weight"
    constant = {"scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,)}  # noqa: RUF012
    harmless = SUMMARY | {"n_ctx", "reorder_and_upcast_attn"}
    idle = r"transformer\.h\.\d+\.attn\.(bias|masked_bias)"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are pre-norm, with learned position embeddings."""
        shape = _sizes(fields, vocab=50257, context=1024) | _dropouts(fields)
        hidden = fields.whole("n_inner", default=None)
        activation = fields.choice("activation_function", among=ACTIVATIONS, default="gelu_new")
        return shape | {"hidden": _or_default(hidden, 4 * shape["width"]), "activation": activation, "norm": "pre"}

    @staticmethod
    def fields(shape: GPTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        return {
            **_size_fields(shape),
            "n_inner": shape.hidden,
            "activation_function": activation_name(shape.activation, ACTIVATIONS),
        }

    @staticmethod
    def links(shape: GPTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        last = [identity_link(f"transformer.ln_f.{part}", f"norm.{part}") for part in ("weight", "bias")]
        return [*_openai_links(shape, "wte", "wpe"), *last, *_head_links(shape)]


class GPT1(CausalFamily):
    """GPT (Radford et al. 2018): post-norm blocks, no final norm."""

    kind = "openai-gpt"
    architecture = "OpenAIGPTLMHeadModel"
    tokens = "transformer.tokens_embed.weight"
    harmless = SUMMARY | {"n_ctx", "n_special", "predict_special_tokens"}
    idle = r"transformer\.(h\.\d+\.attn\.bias|position_ids)"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are post-norm, with learned position embeddings."""
        shape = _sizes(fields, vocab=40478, context=512) | _dropouts(fields)
        activation = fields.choice("afn", among=FIRST_ACTIVATIONS, default="gelu")
        return shape | {"hidden": 4 * shape["width"], "activation": activation, "norm": "post"}

    @staticmethod
    def fields(shape: GPTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        return {**_size_fields(shape), "afn": activation_name(shape.activation, FIRST_ACTIVATIONS)}

    @staticmethod
    def links(shape: GPTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        return [*_openai_links(shape, "tokens_embed", "positions_embed"), *_head_links(shape)]


class Bloom(CausalFamily):
    """BLOOM (BigScience 2022): ALiBi, a norm after the embeddings, query, key and value interleaved by head."""

    kind = "bloom"
    architecture = "BloomForCausalLM"
    tokens = "transformer.word_embeddings.weight"
    constant = {  # noqa: RUF012
        "apply_residual_connection_post_layernorm": (False,),
        "n_inner": (None,),
        "skip_bias_add_qkv": (False,),
    }
    harmless = frozenset(
        {
            "pretraining_tp", "slow_but_exact", "attention_softmax_in_fp32", "masked_softmax_fusion",
            "bias_dropout_fusion", "skip_bias_add", "offset_alibi",
        }
    )  # fmt: skip

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are pre-norm, with ALiBi."""
        width = fields.whole("hidden_size", "n_embed", default=64)
        return {
            "vocab": fields.whole("vocab_size", default=250880),
            "width": width,
            "hidden": 4 * width,
            "depth": fields.whole("n_layer", "num_hidden_layers", default=2),
            "heads": fields.whole("n_head", "num_attention_heads", default=8),
            "eps": fields.number("layer_norm_epsilon", default=1e-5),
            "context": fields.whole("seq_length", default=2048),
            "tied": fields.flag("tie_word_embeddings", default=True),
            "dropout": fields.number("hidden_dropout", default=0.0),
            "attention_dropout": fields.number("attention_dropout", default=0.0),
            "embedding_dropout": 0.0,
            "embedding_norm": True,
            "positions": "alibi",
            "activation": "gelu_tanh",
            "norm": "pre",
        }

    @staticmethod
    def fields(shape: GPTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        return {
            "vocab_size": shape.vocab,
            "hidden_size": shape.width,
            "n_layer": shape.depth,
            "n_head": shape.heads,
            "layer_norm_epsilon": shape.eps,
            "seq_length": shape.context,
            "tie_word_embeddings": shape.tied,
            "hidden_dropout": shape.dropout,
            "attention_dropout": shape.attention_dropout,
        }

    @staticmethod
    def links(shape: GPTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        name_links = [identity_link("transformer.word_embeddings.weight", "embedding.weight"), *_head_links(shape)]
        outside = {"word_embeddings_layernorm": "embedding_norm", "ln_f": "norm"}
        inside = {
            "input_layernorm": "after_attention.norm",
            "self_attention.dense": "attention.output",
            "post_attention_layernorm": "after_mlp.norm",
            "mlp.dense_h_to_4h": "mlp.inner",
            "mlp.dense_4h_to_h": "mlp.outer",
        }
        for part in ("weight", "bias"):
            name_links += [
                identity_link(f"transformer.{theirs}.{part}", f"{ours}.{part}") for theirs, ours in outside.items()
            ]
            for n in range(shape.depth):
                theirs, ours = f"transformer.h.{n}", f"blocks.{n}"
                name_links += [identity_link(f"{theirs}.{a}.{part}", f"{ours}.{b}.{part}") for a, b in inside.items()]
                projections = [f"{ours}.attention.{name}.{part}" for name in PROJECTIONS]
                fused = f"{theirs}.self_attention.query_key_value.{part}"
                name_links.append(interleaved_link(fused, projections, heads=shape.heads))
        return name_links


class Llama(CausalFamily):
    """Llama (Touvron et al. 2023): rotary position embeddings, RMSNorm, gated feed-forward, grouped-query attention."""

    kind = "llama"
    architecture = "LlamaForCausalLM"
    tokens = "model.embed_tokens.weight"
    prefix = "model."
    constant = {"rope_scaling": (None,), "partial_rotary_factor": (1.0, 1)}  # noqa: RUF012
    harmless = frozenset({"pretraining_tp"})
    idle = r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are pre-norm, with rotary position embeddings."""
        width = fields.whole("hidden_size", default=4096)
        heads = fields.whole("num_attention_heads", default=32)
        groups = fields.whole("num_key_value_heads", default=None)
        depth = fields.whole("head_dim", default=None)
        if depth is not None and depth * heads != width:
            raise fields.wrong("head_dim", depth, f"hidden_size / num_attention_heads ({width} / {heads})")
        dropout = fields.number("attention_dropout", default=0.0)
        return {
            "vocab": fields.whole("vocab_size", default=32000),
            "width": width,
            "heads": heads,
            "groups": None if groups == heads else groups,
            "hidden": fields.whole("intermediate_size", default=11008),
            "depth": fields.whole("num_hidden_layers", default=32),
            "eps": fields.number("rms_norm_eps", default=1e-6),
            "context": fields.whole("max_position_embeddings", default=2048),
            "activation": fields.choice("hidden_act", among=ACTIVATIONS, default="silu"),
            "tied": fields.flag("tie_word_embeddings", default=False),
            "attention_bias": fields.flag("attention_bias", default=False),
            "mlp_bias": fields.flag("mlp_bias", default=False),
            "rotary_base": _rotary_base(fields),
            "attention_dropout": dropout,
            "dropout": 0.0,
            "positions": "rotary",
            "normalisation": "rms",
            "gated": True,
            "norm": "pre",
        }

    @staticmethod
    def fields(shape: GPTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        return {
            "vocab_size": shape.vocab,
            "hidden_size": shape.width,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.groups or shape.heads,
            "head_dim": shape.width // shape.heads,
            "intermediate_size": shape.hidden,
            "num_hidden_layers": shape.depth,
            "rms_norm_eps": shape.eps,
            "max_position_embeddings": shape.context,
            "hidden_act": activation_name(shape.activation, ACTIVATIONS),
            "tie_word_embeddings": shape.tied,
            "attention_bias": shape.attention_bias,
            "mlp_bias": shape.mlp_bias,
            "rope_theta": shape.rotary_base,
            "rope_parameters": {"rope_theta": shape.rotary_base, "rope_type": "default"},
            "attention_dropout": shape.attention_dropout,
        }

    @staticmethod
    def links(shape: GPTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        tables = {"model.embed_tokens": "embedding", "model.norm": "norm"}
        name_links = [*(identity_link(f"{a}.weight", f"{b}.weight") for a, b in tables.items()), *_head_links(shape)]
        norms = {"input_layernorm": "after_attention.norm", "post_attention_layernorm": "after_mlp.norm"}
        attention = {
            f"self_attn.{name[0]}_proj": f"attention.{name}" for name in (*PROJECTIONS, "output")
        }  # q, k, v and o
        mlp = {"mlp.up_proj": "mlp.inner", "mlp.gate_proj": "mlp.gate", "mlp.down_proj": "mlp.outer"}
        for n in range(shape.depth):
            pairs = [(names, "weight") for names in (norms, attention, mlp)]
            pairs += [(attention, "bias")] * shape.attention_bias + [(mlp, "bias")] * shape.mlp_bias
            for names, part in pairs:
                name_links += [
                    identity_link(f"model.layers.{n}.{a}.{part}", f"blocks.{n}.{b}.{part}") for a, b in names.items()
                ]
        return name_links


def activation_name(ours: str, words: Mapping[str, str]) -> str:
    """Return the first external name of one of Regard's activations."""
    name = next((theirs for theirs, meaning in words.items() if meaning == ours), None)
    if name is None:
        raise ValueError(f"{ours} is not among {', '.join(words.values())}")
    return name


def _sizes(fields: Fields, *, vocab: int, context: int) -> dict[str, Any]:
    """Return the sizes that GPT-1 and GPT-2 name alike."""
    return {
        "vocab": fields.whole("vocab_size", default=vocab),
        "context": fields.whole("n_positions", "max_position_embeddings", default=context),
        "width": fields.whole("n_embd", "hidden_size", default=768),
        "depth": fields.whole("n_layer", "num_hidden_layers", default=12),
        "heads": fields.whole("n_head", "num_attention_heads", default=12),
        "eps": fields.number("layer_norm_epsilon", default=1e-5),
        "tied": fields.flag("tie_word_embeddings", default=True),
        "positions": "learned",
    }


def _dropouts(fields: Fields) -> dict[str, Any]:
    return {
        "dropout": fields.number("resid_pdrop", default=0.1),
        "embedding_dropout": fields.number("embd_pdrop", default=0.1),
        "attention_dropout": fields.number("attn_pdrop", default=0.1),
    }


def _size_fields(shape: GPTConfig) -> dict[str, Any]:
    """Return the fields that `_sizes` and `_dropouts` read."""
    return {
        "vocab_size": shape.vocab,
        "n_positions": shape.context,
        "n_embd": shape.width,
        "n_layer": shape.depth,
        "n_head": shape.heads,
        "layer_norm_epsilon": shape.eps,
        "tie_word_embeddings": shape.tied,
        "resid_pdrop": shape.dropout,
        "embd_pdrop": _or_default(shape.embedding_dropout, shape.dropout),
        "attn_pdrop": shape.attention_dropout,
    }


def _head_links(shape: GPTConfig) -> list[Link]:
    """Link the output matrix, unless it is tied to the token embeddings."""
    return [] if shape.tied else [identity_link(HEAD, "output.weight")]


def _openai_links(shape: GPTConfig, tokens: str, places: str) -> list[Link]:
    """Return the table of names of GPT-1 and GPT-2 without the final norm and the head."""
    name_links = [
        identity_link(f"transformer.{tokens}.weight", "embedding.weight"),
        identity_link(f"transformer.{places}.weight", "positions.table.weight"),
    ]
    inside = {"attn.c_proj": "attention.output", "mlp.c_fc": "mlp.inner", "mlp.c_proj": "mlp.outer"}
    norms = {"ln_1": "after_attention.norm", "ln_2": "after_mlp.norm"}
    for n in range(shape.depth):
        theirs, ours = f"transformer.h.{n}", f"blocks.{n}"
        for part in ("weight", "bias"):
            link = transposed_link if part == "weight" else identity_link
            name_links += [link(f"{theirs}.{a}.{part}", f"{ours}.{b}.{part}") for a, b in inside.items()]
            name_links += [identity_link(f"{theirs}.{a}.{part}", f"{ours}.{b}.{part}") for a, b in norms.items()]
            projections = [f"{ours}.attention.{name}.{part}" for name in PROJECTIONS]
            name_links.append(stacked_link(f"{theirs}.attn.c_attn.{part}", projections, transposed=part == "weight"))
    return name_links


def _rotary_base(fields: Fields) -> float:
    """Return the base of the rotary wavelengths, which older and newer folders store in different fields."""
    inner = fields.section("rope_parameters")
    outer = fields.number("rope_theta", default=10000.0)
    base = inner.number("rope_theta", default=outer)
    if "rope_theta" in fields and base != outer:
        raise fields.wrong("rope_theta", outer, f"{base} as in rope_parameters")
    inner.constant({"rope_type": ("default",), "partial_rotary_factor": (1.0, 1)})
    inner.rest()
    return base


def _or_default(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value
