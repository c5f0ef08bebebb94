"""Prepared data on disk, addressed by content: folders named by a hash of their inputs, published whole, verified.

`ensure_entry` caches files that a builder writes, `cached_arrays` memory-mapped arrays. Both compare every byte with a
digest before they return; a damaged entry is rebuilt, and a note says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

FORMAT = 3  # part of every key, and of the fingerprints that runs store
SEAL = 4  # the version of the manifest; entries with another one are built again
MANIFEST = "manifest.json"
ARRAYS = "arrays.json"
UNFINISHED = ".regard-unfinished-"
WEEK = 7 * 24 * 3600
PIECE = 1 << 25  # bytes that share a digest, so that several cores can check a large file
BUFFER = 1 << 20
ABSENT = ""  # the result of `find_damage` for an entry that is missing or of another version, which needs no message


def cache_folder(path: str | Path | None = None) -> Path:
    """Return the cache folder: `path`, REGARD_CACHE, or ~/.cache/regard."""
    return Path(path or os.environ.get("REGARD_CACHE") or Path("~/.cache/regard")).expanduser()


def key(**contents: Any) -> str:
    """Return the SHA-256 of JSON-serialisable values and the format of the cache."""
    text = json.dumps({"format": FORMAT, **contents}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """A finished folder whose files are unchanged since they were written."""

    place: Path
    notes: tuple[str, ...] = ()
    """What the user should hear: that it was damaged and had to be built again."""


def ensure_entry(cache: Path, name: str, build: Callable[[Path], None]) -> Entry:
    """Return the finished folder of this name, and build it if it is missing or damaged.

    It is built under a temporary name and renamed, so a folder under its final name is complete. If two processes
    need the same entry, one builds it and the other waits; on a file system without locks both build it, and the result
    of the first is used.
    """
    place = cache / name
    if find_damage(place) is None:
        return Entry(place)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(cache)
        with hold_lock(cache / f"{UNFINISHED}{name}.lock"):
            damaged_file = find_damage(place)
            if damaged_file is None:  # another process has built it meanwhile
                return Entry(place)
            _build(cache, place, build)
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"cannot write the cache folder {cache} ({reason}): set REGARD_CACHE to another one") from None
    return Entry(place, (f"cached data was damaged ({place / damaged_file}): prepared again",) if damaged_file else ())


def find_damage(place: Path) -> str | None:
    """Return the damaged file of an entry, ABSENT if there is no entry, or None if it is intact."""
    try:
        data = (place / MANIFEST).read_bytes()
    except OSError:
        return MANIFEST if place.is_dir() else ABSENT
    try:
        manifest = json.loads(data)
        files = manifest["files"] if manifest["format"] == SEAL else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return MANIFEST
    if files is None:
        return ABSENT
    if not isinstance(files, dict) or data != _manifest_bytes(files):
        return MANIFEST
    return _first_changed_file(place, files)


# Arrays by name.


class Builder:
    """Writer of arrays to the cache, whole or in parts, with a dictionary of facts."""

    def __init__(self, place: Path) -> None:
        self.facts: dict[str, Any] = {}
        """Anything JSON can write, given back with the arrays."""
        self._place = place
        self._files: dict[str, BinaryIO] = {}
        self._kinds: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
        self._lengths: dict[str, int] = {}

    def add(self, name: str, piece: np.ndarray) -> None:
        """Append to an array along its first axis; memory use does not grow."""
        kind = piece.dtype, piece.shape[1:]
        assert piece.dtype.kind in "biuf", f"{name}: {piece.dtype} cannot be kept"
        assert piece.ndim, f"{name} has no axis along which it could grow"
        assert self._kinds.setdefault(name, kind) == kind, f"{name} is of {self._kinds[name]}, not of {kind}"
        if name not in self._files:
            assert re.fullmatch(r"[A-Za-z0-9_-]+", name), f"{name!r} cannot name a file"
            self._files[name] = (self._place / f"{name}.bin").open("wb")
        self._files[name].write(np.ascontiguousarray(piece).data if piece.size else b"")
        self._lengths[name] = self._lengths.get(name, 0) + len(piece)

    def finish(self) -> None:
        """Write the index of the arrays."""
        self.close()
        arrays = {name: [kind.str, [self._lengths[name], *shape]] for name, (kind, shape) in self._kinds.items()}
        text = json.dumps({"arrays": arrays, "facts": self.facts})
        (self._place / ARRAYS).write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Stop writing; safe to call again."""
        for file in self._files.values():
            file.close()


class Arrays(Mapping[str, np.ndarray]):
    """Memory-mapped arrays of the cache by name, with their facts."""

    def __init__(self, cache_entry: Entry) -> None:
        plain = json.loads((cache_entry.place / ARRAYS).read_text(encoding="utf-8"))
        self.place, self.notes = cache_entry.place, cache_entry.notes
        self.facts: dict[str, Any] = plain["facts"]
        self._arrays = {
            name: _map_array(cache_entry.place / f"{name}.bin", *kind) for name, kind in plain["arrays"].items()
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def cached_arrays(
    kind: str, contents: Mapping[str, Any], build: Callable[[Builder], None], *, cache: str | Path | None = None
) -> Arrays:
    """Return the arrays made from these contents (digests of files, settings, a version), cached or built now."""

    def write(place: Path) -> None:
        builder = Builder(place)
        try:
            build(builder)
            builder.finish()
        finally:
            builder.close()

    return Arrays(ensure_entry(cache_folder(cache), f"{kind}-{key(kind=kind, **contents)}", write))


def _map_array(path: Path, kind: str, shape: list[int]) -> np.ndarray:
    if 0 in shape:
        return np.zeros(shape, np.dtype(kind))  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, np.dtype(kind), "r", shape=tuple(shape)))  # a plain array over the same pages


# Building, sealing and checking entries.


def _build(cache: Path, place: Path, build: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache))
    try:
        build(temporary)
        _seal(temporary)
        _publish(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel takes back from a killed process; go on without where there is none."""
    from filelock import FileLock

    lock = FileLock(path)
    try:
        lock.acquire()
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        lock.release()


def _remove_leftovers(cache: Path) -> None:
    """Remove incomplete entries of killed processes that are more than a week old."""
    for leftover in cache.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > WEEK:
                if leftover.is_dir():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink()


def _seal(temporary: Path) -> None:
    """Write the sizes and digests of all files to the manifest, and flush everything to the disk."""
    paths = {path.relative_to(temporary).as_posix(): path for path in sorted(temporary.rglob("*")) if path.is_file()}
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    digests = _digests(temporary, sizes)
    files = {name: {"size": sizes[name], "sha256": digests[name]} for name in paths}
    (temporary / MANIFEST).write_bytes(_manifest_bytes(files))
    for path in (*paths.values(), temporary / MANIFEST):
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _manifest_bytes(files: Mapping[str, Any]) -> bytes:
    """Return the manifest of these files, which includes a digest of itself."""
    body = json.dumps({"files": files, "format": SEAL}, sort_keys=True)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return json.dumps({"files": files, "format": SEAL, "sha256": digest}, sort_keys=True).encode()


def _first_changed_file(place: Path, files: Mapping[str, Any]) -> str | None:
    """Return the first file that differs from the manifest; sizes are checked first, as that is cheap."""
    for name, recorded in files.items():
        try:
            if (place / name).stat().st_size != recorded["size"]:
                return name
        except OSError:
            return name
    try:
        digests = _digests(place, {name: recorded["size"] for name, recorded in files.items()})
    except OSError as error:
        return str(error.filename or MANIFEST)
    return next((name for name, recorded in files.items() if digests[name] != recorded["sha256"]), None)


def _digests(place: Path, sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the SHA-256 of every part of every file; hashing releases Python's global lock and uses all cores."""
    pieces = [(name, start) for name, size in sizes.items() for start in range(0, max(size, 1), PIECE)]
    digests: dict[str, list[str]] = {name: [] for name in sizes}
    with ThreadPoolExecutor(min(len(pieces), os.cpu_count() or 1) or 1) as pool:
        for (name, _), digest in zip(
            pieces, pool.map(lambda piece: _digest(place / piece[0], piece[1]), pieces), strict=True
        ):
            digests[name].append(digest)
    return digests


def _digest(path: Path, start: int) -> str:
    digest, remaining = hashlib.sha256(), PIECE
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while remaining > 0 and (data := file.read(min(BUFFER, remaining))):
            digest.update(data)
            remaining -= len(data)
    return digest.hexdigest()


def _publish(temporary: Path, place: Path) -> None:
    for _ in range(3):  # another process may be repairing or building the same entry
        with contextlib.suppress(OSError):
            temporary.rename(place)
            return
        if find_damage(place) is None:
            return
        damaged = temporary.with_name(f"{temporary.name}-damaged")
        with contextlib.suppress(OSError):
            place.rename(damaged)
        shutil.rmtree(damaged, ignore_errors=True)
    raise ValueError(f"cannot put {place} in its place: remove it by hand or set REGARD_CACHE to another folder")
