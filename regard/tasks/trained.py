"""What every trained model has in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Unfilled(TorchFunctionMode):
    """Inside the block weights are not drawn at random: they are about to be replaced, every one of them."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function in (Tensor.uniform_, Tensor.normal_) or getattr(function, "__module__", "") == "torch.nn.init":
            return named["tensor"] if "tensor" in named else arguments[0]
        return torch.empty(*arguments, **named) if function is torch.randn else function(*arguments, **named)
