"""Compositions of the attention core: one file, one model; this literal dict is the whole registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from regard import config
from regard.config.words import nearest
from regard.models.weights import Unfilled, adopt

Pair = tuple[Any, Any]  # the class of a model, and that of its config


class Models(Mapping[str, Pair]):
    """Every model by its one name: file, class and config; the file is imported when somebody asks for it."""

    def __init__(self, where: Mapping[str, tuple[str, str, str]]) -> None:
        self._where = where

    def __getitem__(self, name: str) -> Pair:
        file, model, shape = self._where[name]
        module = import_module(f"regard.models.{file}")
        return getattr(module, model), getattr(module, shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


MODELS = Models(
    {
        "transformer": ("transformer", "Transformer", "TransformerConfig"),
        "seq2seq": ("seq2seq", "Seq2Seq", "Seq2SeqConfig"),
        "rnn-lm": ("lstm", "RecurrentLM", "RecurrentLMConfig"),
        "rnn-encoder": ("text_classifier", "Labeller", "RecurrentEncoderConfig"),
        "cnn-encoder": ("text_classifier", "Labeller", "ConvolutionEncoderConfig"),
        "transformer-encoder": ("text_classifier", "Labeller", "TransformerEncoderConfig"),
        "perceptron": ("perceptron", "Perceptron", "PerceptronConfig"),
        "class-and-box": ("detector", "ClassAndBox", "LocatorConfig"),
        "count-per-frame": ("detector", "CountPerFrame", "CounterConfig"),
        "word2vec": ("word2vec", "Word2Vec", "Word2VecConfig"),
    }
)

RENAMED: dict[tuple[str, str | None], str] = {
    ("translation", "recurrent"): "seq2seq",
    ("language", "recurrent-language"): "rnn-lm",
    ("language", None): "rnn-lm",
    **{(task, "recurrent"): "rnn-encoder" for task in ("classification", "tagging")},
    **{(task, "convolution"): "cnn-encoder" for task in ("classification", "tagging")},
    **{(task, "transformer"): "transformer-encoder" for task in ("classification", "tagging")},
    ("regression", None): "perceptron",
    ("localisation", None): "class-and-box",
    ("counting", None): "count-per-frame",
    ("word2vec", None): "word2vec",
}
"""What a model is called now, by its task and the name that settings of version 0.1 have for it, if they have one."""


def modern(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a checkpoint or a run, whichever version wrote them, with the model's name of today."""
    task, model = settings.get("task", "translation"), settings.get("model")
    if not isinstance(task, str) or not isinstance(model, Mapping):
        return dict(settings)
    old = model.get("name")
    new = RENAMED.get((task, old)) if old is None or isinstance(old, str) else None
    return {**settings, "model": {**model, "name": new}} if new else dict(settings)


def config_of(settings: Mapping[str, Any]) -> Any:
    """The checked config that a model's settings stand for, which say by `name` whose they are."""
    name = settings.get("name")
    if not isinstance(name, str) or name not in MODELS:
        raise ValueError(f"unknown model {name!r}{nearest(str(name), MODELS)}")
    return config.build(MODELS[name][1], settings, where="model")


def build(shape: Any) -> nn.Module:
    """The model that a config describes, with weights drawn at random."""
    return MODELS[shape.name][0](shape)


def revive(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device | str = "cpu") -> nn.Module:
    """The model with these settings and weights, ready to use; weights that do not fit are named.

    None is drawn at random first. On a CPU weights stay where they are, which for a checkpoint is its mapped file.
    """
    shape = config_of(settings)
    kind = MODELS[shape.name][0]
    if hasattr(kind, "sized"):
        shape = kind.sized(shape, tensors)
    try:
        with Unfilled():
            model = kind(shape)
    except (MemoryError, OverflowError, RuntimeError) as error:
        raise ValueError(f"no model of these sizes can be built: {' '.join(str(error).split())}") from None
    adopt(model, _lasting(model, tensors), device=device)
    return model.to(device).eval()


def _lasting(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that matter in use, and blank ones for what only training needs (a model's `transient` tensors)."""
    passing = getattr(model, "transient", ())
    state = model.state_dict()
    blank = {name: torch.zeros(state[name].shape, dtype=state[name].dtype) for name in passing if name in state}
    return {**{name: tensor for name, tensor in tensors.items() if name not in passing}, **blank}
