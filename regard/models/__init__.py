"""The models, one per file, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard import config
from regard.config.registry import Registry
from regard.config.words import suggest_name
from regard.models.interface import Model, traits_of
from regard.models.parts.lora import merge_lora
from regard.models.weights import Unfilled, adopt

Pair = tuple[Any, Any]  # the class of a model, and that of its config


MODELS: Mapping[str, Pair] = Registry(
    {
        "transformer": "regard.models.transformer:Transformer,TransformerConfig",
        "seq2seq": "regard.models.seq2seq:Seq2Seq,Seq2SeqConfig",
        "rnn-lm": "regard.models.rnn_lm:RecurrentLM,RecurrentLMConfig",
        "gpt": "regard.models.gpt:GPT,GPTConfig",
        "bert": "regard.models.bert:BERT,BERTConfig",
        "t5": "regard.models.t5:T5,T5Config",
        "rnn-encoder": "regard.models.text_classifier:Labeller,RecurrentEncoderConfig",
        "cnn-encoder": "regard.models.text_classifier:Labeller,ConvolutionEncoderConfig",
        "transformer-encoder": "regard.models.text_classifier:Labeller,TransformerEncoderConfig",
        "bert-encoder": "regard.models.encoder_with_head:BodyReader,BERTEncoderConfig",
        "gpt-encoder": "regard.models.encoder_with_head:BodyReader,GPTEncoderConfig",
        "linear": "regard.models.linear:LinearText,LinearConfig",
        "perceptron": "regard.models.perceptron:Perceptron,PerceptronConfig",
        "gat": "regard.models.gat:GAT,GATConfig",
        "class-and-box": "regard.models.detector:ClassAndBox,LocatorConfig",
        "count-per-frame": "regard.models.detector:CountPerFrame,CounterConfig",
        "vit": "regard.models.vit:ViT,ViTConfig",
        "resnet": "regard.models.resnet:ResNet,ResNetConfig",
        "vgg": "regard.models.vgg:VGG,VGGConfig",
        "efficientnet": "regard.models.efficientnet:EfficientNet,EfficientNetConfig",
        "spatial-transformer": "regard.models.spatial_transformer:SpatialTransformer,SpatialTransformerConfig",
        "captioner": "regard.models.captioner:Captioner,CaptionerConfig",
        "transformer-captioner": "regard.models.captioner:TransformerCaptioner,TransformerCaptionerConfig",
        "image-gpt": "regard.models.gpt:GPT,ImageGPTConfig",
        "axial": "regard.models.axial:Axial,AxialConfig",
        "sagan": "regard.models.sagan:SAGAN,SAGANConfig",
        "ntm": "regard.models.ntm:NTM,NTMConfig",
        "rnn-per-step": "regard.models.per_step:RecurrentPerStep,PerStepConfig",
        "word2vec": "regard.models.word2vec:Word2Vec,Word2VecConfig",
        "moma": "regard.models.omics:MOMA,MOMAConfig",
        "deeprog": "regard.models.omics:DeePROG,DeePROGConfig",
    }
)
"""All models with their configs, by name; the module of a model is imported on access."""

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
"""Present names of models, by task and the name in settings of version 0.1, if there is one."""


def modernise_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a checkpoint or a run, written by any version, under their present names."""
    settings = config.rename_former_in_checkpoint(settings)
    task, model = settings.get("task", "translation"), settings.get("model")
    if not isinstance(task, str) or not isinstance(model, Mapping):
        return dict(settings)
    old = model.get("name")
    new = RENAMED.get((task, old)) if old is None or isinstance(old, str) else None
    return {**settings, "model": {**model, "name": new}} if new else dict(settings)


def config_of(settings: Mapping[str, Any]) -> Any:
    """Return the checked config of the model that the settings select by `name`."""
    name = settings.get("name")
    if not isinstance(name, str) or name not in MODELS:
        raise ValueError(f"unknown model {name!r}{suggest_name(str(name), MODELS)}")
    return config.build(MODELS[name][1], settings, where="model")


def build(shape: Any) -> nn.Module:
    """Build the model of a config, with random weights."""
    return MODELS[shape.name][0](shape) if shape.name in MODELS else shape.build()


def revive(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device | str = "cpu") -> nn.Module:
    """Return the model with these settings and weights, ready to use; weights that do not fit are named in an error.

    No weights are drawn at random first. On a CPU weights are not copied, and those of a checkpoint stay memory-mapped.
    """
    shape, tensors = config_of(settings), merge_lora(tensors)
    kind = MODELS[shape.name][0]
    if issubclass(kind, Model):
        shape = kind.read_sizes(shape, tensors)
    try:
        with Unfilled():
            model = kind(shape)
    except (MemoryError, OverflowError, RuntimeError) as error:
        raise ValueError(f"no model of these sizes can be built: {' '.join(str(error).split())}") from None
    adopt(model, _fill_transient(model, tensors), device=device)
    return model.to(device).eval()


def _fill_transient(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights without the model's transient tensors, which only training needs and which are set to zero."""
    passing = traits_of(model).transient
    state = model.state_dict()
    blank = {name: torch.zeros(state[name].shape, dtype=state[name].dtype) for name in passing if name in state}
    return {**{name: tensor for name, tensor in tensors.items() if name not in passing}, **blank}
