"""Compositions of the attention core: one file, one model; this literal dict is the whole registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard import config
from regard.config.words import nearest
from regard.models.lora import folded
from regard.models.weights import Unfilled, adopt

Pair = tuple[Any, Any]  # the class of a model, and that of its config


class Models(Mapping[str, Pair]):
    """Every model by its one name; the file of a model is imported when somebody asks for it."""

    def __init__(self, doors: Mapping[str, Callable[[], Pair]]) -> None:
        self._doors = doors

    def __getitem__(self, name: str) -> Pair:
        return self._doors[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._doors)

    def __len__(self) -> int:
        return len(self._doors)


def _transformer() -> Pair:
    from regard.models.transformer import Transformer, TransformerConfig

    return Transformer, TransformerConfig


def _seq2seq() -> Pair:
    from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig

    return Seq2Seq, Seq2SeqConfig


def _rnn_lm() -> Pair:
    from regard.models.lstm import RecurrentLM, RecurrentLMConfig

    return RecurrentLM, RecurrentLMConfig


def _gpt() -> Pair:
    from regard.models.gpt import GPT, GPTConfig

    return GPT, GPTConfig


def _image_gpt() -> Pair:
    from regard.models.gpt import GPT, ImageGPTConfig

    return GPT, ImageGPTConfig


def _axial() -> Pair:
    from regard.models.axial import Axial, AxialConfig

    return Axial, AxialConfig


def _bert() -> Pair:
    from regard.models.bert import BERT, BERTConfig

    return BERT, BERTConfig


def _t5() -> Pair:
    from regard.models.t5 import T5, T5Config

    return T5, T5Config


def _rnn_encoder() -> Pair:
    from regard.models.text_classifier import Labeller, RecurrentEncoderConfig

    return Labeller, RecurrentEncoderConfig


def _cnn_encoder() -> Pair:
    from regard.models.text_classifier import ConvolutionEncoderConfig, Labeller

    return Labeller, ConvolutionEncoderConfig


def _transformer_encoder() -> Pair:
    from regard.models.text_classifier import Labeller, TransformerEncoderConfig

    return Labeller, TransformerEncoderConfig


def _bert_encoder() -> Pair:
    from regard.models.reader import BERTEncoderConfig, BodyReader

    return BodyReader, BERTEncoderConfig


def _gpt_encoder() -> Pair:
    from regard.models.reader import BodyReader, GPTEncoderConfig

    return BodyReader, GPTEncoderConfig


def _linear() -> Pair:
    from regard.models.linear import LinearConfig, LinearText

    return LinearText, LinearConfig


def _gat() -> Pair:
    from regard.models.gat import GAT, GATConfig

    return GAT, GATConfig


def _perceptron() -> Pair:
    from regard.models.perceptron import Perceptron, PerceptronConfig

    return Perceptron, PerceptronConfig


def _class_and_box() -> Pair:
    from regard.models.detector import ClassAndBox, LocatorConfig

    return ClassAndBox, LocatorConfig


def _count_per_frame() -> Pair:
    from regard.models.detector import CounterConfig, CountPerFrame

    return CountPerFrame, CounterConfig


def _vit() -> Pair:
    from regard.models.vit import ViT, ViTConfig

    return ViT, ViTConfig


def _resnet() -> Pair:
    from regard.models.resnet import ResNet, ResNetConfig

    return ResNet, ResNetConfig


def _vgg() -> Pair:
    from regard.models.vgg import VGG, VGGConfig

    return VGG, VGGConfig


def _efficientnet() -> Pair:
    from regard.models.efficientnet import EfficientNet, EfficientNetConfig

    return EfficientNet, EfficientNetConfig


def _spatial_transformer() -> Pair:
    from regard.models.spatial_transformer import SpatialTransformer, SpatialTransformerConfig

    return SpatialTransformer, SpatialTransformerConfig


def _captioner() -> Pair:
    from regard.models.captioner import Captioner, CaptionerConfig

    return Captioner, CaptionerConfig


def _transformer_captioner() -> Pair:
    from regard.models.captioner import TransformerCaptioner, TransformerCaptionerConfig

    return TransformerCaptioner, TransformerCaptionerConfig


def _sagan() -> Pair:
    from regard.models.sagan import SAGAN, SAGANConfig

    return SAGAN, SAGANConfig


def _ntm() -> Pair:
    from regard.models.ntm import NTM, NTMConfig

    return NTM, NTMConfig


def _per_step() -> Pair:
    from regard.models.per_step import PerStepConfig, RecurrentPerStep

    return RecurrentPerStep, PerStepConfig


def _word2vec() -> Pair:
    from regard.models.word2vec import Word2Vec, Word2VecConfig

    return Word2Vec, Word2VecConfig


def _moma() -> Pair:
    from regard.models.omics import MOMA, MOMAConfig

    return MOMA, MOMAConfig


def _deeprog() -> Pair:
    from regard.models.omics import DeePROG, DeePROGConfig

    return DeePROG, DeePROGConfig


MODELS = Models(
    {
        "transformer": _transformer,
        "seq2seq": _seq2seq,
        "rnn-lm": _rnn_lm,
        "gpt": _gpt,
        "bert": _bert,
        "t5": _t5,
        "rnn-encoder": _rnn_encoder,
        "cnn-encoder": _cnn_encoder,
        "transformer-encoder": _transformer_encoder,
        "bert-encoder": _bert_encoder,
        "gpt-encoder": _gpt_encoder,
        "linear": _linear,
        "perceptron": _perceptron,
        "gat": _gat,
        "class-and-box": _class_and_box,
        "count-per-frame": _count_per_frame,
        "vit": _vit,
        "resnet": _resnet,
        "vgg": _vgg,
        "efficientnet": _efficientnet,
        "spatial-transformer": _spatial_transformer,
        "captioner": _captioner,
        "transformer-captioner": _transformer_captioner,
        "image-gpt": _image_gpt,
        "axial": _axial,
        "sagan": _sagan,
        "ntm": _ntm,
        "rnn-per-step": _per_step,
        "word2vec": _word2vec,
        "moma": _moma,
        "deeprog": _deeprog,
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
    shape, tensors = config_of(settings), folded(tensors)
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
