"""A directory is a model: its files, and a manifest that vouches for every byte of them.

Saving writes the files into a hidden sibling, syncs each, then the manifest, and renames. A directory that is being
replaced steps aside first: between those two renames only its hidden `.name.old` is there, which `read` accepts in its
place and `recover` puts back, so at every moment a valid one can be found.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

import regard
from regard import config
from regard.quantize import restore

FORMAT = 1
MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
VERSIONS = {"regard": regard.__version__, "torch": str(torch.__version__), "python": platform.python_version()}
BLOCK = 1 << 12  # what a file's size is rounded up to on most disks
FLOATS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
WHOLES = {torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"}
DTYPES = {torch.bool: "BOOL", **FLOATS, **WHOLES}  # and what safetensors calls them
Pieces = Sequence[bytes | memoryview]  # the contents of a file, end to end


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or must not be trusted, with the reason in one line."""


class Disk:
    """Every operation that can fail half-way, so that a test can make it fail."""

    def free(self, directory: Path) -> int:
        there = next(place for place in (directory, *directory.absolute().parents) if place.is_dir())
        return shutil.disk_usage(there).free

    def make(self, directory: Path) -> None:
        if not directory.parent.exists():
            self.make(directory.parent)
            self.sync(directory.parent.parent)
        directory.mkdir()

    def write(self, path: Path, pieces: Pieces) -> None:
        with open(path, "wb") as file:
            file.writelines(pieces)

    def sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def read(self, path: Path) -> bytes:
        return path.read_bytes()


disk = Disk()


@dataclass(frozen=True)
class Checkpoint:
    """A verified directory; whatever is taken out of it is compared with the manifest once more."""

    directory: Path
    manifest: dict[str, Any]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self.manifest["files"])

    @property
    def step(self) -> int:
        step = self.manifest["facts"].get("step", 0)
        if type(step) is not int or step < 0:
            raise CheckpointError(f"{self.directory}: {MANIFEST} has step {step!r}, which is no number of steps")
        return step

    @cached_property
    def config(self) -> dict[str, Any]:
        return _explained(self.directory, lambda: config.parse(self.text("config.yaml"), name="config.yaml"))

    @property
    def metrics(self) -> dict[str, Any]:
        return self.json("metrics.json") if "metrics.json" in self.files else {}

    def text(self, name: str) -> str:
        """A file as text."""
        return _explained(self.directory, lambda: self.data(name).decode("utf-8"))

    def json(self, name: str) -> Any:
        """A JSON file as plain data."""
        return _explained(self.directory, lambda: json.loads(self.text(name)))

    def tensors(self, name: str = WEIGHTS) -> dict[str, Tensor]:
        """A safetensors file as tensors by name, on the CPU; shrunken weights as the floats they stand for."""
        grown = restore if name == WEIGHTS else dict  # a training goes on with what it had, to the bit
        return _explained(self.directory, lambda: grown(safetensors.torch.load(self.data(name))))

    def data(self, name: str) -> bytes:
        """A file as bytes, which are those that were saved."""
        if name not in self.files:
            raise CheckpointError(f"{self.directory}: holds no {name}")
        data = _explained(self.directory, lambda: disk.read(self.directory / name))
        if _entry([data]) != self.manifest["files"][name]:
            raise CheckpointError(f"{self.directory}: {name} is damaged, its SHA-256 differs from the manifest's")
        return data


def write(directory: str | Path, contents: Mapping[str, Any], *, facts: Mapping[str, Any] | None = None) -> None:
    """Save files as one checkpoint, whole or not at all; `facts` (such as the step) go into the manifest.

    Values are bytes, text, tensors by name for `.safetensors`, or plain data for `.yaml` and `.json`.
    """
    directory = Path(directory)
    files = {_checked(name): _encoded(name, value) for name, value in contents.items()}
    entries = {name: _entry(pieces) for name, pieces in files.items()}
    files[MANIFEST] = [_manifest(entries, {"versions": VERSIONS, **(facts or {})})]
    aside = _sibling(directory, "partial")
    try:
        recover(directory)
        if directory.exists() and not (directory / MANIFEST).exists():
            raise CheckpointError(f"{directory}: exists and is not a checkpoint, name another place or remove it")
        _afford(directory, [entry["size"] for entry in entries.values()])
        disk.make(aside)
        for name, pieces in files.items():
            disk.write(aside / name, pieces)
            disk.sync(aside / name)
        disk.sync(aside)
        _place(aside, directory)
    except OSError as error:
        raise CheckpointError(f"{directory}: not saved, {_reason(error)}") from error
    finally:
        _discard(aside)


def read(directory: str | Path) -> Checkpoint:
    """The checkpoint in a directory, after every one of its files was compared with the manifest."""
    directory = Path(directory)
    if not directory.exists() and _sibling(directory, "old").exists():
        directory = _sibling(directory, "old")  # its writer was stopped between two renames
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such checkpoint directory")
    return _explained(directory, lambda: _verified(directory))


def recover(directory: str | Path) -> None:
    """Undo what a killed writer of this place left: what is partial goes, what stepped aside comes back."""
    directory = Path(directory)
    old = _sibling(directory, "old")
    for aside in (_sibling(directory, "partial"), _sibling(directory, "tmp")):
        if os.path.lexists(aside):
            disk.remove(aside)
    if old.exists() and directory.exists():
        disk.remove(old)
    elif old.exists():
        disk.rename(old, directory)


def remove(directory: str | Path) -> None:
    """Remove a checkpoint; killed meanwhile, it leaves what `recover` clears away, never half a checkpoint."""
    directory = Path(directory)
    recover(directory)
    disk.rename(directory, _sibling(directory, "partial"))
    _discard(_sibling(directory, "partial"))


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A model's state by name, each tensor once: of several names for the same memory the first one stays."""
    owners: dict[tuple[torch.device, int], str] = {}
    state = model.state_dict()
    return {
        name: tensor
        for name, tensor in state.items()
        if not tensor.numel() or owners.setdefault((tensor.device, tensor.data_ptr()), name) == name
    }


def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a model the state that `weights` took; anything that does not fit is named."""
    expected = weights(model)
    if missing := [name for name in expected if name not in tensors]:
        raise CheckpointError(f"weights do not fit the model: {missing[0]} is missing ({len(missing)} in all)")
    for name, tensor in tensors.items():
        if name not in expected:
            raise CheckpointError(f"weights do not fit the model: it has no {name}")
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)}, not {tuple(expected[name].shape)}"
            raise CheckpointError(f"weights do not fit the model: {name} is {shapes}")
    model.load_state_dict(dict(tensors), strict=False)  # the other names of a tensor follow the first


def replace(path: Path, data: bytes) -> None:
    """Write one file whole or not at all."""
    aside = _sibling(path, "tmp")
    try:
        if not path.parent.exists():
            disk.make(path.parent)
        disk.write(aside, [data])
        disk.sync(aside)
        disk.rename(aside, path)
    except OSError as error:
        raise CheckpointError(f"{path}: not written, {_reason(error)}") from error
    finally:
        _discard(aside)


def fingerprint(value: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(render(value)).hexdigest()


def render(value: Any) -> bytes:
    """Plain data as the one JSON text we write for it; numbers JSON cannot hold (NaN) become null."""
    return (json.dumps(_finite(value), indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8")


def _place(aside: Path, directory: Path) -> None:
    """Rename the finished directory to its name, or put everything back."""
    old = _sibling(directory, "old")
    try:
        if directory.exists():
            disk.rename(directory, old)
        disk.rename(aside, directory)
        disk.sync(directory.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            if not aside.exists():
                disk.rename(directory, aside)
            if old.exists():
                disk.rename(old, directory)
        raise
    _discard(old)


def _discard(path: Path) -> None:
    """Remove what is no longer needed; where even a second attempt fails, the next `recover` tries again."""
    for _ in range(2):
        with contextlib.suppress(OSError):
            if os.path.lexists(path):
                disk.remove(path)
            return


def _afford(directory: Path, sizes: Sequence[int]) -> None:
    """Refuse before anything is written what the disk has no room for; folder and manifest are small."""
    needed = sum(-(-size // BLOCK) * BLOCK for size in sizes) + 4 * BLOCK
    if needed > (free := disk.free(directory)):
        amounts = f"it needs {needed / 1e6:,.2f} MB and {free / 1e6:,.2f} MB are free"
        raise CheckpointError(f"{directory}: not saved, {amounts}: make room on the disk")


def _sibling(directory: Path, kind: str) -> Path:
    return directory.with_name(f".{directory.name}.{kind}")


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name == MANIFEST:
        raise CheckpointError(f"{name!r} cannot be the name of a checkpoint's file")
    return name


def _encoded(name: str, value: Any) -> Pieces:
    suffix = Path(name).suffix
    if isinstance(value, bytes | str):
        return [value if isinstance(value, bytes) else value.encode("utf-8")]
    assert isinstance(value, Mapping), f"{name} cannot hold a {type(value).__name__}"
    if suffix == ".safetensors":
        return _tensor_pieces(name, value)
    if suffix == ".yaml":
        return [config.dump(value).encode("utf-8")]
    assert suffix == ".json", f"how should a mapping be written to {name}?"
    return [render(value)]


def _tensor_pieces(name: str, tensors: Mapping[str, Tensor]) -> Pieces:
    """Tensors in the safetensors format, without a copy of those that are on the CPU already.

    Two names for the same memory are refused, for they would come back as two.
    """
    owners: dict[tuple[torch.device, int], str] = {}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    pieces: list[bytes | memoryview] = []
    end = 0
    for key, tensor in sorted(tensors.items(), key=lambda entry: (-entry[1].itemsize, entry[0])):  # keeps them aligned
        owner = owners.setdefault((tensor.device, tensor.data_ptr()), key) if tensor.numel() else key
        if owner != key:
            raise CheckpointError(f"{name}: {owner} and {key} share memory, save only one of them")
        if tensor.dtype not in DTYPES:
            raise CheckpointError(f"{name}: {key} is of {tensor.dtype}, which the format does not know")
        pieces.append(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        start, end = end, end + tensor.nbytes
        header[key] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    head = json.dumps(header).encode("utf-8")
    head += b" " * (-len(head) % 8)
    return [len(head).to_bytes(8, "little"), head, *pieces]


def _entry(pieces: Pieces) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += memoryview(piece).nbytes
    return {"size": size, "sha256": digest.hexdigest()}


def _manifest(entries: Mapping[str, Any], facts: Mapping[str, Any]) -> bytes:
    """The manifest as bytes; it vouches for itself as well, so facts cannot change unnoticed."""
    body = {"format": FORMAT, "facts": dict(facts), "files": dict(entries)}
    return render({**body, "sha256": fingerprint(body)})


def _trusted(directory: Path) -> dict[str, Any]:
    """The manifest of a directory, if it is exactly what `_manifest` would have written."""
    path = directory / MANIFEST
    if not path.is_file():
        raise CheckpointError(f"{directory}: not a checkpoint, {MANIFEST} is missing")
    if path.stat().st_size > config.LARGEST:
        raise CheckpointError(f"{directory}: {MANIFEST} is too large")
    data = disk.read(path)
    manifest = json.loads(data.decode("utf-8"))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise CheckpointError(f"{directory}: {MANIFEST} has format {found!r}, this version reads {FORMAT}")
    body = {name: value for name, value in manifest.items() if name != "sha256"}
    sound = manifest.get("sha256") == fingerprint(body) and render(manifest) == data
    if not sound or set(body) != {"format", "facts", "files"}:
        raise CheckpointError(f"{directory}: {MANIFEST} is damaged")
    if not isinstance(body["facts"], dict) or not isinstance(body["files"], dict):
        raise CheckpointError(f"{directory}: {MANIFEST} is not a manifest")
    for name, entry in body["files"].items():
        _checked(name)
        if not isinstance(entry, dict) or set(entry) != {"size", "sha256"} or type(entry["size"]) is not int:
            raise CheckpointError(f"{directory}: {MANIFEST} says nothing usable about {name}")
    return manifest


def _verified(directory: Path) -> Checkpoint:
    checkpoint = Checkpoint(directory, _trusted(directory))
    files = checkpoint.manifest["files"]
    present = {path.name for path in directory.iterdir() if not path.name.startswith(".")} - {MANIFEST}
    if missing := sorted(set(files) - present):
        raise CheckpointError(f"{directory}: {missing[0]} is missing")
    if unknown := sorted(present - set(files)):
        raise CheckpointError(f"{directory}: {unknown[0]} is not in the manifest, remove it")
    for name, entry in files.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != entry["size"]:
            raise CheckpointError(f"{directory}: {name} is damaged, it should have {entry['size']} bytes")
        checkpoint.data(name)
    return checkpoint


def _explained(directory: Path, action: Any) -> Any:
    """The action's result; whatever hostile or damaged bytes make it raise comes out as one line."""
    try:
        return action()
    except CheckpointError:
        raise
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{directory}: cannot be read, {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
