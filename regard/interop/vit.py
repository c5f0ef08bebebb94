"""ViT in Hugging Face's format: a folder of config.json and safetensors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regard.interop.family import Family
from regard.interop.fields import Fields
from regard.interop.gpt import ACTIVATIONS, activation_name
from regard.interop.links import Link, identity_link, reshaped_link
from regard.models.vit import ViTConfig

HEAD, POOLER = "classifier", "vit.pooler.dense"


class Vit(Family):
    """ViT (Dosovitskiy et al. 2021), with a classifier, a pooler, or neither."""

    kind = "vit"
    architecture = "ViTForImageClassification"
    model = ViTConfig
    prefix = "vit."
    constant = {"qkv_bias": (True,), "pooler_act": ("tanh",)}  # noqa: RUF012
    harmless = frozenset({"encoder_stride", "pooler_output_size"})

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are pre-norm, with a class token and learned position embeddings."""
        labels = fields.raw("id2label")
        classes = len(labels) if isinstance(labels, dict) else fields.whole("num_labels", default=2)
        return {
            "classes": classes if f"{HEAD}.weight" in names else 0,
            "channels": fields.whole("num_channels", default=3),
            "size": fields.whole("image_size", default=224),
            "patch": fields.whole("patch_size", default=16),
            "width": fields.whole("hidden_size", default=768),
            "heads": fields.whole("num_attention_heads", default=12),
            "hidden": fields.whole("intermediate_size", default=3072),
            "depth": fields.whole("num_hidden_layers", default=12),
            "pooling": "class",
            "pooler": f"{POOLER}.weight" in names,
            "positions": "learned",
            "eps": fields.number("layer_norm_eps", default=1e-12),
            "activation": fields.choice("hidden_act", among=ACTIVATIONS, default="gelu"),
            "dropout": fields.number("hidden_dropout_prob", default=0.0),
            "attention_dropout": fields.number("attention_probs_dropout_prob", default=0.0),
        }

    @staticmethod
    def fields(shape: ViTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        return {
            "id2label": {str(number): f"LABEL_{number}" for number in range(shape.classes)},
            "num_channels": shape.channels,
            "image_size": shape.size,
            "patch_size": shape.patch,
            "hidden_size": shape.width,
            "num_attention_heads": shape.heads,
            "intermediate_size": shape.hidden,
            "num_hidden_layers": shape.depth,
            "layer_norm_eps": shape.eps,
            "hidden_act": activation_name(shape.activation, ACTIVATIONS),
            "hidden_dropout_prob": shape.dropout,
            "attention_probs_dropout_prob": shape.attention_dropout,
            "qkv_bias": True,
        }

    @staticmethod
    def links(shape: ViTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        width, places = shape.width, shape.before + shape.plane[0] * shape.plane[1]
        sides = (width, shape.channels, shape.patch, shape.patch)
        first = "vit.embeddings"
        inside = {
            "layernorm_before": "after_attention.norm",
            **{f"attention.attention.{name}": f"attention.{name}" for name in ("query", "key", "value")},
            "attention.output.dense": "attention.output",
            "layernorm_after": "after_mlp.norm",
            "intermediate.dense": "mlp.inner",
            "output.dense": "mlp.outer",
        }
        parts = {
            f"vit.encoder.layer.{n}.{theirs}": f"blocks.{n}.{ours}"
            for n in range(shape.depth)
            for theirs, ours in inside.items()
        }
        parts |= {"vit.layernorm": "norm"}
        parts |= {POOLER: "pooler"} if shape.pooler else {}
        parts |= {HEAD: "head"} if shape.classes else {}
        token = [reshaped_link(f"{first}.cls_token", "token", (1, 1, width), (width,))] if shape.before else []
        return [
            *token,
            reshaped_link(
                f"{first}.position_embeddings", "positions.table.weight", (1, places, width), (places, width)
            ),
            reshaped_link(f"{first}.patch_embeddings.projection.weight", "patches.weight", sides, (width, -1)),
            identity_link(f"{first}.patch_embeddings.projection.bias", "patches.bias"),
            *(identity_link(f"{a}.{part}", f"{b}.{part}") for a, b in parts.items() for part in ("weight", "bias")),
        ]

    @staticmethod
    def head(name: str) -> bool:
        """Return True if a name belongs to a head, which never has the prefix."""
        return name.startswith(f"{HEAD}.")

    @classmethod
    def architecture_name(cls, shape: ViTConfig) -> str:
        """Return the class name, which depends on the classifier."""
        return cls.architecture if shape.classes else "ViTModel"

    @classmethod
    def unsupported_reason(cls, shape: ViTConfig) -> str | None:
        """Return why this model cannot be exported: wrong pooling or positions, or a pooler and a classifier."""
        for name, only in {"pooling": "class", "positions": "learned"}.items():
            if (value := getattr(shape, name)) != only:
                return f"{name} is {value} and would be {only}"
        if shape.pooler and shape.classes:
            return "a pooler below the classifier has no place there"
        return super().unsupported_reason(shape)
