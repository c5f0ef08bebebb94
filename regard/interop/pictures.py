"""Other people's models of pictures read and written: ViT folders, and weights with torchvision's or timm's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import config
from regard.checkpoint import WEIGHTS
from regard.config.paths import real_path
from regard.config.words import as_json, shown
from regard.interop import folder as folders
from regard.interop.convolutions import FAMILIES, Nameless
from regard.interop.family import Family
from regard.interop.fields import Fields, quoted
from regard.interop.preprocessor import PREPROCESSOR, read_preparation, read_timm, write_preparation
from regard.interop.vit import Vit

SAFE = ".safetensors"
KINDS: dict[str, type[Family]] = {"vit": Vit, **{family.kind: family for family in FAMILIES}}


@dataclass(frozen=True)
class PictureModel:
    """Somebody else's model of pictures in our terms."""

    kind: str
    shape: Any
    tensors: dict[str, Tensor]
    data: dict[str, Any]
    """How pictures become pixels: mean, std, and how they are made square."""
    labels: tuple[str, ...] | None
    """Names of the classes, where somebody says them."""
    notes: tuple[str, ...]
    """What a card of the model should say of its origin."""


def meant(place: Path, kind: str | None = None) -> bool:
    """Whether a place holds a model of pictures, so far as can be told without reading its weights."""
    if kind is not None:
        return kind in KINDS
    if place.is_file():
        if _pickles(place):
            raise ValueError(_pickled(place))
        return place.suffix == SAFE
    if not place.is_dir():
        return False
    if folders.is_there(place / folders.CONFIG):
        found = folders.settings(place)
        return found.get("model_type") == "vit" or _timm(found)
    return bool(_weights(place)) or _only_pickled(place)


def read(place: Path, kind: str | None = None) -> PictureModel:
    """The model in a folder, or in a file of safetensors."""
    folder = place if place.is_dir() else place.parent
    try:
        if place.is_dir() and folders.is_there(place / folders.CONFIG):
            found = folders.settings(place)
            return _timms(place, found) if _timm(found) else _vit(place, found, kind)
        return _nameless(place, kind)
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(folder)) else f"{place}: {error}") from None


def written(
    shape: Any, tensors: Mapping[str, Tensor], data: Mapping[str, Any], labels: Sequence[str]
) -> dict[str, Any]:
    """The files of a folder with a model of ours, in the words of others: config.json for a ViT, names for all."""
    family = next((each for each in KINDS.values() if isinstance(shape, each.model)), None)
    if family is None:
        raise ValueError(f"a model of kind {shape.name} cannot be written for others")
    if (reason := family.lacking(shape)) is not None:
        raise ValueError(f"a model of kind {shape.name} cannot be written for others: {family.kind} {reason}")
    theirs = family.given(shape, tensors)
    if issubclass(family, Nameless):
        return {folders.CONFIG: _as_timm(family, shape, data, labels), WEIGHTS: theirs}
    named = dict(enumerate(labels)) if shape.classes else {}
    told = {"id2label": named, "label2id": {name: number for number, name in named.items()}}
    fields = {**family.fields(shape), **(told if named else {})}
    return {
        folders.CONFIG: {"architectures": [family.called(shape)], "model_type": family.kind, **fields},
        WEIGHTS: theirs,
        PREPROCESSOR: write_preparation(shape.size, data),
    }


def _vit(folder: Path, found: Mapping[str, Any], kind: str | None) -> PictureModel:
    """A folder of Hugging Face's."""
    if kind not in (None, "vit"):
        raise ValueError(
            f"config.json has model_type {shown(found.get('model_type'))}, not {shown(kind)}: leave out --type"
        )
    named = Vit.named(folders.tensors(folder))
    shape = Vit.understood(Fields(found, folders.CONFIG), named)
    tensors = Vit.taken(shape, named)
    origin = f"Imported from `{real_path(folder).name}`, a folder of Hugging Face's of type vit."
    labels = _labels(found) if shape.classes else None
    return PictureModel("vit", shape, tensors, read_preparation(folder, shape.channels, shape.size), labels, (origin,))


def _timms(folder: Path, found: Mapping[str, Any]) -> PictureModel:
    """A folder of timm's, whose config.json says how pictures are normalised and what the classes are called."""
    told, named = found.get("pretrained_cfg"), found.get("label_names")
    told = told if isinstance(told, dict) else {}
    model = _nameless(folder, None)
    labels = tuple(map(str, named)) if isinstance(named, list) and len(named) == model.shape.classes else None
    own = config.plain(model.shape)
    if "input_size" in told:
        own["size"] = _side(told["input_size"], own["channels"])
    data = read_timm(told, own["channels"], own["size"], folders.CONFIG)
    return replace(model, shape=config.build(type(model.shape), own), data={**model.data, **data}, labels=labels)


def _side(size: Any, channels: int) -> int:
    """The side of the square pictures that timm's config.json speaks of."""
    if not isinstance(size, list) or len(size) != 3 or size[0] != channels or size[1] != size[2] or not size[1]:
        raise ValueError(f"{folders.CONFIG}: input_size must be [{channels}, side, side], not {as_json(size)}")
    return size[1]


def _as_timm(family: type[Family], shape: Any, data: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """config.json as timm writes it, for weights that do not say how pictures are prepared or what classes are called.

    The architecture is the published one of these sizes, if there is one.
    """
    presets = {name: vars(type(shape)(**sizes)) for name, sizes in shape.PRESETS.items()}
    fixed = [name for name in vars(shape) if name not in ("size", "classes", "channels", "dropout")]
    published = (name for name, sizes in presets.items() if all(sizes[each] == getattr(shape, each) for each in fixed))
    scales = {name: list(data[name]) for name in ("mean", "std") if name in data}
    share = shape.size / round(shape.size * (data.get("margin") or 1))
    seen = {"input_size": [shape.channels, shape.size, shape.size], "crop_pct": share}
    mode = {"crop_mode": "squash" if data.get("fit") == "squeeze" else "center"}
    return {
        "architecture": next(published, family.kind).replace("efficientnet-", "tf_efficientnet_"),
        "num_classes": shape.classes,
        **({"label_names": list(labels)} if shape.classes and labels else {}),
        "pretrained_cfg": {**seen, **mode, "interpolation": data.get("resample") or "bicubic", **scales},
    }


def _nameless(place: Path, kind: str | None) -> PictureModel:
    """Weights alone."""
    if place.is_dir():
        files = _weights(place)
        if len(files) != 1:
            raise ValueError(
                folders.weightless(place, WEIGHTS) if not files else f"{len(files)} files of weights: name one"
            )
        place = files[0]
    tensors = folders.tensors(place.parent, place.name)
    named = {family: family.named(tensors) for family in FAMILIES if kind in (None, family.kind)}
    family = next((family for family, names in named.items() if family.mark in names), None)
    if family is None:
        known = ", ".join(f"{each.kind} as {each.spelling} names it ({each.mark})" for each in FAMILIES)
        first = quoted(next(iter(sorted(tensors)), "nothing"))
        raise ValueError(f"the weights ({first}, ...) are of no model that is known without a config.json: {known}")
    shape = family.understood(Fields({}), named[family])
    ours = family.taken(shape, named[family])
    origin = f"Imported from `{place.name}`, weights with the names of {family.spelling}."
    scales = {
        name: values[:1] * shape.channels if shape.channels != 3 else values for name, values in family.scales.items()
    }
    data = {**{name: list(values) for name, values in scales.items()}, "fit": "crop"}
    return PictureModel(family.kind, shape, ours, data, None, (origin,))


def _weights(folder: Path) -> list[Path]:
    """The files of weights in a folder: the one that is called so, or all there are."""
    own = folder / WEIGHTS
    return [own] if folders.is_there(own) else sorted(folder.glob(f"*{SAFE}"))


def _timm(found: Mapping[str, Any]) -> bool:
    return "model_type" not in found and isinstance(found.get("architecture"), str)


def _only_pickled(folder: Path) -> bool:
    """Whether a folder without config.json has pickled weights of somebody's, which are refused by name."""
    return any(map(_pickles, folder.iterdir()))


def _pickles(path: Path) -> bool:
    """Whether a file is pickled, by its name; .bin alone may be a model of llama2.c's."""
    return path.suffix in (".pt", ".pth", ".ckpt", ".pkl") or path.name == "pytorch_model.bin"


def _pickled(place: Path) -> str:
    made = (
        place.with_name("model.safetensors") if place.name == "pytorch_model.bin" else place.with_suffix(".safetensors")
    )
    return f"{place}: is pickled, and a pickle can run code: convert it first with {folders.conversion(place, made)}"


def _labels(found: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The names that a config.json has, in their order."""
    named = found.get("id2label")
    if not isinstance(named, dict) or set(named) != {str(number) for number in range(len(named))}:
        return None
    return tuple(str(named[str(number)]) for number in range(len(named)))
