"""Turn the pickled weights of a folder of Hugging Face's into model.safetensors, without running what a pickle holds.

Those of an adapter of peft's (adapter_model.bin) become adapter_model.safetensors.

    python scripts/bin_to_safetensors.py FOLDER

Tensors alone are unpickled (`weights_only=True`); shards are joined, and of names that share memory the first stays.
The pickled files remain; whoever trusts the result may remove them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import checkpoint
from regard.checkpoint import WEIGHTS
from regard.checkpoint.tensors import serialise
from regard.models.weights import identity

PICKLED = "pytorch_model.bin"
INDEX = f"{PICKLED}.index.json"
ADAPTER = "adapter_model.bin"
WRAPPERS = ("state_dict", "model_state_dict", "model")  # what trainers wrap the weights in


def convert(folder: Path) -> Path:
    """Write model.safetensors, or adapter_model.safetensors, beside what is pickled in a folder."""
    adapter = folder / ADAPTER
    target = adapter.with_suffix(".safetensors") if adapter.is_file() else folder / WEIGHTS
    if target.exists():
        raise ValueError(f"{target}: exists already")
    tensors: dict[str, Tensor] = {}
    for path in [adapter] if adapter.is_file() else pickled(folder):
        for name, tensor in unpickled(path).items():
            if name in tensors:
                raise ValueError(f"{path}: {name} is in another file too")
            tensors[name] = tensor
    owners: dict[Any, str] = {}
    kept = {name: tensor for name, tensor in tensors.items() if owners.setdefault(identity(tensor), name) == name}
    checkpoint.replace(target, b"".join(serialise(target.name, kept)))
    return target


def pickled(folder: Path) -> list[Path]:
    """The files of pickled weights: one, or the shards that an index names, all in the folder itself."""
    if (folder / INDEX).is_file():
        names = sorted(set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()))
        for name in names:
            if Path(name).name != name:
                raise ValueError(f"{folder / INDEX}: {name!r} is no file of this folder")
        return [folder / name for name in names]
    if (folder / PICKLED).is_file():
        return [folder / PICKLED]
    found = sorted(path for ending in ("bin", "pt", "pth", "ckpt") for path in folder.glob(f"*.{ending}"))
    found = [path for path in found if path.name not in ("training_args.bin", "optimizer.pt", "scheduler.pt")]
    if len(found) != 1:
        raise ValueError(f"{folder}: {PICKLED} is missing, and {len(found)} other files may be pickled weights")
    return found


def unpickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a pickle by name; anything but tensors and plain data in it is refused, never run."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises several kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{path}: cannot be read as tensors alone: {reason}") from None
    while isinstance(found, dict) and (inner := next((name for name in WRAPPERS if name in found), None)):
        found = found[inner]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"{path}: holds something else than tensors by name")
    return {str(name): value for name, value in found.items()}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(str(__doc__))
    try:
        print(convert(Path(sys.argv[1])))
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"bin_to_safetensors: {error}")
