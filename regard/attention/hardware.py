"""The device of a module, and support for Triton kernels."""

from importlib.util import find_spec

import torch
from torch import Tensor, nn

TRITON = find_spec("triton") is not None  # looked up once, so that a compiler sees a constant


def kernels_run(tensor: Tensor) -> bool:
    """True if Triton kernels can run on this tensor."""
    return tensor.is_cuda and TRITON


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a module's weights."""
    return next(module.parameters()).device
