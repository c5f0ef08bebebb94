"""T5 (Raffel et al. 2020) and T5 1.1."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from regard.interop.family import Family
from regard.interop.fields import Fields
from regard.interop.links import Link, identity_link
from regard.models.t5 import T5Config

PROJECTIONS = {
    "relu": ("relu", False),
    "gelu_new": ("gelu_tanh", False),
    "gelu": ("gelu", False),
    "silu": ("silu", False),
    "gated-relu": ("relu", True),
    "gated-gelu": ("gelu_tanh", True),  # which is gelu_new, despite its name
    "gated-gelu_new": ("gelu_tanh", True),
    "gated-silu": ("silu", True),
}
FUNCTIONS = {"relu": ("relu",), "gelu_tanh": ("gelu_new",), "gelu": ("gelu",), "silu": ("silu",)}
ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "output"}
TABLE = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


class T5(Family):
    """T5: only the first block of a stack holds the table of relative positions; a tied head scales its input."""

    kind = "t5"
    architecture = "T5ForConditionalGeneration"
    model = T5Config
    constant = {"is_encoder_decoder": (True,)}  # noqa: RUF012
    harmless = frozenset({"classifier_dropout"})
    idle = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; two pre-norm stacks without biases, with unscaled attention scores."""
        encoder = fields.whole("num_layers", "num_hidden_layers", default=6)
        decoder = fields.whole("num_decoder_layers", default=None)
        activation, gated = fields.choice("feed_forward_proj", among=PROJECTIONS, default="relu")
        fields.constant({"dense_act_fn": FUNCTIONS[activation], "is_gated_act": (gated,)})
        pad = fields.whole("pad_token_id", default=0)
        fields.constant({"decoder_start_token_id": (pad,)})
        tied = fields.flag("tie_word_embeddings", default=True)
        scaled = fields.flag("scale_decoder_outputs", default=tied)
        if scaled and not tied:
            raise fields.wrong("scale_decoder_outputs", scaled, "false where tie_word_embeddings is")
        if names and not tied and "lm_head.weight" not in names:
            raise ValueError("lm_head.weight is missing from the weights, and tie_word_embeddings is false")
        dropout = fields.number("dropout_rate", default=0.1)
        return {
            "vocab": fields.whole("vocab_size", default=32128),
            "width": fields.whole("d_model", "hidden_size", default=512),
            "depth": fields.whole("d_kv", "head_dim", default=64),
            "heads": fields.whole("num_heads", "num_attention_heads", default=8),
            "hidden": fields.whole("d_ff", default=2048),
            "encoder": encoder,
            "decoder": encoder if decoder is None else decoder,
            "buckets": fields.whole("relative_attention_num_buckets", default=32),
            "furthest": fields.whole("relative_attention_max_distance", default=128),
            "eps": fields.number("layer_norm_epsilon", default=1e-6),
            "activation": activation,
            "gated": gated,
            "tied": scaled,
            "dropout": dropout,
            "attention_dropout": dropout,
            "context": fields.whole("n_positions", default=512),
        }

    @staticmethod
    def fields(shape: T5Config) -> dict[str, Any]:
        """Return the fields of config.json."""
        gating = (shape.activation, shape.gated)
        projection = next((name for name, function in PROJECTIONS.items() if function == gating), None)
        if projection is None:
            raise ValueError(f"{shape.activation} is not among the gated functions")
        return {
            "vocab_size": shape.vocab,
            "d_model": shape.width,
            "d_kv": shape.depth,
            "num_heads": shape.heads,
            "d_ff": shape.hidden,
            "num_layers": shape.encoder,
            "num_decoder_layers": shape.decoder,
            "relative_attention_num_buckets": shape.buckets,
            "relative_attention_max_distance": shape.furthest,
            "layer_norm_epsilon": shape.eps,
            "feed_forward_proj": projection,
            "tie_word_embeddings": shape.tied,
            "dropout_rate": shape.dropout,
            "n_positions": shape.context,
            "is_encoder_decoder": True,
        }

    @staticmethod
    def links(shape: T5Config) -> list[Link]:
        """Return the table of names, by stack and block."""
        name_links = [identity_link("shared.weight", "embedding.weight")]
        name_links += [] if shape.tied else [identity_link("lm_head.weight", "output.weight")]
        for stack, depth in (("encoder", shape.encoder), ("decoder", shape.decoder)):
            name_links += [
                identity_link(f"{stack}.{TABLE}", f"{stack}_positions.table.weight"),
                identity_link(f"{stack}.final_layer_norm.weight", f"{stack}_norm.weight"),
            ]
            for n in range(depth):
                inside = _inside(decoder=stack == "decoder", gated=shape.gated)
                theirs, ours = f"{stack}.block.{n}.layer", f"{stack}.{n}"
                name_links += [identity_link(f"{theirs}.{a}.weight", f"{ours}.{b}.weight") for a, b in inside.items()]
        return name_links

    @staticmethod
    def tied_weights(shape: T5Config) -> Mapping[str, str]:
        """Return the other names of the shared embedding matrix."""
        names = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
        return dict.fromkeys([*names, "lm_head.weight"] if shape.tied else names, "shared.weight")

    @classmethod
    def import_tensors(cls, shape: T5Config, their_tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert the tensors; a matrix that T5 1.1 shares without scaling is copied into a separate output matrix."""
        if not shape.tied and "lm_head.weight" not in their_tensors and "shared.weight" in their_tensors:
            their_tensors = {**their_tensors, "lm_head.weight": their_tensors["shared.weight"].clone()}
        return super().import_tensors(shape, their_tensors)


def _inside(*, decoder: bool, gated: bool) -> dict[str, str]:
    """Return the names of the parts of a block, which are numbered there."""
    steps = [("SelfAttention", "attention"), *([("EncDecAttention", "cross")] if decoder else [])]
    attentions = {
        f"{n}.{theirs}.{a}": f"{ours}.{b}" for n, (theirs, ours) in enumerate(steps) for a, b in ATTENTION.items()
    }
    inner = {"wi_0": "gate", "wi_1": "inner"} if gated else {"wi": "inner"}
    mlp = {f"{len(steps)}.DenseReluDense.{a}": f"mlp.{b}" for a, b in {**inner, "wo": "outer"}.items()}
    norms = [*(ours for _, ours in steps), "mlp"]
    return {**attentions, **mlp, **{f"{n}.layer_norm": f"after_{ours}.norm" for n, ours in enumerate(norms)}}
