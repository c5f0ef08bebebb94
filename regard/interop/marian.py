"""Marian (Junczys-Dowmunt et al. 2018), the format of the OPUS-MT translation models; import only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from regard.interop.family import Family
from regard.interop.fields import Fields
from regard.interop.links import Link, identity_link
from regard.models.transformer import TransformerConfig

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
ATTENTION = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
BIAS = "final_logits_bias"


class Marian(Family):
    """The original Transformer with a shared vocabulary; its positions have all sines before all cosines."""

    kind = "marian"
    architecture = "MarianMTModel"
    model = TransformerConfig
    prefix = "model."
    sides = True
    constant = {  # noqa: RUF012
        "is_encoder_decoder": (True,),
        "tie_word_embeddings": (True,),
        "share_encoder_decoder_embeddings": (True,),
        "static_position_embeddings": (True,),
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (False,),
        "add_bias_logits": (False,),
        "extra_pos_embeddings": (0,),
    }
    harmless = frozenset(
        {
            "activation_dropout", "encoder_layerdrop", "decoder_layerdrop", "init_std", "classif_dropout",
            "classifier_dropout", "num_hidden_layers",
        }
    )  # fmt: skip
    idle = r"model\.(encoder|decoder)\.embed_positions\.weight"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; post-norm, one matrix for source, target and output, decoding starts with pad."""
        vocab = fields.whole("vocab_size", default=58101)
        if (other := fields.whole("decoder_vocab_size", default=None)) not in (None, vocab):
            raise fields.wrong("decoder_vocab_size", other, f"{vocab} as vocab_size")
        if not fields.flag("scale_embedding", default=False):
            raise fields.wrong("scale_embedding", False, "true")
        fields.constant({"decoder_start_token_id": (fields.whole("pad_token_id", default=58100),)})
        return {
            "vocab": vocab,
            "width": fields.whole("d_model", "hidden_size", default=1024),
            "heads": _shared_size(fields, "attention_heads", 16),
            "hidden": _shared_size(fields, "ffn_dim", 4096),
            "encoder": fields.whole("encoder_layers", default=12),
            "decoder": fields.whole("decoder_layers", default=12),
            "activation": fields.choice("activation_function", among=ACTIVATIONS, default="gelu"),
            "context": fields.whole("max_position_embeddings", default=1024),
            "dropout": fields.number("dropout", default=0.1),
            "attention_dropout": fields.number("attention_dropout", default=0.0),
            "positions": "sinusoidal_halves",
            "norm": "post",
            "share": "all",
            "output_bias": True,
        }

    @staticmethod
    def fields(shape: TransformerConfig) -> dict[str, Any]:
        """Return no fields, as Marian models are not exported."""
        return {}

    @staticmethod
    def links(shape: TransformerConfig) -> list[Link]:
        """Return the table of names, by stack and block."""
        name_links = [identity_link("model.shared.weight", "embedding.weight")]
        name_links.append(Link(BIAS, ("bias",), lambda tensor: [tensor[0]], lambda parts: parts[0][None]))
        for stack, depth in (("encoder", shape.encoder), ("decoder", shape.decoder)):
            steps = {"self_attn": "attention", **({"encoder_attn": "cross"} if stack == "decoder" else {})}
            inside = {f"{a}.{c}": f"{b}.{d}" for a, b in steps.items() for c, d in ATTENTION.items()}
            inside |= {f"{a}_layer_norm": f"after_{b}.norm" for a, b in steps.items()}
            inside |= {"fc1": "mlp.inner", "fc2": "mlp.outer", "final_layer_norm": "after_mlp.norm"}
            for n in range(depth):
                theirs, ours = f"model.{stack}.layers.{n}", f"{stack}.{n}"
                pairs = [(a, b, part) for a, b in inside.items() for part in ("weight", "bias")]
                name_links += [identity_link(f"{theirs}.{a}.{part}", f"{ours}.{b}.{part}") for a, b, part in pairs]
        return name_links

    @staticmethod
    def tied_weights(shape: TransformerConfig) -> Mapping[str, str]:
        """Return the other names of the shared embedding matrix."""
        names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
        return dict.fromkeys(names, "model.shared.weight")

    @staticmethod
    def head(name: str) -> bool:
        """Return True if a name belongs to a head, which never has the prefix."""
        return name.startswith(("lm_head.", BIAS))

    @classmethod
    def normalise_names(cls, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Normalise the names, and add the shared embedding or a zero output bias that older folders may lack."""
        named_tensors = super().normalise_names(tensors)
        table = "model.shared.weight"
        other = next((name for name in cls.tied_weights(None) if name in named_tensors), None)  # type: ignore[arg-type]
        if table not in named_tensors and other is not None:
            named_tensors[table] = named_tensors[other]
        if table in named_tensors and named_tensors[table].dim() == 2:
            named_tensors.setdefault(BIAS, named_tensors[table].new_zeros(1, len(named_tensors[table])))
        return named_tensors

    @classmethod
    def unsupported_reason(cls, shape: TransformerConfig) -> str | None:
        """Return the reason, as Marian models are not exported."""
        return "it is only read"


def _shared_size(fields: Fields, name: str, default: int) -> int:
    """Return a size that must be the same in encoder and decoder."""
    encoder_size, decoder_size = (fields.whole(f"{stack}_{name}", default=default) for stack in ("encoder", "decoder"))
    if encoder_size != decoder_size:
        raise fields.wrong(f"decoder_{name}", decoder_size, f"{encoder_size} as encoder_{name}")
    return encoder_size
