"""Hugging Face folders: config.json and safetensors, read without running or downloading anything."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from regard import checkpoint
from regard.checkpoint import INDEX, WEIGHTS
from regard.checkpoint.files import explain_errors
from regard.checkpoint.tensors import map_file
from regard.config.words import as_json
from regard.interop.fields import quote_name

CONFIG = "config.json"
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")  # names by which models are downloaded
LARGEST = 1 << 20  # bytes of a config.json
PICKLED = "pytorch_model"  # prefix of the names of pickled weights
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
VOCABULARY = "tokenizer.bin"  # of llama2.c
STRANGE = (".h5", ".msgpack", ".onnx", ".gguf")
POINTER = b"version https://git-lfs"
POINTED = "it is a pointer of Git LFS and not the file itself: run `git lfs pull` there, or copy the file"


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json, and raise ValueError if it is too large, malformed or needs code of its own."""
    place = folder / CONFIG
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder: {_absent(folder)}")
    if not is_there(place):
        remedy = "name one, or safetensors of a VGG, ResNet or EfficientNet-Lite"
        raise ValueError(f"{folder}: {CONFIG} is missing, so this is no folder of Hugging Face's: {remedy}")
    config = read_json_object(place, LARGEST)
    if "auto_map" in config:
        code = as_json(config["auto_map"])
        raise ValueError(f"{place}: auto_map is {code}, code of the model's own, which is never run: it cannot be read")
    return config


def _absent(folder: Path) -> str:
    """Return the remedy for a missing folder; a name such as gpt2 may be that of a model to download."""
    if not REPOSITORY.fullmatch(str(folder)):
        return "check the path"
    return f"check the path, or fetch the model first, for instance by `hf download {folder} --local-dir {folder}`"


def read_tensors(folder: Path, name: str = WEIGHTS) -> dict[str, Tensor]:
    """Read the weights, memory-mapped; pickled ones are refused with the command that converts them."""
    if not is_there(folder / name) and not (name == WEIGHTS and is_there(folder / INDEX)):
        raise ValueError(explain_missing_weights(folder, name))
    for path in sorted(folder.glob("*.safetensors*")):
        used = path.name == INDEX or path.suffix == ".safetensors"
        if used and read_start(path, len(POINTER)) == POINTER:
            raise ValueError(f"{path}: cannot be read, {POINTED}")
    try:
        if name == WEIGHTS:
            return checkpoint.gather(folder)
        return explain_errors(folder / name, lambda: map_file(folder / name))
    except checkpoint.CheckpointError as error:
        if isinstance(error.__cause__, SafetensorError):
            raise ValueError(f"{error}: it is incomplete or damaged, copy it again") from None
        raise


def find_llama2c_file(place: Path) -> Path | None:
    """Return the llama2.c file meant by a path: the file itself, or the only one in a folder without config.json."""
    if place.is_file():
        if place.suffix.lower() not in (*PICKLES, *STRANGE, ".safetensors", ".json", ".model"):
            raise ValueError(f"{place}: is no model: name a folder in Hugging Face's form, or a file of weights")
        if place.suffix != ".bin" or place.name.startswith(PICKLED):
            raise ValueError(f"{place}: is a file, name the folder that it lies in")
        return place
    if is_there(place / CONFIG) or not is_there(place / VOCABULARY):
        return None
    binaries = [path for path in place.glob("*.bin") if path.name != VOCABULARY and not path.name.startswith(PICKLED)]
    return binaries[0] if len(binaries) == 1 else None


def is_there(place: Path) -> bool:
    """Return True if the path exists, even as a broken link, so that it is read or refused and never skipped."""
    return os.path.lexists(place)


def read_start(place: Path, size: int) -> bytes:
    """Return the first bytes of a regular file; a pipe, a device, a folder or a link out of the folder is an error."""
    try:
        if place.is_symlink():
            _check_link(place)
        if not stat.S_ISREG(place.stat().st_mode):
            raise ValueError(f"{place}: is no regular file: put the file itself there")
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"{place}: is no regular file: put the file itself there")
            return file.read(size)
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        reason = ((isinstance(error, OSError) and error.strerror) or str(error)).lower()
        raise ValueError(f"{place}: {reason}") from None


def read_file(place: Path, largest: int) -> bytes:
    """Return the content of a regular file of at most `largest` bytes."""
    data = read_start(place, largest + 1)
    if len(data) > largest:
        raise ValueError(f"{place}: is larger than {largest:,} bytes")
    return data


def _check_link(place: Path) -> None:
    """Raise ValueError for a link that leads out of its folder, unless it leads into Hugging Face's cache."""
    home, target = place.parent.resolve(), place.resolve(strict=True)
    caches = [parent.parent / "blobs" for parent in (home, *home.parents) if parent.name == "snapshots"]
    if not any(target.is_relative_to(folder) for folder in (home, *caches)):
        raise ValueError(f"{place}: is a link that leads out of the folder: copy the file that it leads to")


def parse_json(place: Path, largest: int) -> Any:
    """Return the content of a JSON file; invalid JSON and duplicate fields are errors in one line."""
    data = read_file(place, largest)
    try:
        if data.startswith(POINTER):
            raise ValueError(POINTED)
        return json.loads(data.decode("utf-8"), object_pairs_hook=_refuse_duplicates, parse_constant=_finite)
    except RecursionError:
        raise ValueError(f"{place}: nested too deeply") from None
    except ValueError as error:  # bad UTF-8, bad JSON, endless digits
        raise ValueError(f"{place}: cannot be read, {' '.join(str(error).split())}") from None


def read_json_object(place: Path, largest: int) -> dict[str, Any]:
    """Return the object of a JSON file; any other content is an error in one line."""
    document = parse_json(place, largest)
    if not isinstance(document, dict):
        raise ValueError(f"{place}: expected a JSON object, not {as_json(document)}")
    return document


def _refuse_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    object_fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in object_fields:
            raise ValueError(f"{quote_name(name)} is given twice")
        object_fields[name] = value
    return object_fields


def _finite(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def conversion(pickled: Path, target: Path) -> str:
    """Return the command that converts the tensors of a pickled file to safetensors without running its code."""
    script = (
        "import sys, torch, safetensors.torch as s; "
        "t = torch.load(sys.argv[1], map_location='cpu', weights_only=True); "
        "s.save_file({name: x.contiguous().clone() for name, x in t.items() if torch.is_tensor(x)}, sys.argv[2])"
    )
    return f'python -c "{script}" {shlex.quote(str(pickled))} {shlex.quote(str(target))}'


def explain_missing_weights(folder: Path, expected_name: str) -> str:
    """Return the error message for missing weights, with a remedy."""
    names = sorted(path.name for path in folder.iterdir())
    if pickled := [name for name in names if name.endswith(PICKLES)]:
        convert = conversion(folder / pickled[0], folder / WEIGHTS)
        return f"{folder}: {pickled[0]} is pickled, and a pickle can run code: convert it first with {convert}"
    if others := [name for name in names if name.endswith(STRANGE)]:
        return f"{folder}: {others[0]} cannot be read, only {expected_name} can"
    return f"{folder}: {expected_name} is missing"
