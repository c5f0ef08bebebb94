"""The manifest of a checkpoint: size and SHA-256 of every file, facts such as the step, and a digest of itself."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import config
from regard.checkpoint.files import CheckpointError, Disk, Pieces, reason

FORMAT = 1
MANIFEST = "manifest.json"


def render(value: Any) -> bytes:
    """Return the canonical JSON text of plain data; numbers that JSON cannot hold (NaN) become null."""
    return (json.dumps(_finite(value), indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8")


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of plain data."""
    return hashlib.sha256(render(value)).hexdigest()


def check_name(name: str) -> str:
    """Return the name if a file of a checkpoint may have it: it must not lead out of the folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name == MANIFEST:
        raise CheckpointError(f"{name!r} cannot be the name of a checkpoint's file")
    return name


def entry(pieces: Pieces) -> dict[str, Any]:
    """Return the manifest's entry for a file with this content."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += memoryview(piece).nbytes
    return {"size": size, "sha256": digest.hexdigest()}


def manifest(entries: Mapping[str, Any], facts: Mapping[str, Any]) -> bytes:
    """Return the manifest as bytes; it has a digest of itself, so that facts cannot change unnoticed."""
    body = {"format": FORMAT, "facts": dict(facts), "files": dict(entries)}
    return render({**body, "sha256": fingerprint(body)})


def read_manifest(directory: Path, disk: Disk) -> dict[str, Any]:
    """Return the manifest of a directory, if it is exactly what `manifest` would have written."""
    path = directory / MANIFEST
    if not path.is_file():
        raise CheckpointError(f"{directory}: not a checkpoint, {MANIFEST} is missing")
    if path.stat().st_size > config.LARGEST:
        raise CheckpointError(f"{directory}: {MANIFEST} is too large")
    data = disk.read(path)
    try:
        contents = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{directory}: {MANIFEST} is damaged, {reason(error)}") from None
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        version = contents.get("format") if isinstance(contents, dict) else None
        raise CheckpointError(f"{directory}: {MANIFEST} has format {version!r}, this version reads {FORMAT}")
    body = {name: value for name, value in contents.items() if name != "sha256"}
    sound = contents.get("sha256") == fingerprint(body) and render(contents) == data
    if not sound or set(body) != {"format", "facts", "files"}:
        raise CheckpointError(f"{directory}: {MANIFEST} is damaged")
    if not isinstance(body["facts"], dict) or not isinstance(body["files"], dict):
        raise CheckpointError(f"{directory}: {MANIFEST} is not a manifest")
    for name, file_entry in body["files"].items():
        check_name(name)
        if (
            not isinstance(file_entry, dict)
            or set(file_entry) != {"size", "sha256"}
            or type(file_entry["size"]) is not int
        ):
            raise CheckpointError(f"{directory}: {MANIFEST} says nothing usable about {name}")
    return contents


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
