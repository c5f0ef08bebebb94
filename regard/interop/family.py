"""The base class of families of external models: how config.json is read, and the table of names."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard import config, models
from regard.interop import links
from regard.interop.fields import CONSTANT, HARMLESS, Fields, quote_name
from regard.interop.links import Link
from regard.models.weights import Unfilled, weights


class Family(ABC):
    """One `model_type`, read and written by the same table of names."""

    kind: ClassVar[str]
    """What config.json calls it."""
    architecture: ClassVar[str]
    """The class of `transformers` that most exported folders are for."""
    spelling: ClassVar[str] = "transformers"
    """The library whose names the weights have."""
    model: ClassVar[type]
    """The config of ours that it becomes."""
    prefix: ClassVar[str] = ""
    """What stands before most names, and is missing where only the body of a model was saved."""
    constant: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Fields of config.json whose other values are not understood."""
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Fields of config.json that change no number of the model."""
    sides: ClassVar[bool] = False
    """Whether what is written has a tokenizer of its own."""
    doubt: ClassVar[str] = "its config.json is another model's"
    """What may be wrong where the weights do not fit."""
    idle: ClassVar[str | None] = None
    """Names, as a regular expression, of tensors that the model computes by itself."""

    @staticmethod
    @abstractmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Return the settings of Regard's model, from config.json and the names of the tensors."""

    @staticmethod
    @abstractmethod
    def fields(shape: Any) -> dict[str, Any]:
        """Return the fields of config.json for a Regard model, as far as this family can express it."""

    @staticmethod
    @abstractmethod
    def links(shape: Any) -> list[Link]:
        """Return the table of names for a model of this shape, in both directions."""

    @classmethod
    def tied_weights(cls, shape: Any) -> Mapping[str, str]:
        """Return the names of tensors that may repeat another tensor, with the name of that tensor."""
        return {}

    @staticmethod
    def modern(name: str) -> str:
        """Return the current name of a tensor that may have an old one."""
        return name

    @classmethod
    def architecture_name(cls, shape: Any) -> str:
        """Return the name of the `transformers` class for a model of this shape."""
        return cls.architecture

    @classmethod
    def build_config(cls, fields: Fields, names: Collection[str] = ()) -> Any:
        """Return the config of Regard's model; a field that is not understood is an error."""
        fields.constant({**CONSTANT, **cls.constant})
        settings = cls.shape(fields, names)
        fields.rest(HARMLESS | cls.harmless)
        try:
            return config.build(cls.model, settings)
        except ValueError as error:
            raise ValueError(f"{fields.place}: {error}") from None

    @classmethod
    def normalise_names(cls, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors under their current full names, without those that the model computes by itself."""
        renamed: dict[str, Tensor] = {}
        bare = not any(cls.modern(name).startswith(cls.prefix) for name in tensors)
        for name, tensor in tensors.items():
            full = cls.modern(name)
            full = cls.prefix + full if bare and not cls.head(full) else full
            if cls.idle and re.fullmatch(cls.idle, full):
                continue
            if full in renamed:
                raise ValueError(f"{quote_name(full)} is in the weights twice, under an old and a new name")
            renamed[full] = tensor
        return renamed

    @staticmethod
    def head(name: str) -> bool:
        """Return True if a name belongs to a head, which never has the prefix."""
        return name.startswith("lm_head.")

    @classmethod
    def import_tensors(cls, shape: Any, their_tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert external tensors with full names to Regard's, for a model of this shape."""
        return links.ours(cls.links(shape), their_tensors, blank(shape), cls.tied_weights(shape), cls.doubt)

    @classmethod
    def export_tensors(cls, shape: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert Regard's tensors to external ones."""
        return links.theirs(cls.links(shape), tensors)

    @classmethod
    def unsupported_reason(cls, shape: Any) -> str | None:
        """Return why this family cannot hold a model, the first setting that a round trip would change, or None."""
        try:
            back = cls.build_config(Fields(cls.fields(shape)), [link.theirs for link in cls.links(shape)])
        except ValueError as error:
            return str(error)
        for name, value in inference_settings(shape).items():
            if value != (other := inference_settings(back)[name]):
                return f"{name} is {value} and would be {other}"
        return None


def blank(shape: Any) -> dict[str, Tensor]:
    """Return the weights of a model of this shape by name, without allocating memory."""
    with Unfilled():
        return weights(models.MODELS[shape.name][0](shape))


def inference_settings(shape: Any) -> dict[str, Any]:
    """Return the settings that affect a model in use, without dropout, in a canonical form."""
    training = ("dropout", "stochastic_depth")
    settings = {name: value for name, value in dataclasses.asdict(shape).items() if not name.endswith(training)}
    return {**settings, "groups": None} if settings.get("groups") == settings.get("heads") else settings
