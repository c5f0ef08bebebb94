"""Reading and loading the weights of a model by name, with or without a copy; what does not fit is named."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.models.interface import traits_of

ALIGNED = 64  # bytes: the alignment of torch's own tensors, with which kernels give the same result to the bit

# Operations that initialise weights; skipped for those without memory, as torch's would take seconds to import.
CHANGES = (Tensor.uniform_, Tensor.normal_, Tensor.div, Tensor.__truediv__, Tensor.mul, Tensor.__mul__)


class Unfilled(TorchFunctionMode):
    """A context in which weights have shapes but no memory (torch's meta device), as all are about to be replaced.

    Computed tables, such as those of positions, are computed as usual.
    """

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = keywords or {}
        if function in (torch.empty, torch.randn):
            return torch.empty(*arguments, **{**keywords, "device": "meta"})
        if function in CHANGES or getattr(function, "__module__", "") == "torch.nn.init":
            tensor = keywords["tensor"] if "tensor" in keywords else arguments[0]
            if tensor.is_meta:
                return tensor
        return function(*arguments, **keywords)


def identity(tensor: Tensor) -> Hashable:
    """Return a key that two names share if they are one tensor: the same memory, dtype, shape and strides."""
    if not tensor.numel():
        return id(tensor)  # empty tensors share nothing
    place = tensor.untyped_storage()._cdata if tensor.is_meta else tensor.data_ptr()
    return tensor.device, place, tensor.dtype, tuple(tensor.shape), tensor.stride()


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's state by name, with each tensor once, under the first of its names."""
    owners: dict[Hashable, str] = {}
    state = model.state_dict()
    return {name: tensor for name, tensor in state.items() if owners.setdefault(identity(tensor), name) == name}


def learned_tensors(module: nn.Module, *, recurse: bool = True) -> list[Tensor]:
    """Return all trained tensors: parameters, and the buffers that a model trains itself.

    Statistics measured on the data are also buffers in a checkpoint, but not among them.
    """
    modules = module.modules() if recurse else [module]
    tables = [submodule.get_buffer(name) for submodule in modules for name in traits_of(submodule).learned_buffers]
    return [*module.parameters(recurse=recurse), *tables]


def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy a state returned by `weights` into a model."""
    _compare(weights(model), tensors)
    model.load_state_dict(dict(tensors), strict=False)  # the other names of a tensor follow the first


def adopt(model: nn.Module, tensors: Mapping[str, Tensor], *, device: torch.device | str = "cpu") -> None:
    """Make these tensors those of a model, without a copy if they are aligned; shared tensors stay shared."""
    _compare(weights(model), tensors)
    state = model.state_dict(keep_vars=True)
    owners: dict[Hashable, Tensor] = {}
    for name, old in state.items():
        if name in tensors:
            new = _align_storage(tensors[name].to(device=device, dtype=old.dtype))
            owners[identity(old)] = nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new
    model.load_state_dict({name: owners[identity(old)] for name, old in state.items()}, assign=True)


def _align_storage(tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy of it if it is not aligned."""
    return tensor.contiguous() if tensor.data_ptr() % ALIGNED == 0 else tensor.clone()


def _compare(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    if missing := [name for name in expected if name not in tensors]:
        raise ValueError(f"weights do not fit the model: {missing[0]} is missing ({len(missing)} in all)")
    for name, tensor in tensors.items():
        if name not in expected:
            raise ValueError(f"weights do not fit the model: it has no {name}")
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)}, not {tuple(expected[name].shape)}"
            raise ValueError(f"weights do not fit the model: {name} is {shapes}")
