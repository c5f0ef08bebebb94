"""Image preprocessing settings of other libraries: preprocessor_config.json and timm's pretrained_cfg."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config.words import as_json
from regard.interop.fields import Fields, quote_name
from regard.interop.folder import LARGEST, is_there, read_json_object

PREPROCESSOR = "preprocessor_config.json"
RESAMPLE = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
"""Pillow's numbers, by which preprocessor_config.json names ways to interpolate."""
USUAL = "bilinear"  # the default of ViTImageProcessor
WIDEST = 4  # largest ratio of the resized image to the model's image size before a centre crop
CONSTANT: Mapping[str, tuple[Any, ...]] = {
    "do_resize": (True, None),
    "do_rescale": (True, None),
    "do_pad": (False, None),
    "do_flip_channel_order": (False, None),
    "do_reduce_labels": (False, None),
    "crop_pct": (None,),
    "pad_size": (None,),
    "size_divisor": (None,),
}
"""Fields that would change pixels if they had another value than these."""
HARMLESS = (
    "image_processor_type", "feature_extractor_type", "processor_class", "_processor_class", "_valid_processor_keys",
    "do_convert_rgb", "default_to_square", "data_format", "input_data_format", "return_tensors", "device", "backend",
    "disable_grouping", "image_seq_length",
)  # fmt: skip
"""Fields that change no pixel: who wrote the file, how arrays lie in memory; pictures are always made RGB."""
DECISIVE = ("size", "do_center_crop", "resample", "image_mean", "image_std")
"""Fields whose defaults differ from class to class."""
CUT_FIRST = "regard_cut_first"
"""Our own field: the middle is cut out before the picture is made smaller, not after, as others do."""
MODES = ("center", "squash")


def read_preparation(folder: Path, channels: int, size: int) -> dict[str, Any]:
    """Return the image preprocessing of a Hugging Face folder, as Regard settings, for a model of this image size."""
    place = folder / PREPROCESSOR
    fields = Fields(read_json_object(place, LARGEST) if is_there(place) else {}, place)
    if fields.raw("auto_map") is not None:
        raise ValueError(f"{place}: auto_map is code of the model's own, which is never run: it cannot be read")
    _check_defaults(fields)
    fields.constant(CONSTANT)
    factor = fields.number("rescale_factor", default=1 / 255)
    if not abs(factor * 255 - 1) < 1e-6:
        raise fields.wrong("rescale_factor", factor, "1/255")
    resample = fields.whole("resample", default=None)
    if resample is not None and resample not in RESAMPLE:
        raise fields.wrong("resample", resample, f"from 0 to {max(RESAMPLE)}")
    data = {"resample": USUAL if resample is None else RESAMPLE[resample], **_fit(fields, size)}
    normalised = fields.raw("do_normalize")
    if normalised not in (True, False, None):
        raise fields.wrong("do_normalize", normalised, "true or false")
    scales = {name: fields.raw(f"image_{name}") for name in ("mean", "std")}
    fields.rest(HARMLESS)
    if normalised is False:
        return {**data, "mean": [0.0] * channels, "std": [1.0] * channels}
    for name, values in scales.items():
        data[name] = [0.5] * channels if values is None else read_scale(values, f"image_{name}", channels, place)
    return data


def _check_defaults(fields: Fields) -> None:
    """Raise ValueError if a field is missing whose default is known only for the ViT image processors."""
    kind = fields.raw("image_processor_type") or fields.raw("feature_extractor_type") or "ViTImageProcessor"
    if not isinstance(kind, str):
        raise fields.wrong("image_processor_type", kind, "a name")
    lacking = next((name for name in DECISIVE if name not in fields), None)
    if lacking and not kind.startswith("ViT"):
        raise ValueError(
            f"{fields.place}: {lacking} is missing, and what {quote_name(kind)} takes then is not known: add it"
        )


def _fit(fields: Fields, size: int) -> dict[str, Any]:
    """Return how an image is made square: squeezed, or cropped at the centre of a larger one."""
    cropped = fields.raw("do_center_crop")
    if cropped not in (True, False, None):
        raise fields.wrong("do_center_crop", cropped, "true or false")
    sides, crop = (_sides(fields, name) for name in ("size", "crop_size"))
    if not cropped:
        if sides is not None and sides != (size, size):
            raise fields.wrong("size", fields.raw("size"), f"{size} x {size} as image_size in config.json")
        return {"fit": "squeeze"}
    if crop is not None and crop != (size, size):
        raise fields.wrong("crop_size", fields.raw("crop_size"), f"{size} x {size} as image_size in config.json")
    edge = size if sides is None else sides[0]
    if sides is not None and len(sides) > 1 and isinstance(fields.raw("size"), dict):
        raise fields.wrong("size", fields.raw("size"), 'an object with "shortest_edge", where do_center_crop is true')
    if not size <= edge <= WIDEST * size:
        raise fields.wrong("size", fields.raw("size"), f"from {size} to {WIDEST * size} where the middle is cut out")
    return {"fit": "crop"} if fields.raw(CUT_FIRST) is True and edge == size else {"fit": "crop", "margin": edge / size}


def _sides(fields: Fields, name: str) -> tuple[int, ...] | None:
    """Return height and width, or the short side alone, or None if the field is missing; a number means both sides."""
    value = fields.raw(name)
    if value is None:
        return None
    if type(value) is int:
        return value, value
    numbers = value if isinstance(value, dict) else {}
    if set(numbers) == {"shortest_edge"} and type(numbers["shortest_edge"]) is int:
        return (numbers["shortest_edge"],)
    if set(numbers) == {"height", "width"} and all(type(number) is int for number in numbers.values()):
        return numbers["height"], numbers["width"]
    raise fields.wrong(name, value, 'a number, or an object with "height" and "width" or "shortest_edge"')


def read_scale(values: Any, name: str, channels: int, place: str | Path) -> list[float]:
    """Return the mean or the standard deviation of each channel; a deviation of 0 is refused, as it would give NaN."""
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise ValueError(f"{place}: {name} must be a list of numbers, not {as_json(values)}")
    if len(values) != channels:
        raise ValueError(f"{place}: {name} has {len(values)} numbers for {channels} channels")
    deviation = name.endswith("std")
    if not all(math.isfinite(value) and (value > 0 or not deviation) for value in values):
        raise ValueError(
            f"{place}: {name} must hold numbers {'above 0' if deviation else 'that are finite'}, not {as_json(values)}"
        )
    return [float(value) for value in values]


def read_timm(pretrained: Mapping[str, Any], channels: int, size: int, place: str | Path) -> dict[str, Any]:
    """Return the image preprocessing of timm's pretrained_cfg as Regard settings."""
    data: dict[str, Any] = {}
    for name in ("mean", "std"):
        if name in pretrained:
            data[name] = read_scale(pretrained[name], name, channels, place)
    mode, share = pretrained.get("crop_mode", "center"), pretrained.get("crop_pct", 1.0)
    if mode not in MODES:
        raise ValueError(f"{place}: crop_mode must be one of {', '.join(MODES)}, not {as_json(mode)}")
    if type(share) not in (int, float) or not 1 / WIDEST <= share <= 1 or (mode == "squash" and share != 1):
        allowed = "1 where crop_mode is squash" if mode == "squash" else f"from {1 / WIDEST} to 1"
        raise ValueError(f"{place}: crop_pct must be {allowed}, not {as_json(share)}")
    way = pretrained.get("interpolation", "bicubic")
    if way not in RESAMPLE.values():
        raise ValueError(f"{place}: interpolation must be one of {', '.join(RESAMPLE.values())}, not {as_json(way)}")
    if mode == "squash":
        return {**data, "fit": "squeeze", "resample": way}
    return {**data, "fit": "crop", "resample": way, "margin": math.floor(size / share) / size}


def write_preparation(size: int, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a preprocessor_config.json that prepares images as Regard does."""
    square = {"height": size, "width": size}
    edge = round(size * (data.get("margin") or 1))
    cut = {"do_center_crop": True, "crop_size": square, "size": {"shortest_edge": edge}}
    cut |= {} if data.get("margin") else {CUT_FIRST: True}
    crops = data.get("fit", "crop") == "crop"
    resample = data.get("resample") or "bicubic"
    return {
        "image_processor_type": "CLIPImageProcessor" if crops else "ViTImageProcessor",  # only CLIP's crops
        "do_resize": True,
        **(cut if crops else {"size": square}),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(data["mean"]),
        "image_std": list(data["std"]),
        "resample": next(number for number, name in RESAMPLE.items() if name == resample),
    }
