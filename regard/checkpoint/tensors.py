"""Tensors in safetensors files: written without a copy, memory-mapped for reading, in one file or in shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from regard.checkpoint.files import CheckpointError, Pieces, explain_errors
from regard.config.words import clip_name, quote
from regard.models.weights import ALIGNED, identity

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
CHUNK = 1 << 22  # elements checked at a time
LARGEST = 1 << 26  # bytes of an index; that of a trillion weights is smaller
FLOATS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
WHOLES = {torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"}
DTYPES = {torch.bool: "BOOL", **FLOATS, **WHOLES}  # with their names in safetensors


def serialise(name: str, tensors: Mapping[str, Tensor]) -> Pieces:
    """Return tensors in the safetensors format, without copying those that are on the CPU.

    Two names for the same memory are refused, for they would be loaded as two tensors. Tensors that fill whole blocks
    of ALIGNED bytes come first, so that a model can use them where the file is mapped.
    """
    owners: dict[Any, str] = {}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    pieces: list[bytes | memoryview] = []
    end = 0
    for key, tensor in sorted(tensors.items(), key=_place):
        owner = owners.setdefault(identity(tensor), key)
        if owner != key:
            raise CheckpointError(f"{name}: {owner} and {key} share memory, save only one of them")
        if tensor.dtype not in DTYPES:
            raise CheckpointError(f"{name}: {key} is of {tensor.dtype}, which the format does not know")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        pieces.append(flat.view(torch.uint8).numpy().data if len(flat) else b"")
        start, end = end, end + tensor.nbytes
        header[key] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    head = json.dumps(header).encode("utf-8")
    head += b" " * (-(len(head) + 8) % ALIGNED)
    return [len(head).to_bytes(8, "little"), head, *pieces]


def map_file(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, memory-mapped; writing to one changes only this process's copy."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)


def is_finite(tensor: Tensor) -> bool:
    """True if no element is infinite or NaN, in which case the minimum or the maximum would be too."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    parts = tensor.reshape(-1).split(CHUNK)
    return all(bool(extreme.isfinite()) for part in parts for extreme in part.aminmax())


def gather_weights(directory: Path, take: Callable[[str], Path] | None = None) -> dict[str, Tensor]:
    """Return the weights in a folder, from one file or from shards with an index.

    `take` returns the path of a file it has verified; without it, errors name the file that cannot be read.
    """
    read = map_file if take else (lambda path: explain_errors(path, lambda: map_file(path)))
    take = take or (lambda name: _present(directory, name))
    if (directory / WEIGHTS).exists() or not (directory / INDEX).exists():
        return read(take(WEIGHTS))
    homes = _index(take(INDEX))
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(homes.values())):
        for name, tensor in read(take(shard)).items():
            if name in tensors:
                raise CheckpointError(
                    f"{directory}: {clip_name(name)} is in two shards, {clip_name(homes[name])} and {clip_name(shard)}"
                )
            if homes.get(name) != shard:
                raise CheckpointError(
                    f"{directory}: {clip_name(name)} is in {clip_name(shard)}, where {INDEX} does not have it"
                )
            tensors[name] = tensor
    if missing := [name for name in homes if name not in tensors]:
        raise CheckpointError(f"{directory}: {clip_name(missing[0])} is missing from {clip_name(homes[missing[0]])}")
    return tensors


def _place(item: tuple[str, Tensor]) -> tuple[bool, int, str]:
    """Sort key: whole blocks first, then the largest elements, so that every tensor is aligned for its dtype."""
    name, tensor = item
    return bool(tensor.nbytes % ALIGNED), -tensor.itemsize, name


def _index(path: Path) -> dict[str, str]:
    """Return the shard of each tensor; shards must be in the folder of the index."""
    if path.stat().st_size > LARGEST:
        raise CheckpointError(f"{path}: is too large")
    homes = json.loads(path.read_bytes().decode("utf-8"))["weight_map"]
    if not isinstance(homes, dict) or not homes:
        raise CheckpointError(f"{path}: its weight_map names no tensor")
    for name, shard in homes.items():
        if not isinstance(shard, str) or Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise CheckpointError(
                f"{path}: {clip_name(name)} is in {quote(shard)}, which is no safetensors file of this folder"
            )
    return homes


def _present(directory: Path, name: str) -> Path:
    if not (directory / name).is_file():
        raise CheckpointError(f"{directory}: {clip_name(name)} is missing")
    return directory / name
