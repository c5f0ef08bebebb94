"""Int8 quantization of weights: each row of a matrix as integers up to 127 and one scale."""

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = "|scale"
MOST = 127


def shrink(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return matrices as int8 with a scale per row, everything else in half precision."""
    small: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        assert not name.endswith(SCALE), f"{name} cannot be told from a scale"
        if tensor.dim() != 2 or not tensor.is_floating_point():
            small[name] = tensor.half() if tensor.is_floating_point() else tensor
            continue
        scale = (tensor.float().abs().amax(1) / MOST).clamp(min=1e-12)
        small[name] = (tensor.float() / scale[:, None]).round().clamp(-MOST, MOST).to(torch.int8)
        small[name + SCALE] = scale
    return small


def restore(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors given to `shrink`, to within half a scale; unchanged if none has a scale."""
    if not any(name.endswith(SCALE) for name in tensors):
        return dict(tensors)
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALE):
            continue
        scale = tensors.get(name + SCALE)
        if scale is not None:
            if tensor.dim() != 2 or scale.shape != tensor.shape[:1]:
                raise ValueError(f"{name} has no scale for each of its rows")
            tensor = tensor.to(torch.float32, copy=True).mul_(scale.float()[:, None])  # in place: one pass
        whole[name] = tensor.float() if tensor.dtype == torch.float16 else tensor
    return whole
