"""VGG, ResNet and EfficientNet-Lite: exact sizes, the numbers of plain torch.nn, and proof that they learn."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import cost
from regard.models import build, config_of
from regard.models.parts.batch_norm import norms, settle
from tests.models.families import parameters

SMALL: dict[str, dict[str, Any]] = {
    "vgg": {"name": "vgg", "depths": [1, 2], "widths": [4, 8], "hidden": 16, "dropout": 0.0},
    "vgg without hidden layers": {"name": "vgg", "depths": [1, 2], "widths": [4, 8], "hidden": 0, "dropout": 0.0},
    "resnet": {"name": "resnet", "depths": [1, 2], "widths": [4, 8]},
    "resnet for small pictures": {"name": "resnet", "stem": "small", "depths": [1, 2], "widths": [4, 8]},
    "bottlenecks": {"name": "resnet", "block": "bottleneck", "depths": [2, 1], "widths": [4, 8]},
    "efficientnet": {"name": "efficientnet", "width_factor": 0.1, "depth_factor": 0.5, "dropout": 0.0},
}
every = pytest.mark.parametrize("case", SMALL)


def made(case: str, *, size: int = 37, classes: int = 3) -> Any:
    """A model whose weights and statistics are all felt."""
    torch.manual_seed(2)
    model = build(config_of({**SMALL[case], "size": size, "classes": classes}))
    for name, each in model.state_dict().items():
        if name.endswith(("running_var", "norm.weight")):
            each.uniform_(0.5, 1.5)
        elif each.dim() == 1:
            each.uniform_(0.1, 0.5)
    return model


@pytest.mark.parametrize(
    ("name", "preset", "expected"),
    [
        ("vgg", "vgg16", 138_357_544),
        ("resnet", "resnet18", 11_689_512),
        ("resnet", "resnet50", 25_557_032),
        ("efficientnet", "efficientnet-lite0", 4_652_008),
        ("efficientnet", "efficientnet-lite1", 5_416_680),
        ("efficientnet", "efficientnet-lite2", 6_092_072),
        ("efficientnet", "efficientnet-lite3", 8_197_096),
        ("efficientnet", "efficientnet-lite4", 13_006_568),
    ],
)
def test_sizes_are_exact(name, preset, expected):
    assert parameters(name, preset) == (expected, expected)
    assert cost.parameters(cost.preset(preset)) == expected, "running statistics are not learnt"


def test_the_convolutions_of_vgg16_alone_give_regions():
    shape = config_of({"name": "vgg", "preset": "vgg16", "classes": 0, "hidden": 0})
    assert shape.parameters == cost.parameters(shape) == 14_714_688
    assert (shape.plane, shape.features) == ((14, 14), 512)


@every
@torch.no_grad()
def test_regions_are_the_last_map_and_a_head_reads_their_mean(case):
    model = made(case).eval()
    pixels = torch.randn(2, 3, 37, 37)
    regions = model.regions(pixels)
    rows, columns = model.grid
    assert regions.shape == (2, rows * columns, model.width)
    torch.testing.assert_close(regions, model.maps(pixels).flatten(2).transpose(1, 2))
    if model.config.name != "vgg" or not model.config.hidden:
        torch.testing.assert_close(model(pixels), model.head(regions.mean(1)))
    torch.testing.assert_close(model(pixels[1:]), model(pixels)[1:], msg="a picture is answered alone as among others")
    bare = build(config_of({**SMALL[case], "size": 37}))
    bare.load_state_dict({name: each for name, each in model.state_dict().items() if not name.startswith("head.")})
    torch.testing.assert_close(model.head(bare.eval()(pixels)), model(pixels))


def functional(state: dict[str, Tensor], prefix: str, x: Tensor, **how: Any) -> Tensor:
    """A convolution and the norm after it, in float64, by torch's functions."""
    at = {name.removeprefix(f"{prefix}."): each.double() for name, each in state.items() if name.startswith(prefix)}
    eps = how.pop("eps", 1e-5)
    y = F.conv2d(x, at["convolution.weight"], **how)
    scale = at["norm.weight"] / (at["norm.running_var"] + eps).sqrt()
    return (y - at["norm.running_mean"][:, None, None]) * scale[:, None, None] + at["norm.bias"][:, None, None]


def residual(state: dict[str, Tensor], x: Tensor, config: Any) -> Tensor:
    """A ResNet as the paper draws it."""
    large = config.stem == "large"
    x = functional(state, "stem", x, stride=2 if large else 1, padding=3 if large else 1).relu()
    x = F.max_pool2d(x, 3, 2, 1) if large else x
    for stage, depth in enumerate(config.depths):
        for number in range(depth):
            at, stride = f"stages.{stage}.{number}", 2 if stage and not number else 1
            if config.block == "basic":
                y = functional(state, f"{at}.layers.0", x, stride=stride, padding=1).relu()
                y = functional(state, f"{at}.layers.1", y, padding=1)
            else:
                y = functional(state, f"{at}.layers.0", x).relu()
                y = functional(state, f"{at}.layers.1", y, stride=stride, padding=1).relu()
                y = functional(state, f"{at}.layers.2", y)
            x = functional(state, f"{at}.shortcut", x, stride=stride) if y.shape != x.shape else x
            x = (x + y).relu()
    return x


def inverted(state: dict[str, Tensor], x: Tensor, config: Any) -> Tensor:
    """An EfficientNet-Lite, padded as TensorFlow's `SAME`."""

    def same(x: Tensor, side: int, stride: int) -> Tensor:
        lacking = [max((math.ceil(each / stride) - 1) * stride + side - each, 0) for each in x.shape[2:]]
        (top, left), (rows, columns) = (each // 2 for each in lacking), lacking
        return F.pad(x, (left, columns - left, top, rows - top))

    x = functional(state, "stem", same(x, 3, 2), stride=2, eps=1e-3).clamp(0, 6)
    sides, strides = (3, 3, 5, 3, 5, 5, 3), (1, 2, 2, 2, 1, 2, 1)
    for stage, blocks in enumerate(config.stages):
        for number in range(len(blocks)):
            at, stride, y = f"stages.{stage}.{number}", strides[stage] if not number else 1, x
            names = [f"{at}.layers.{n}" for n in range(3) if f"{at}.layers.{n}.norm.bias" in state]
            if len(names) == 3:
                y = functional(state, names[0], y, eps=1e-3).clamp(0, 6)
            side = sides[stage]
            y = functional(state, names[-2], same(y, side, stride), stride=stride, groups=y.shape[1], eps=1e-3)
            y = functional(state, names[-1], y.clamp(0, 6), eps=1e-3)
            x = x + y if x.shape == y.shape and stride == 1 else y
    return functional(state, "last", x, eps=1e-3).clamp(0, 6)


@pytest.mark.parametrize("size", [32, 37])
@pytest.mark.parametrize("case", [case for case in SMALL if "vgg" not in case])
@torch.no_grad()
def test_maps_are_those_of_plain_functions(case, size):
    model = made(case, size=size).eval()
    pixels = torch.randn(2, 3, size, size)
    plain = residual if model.config.name == "resnet" else inverted
    expected = plain(model.state_dict(), pixels.double(), model.config)
    torch.testing.assert_close(model.maps(pixels).double(), expected, rtol=1e-4, atol=1e-5)
    logits = F.linear(expected.mean((2, 3)), model.head.weight.double(), model.head.bias.double())
    torch.testing.assert_close(model(pixels).double(), logits, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_vgg_is_plain_layers_of_torch():
    model, pixels = made("vgg").eval(), torch.randn(2, 3, 37, 37)
    plain = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(392, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(),
        nn.Linear(16, 3),
    )  # fmt: skip
    plain.load_state_dict(dict(zip(plain.state_dict(), model.state_dict().values(), strict=True)))
    torch.testing.assert_close(model(pixels), plain(pixels))


@every
def test_it_overfits_a_batch(case):
    model = made(case, size=16).train()
    pixels, labels = torch.randn(9, 3, 16, 16), torch.arange(9) % 3
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(60):
        loss = F.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        settle(norms(model), veto=torch.tensor(False))
    assert loss < 0.3
    assert all(weight.grad is not None for weight in model.parameters())


def test_bad_sizes_are_refused_in_a_line():
    with pytest.raises(ValueError, match=r"2 model\.depths and 1 model\.widths: give one for each"):
        config_of({"name": "resnet", "depths": [1, 2], "widths": [4]})
    with pytest.raises(ValueError, match="a picture of 16 pixels is halved 5 times: give 32 or more"):
        config_of({"name": "vgg", "size": 16})
    with pytest.raises(ValueError, match="pictures of 1 x 37 x 37, and the model reads 3 x 37 x 37"):
        made("resnet")(torch.zeros(1, 1, 37, 37))
