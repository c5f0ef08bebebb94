"""Import and export of image models: ViT folders, and weights with torchvision's or timm's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import config
from regard.checkpoint import WEIGHTS
from regard.config.paths import real_path
from regard.config.words import as_json, quote
from regard.interop import folder as folders
from regard.interop.convolutions import FAMILIES, WeightsOnlyFamily
from regard.interop.family import Family
from regard.interop.fields import Fields, quote_name
from regard.interop.preprocessor import PREPROCESSOR, read_preparation, read_timm, write_preparation
from regard.interop.vit import Vit

SAFE = ".safetensors"
KINDS: dict[str, type[Family]] = {"vit": Vit, **{family.kind: family for family in FAMILIES}}


@dataclass(frozen=True)
class PictureModel:
    """An image model of another library, converted to Regard's config and tensors."""

    kind: str
    shape: Any
    tensors: dict[str, Tensor]
    data: dict[str, Any]
    """How pictures become pixels: mean, std, and how they are made square."""
    labels: tuple[str, ...] | None
    """Names of the classes, where somebody says them."""
    notes: tuple[str, ...]
    """What a card of the model should say of its origin."""


def is_picture_model(place: Path, kind: str | None = None) -> bool:
    """Return True if a path looks like an image model, judged without reading its weights."""
    if kind is not None:
        return kind in KINDS
    if place.is_file():
        if _is_pickle(place):
            raise ValueError(_explain_pickle(place))
        return place.suffix == SAFE
    if not place.is_dir():
        return False
    if folders.is_there(place / folders.CONFIG):
        settings = folders.read_config(place)
        return settings.get("model_type") == "vit" or _is_timm(settings)
    return bool(_weight_files(place)) or _has_pickles(place)


def read(place: Path, kind: str | None = None) -> PictureModel:
    """Read an image model from a folder or a safetensors file."""
    folder = place if place.is_dir() else place.parent
    try:
        if place.is_dir() and folders.is_there(place / folders.CONFIG):
            settings = folders.read_config(place)
            return _read_timm(place, settings) if _is_timm(settings) else _read_vit(place, settings, kind)
        return _read_weights_only(place, kind)
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(folder)) else f"{place}: {error}") from None


def model_files(
    shape: Any, tensors: Mapping[str, Tensor], data: Mapping[str, Any], labels: Sequence[str]
) -> dict[str, Any]:
    """Return the files of an exported image model: config.json and weights."""
    family = next((candidate for candidate in KINDS.values() if isinstance(shape, candidate.model)), None)
    if family is None:
        raise ValueError(f"a model of kind {shape.name} cannot be written for others")
    if (reason := family.unsupported_reason(shape)) is not None:
        raise ValueError(f"a model of kind {shape.name} cannot be written for others: {family.kind} {reason}")
    theirs = family.export_tensors(shape, tensors)
    if issubclass(family, WeightsOnlyFamily):
        return {folders.CONFIG: _timm_config(family, shape, data, labels), WEIGHTS: theirs}
    label_names = dict(enumerate(labels)) if shape.classes else {}
    label_maps = {"id2label": label_names, "label2id": {name: number for number, name in label_names.items()}}
    fields = {**family.fields(shape), **(label_maps if label_names else {})}
    return {
        folders.CONFIG: {"architectures": [family.architecture_name(shape)], "model_type": family.kind, **fields},
        WEIGHTS: theirs,
        PREPROCESSOR: write_preparation(shape.size, data),
    }


def _read_vit(folder: Path, settings: Mapping[str, Any], kind: str | None) -> PictureModel:
    """Read a ViT from a Hugging Face folder."""
    if kind not in (None, "vit"):
        raise ValueError(
            f"config.json has model_type {quote(settings.get('model_type'))}, not {quote(kind)}: leave out --type"
        )
    their_tensors = Vit.normalise_names(folders.read_tensors(folder))
    shape = Vit.build_config(Fields(settings, folders.CONFIG), their_tensors)
    tensors = Vit.import_tensors(shape, their_tensors)
    origin = f"Imported from `{real_path(folder).name}`, a folder of Hugging Face's of type vit."
    labels = _labels(settings) if shape.classes else None
    return PictureModel("vit", shape, tensors, read_preparation(folder, shape.channels, shape.size), labels, (origin,))


def _read_timm(folder: Path, settings: Mapping[str, Any]) -> PictureModel:
    """Read a timm folder, whose config.json has the normalisation of images and the names of the classes."""
    pretrained, label_names = settings.get("pretrained_cfg"), settings.get("label_names")
    pretrained = pretrained if isinstance(pretrained, dict) else {}
    model = _read_weights_only(folder, None)
    labels = (
        tuple(map(str, label_names))
        if isinstance(label_names, list) and len(label_names) == model.shape.classes
        else None
    )
    shape_settings = config.plain(model.shape)
    if "input_size" in pretrained:
        shape_settings["size"] = _side(pretrained["input_size"], shape_settings["channels"])
    data = read_timm(pretrained, shape_settings["channels"], shape_settings["size"], folders.CONFIG)
    return replace(
        model, shape=config.build(type(model.shape), shape_settings), data={**model.data, **data}, labels=labels
    )


def _side(size: Any, channels: int) -> int:
    """Return the side of the square images that timm's config.json expects."""
    if not isinstance(size, list) or len(size) != 3 or size[0] != channels or size[1] != size[2] or not size[1]:
        raise ValueError(f"{folders.CONFIG}: input_size must be [{channels}, side, side], not {as_json(size)}")
    return size[1]


def _timm_config(family: type[Family], shape: Any, data: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """Return a config.json in timm's format, with the image preprocessing and the names of the classes.

    The architecture is the published one of these sizes, if there is one.
    """
    presets = {name: vars(type(shape)(**sizes)) for name, sizes in shape.PRESETS.items()}
    fixed = [name for name in vars(shape) if name not in ("size", "classes", "channels", "dropout")]
    published = (
        name for name, sizes in presets.items() if all(sizes[setting] == getattr(shape, setting) for setting in fixed)
    )
    scales = {name: list(data[name]) for name in ("mean", "std") if name in data}
    share = shape.size / round(shape.size * (data.get("margin") or 1))
    geometry = {"input_size": [shape.channels, shape.size, shape.size], "crop_pct": share}
    mode = {"crop_mode": "squash" if data.get("fit") == "squeeze" else "center"}
    return {
        "architecture": next(published, family.kind).replace("efficientnet-", "tf_efficientnet_"),
        "num_classes": shape.classes,
        **({"label_names": list(labels)} if shape.classes and labels else {}),
        "pretrained_cfg": {**geometry, **mode, "interpolation": data.get("resample") or "bicubic", **scales},
    }


def _read_weights_only(place: Path, kind: str | None) -> PictureModel:
    """Read a model from weights without a config.json."""
    if place.is_dir():
        files = _weight_files(place)
        if len(files) != 1:
            raise ValueError(
                folders.explain_missing_weights(place, WEIGHTS)
                if not files
                else f"{len(files)} files of weights: name one"
            )
        place = files[0]
    tensors = folders.read_tensors(place.parent, place.name)
    names_by_family = {family: family.normalise_names(tensors) for family in FAMILIES if kind in (None, family.kind)}
    family = next((family for family, names in names_by_family.items() if family.mark in names), None)
    if family is None:
        known_families = ", ".join(
            f"{candidate.kind} as {candidate.spelling} names it ({candidate.mark})" for candidate in FAMILIES
        )
        first = quote_name(next(iter(sorted(tensors)), "nothing"))
        raise ValueError(
            f"the weights ({first}, ...) are of no model that is known without a config.json: {known_families}"
        )
    shape = family.build_config(Fields({}), names_by_family[family])
    ours = family.import_tensors(shape, names_by_family[family])
    origin = f"Imported from `{place.name}`, weights with the names of {family.spelling}."
    scales = {
        name: values[:1] * shape.channels if shape.channels != 3 else values for name, values in family.scales.items()
    }
    data = {**{name: list(values) for name, values in scales.items()}, "fit": "crop"}
    return PictureModel(family.kind, shape, ours, data, None, (origin,))


def _weight_files(folder: Path) -> list[Path]:
    """Return the weight files of a folder: model.safetensors if it is there, all safetensors otherwise."""
    default_file = folder / WEIGHTS
    return [default_file] if folders.is_there(default_file) else sorted(folder.glob(f"*{SAFE}"))


def _is_timm(settings: Mapping[str, Any]) -> bool:
    return "model_type" not in settings and isinstance(settings.get("architecture"), str)


def _has_pickles(folder: Path) -> bool:
    """Return True if a folder without config.json has pickled weights, which are refused by name."""
    return any(map(_is_pickle, folder.iterdir()))


def _is_pickle(path: Path) -> bool:
    """Return True if a file is pickled, judged by its name; other .bin files may be llama2.c models."""
    return path.suffix in (".pt", ".pth", ".ckpt", ".pkl") or path.name == "pytorch_model.bin"


def _explain_pickle(place: Path) -> str:
    target = (
        place.with_name("model.safetensors") if place.name == "pytorch_model.bin" else place.with_suffix(".safetensors")
    )
    return f"{place}: is pickled, and a pickle can run code: convert it first with {folders.conversion(place, target)}"


def _labels(settings: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the label names of config.json in the order of their ids, or None."""
    label_names = settings.get("id2label")
    if not isinstance(label_names, dict) or set(label_names) != {str(number) for number in range(len(label_names))}:
        return None
    return tuple(str(label_names[str(number)]) for number in range(len(label_names)))
