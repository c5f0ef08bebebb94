"""Outlines of Regard models as `transformers` classes that can be fine-tuned: body, head, and one table of names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.interop import links
from regard.interop.family import Family
from regard.interop.links import Link, identity_link
from regard.models.bert import BERTConfig
from regard.models.encoder_with_head import BERTEncoderConfig, GPTEncoderConfig
from regard.models.gpt import GPTConfig
from regard.models.t5 import T5Config

READER = "reader."  # prefix of the names of a body below a head
BODIES = {BERTConfig: "FEATURE_EXTRACTION", GPTConfig: "CAUSAL_LM", T5Config: "SEQ_2_SEQ_LM"}
ENCODERS: dict[type, Any] = {BERTConfig: BERTEncoderConfig, GPTConfig: GPTEncoderConfig}
TEXTS, TOKENS = "SEQ_CLS", "TOKEN_CLS"


@dataclass(frozen=True)
class Head:
    """The head of a `transformers` class: its modules with Regard's names, and those that an adapter saves whole."""

    modules: Mapping[str, str]
    saved: tuple[str, ...]
    biased: bool = True
    """Whether the last layer has a bias."""


_PLAIN = Head({"classifier": "output"}, ("classifier",))
_SCORE = Head({"score": "output"}, ("score",))
_ROBERTA = Head({"classifier.out_proj": "output", "classifier.dense": f"{READER}pooler"}, ("classifier",))
HEADS: dict[str, dict[str, Head]] = {
    TEXTS: {
        "bert": Head(
            {"classifier": "output", "bert.pooler.dense": f"{READER}pooler"}, ("classifier", "bert.pooler.dense")
        ),
        "roberta": _ROBERTA,
        "camembert": _ROBERTA,
        **dict.fromkeys(("gpt2", "openai-gpt", "bloom", "llama"), replace(_SCORE, biased=False)),
    },
    TOKENS: {
        **dict.fromkeys(("bert", "roberta", "camembert", "distilbert", "gpt2", "bloom"), _PLAIN),
        "llama": _SCORE,
    },
}
"""By what is labelled and by family; a DistilBERT has a function between its layers that none of ours has."""


@dataclass(frozen=True)
class Outline:
    """A Regard model described in the terms of `transformers` and `peft`."""

    task: str
    """What `peft` calls what the model does."""
    body: Any
    """The config of the body alone."""
    family: type[Family]
    head: Head | None = None

    @property
    def architecture_name(self) -> str:
        """Return the name of the `transformers` class of this model."""
        if self.head is None:
            return self.family.architecture_name(self.body)
        name = re.sub(r"(For[A-Z]\w*|LMHeadModel)$", "", self.family.architecture)
        return f"{name}For{'Token' if self.task == TOKENS else 'Sequence'}Classification"

    def export_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert all of Regard's tensors to those of the `transformers` class."""
        if self.head is None:
            return self.family.export_tensors(self.body, tensors)
        return links.theirs(self.links, tensors if self.head.biased else without_bias(self.body, tensors))

    @cached_property
    def prefix(self) -> str:
        """Return the prefix of Regard's names of the body."""
        return "" if self.head is None else READER

    @cached_property
    def links(self) -> list[Link]:
        """Return the table of names of body and head."""
        name_links = [
            replace(link, ours=tuple(f"{self.prefix}{name}" for name in link.ours))
            for link in self.family.links(self.body)
        ]
        for theirs, ours in self.head.modules.items() if self.head is not None else ():
            parts = ("weight", "bias") if ours != "output" or self.head.biased else ("weight",)  # type: ignore[union-attr]
            name_links += [identity_link(f"{theirs}.{part}", f"{ours}.{part}") for part in parts]
        return name_links

    @cached_property
    def tokens(self) -> str:
        """Return the `transformers` module that holds the token embeddings."""
        return module_of(next(link.theirs for link in self.links if link.ours == (f"{self.prefix}embedding.weight",)))

    @cached_property
    def modules(self) -> list[str]:
        """Return all modules of the `transformers` class that have weights."""
        return list(dict.fromkeys(module_of(link.theirs) for link in self.links))

    @cached_property
    def matrices(self) -> dict[str, Link]:
        """Return the modules that can have LoRA matrices: all that multiply by a weight matrix."""
        tables = ("embedding.weight", "segments.weight", "table.weight", "norm.weight")
        return {
            module_of(link.theirs): link
            for link in self.links
            if link.theirs.endswith(".weight") and not link.ours[0].endswith(tables)
        }


def module_of(name: str) -> str:
    """Return the name of the module that a tensor belongs to."""
    return name.rpartition(".")[0]


def body_of(shape: Any) -> Any:
    """Return the config of the body alone, as families know it."""
    kind = next((kind for kind in BODIES if isinstance(shape, kind)), None)
    if kind is None:
        raise ValueError(f"a model of kind {shape.name} has no body that others know")
    if type(shape) is kind:
        return shape
    return strip_heads(
        kind(**{field.name: getattr(shape, field.name) for field in fields(kind) if field.name != "name"})
    )


def strip_heads(shape: Any) -> Any:
    """Return the config of a language model without its heads."""
    if isinstance(shape, BERTConfig):
        return replace(shape, pooler=False, masked=False, next_sentence=False, span_boundary=False)
    return replace(shape, tied=True)


def outline_model(shape: Any, family: type[Family]) -> Outline:
    """Outline a Regard model as a `transformers` class, or raise ValueError with the reason why there is none."""
    body = body_of(shape)
    if body is shape:
        return Outline(BODIES[type(shape)], body, family)
    task = TOKENS if shape.per_token else TEXTS
    head = HEADS[task].get(family.kind)
    if head is None:
        raise ValueError(f"{family.kind} has no class there that labels {'words' if shape.per_token else 'texts'} so")
    if task == TEXTS and shape.pool not in ("class", "last"):
        raise ValueError(f"model.pool is {shape.pool}, and the {family.kind} there takes one token")
    if f"{READER}pooler" in head.modules.values() and not shape.pools:
        raise ValueError(f"model.pooler is false, and the {family.kind} there has a pooler")
    return Outline(task, body, family, head)


def encoder_config(body: Any, *, classes: int, per_token: bool, head: Head) -> Any:
    """Return the config of the Regard model with this body and head."""
    kind = ENCODERS[type(body)]
    names = {field.name for field in fields(kind)} - {"name", "pooler"}
    settings = {field.name: getattr(body, field.name) for field in fields(body) if field.name in names}
    pooler = {"pooler": f"{READER}pooler" in head.modules.values()} if isinstance(body, BERTConfig) else {}
    return kind(**settings, **pooler, classes=classes, per_token=per_token)


def without_bias(body: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a classifier's weights without the last layer's bias, which the bias of the norm before it absorbs."""
    last = "norm" if f"{READER}norm.bias" in tensors else f"blocks.{body.depth - 1}.after_mlp.norm"
    name = f"{READER}{last}.bias"
    weight, bias = tensors["output.weight"].double(), tensors["output.bias"].double()
    if not bias.any():
        return dict(tensors)
    if name not in tensors:
        raise ValueError("the head there has no bias, and its norms have none that could make up for it")
    shift = torch.linalg.lstsq(weight, bias[:, None], driver="gelsd").solution[:, 0]
    if (weight @ shift - bias).abs().max() > 1e-6 * bias.abs().max():
        raise ValueError(f"the head there has no bias, and {len(bias)} labels are too many to do without")
    return {**tensors, name: (tensors[name].double() + shift).to(tensors[name].dtype)}
