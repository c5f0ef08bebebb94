"""Models of pictures of others read and written: the same logits, attention and positions, the same bytes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from regard import checkpoint, models
from regard.interop import pictures
from regard.interpret.watch import watch
from regard.models.efficientnet import EfficientNetConfig
from regard.models.vgg import VGGConfig
from regard.models.vit import ViTConfig
from regard.models.weights import weights
from tests.interop.making import change

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "image_size": 12,
    "patch_size": 4,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "classifier": ("ViTForImageClassification", {**SIZES, "num_labels": 5}),
    "classifier of grey pictures": (
        "ViTForImageClassification",
        {**SIZES, "num_labels": 3, "num_channels": 1, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3},
    ),
    "body with a pooler": ("ViTModel", SIZES),
}
every = pytest.mark.parametrize("case", CASES)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def lay(folder: Path, case: str) -> Any:
    """Save a random model; the model itself, which tells where it looks."""
    import transformers

    kind, sizes = CASES[case]
    shape = transformers.ViTConfig(**sizes, attn_implementation="eager")
    made = getattr(transformers, kind)(shape).eval()
    felt(made).save_pretrained(folder)
    return made


def felt(model: Any) -> Any:
    """The model with weights that are all felt, and not so large that rounding is."""
    for name, weight in model.named_parameters():
        nn.init.normal_(weight, std=0.2) if "norm" not in name else nn.init.uniform_(weight, 0.5, 1.5)
    return model


def revived(found: pictures.PictureModel) -> Any:
    return models.revive(dataclasses.asdict(found.shape), found.tensors)


def drawn(shape: Any, size: int | None = None) -> Tensor:
    return torch.randn(3, shape.channels, size or shape.size, size or shape.size)


def answered(theirs: Any, pixels: Tensor, **how: Any) -> Any:
    """What the head there says, or the pooler, and everything else."""
    found = theirs(pixel_values=pixels, output_attentions=True, output_hidden_states=True, **how)
    return (found.logits if hasattr(found, "logits") else found.pooler_output), found


@every
@torch.no_grad()
def test_a_vit_of_theirs_says_the_same_and_looks_to_the_same_places(case, tmp_path):
    torch.manual_seed(3)
    theirs = lay(tmp_path, case)
    assert pictures.is_picture_model(tmp_path)
    found = pictures.read(tmp_path)
    ours, pixels = revived(found), drawn(found.shape)
    expected, whole = answered(theirs, pixels)
    torch.testing.assert_close(ours(pixels), expected, **CLOSE)
    with watch(ours) as seen:
        ours(pixels)
    assert len(seen) == len(whole.attentions) == 3
    for layer, attention in enumerate(whole.attentions):
        torch.testing.assert_close(torch.stack(seen[f"blocks.{layer}.attention"]), attention, **CLOSE)
    if hasattr(whole, "last_hidden_state"):
        torch.testing.assert_close(ours.regions(pixels), whole.last_hidden_state[:, 1:], **CLOSE)


@every
@pytest.mark.parametrize("size", [20, 8])
@torch.no_grad()
def test_positions_are_interpolated_as_they_do(case, size, tmp_path):
    torch.manual_seed(4)
    theirs = lay(tmp_path, case)
    found = pictures.read(tmp_path)
    shape = dataclasses.replace(found.shape, size=size)
    model = models.build(shape).eval()
    model.load_state_dict(model.resize_weights(found.tensors))
    pixels = drawn(shape)
    expected, _ = answered(theirs, pixels, interpolate_pos_encoding=True)
    torch.testing.assert_close(model(pixels), expected, **CLOSE)


@every
@torch.no_grad()
def test_a_vit_of_ours_is_loaded_there_and_comes_back_to_the_bit(case, tmp_path):
    import transformers

    torch.manual_seed(5)
    lay(tmp_path / "theirs", case)
    shape = dataclasses.replace(pictures.read(tmp_path / "theirs").shape, eps=1e-6)
    ours = felt(models.build(shape).eval())
    data = {"mean": [0.1] * shape.channels, "std": [0.2] * shape.channels, "fit": "squeeze"}
    labels = [f"kind {n}" for n in range(shape.classes)]
    checkpoint.write(tmp_path / "ours", pictures.model_files(shape, weights(ours), data, labels))
    there = getattr(transformers, CASES[case][0]).from_pretrained(tmp_path / "ours").eval()
    pixels = drawn(shape)
    torch.testing.assert_close(answered(there, pixels)[0], ours(pixels), **CLOSE)
    again = pictures.read(tmp_path / "ours")
    assert (again.shape, again.data) == (shape, {**data, "resample": "bicubic"})
    assert again.labels == (tuple(labels) or None)
    assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in weights(ours).items())
    prepared = json.loads((tmp_path / "ours" / "preprocessor_config.json").read_text())
    assert prepared["size"] == {"height": 12, "width": 12}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qkv_bias": False}, "qkv_bias must be true, not false"),
        ({"hidden_size": 32}, r"cls_token is \(1, 1, 24\) and should be \(1, 1, 32\)"),
        ({"image_size": 16}, r"position_embeddings is \(1, 10, 24\) and should be \(1, 17, 24\)"),
        ({"patch_size": 5}, "a picture of 12 pixels is no row of patches of 5"),
        ({"num_hidden_layers": 2}, r"vit\.encoder\.layer\.2\..*no place"),
        ({"hidden_act": "mish"}, "hidden_act must be one of"),
        ({"strange": 3}, "strange is 3, a field that is not understood"),
    ],
    ids=str,
)
def test_a_vit_that_does_not_fit_its_config_is_refused_in_a_line(changes, message, tmp_path):
    lay(tmp_path, "classifier")
    change(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        pictures.read(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pooling": "mean"}, "pooling is mean and would be class"),
        ({"positions": "rotary"}, "positions is rotary and would be learned"),
        ({"pooler": True}, "a pooler below the classifier"),
    ],
    ids=str,
)
def test_a_vit_that_they_have_no_class_for_is_refused(settings, reason):
    shape = ViTConfig(classes=3, size=8, patch=4, width=16, heads=2, hidden=16, depth=1, **settings)
    with pytest.raises(ValueError, match=reason):
        pictures.model_files(shape, {}, {"mean": [0.5], "std": [0.5]}, [])
    plain = ViTConfig(classes=3, size=8, patch=4, width=16, heads=2, hidden=16, depth=1, stochastic_depth=0.1)
    assert pictures.Vit.unsupported_reason(plain) is None, "what only training needs is nobody's concern"


# Weights without a config.


def convolution(inputs: int, outputs: int, side: int, groups: int = 1) -> Tensor:
    return torch.randn(outputs, inputs // groups, side, side) * 0.2


def norm(name: str, features: int) -> dict[str, Tensor]:
    """What torch keeps of a norm over the batch."""
    made = nn.BatchNorm2d(features)
    nn.init.uniform_(made.weight, 0.5, 1.5)
    nn.init.normal_(made.bias, std=0.2)
    made.running_mean.normal_()
    made.running_var.uniform_(0.5, 2)
    return {f"{name}.{key}": each.clone() for key, each in made.state_dict().items()}


def torchvision_resnet(block: str) -> dict[str, Tensor]:
    """A narrow ResNet with torchvision's names, from its own description."""
    state = {"conv1.weight": convolution(3, 4, 7), **norm("bn1", 4)}
    before = 4
    for stage, width in enumerate((4, 6), 1):
        after = width * (4 if block == "bottleneck" else 1)
        for number in range(2):
            at = f"layer{stage}.{number}"
            sides = (1, 3, 1) if block == "bottleneck" else (3, 3)
            sizes = (before, width, width, after) if block == "bottleneck" else (before, width, after)
            for n, side in enumerate(sides, 1):
                state[f"{at}.conv{n}.weight"] = convolution(sizes[n - 1], sizes[n], side)
                state |= norm(f"{at}.bn{n}", sizes[n])
            if not number and (stage > 1 or before != after):
                state[f"{at}.downsample.0.weight"] = convolution(before, after, 1)
                state |= norm(f"{at}.downsample.1", after)
            before = after
    return {**state, "fc.weight": torch.randn(5, before), "fc.bias": torch.randn(5)}


def run_resnet(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """What torchvision's forward does with such weights, by functions."""

    def layer(x: Tensor, conv: str, bn: str, **how: Any) -> Tensor:
        y = F.conv2d(x, state[f"{conv}.weight"], **how)
        return F.batch_norm(y, *(state[f"{bn}.{key}"] for key in ("running_mean", "running_var", "weight", "bias")))

    x = F.max_pool2d(layer(x, "conv1", "bn1", stride=2, padding=3).relu(), 3, 2, 1)
    for stage in (1, 2):
        for number in range(2):
            at, stride = f"layer{stage}.{number}", 2 if stage > 1 and not number else 1
            if f"{at}.conv3.weight" in state:
                y = layer(x, f"{at}.conv1", f"{at}.bn1").relu()
                y = layer(y, f"{at}.conv2", f"{at}.bn2", stride=stride, padding=1).relu()
                y = layer(y, f"{at}.conv3", f"{at}.bn3")
            else:
                y = layer(x, f"{at}.conv1", f"{at}.bn1", stride=stride, padding=1).relu()
                y = layer(y, f"{at}.conv2", f"{at}.bn2", padding=1)
            down = f"{at}.downsample.0.weight" in state
            x = (layer(x, f"{at}.downsample.0", f"{at}.downsample.1", stride=stride) if down else x).add(y).relu()
    return F.linear(x.mean((2, 3)), state["fc.weight"], state["fc.bias"])


def round_trip(state: dict[str, Tensor], folder: Path) -> pictures.PictureModel:
    """Read a file of weights and hold what would be written again to be the same, to the bit."""
    save_file(state, folder / "weights.safetensors")
    for place in (folder, folder / "weights.safetensors"):
        assert pictures.is_picture_model(place)
        found = pictures.read(place)
    back = pictures.model_files(found.shape, found.tensors, found.data, [])["model.safetensors"]
    assert back.keys() == {name for name in state if not name.endswith("num_batches_tracked")}
    assert all(torch.equal(tensor, state[name]) for name, tensor in back.items())
    return found


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@torch.no_grad()
def test_a_resnet_with_torchvisions_names_says_the_same(block, tmp_path):
    torch.manual_seed(6)
    state = torchvision_resnet(block)
    found = round_trip(state, tmp_path)
    assert (found.kind, found.shape.block, found.shape.classes, found.shape.size) == ("resnet", block, 5, 224)
    assert found.data == {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "fit": "crop"}
    pixels = torch.randn(2, 3, 48, 48)
    ours = models.revive({**dataclasses.asdict(found.shape), "size": 48}, found.tensors)
    torch.testing.assert_close(ours(pixels), run_resnet(state, pixels), rtol=1e-4, atol=1e-4)


def torchvision_vgg(whole: bool) -> nn.ModuleDict:
    """A narrow VGG with torchvision's names: stages of one and two convolutions."""
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Linear(294, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 5)]
    parts = {"features": nn.Sequential(*layers)} | ({"classifier": nn.Sequential(*head)} if whole else {})
    return nn.ModuleDict(parts).eval()


@pytest.mark.parametrize("whole", [True, False])
@torch.no_grad()
def test_a_vgg_with_torchvisions_names_says_the_same(whole, tmp_path):
    theirs = torchvision_vgg(whole)
    found = round_trip(theirs.state_dict(), tmp_path)
    expected = ((1, 2), (4, 6), 16 if whole else 0, 5 if whole else 0)
    assert (found.shape.depths, found.shape.widths, found.shape.hidden, found.shape.classes) == expected
    pixels = torch.randn(2, 3, 32, 32)
    ours = models.revive({**dataclasses.asdict(found.shape), "size": 32}, found.tensors)
    maps = theirs["features"][:-1](pixels)
    torch.testing.assert_close(ours.regions(pixels), maps.flatten(2).transpose(1, 2))
    if whole:
        spots = F.adaptive_avg_pool2d(F.max_pool2d(maps, 2), 7).flatten(1)
        torch.testing.assert_close(ours(pixels), theirs["classifier"](spots), rtol=1e-5, atol=1e-5)


def timm_names() -> list[str]:
    """Names of tf_efficientnet_lite0's tensors, as timm has them."""
    found = ["conv_stem.weight", *(f"bn1.{part}" for part in ("weight", "bias", "running_mean", "running_var"))]
    for stage, depth in enumerate((1, 2, 2, 3, 3, 4, 1)):
        for number in range(depth):
            layers = ("conv_pw", "conv_dw", "conv_pwl") if stage else ("conv_dw", "conv_pw")
            found += [f"blocks.{stage}.{number}.{layer}.weight" for layer in layers]
            parts = ("weight", "bias", "running_mean", "running_var")
            found += [f"blocks.{stage}.{number}.bn{n}.{part}" for n in range(1, len(layers) + 1) for part in parts]
    tail = ["conv_head.weight", *(f"bn2.{part}" for part in ("weight", "bias", "running_mean", "running_var"))]
    return [*found, *tail, "classifier.weight", "classifier.bias"]


def test_an_efficientnet_with_timms_names_comes_and_goes(tmp_path):
    shape = models.config_of({"name": "efficientnet", "preset": "efficientnet-lite0", "classes": 7})
    made = pictures.model_files(shape, weights(models.build(shape)), {}, [])["model.safetensors"]
    assert sorted(made) == sorted(timm_names())
    assert made["blocks.5.3.conv_dw.weight"].shape == (1152, 1, 5, 5)
    found = round_trip(made, tmp_path)
    assert found.shape == shape
    assert found.data["mean"] == [127 / 255] * 3
    told = {"architecture": "tf_efficientnet_lite0", "num_classes": 7, "label_names": list("abcdefg")}
    (tmp_path / "config.json").write_text(json.dumps({**told, "pretrained_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}))
    named = pictures.read(tmp_path)
    assert (named.labels, named.data["mean"]) == (tuple("abcdefg"), [0.5] * 3)


def test_pickles_and_strangers_are_refused_in_a_line(tmp_path):
    (tmp_path / "resnet18.pth").write_bytes(b"\x80\x02")
    assert pictures.is_picture_model(tmp_path)
    for asked, place in ((pictures.read, tmp_path), (pictures.is_picture_model, tmp_path / "resnet18.pth")):
        with pytest.raises(ValueError, match=r"is pickled, and a pickle can run code: convert it first with python -c"):
            asked(place)
    stranger = tmp_path / "other" / "model.safetensors"
    stranger.parent.mkdir()
    save_file({"a.weight": torch.ones(2)}, stranger)
    with pytest.raises(ValueError, match=r"the weights \(a\.weight, \.\.\.\) are of no model that is known without"):
        pictures.read(stranger)
    save_file({"features.0.weight": torch.ones(4, 3, 3, 3), "features.1.weight": torch.ones(4)}, stranger)
    with pytest.raises(ValueError, match=r"features\.1\.weight belongs to a norm"):
        pictures.read(stranger)
    save_file({**torchvision_vgg(True).state_dict(), "extra": torch.ones(2)}, stranger)
    with pytest.raises(
        ValueError,
        match=r"the weights have extra, for which the model has no place .*, or the names are of another network",
    ):
        pictures.read(stranger)
    broken = {**torchvision_vgg(True).state_dict()}
    broken["features.3.weight"] = torch.full_like(broken["features.3.weight"], float("nan"))
    save_file(broken, stranger)
    with pytest.raises(ValueError, match=r"features\.3\.weight holds numbers that are not finite"):
        pictures.read(stranger)
    assert load_file(stranger)


def test_the_folder_of_a_network_says_its_architecture_and_the_size_of_its_pictures(tmp_path):
    small = VGGConfig(classes=3, size=16, depths=(1, 1, 1), widths=(4, 4, 6), hidden=0)  # too small for a VGG16
    data = {"mean": [0.5] * 3, "std": [0.25] * 3, "fit": "crop"}
    files = pictures.model_files(small, weights(models.build(small)), data, ["a", "b", "c"])
    checkpoint.write(tmp_path / "vgg", files)
    found = pictures.read(tmp_path / "vgg")
    assert (found.shape.size, found.labels, found.data) == (
        16,
        ("a", "b", "c"),
        {**data, "resample": "bicubic", "margin": 1.0},
    )
    assert files["config.json"]["architecture"] == "vgg"
    lite = EfficientNetConfig(**{**EfficientNetConfig.PRESETS["efficientnet-lite0"], "classes": 2, "size": 32})
    told = pictures.model_files(lite, weights(models.build(lite)), data, ["a", "b"])["config.json"]
    assert told["architecture"] == "tf_efficientnet_lite0"
    for wrong in ([], [3], ["x", "y", "z"], [3, 0, 0], [1, 16, 16], [3, 16, 20], "16"):
        told = {**files["config.json"], "pretrained_cfg": {"input_size": wrong}}
        (tmp_path / "vgg" / "config.json").write_text(json.dumps(told))
        with pytest.raises(ValueError, match=r"input_size must be \[3, side, side\], not"):
            pictures.read(tmp_path / "vgg")
