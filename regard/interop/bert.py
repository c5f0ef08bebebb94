"""BERT, DistilBERT, RoBERTa and CamemBERT: bidirectional encoders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.interop.family import Family
from regard.interop.fields import Fields
from regard.interop.gpt import ACTIVATIONS, activation_name
from regard.interop.links import Link, identity_link
from regard.models.bert import BERTConfig

GELU = {"gelu": "gelu"}  # the only activation of RoBERTa's head


class Bert(Family):
    """BERT (Devlin et al. 2019), with the heads that its weights have."""

    kind = "bert"
    architecture = "BertForPreTraining"
    model = BERTConfig
    prefix = "bert."
    constant = {"tie_word_embeddings": (True,), "position_embedding_type": ("absolute",)}  # noqa: RUF012
    harmless = frozenset({"classifier_dropout", "eos_token_ids"})
    idle = r"bert\.embeddings\.position_ids"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are post-norm, with learned position and segment embeddings."""
        return {
            **_sizes(fields),
            "offset": 0,
            "context": fields.whole("max_position_embeddings", default=512),
            "activation": fields.choice("hidden_act", among=ACTIVATIONS, default="gelu"),
            "pooler": "bert.pooler.dense.weight" in names,
            "masked": "cls.predictions.transform.dense.weight" in names,
            "next_sentence": "cls.seq_relationship.weight" in names,
        }

    @staticmethod
    def fields(shape: BERTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        act = activation_name(shape.activation, ACTIVATIONS)
        return {**_size_fields(shape), "max_position_embeddings": shape.context, "hidden_act": act}

    @staticmethod
    def links(shape: BERTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        head = {"cls.predictions.transform.dense": "head.dense", "cls.predictions.transform.LayerNorm": "head.norm"}
        name_links = [*_body_links(shape, "bert"), *(_weight_and_bias(head) if shape.masked else [])]
        name_links += [identity_link("cls.predictions.bias", "bias")] if shape.masked else []
        return [
            *name_links,
            *(_weight_and_bias({"cls.seq_relationship": "next_sentence"}) if shape.next_sentence else []),
        ]

    @staticmethod
    def tied_weights(shape: BERTConfig) -> Mapping[str, str]:
        """Return the matrix and the bias of the masked language modelling head, which may be stored twice."""
        tied = {"weight": "bert.embeddings.word_embeddings.weight", "bias": "cls.predictions.bias"}
        return {f"cls.predictions.decoder.{part}": name for part, name in tied.items()} if shape.masked else {}

    @staticmethod
    def modern(name: str) -> str:
        """Rename gamma and beta of norms to weight and bias."""
        return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")

    @staticmethod
    def head(name: str) -> bool:
        """Return True if a name belongs to a head, which never has the prefix."""
        return name.startswith("cls.")

    @classmethod
    def architecture_name(cls, shape: BERTConfig) -> str:
        """Return the class name, which depends on the heads."""
        if shape.next_sentence and shape.masked:
            return cls.architecture
        if shape.next_sentence:
            return "BertForNextSentencePrediction"
        return "BertForMaskedLM" if shape.masked and not shape.pooler else "BertModel"

    @classmethod
    def unsupported_reason(cls, shape: BERTConfig) -> str | None:
        """Return why this model cannot be exported: it has no segments, or heads that no class has."""
        if not shape.segments:
            return "segments is 0 and would be 1 or more"
        if shape.masked and shape.pooler and not shape.next_sentence:
            return "a pooler beside the masked head needs next_sentence"
        return super().unsupported_reason(shape)


class DistilBert(Family):
    """DistilBERT (Sanh et al. 2019): no segments, no pooler."""

    kind = "distilbert"
    architecture = "DistilBertForMaskedLM"
    model = BERTConfig
    prefix = "distilbert."
    constant = {"tie_word_embeddings": (True,), "tie_weights_": (True,)}  # noqa: RUF012
    harmless = frozenset({"qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds"})
    idle = r"distilbert\.embeddings\.position_ids"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are post-norm, with learned position embeddings."""
        return {
            "vocab": fields.whole("vocab_size", default=30522),
            "width": fields.whole("dim", "hidden_size", default=768),
            "hidden": fields.whole("hidden_dim", default=3072),
            "depth": fields.whole("n_layers", "num_hidden_layers", default=6),
            "heads": fields.whole("n_heads", "num_attention_heads", default=12),
            "context": fields.whole("max_position_embeddings", default=512),
            "activation": fields.choice("activation", among=ACTIVATIONS, default="gelu"),
            "dropout": fields.number("dropout", default=0.1),
            "attention_dropout": fields.number("attention_dropout", default=0.1),
            "masked": "vocab_transform.weight" in names,
            "segments": 0,
            "pooler": False,
            "next_sentence": False,
        }

    @staticmethod
    def fields(shape: BERTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        return {
            "vocab_size": shape.vocab,
            "dim": shape.width,
            "hidden_dim": shape.hidden,
            "n_layers": shape.depth,
            "n_heads": shape.heads,
            "max_position_embeddings": shape.context,
            "activation": activation_name(shape.activation, ACTIVATIONS),
            "dropout": shape.dropout,
            "attention_dropout": shape.attention_dropout,
        }

    @staticmethod
    def links(shape: BERTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        name_links = _embedding_links("distilbert")
        inside = {
            **{f"attention.{name[0]}_lin": f"attention.{name}" for name in ("query", "key", "value")},
            "attention.out_lin": "attention.output",
            "sa_layer_norm": "after_attention.norm",
            "ffn.lin1": "mlp.inner",
            "ffn.lin2": "mlp.outer",
            "output_layer_norm": "after_mlp.norm",
        }
        for n in range(shape.depth):
            name_links += _weight_and_bias(
                {f"distilbert.transformer.layer.{n}.{a}": f"blocks.{n}.{b}" for a, b in inside.items()}
            )
        head = {"vocab_transform": "head.dense", "vocab_layer_norm": "head.norm"}
        return (
            [*name_links, *_weight_and_bias(head), identity_link("vocab_projector.bias", "bias")]
            if shape.masked
            else name_links
        )

    @staticmethod
    def tied_weights(shape: BERTConfig) -> Mapping[str, str]:
        """Return the tied output matrix of the masked language modelling head, by its second name and its first."""
        name = "distilbert.embeddings.word_embeddings.weight"
        return {"vocab_projector.weight": name} if shape.masked else {}

    @staticmethod
    def head(name: str) -> bool:
        """Return True if a name belongs to a head, which never has the prefix."""
        return name.startswith("vocab_")

    @classmethod
    def architecture_name(cls, shape: BERTConfig) -> str:
        """Return the class name, which depends on the head."""
        return cls.architecture if shape.masked else "DistilBertModel"


class Roberta(Family):
    """RoBERTa (Liu et al. 2019): positions start after the id of the pad token."""

    kind = "roberta"
    architecture = "RobertaForMaskedLM"
    model = BERTConfig
    prefix = "roberta."
    constant = {"tie_word_embeddings": (True,), "position_embedding_type": ("absolute",)}  # noqa: RUF012
    harmless = frozenset({"classifier_dropout"})
    idle = r"roberta\.embeddings\.position_ids"

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the sizes; the blocks are BERT's, and the first rows of the position embeddings are unused."""
        offset = fields.whole("pad_token_id", default=1) + 1
        rows = fields.whole("max_position_embeddings", default=512)
        masked = "lm_head.dense.weight" in names
        return {
            **_sizes(fields),
            "offset": offset,
            "context": rows - offset,
            "activation": fields.choice("hidden_act", among=GELU if masked else ACTIVATIONS, default="gelu"),
            "pooler": "roberta.pooler.dense.weight" in names,
            "masked": masked,
            "next_sentence": False,
        }

    @staticmethod
    def fields(shape: BERTConfig) -> dict[str, Any]:
        """Return the fields of config.json."""
        act = activation_name(shape.activation, GELU if shape.masked else ACTIVATIONS)
        rows = shape.context + shape.offset
        return {
            **_size_fields(shape),
            "max_position_embeddings": rows,
            "hidden_act": act,
            "pad_token_id": shape.offset - 1,
        }

    @staticmethod
    def links(shape: BERTConfig) -> list[Link]:
        """Return the table of names, block by block."""
        head = [
            *_weight_and_bias({"lm_head.dense": "head.dense", "lm_head.layer_norm": "head.norm"}),
            identity_link("lm_head.bias", "bias"),
        ]
        return [*_body_links(shape, "roberta"), *(head if shape.masked else [])]

    @staticmethod
    def tied_weights(shape: BERTConfig) -> Mapping[str, str]:
        """Return the matrix and the bias of the masked language modelling head, which may be stored twice."""
        tied = {"weight": "roberta.embeddings.word_embeddings.weight", "bias": "lm_head.bias"}
        return {f"lm_head.decoder.{part}": name for part, name in tied.items()} if shape.masked else {}

    @staticmethod
    def modern(name: str) -> str:
        """Rename gamma and beta of norms to weight and bias."""
        return Bert.modern(name)

    @classmethod
    def architecture_name(cls, shape: BERTConfig) -> str:
        """Return the class name, which depends on the head."""
        return cls.architecture if shape.masked else cls.architecture.replace("ForMaskedLM", "Model")

    @classmethod
    def unsupported_reason(cls, shape: BERTConfig) -> str | None:
        """Return why this model cannot be exported: it has no position offset, or no segments."""
        if not shape.offset or not shape.segments:
            return f"{'segments' if shape.offset else 'offset'} is 0 and would be 1 or more"
        return super().unsupported_reason(shape)


class Camembert(Roberta):
    """CamemBERT (Martin et al. 2020): RoBERTa for French."""

    kind = "camembert"
    architecture = "CamembertForMaskedLM"


def _sizes(fields: Fields) -> dict[str, Any]:
    """Return the sizes that BERT and RoBERTa name alike."""
    return {
        "vocab": fields.whole("vocab_size", default=30522),
        "width": fields.whole("hidden_size", default=768),
        "hidden": fields.whole("intermediate_size", default=3072),
        "depth": fields.whole("num_hidden_layers", default=12),
        "heads": fields.whole("num_attention_heads", default=12),
        "segments": fields.whole("type_vocab_size", default=2),
        "eps": fields.number("layer_norm_eps", default=1e-12),
        "dropout": fields.number("hidden_dropout_prob", default=0.1),
        "attention_dropout": fields.number("attention_probs_dropout_prob", default=0.1),
    }


def _size_fields(shape: BERTConfig) -> dict[str, Any]:
    """Return the fields that `_sizes` reads."""
    return {
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.depth,
        "num_attention_heads": shape.heads,
        "type_vocab_size": shape.segments,
        "layer_norm_eps": shape.eps,
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.attention_dropout,
    }


def _body_links(shape: BERTConfig, prefix: str) -> list[Link]:
    """Return the table of names of BERT and RoBERTa without their heads."""
    name_links = _embedding_links(prefix)
    name_links += (
        [identity_link(f"{prefix}.embeddings.token_type_embeddings.weight", "segments.weight")]
        if shape.segments
        else []
    )
    inside = {
        **{f"attention.self.{name}": f"attention.{name}" for name in ("query", "key", "value")},
        "attention.output.dense": "attention.output",
        "attention.output.LayerNorm": "after_attention.norm",
        "intermediate.dense": "mlp.inner",
        "output.dense": "mlp.outer",
        "output.LayerNorm": "after_mlp.norm",
    }
    for n in range(shape.depth):
        name_links += _weight_and_bias(
            {f"{prefix}.encoder.layer.{n}.{a}": f"blocks.{n}.{b}" for a, b in inside.items()}
        )
    return [*name_links, *(_weight_and_bias({f"{prefix}.pooler.dense": "pooler"}) if shape.pooler else [])]


def _embedding_links(prefix: str) -> list[Link]:
    return [
        identity_link(f"{prefix}.embeddings.word_embeddings.weight", "embedding.weight"),
        identity_link(f"{prefix}.embeddings.position_embeddings.weight", "positions.table.weight"),
        *_weight_and_bias({f"{prefix}.embeddings.LayerNorm": "embedding_norm"}),
    ]


def _weight_and_bias(names: Mapping[str, str]) -> list[Link]:
    """Link weight and bias of these modules."""
    return [identity_link(f"{a}.{part}", f"{b}.{part}") for a, b in names.items() for part in ("weight", "bias")]
