"""VGG and ResNet with torchvision's names, EfficientNet-Lite with timm's: safetensors without a config.json."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard import config
from regard.interop.family import Family
from regard.interop.fields import Fields
from regard.interop.links import Link, identity_link
from regard.models.efficientnet import EfficientNetConfig
from regard.models.resnet import GROWTH, ResNetConfig
from regard.models.vgg import VGGConfig

NORM = ("weight", "bias", "running_mean", "running_var")
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
BYTES = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}  # (byte - 127) / 128
USUAL = 224  # pixels per side that such models are mostly trained with


class WeightsOnlyFamily(Family):
    """Models stored as weights alone, recognised by the names and shapes of their tensors."""

    scales: ClassVar[Mapping[str, tuple[float, ...]]] = IMAGENET
    """What such models expect pixels to be normalised by."""
    mark: ClassVar[str]
    """A tensor that every model of this family has and no other."""
    doubt = "the names are of another network"
    idle = r".*\.num_batches_tracked"

    @classmethod
    def build_config(cls, fields: Fields, names: Collection[str] = ()) -> Any:
        """Return the config of Regard's model, from the tensors."""
        assert isinstance(names, Mapping)
        return config.build(cls.model, cls.sizes(names))

    @classmethod
    def sizes(cls, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return the settings of Regard's model, from the shapes of the tensors."""
        raise NotImplementedError

    @staticmethod
    def shape(fields: Fields, names: Collection[str]) -> dict[str, Any]:
        """Raise NotImplementedError, as there is no config.json to read."""
        raise NotImplementedError

    @staticmethod
    def fields(shape: Any) -> dict[str, Any]:
        """Return no fields, as there is no config.json to write."""
        return {}

    @classmethod
    def unsupported_reason(cls, shape: Any) -> str | None:
        """Return None, as every size can be exported."""
        return None


class Vgg(WeightsOnlyFamily):
    """VGG, whole or only its convolutions."""

    kind, architecture, model, spelling = "vgg", "vgg", VGGConfig, "torchvision"
    mark = "features.0.weight"

    @classmethod
    def sizes(cls, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return the sizes from the positions of the convolutions.

        A convolution two positions after the previous one is in the same stage; three positions after it, there is a
        pooling layer between them and a new stage begins.
        """
        convolutions = {int(n): name for name in tensors for n in re.findall(r"^features\.(\d+)\.weight$", name)}
        if odd := next((name for name in convolutions.values() if tensors[name].dim() != 4), None):
            raise ValueError(f"{odd} belongs to a norm, and only a VGG without norms can be read")
        depths: list[int] = []
        widths: list[int] = []
        for before, place in itertools.pairwise([-3, *sorted(convolutions)]):
            if place - before == 2:
                depths[-1] += 1
            else:
                depths.append(1)
                widths.append(len(tensors[convolutions[place]]))
        hidden = len(tensors["classifier.0.weight"]) if "classifier.0.weight" in tensors else 0
        head = "classifier.6.weight" if hidden else "classifier.weight"
        channels = tensors[convolutions[min(convolutions)]].shape[1]
        shape = {"channels": channels, "size": USUAL, "depths": depths, "widths": widths, "hidden": hidden}
        return {**shape, "classes": len(tensors[head]) if head in tensors else 0}

    @staticmethod
    def links(shape: VGGConfig) -> list[Link]:
        """Return the table of names; convolutions are numbered together with activations and pooling layers."""
        names, place = {}, 0
        for stage, depth in enumerate(shape.depths):
            for number in range(depth):
                names[f"features.{place}"] = f"stages.{stage}.{number}"
                place += 2
            place += 1
        if shape.hidden:
            names |= {"classifier.0": "hidden.0", "classifier.3": "hidden.1"}
        names |= {"classifier.6" if shape.hidden else "classifier": "head"} if shape.classes else {}
        return [identity_link(f"{a}.{part}", f"{b}.{part}") for a, b in names.items() for part in ("weight", "bias")]


class Resnet(WeightsOnlyFamily):
    """ResNet with basic or bottleneck blocks."""

    kind, architecture, model, spelling = "resnet", "resnet", ResNetConfig, "torchvision"
    mark = "layer1.0.conv1.weight"

    @classmethod
    def sizes(cls, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return the sizes: depths from the block numbers, widths from the first convolution of each stage."""
        blocks = {tuple(map(int, key)) for name in tensors for key in re.findall(r"^layer(\d+)\.(\d+)\.", name)}
        stages = sorted({stage for stage, _ in blocks})
        widths = [len(_require_tensor(tensors, f"layer{stage}.0.conv1.weight")) for stage in stages]
        first = _require_tensor(tensors, "conv1.weight")
        shape = {
            "channels": first.shape[1],
            "size": USUAL,
            "stem": "large" if first.shape[-1] == 7 else "small",
            "block": "bottleneck" if "layer1.0.conv3.weight" in tensors else "basic",
            "depths": [len([number for stage, number in blocks if stage == key]) for key in stages],
            "widths": widths,
        }
        return {**shape, "classes": len(tensors["fc.weight"]) if "fc.weight" in tensors else 0}

    @staticmethod
    def links(shape: ResNetConfig) -> list[Link]:
        """Return the table of names, by stage and block."""
        name_links = _convolution_links("conv1", "bn1", "stem")
        inside = 3 if shape.block == "bottleneck" else 2
        before = shape.widths[0]
        for stage, (depth, width) in enumerate(zip(shape.depths, shape.widths, strict=True)):
            for number in range(depth):
                theirs, ours = f"layer{stage + 1}.{number}", f"stages.{stage}.{number}"
                for n in range(inside):
                    name_links += _convolution_links(
                        f"{theirs}.conv{n + 1}", f"{theirs}.bn{n + 1}", f"{ours}.layers.{n}"
                    )
                after = width * GROWTH[shape.block]
                if (stage and not number) or before != after:
                    name_links += _convolution_links(
                        f"{theirs}.downsample.0", f"{theirs}.downsample.1", f"{ours}.shortcut"
                    )
                before = after
        return [
            *name_links,
            *([identity_link(f"fc.{part}", f"head.{part}") for part in ("weight", "bias")] if shape.classes else []),
        ]


class EfficientNetLite(WeightsOnlyFamily):
    """EfficientNet-Lite 0 to 4, as trained in TensorFlow."""

    kind, architecture, model, spelling = "efficientnet", "efficientnet", EfficientNetConfig, "timm"
    mark, scales = "conv_stem.weight", BYTES

    @classmethod
    def sizes(cls, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return the settings of the published size with the same number of blocks and features."""
        if odd := next((name for name in tensors if ".se." in name), None):
            raise ValueError(f"{odd} belongs to squeeze and excitation, which an EfficientNet-Lite has not")
        stem, classes = tensors[cls.mark], len(tensors["classifier.weight"]) if "classifier.weight" in tensors else 0
        for preset in EfficientNetConfig.PRESETS.values():
            shape = {**preset, "classes": classes, "channels": stem.shape[1]}
            names = {name: tensor.shape for name, tensor in tensors.items() if name.endswith("bn1.weight")}
            if names == _first_norm_shapes(shape):
                return shape
        preset_names = ", ".join(EfficientNetConfig.PRESETS)
        raise ValueError(f"the weights have the sizes of none of {preset_names}")

    @staticmethod
    def links(shape: EfficientNetConfig) -> list[Link]:
        """Return the table of names, by stage and block; the first block has no expansion layer."""
        name_links = _convolution_links("conv_stem", "bn1", "stem")
        for stage, blocks in enumerate(shape.stages):
            for number, (inputs, inside, *_) in enumerate(blocks):
                names = ["conv_dw", "conv_pw"] if inputs == inside else ["conv_pw", "conv_dw", "conv_pwl"]
                at = f"{stage}.{number}"
                for n, name in enumerate(names):
                    name_links += _convolution_links(
                        f"blocks.{at}.{name}", f"blocks.{at}.bn{n + 1}", f"stages.{at}.layers.{n}"
                    )
        head = (
            [identity_link(f"classifier.{part}", f"head.{part}") for part in ("weight", "bias")]
            if shape.classes
            else []
        )
        return [*name_links, *_convolution_links("conv_head", "bn2", "last"), *head]


FAMILIES: tuple[type[WeightsOnlyFamily], ...] = (Resnet, EfficientNetLite, Vgg)


def _first_norm_shapes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shape of the first norm of every block, by name."""
    from regard.interop.family import blank

    shape = config.build(EfficientNetConfig, settings)
    mine = blank(shape)
    shapes = {link.theirs: mine[link.ours[0]].shape for link in EfficientNetLite.links(shape)}
    return {name: norm_shape for name, norm_shape in shapes.items() if name.endswith("bn1.weight")}


def _convolution_links(convolution: str, norm: str, ours: str) -> list[Link]:
    """Link a convolution and the norm after it."""
    both = [identity_link(f"{norm}.{part}", f"{ours}.norm.{part}") for part in NORM]
    return [identity_link(f"{convolution}.weight", f"{ours}.convolution.weight"), *both]


def _require_tensor(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """Return a tensor, or raise ValueError if it is missing."""
    if name not in tensors:
        raise ValueError(f"{name} is missing from the weights")
    return tensors[name]
