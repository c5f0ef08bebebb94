"""Where a model is, and what the device there can run."""

from importlib.util import find_spec

import torch
from torch import Tensor, nn

TRITON = find_spec("triton") is not None  # looked up once, so that a compiler meets a constant


def kernels_run(tensor: Tensor) -> bool:
    """Whether Triton kernels can be run on this."""
    return tensor.is_cuda and TRITON


def device_of(module: nn.Module) -> torch.device:
    """Where a module's weights are."""
    return next(module.parameters()).device
