"""CIFAR-10 as one npz file, from its public archive; nothing is unpickled.

    python scripts/make_cifar10.py cifar-10-binary.tar.gz data/cifar10.npz

The archive is the "binary version" of https://www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky 2009). Instead of it, the
folder it unpacks to is taken, or a folder with the same pictures as sheets, one picture of 32 x 32 in each line of
pixels: data_batch_1.png to data_batch_5.png, test_batch.png, and the labels as lists in JSON files (train_*.json,
test_*.json).
"""

import argparse
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PARTS = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
SIDE, CHANNELS = 32, 3
RECORD = 1 + CHANNELS * SIDE**2  # a label, then red, green and blue
LARGEST = 1 << 25  # bytes of a file that is still believed to be a batch


def main() -> None:
    """Read all batches and write one file."""
    parser = argparse.ArgumentParser(description="CIFAR-10 as one npz file.")
    parser.add_argument("source", type=Path, help="cifar-10-binary.tar.gz, its folder, or a folder of sheets")
    parser.add_argument("out", type=Path, help="the npz file to write")
    given = parser.parse_args()
    arrays = read(given.source)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(given.out, allow_pickle=False, classes=np.array(CLASSES), **arrays)
    print(f"{given.out}: {len(arrays['train_labels']):,} training and {len(arrays['test_labels']):,} test pictures")


def read(source: Path) -> dict[str, np.ndarray]:
    """Pictures, channels last, and labels of both parts."""
    arrays: dict[str, np.ndarray] = {}
    if source.is_dir() and (source / "test_batch.png").exists():
        for part in PARTS:
            arrays |= sheets(source, part)
        return arrays
    batch = _in_folder(source) if source.is_dir() else _in_archive(source)
    for part, names in PARTS.items():
        pairs = [records(batch(f"{name}.bin"), name) for name in names]
        arrays[f"{part}_pictures"], arrays[f"{part}_labels"] = map(np.concatenate, zip(*pairs, strict=True))
    return arrays


def records(data: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The pictures and labels of a batch: records of a label and three planes."""
    if not data or len(data) % RECORD:
        raise SystemExit(f"{name}.bin has {len(data):,} bytes, no multiple of {RECORD:,}: fetch the archive again")
    rows = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    if rows[:, 0].max() >= len(CLASSES):
        raise SystemExit(f"{name}.bin has a label of {rows[:, 0].max()}: give CIFAR-10, not CIFAR-100")
    pictures = rows[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pictures), rows[:, 0].copy()


def sheets(folder: Path, part: str) -> dict[str, np.ndarray]:
    """The same from sheets in which every line of pixels is a picture."""
    lines = [np.asarray(Image.open(folder / f"{name}.png").convert("RGB")) for name in PARTS[part]]
    [labels] = folder.glob(f"{part}_*.json")
    pictures = np.concatenate(lines).reshape(-1, SIDE, SIDE, CHANNELS)
    found = np.array(json.loads(labels.read_text()), np.uint8)
    if len(found) != len(pictures):
        raise SystemExit(f"{labels} has {len(found):,} labels for {len(pictures):,} pictures: fetch both again")
    return {f"{part}_pictures": pictures, f"{part}_labels": found}


def _in_folder(source: Path) -> Callable[[str], bytes]:
    return lambda name: (source / name).read_bytes()


def _in_archive(source: Path) -> Callable[[str], bytes]:
    """Files of the archive by name; it is read into memory, and nothing of it is written anywhere."""
    with tarfile.open(source) as archive:
        files = {Path(one.name).name: one for one in archive if one.isfile() and one.size <= LARGEST}
        held = {name: archive.extractfile(one).read() for name, one in files.items() if name.endswith(".bin")}  # type: ignore[union-attr]
    if missing := [name for names in PARTS.values() for name in names if f"{name}.bin" not in held]:
        raise SystemExit(f"{source} has no {missing[0]}.bin: give the binary version, cifar-10-binary.tar.gz")
    return held.__getitem__


if __name__ == "__main__":
    main()
