"""preprocessor_config.json is followed field by field: the pixels are those of `transformers`, or it is refused."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.images.album import Shape, scales_of
from regard.data.images.augmentation import Augment, AugmentConfig
from regard.data.images.decoding import decode_array, decode_picture
from regard.interop.preprocessor import RESAMPLE, read_preparation, read_timm, write_preparation

SIZE = 12
SCALES = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 1, 2]}
CROP = {"do_center_crop": True, "crop_size": {"height": SIZE, "width": SIZE}}


class Model:
    size, channels = SIZE, 3


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    place = tmp_path_factory.mktemp("photos")
    chance = np.random.default_rng(3)
    sides = ((37, 23), (23, 37), (50, 50), (12, 12), (9, 30), (16, 16))
    for number, (width, height) in enumerate(sides):
        Image.fromarray(chance.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(place / f"{number}.png")
    return sorted(place.iterdir())


def ours(data, path):
    """Return the pixels of a picture as a classifier here prepares them."""
    pixels = decode_picture(path, **Shape.of(Model, data)._asdict()).pixels
    assert np.array_equal(pixels, decode_array(np.asarray(Image.open(path)), **Shape.of(Model, data)._asdict()))
    augment = Augment(AugmentConfig(), **scales_of(data), seed=0, device=torch.device("cpu"))
    return augment.plain(torch.from_numpy(pixels)[None])[0].numpy()


def theirs(fields, path):
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    kind = CLIPImageProcessorPil if fields.get("do_center_crop") else ViTImageProcessorPil
    return np.asarray(kind(**fields)(Image.open(path), return_tensors="np")["pixel_values"][0])


@pytest.mark.parametrize("resample", RESAMPLE)
@pytest.mark.parametrize(
    "fit",
    [
        {"size": {"height": SIZE, "width": SIZE}},
        {**CROP, "size": {"shortest_edge": SIZE}},
        {**CROP, "size": {"shortest_edge": 16}},
        {**CROP, "size": {"shortest_edge": 13}, "do_normalize": False},
    ],
    ids=str,
)
def test_pixels_are_those_of_transformers(fit, resample, photos, tmp_path):
    fields = {**fit, **SCALES, "resample": resample}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(fields))
    data = read_preparation(tmp_path, 3, SIZE)
    for path in photos:
        np.testing.assert_allclose(ours(data, path), theirs(fields, path), atol=1e-6)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(write_preparation(SIZE, data)))
    assert read_preparation(tmp_path, 3, SIZE) == data


def test_what_is_not_said_is_as_the_class_of_a_vit_takes_it(photos, tmp_path):
    data = {"fit": "squeeze", "resample": "bilinear", "mean": [0.5] * 3, "std": [0.5] * 3}
    assert read_preparation(tmp_path, 3, SIZE) == data
    (tmp_path / "preprocessor_config.json").write_text("{}")
    assert read_preparation(tmp_path, 3, SIZE) == data
    for path in photos:
        np.testing.assert_allclose(ours(data, path), theirs({"size": {"height": SIZE, "width": SIZE}}, path), atol=1e-6)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"do_center_crop": True, "size": SIZE}))
    assert read_preparation(tmp_path, 3, SIZE) == {**data, "fit": "crop", "margin": 1.0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"image_mean": "x"}, "image_mean must be a list of numbers"),
        ({"image_mean": [0.5]}, "image_mean has 1 numbers for 3 channels"),
        ({"image_std": [0, 0.5, 0.5]}, r"image_std must hold numbers above 0, not \[0, 0\.5, 0\.5\]"),
        ({"image_std": [-1, 0.5, 0.5]}, "image_std must hold numbers above 0"),
        ({"image_std": [1e999, 0.5, 0.5]}, "(image_std must hold numbers above 0|Infinity is no number of JSON)"),
        ({"rescale_factor": 0.5}, r"rescale_factor must be 1/255, not 0\.5"),
        ({"do_rescale": False}, "do_rescale must be true or null, not false"),
        ({"do_resize": False}, "do_resize must be true or null, not false"),
        ({"do_normalize": 3}, "do_normalize must be true or false, not 3"),
        ({"do_pad": True}, "do_pad must be false or null, not true"),
        ({"resample": 6}, "resample must be from 0 to 5, not 6"),
        ({"resample": "bicubic"}, 'resample must be a whole number, not "bicubic"'),
        ({"size": {"height": 16, "width": 16}}, "size must be 12 x 12 as image_size"),
        ({"size": {"shortest_edge": 12}}, "size must be 12 x 12 as image_size"),
        ({"size": {"longest_edge": 12}}, 'size must be a number, or an object with "height" and "width"'),
        ({**CROP, "crop_size": 8}, "crop_size must be 12 x 12 as image_size"),
        ({**CROP, "size": {"shortest_edge": 11}}, "size must be from 12 to 48 where the middle is cut out"),
        ({**CROP, "size": {"height": 16, "width": 16}}, 'size must be an object with "shortest_edge"'),
        ({"crop_pct": 0.9}, r"crop_pct must be null, not 0\.9"),
        ({"sharpen": 1}, "sharpen is 1, a field that is not understood"),
        ({"auto_map": {"A": "b.C"}}, "auto_map is code of the model's own"),
        ({"image_processor_type": "DeiTImageProcessor"}, "size is missing, and what DeiTImageProcessor takes then"),
        ({"image_processor_type": 3}, "image_processor_type must be a name, not 3"),
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused_in_one_line(fields, message, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=message) as caught:
        read_preparation(tmp_path, 3, SIZE)
    assert str(caught.value).startswith(f"{tmp_path / 'preprocessor_config.json'}: ")
    assert "\n" not in str(caught.value)


def test_timm_says_how_much_of_a_picture_is_cut_out_and_how_it_is_interpolated():
    told = {"mean": [0.1, 0.2, 0.3], "std": [1, 1, 1], "crop_pct": 0.875, "interpolation": "bilinear"}
    found = read_timm(told, 3, 224, "config.json")
    assert (found["fit"], found["resample"], round(224 * found["margin"])) == ("crop", "bilinear", 256)
    assert read_timm({"crop_mode": "squash"}, 3, 224, "config.json") == {"fit": "squeeze", "resample": "bicubic"}
    for wrong, message in (
        ({"std": [0, 1, 1]}, "std must hold numbers above 0"),
        ({"crop_mode": "border"}, "crop_mode must be one of center, squash"),
        ({"crop_mode": "squash", "crop_pct": 0.9}, "crop_pct must be 1 where crop_mode is squash"),
        ({"crop_pct": 0}, "crop_pct must be from 0.25 to 1, not 0"),
        ({"interpolation": "random"}, "interpolation must be one of nearest, "),
    ):
        with pytest.raises(ValueError, match=message):
            read_timm(wrong, 3, 224, "config.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"resample": "sharp"}, r"data\.resample must be one of bicubic, .*, not 'sharp'"),
        ({"margin": 0.5}, r"data\.margin must be a number from 1 to 4, not 0\.5"),
        ({"margin": "wide"}, r"data\.margin must be a number from 1 to 4"),
    ],
)
def test_a_checkpoint_that_says_something_impossible_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        Shape.of(Model, data)


@pytest.mark.parametrize("scales", [{"std": [0, 1, 1]}, {"std": [float("nan"), 1, 1]}, {"mean": [float("inf"), 0, 0]}])
def test_scales_that_would_make_every_answer_nan_are_refused(scales):
    with pytest.raises(ValueError, match=rf"data\.{next(iter(scales))} must hold numbers that are"):
        scales_of({"mean": [0, 0, 0], "std": [1, 1, 1], **scales})
