"""CIFAR-10's archive becomes one npz file, without anything being unpickled or unpacked."""

import io
import json
import runpy
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images.image_tables import LABEL
from regard.data.images.sources import PictureFile, shelve

SCRIPT = Path(__file__).parent.parent / "scripts" / "make_cifar10.py"
COUNT = 4  # pictures in a batch
NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def batches() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    chance = np.random.default_rng(0)
    return {
        name: (chance.integers(0, 256, (COUNT, 32, 32, 3), np.uint8), chance.integers(0, 10, COUNT).astype(np.uint8))
        for name in NAMES
    }


def binary(pictures: np.ndarray, labels: np.ndarray) -> bytes:
    planes = pictures.transpose(0, 3, 1, 2).reshape(COUNT, -1)
    return np.concatenate([labels[:, None], planes], 1).tobytes()


def run(monkeypatch: pytest.MonkeyPatch, source: Path, out: Path) -> None:
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, str(source), str(out)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def test_archive_folder_and_sheets_give_the_same_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = batches()
    files = {f"{name}.bin": binary(*batch) for name, batch in known.items()}
    (tmp_path / "folder").mkdir()
    for name, data in files.items():
        (tmp_path / "folder" / name).write_bytes(data)
    (tmp_path / "sheets").mkdir()
    for name, (pictures, _) in known.items():
        Image.fromarray(pictures.reshape(COUNT, 1024, 3)).save(tmp_path / "sheets" / f"{name}.png")
    for part, names in (("train", NAMES[:5]), ("test", NAMES[5:])):
        labels = [int(label) for name in names for label in known[name][1]]
        (tmp_path / "sheets" / f"{part}_labels.json").write_text(json.dumps(labels))
    for source in (archive(tmp_path / "cifar-10-binary.tar.gz", files), tmp_path / "folder", tmp_path / "sheets"):
        run(monkeypatch, source, tmp_path / "out" / "cifar10.npz")
        train, test = (
            shelve(PictureFile(path=str(tmp_path / "out" / "cifar10.npz")), part=part) for part in ("train", "test")
        )
        assert np.array_equal(train.pictures, np.concatenate([known[name][0] for name in NAMES[:5]]))
        assert np.array_equal(test.pictures, known["test_batch"][0])
        assert test.columns[LABEL] == [train.classes[label] for label in known["test_batch"][1]]
        assert train.classes[:2] == ("airplane", "automobile")


def test_another_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{name}.bin": binary(*batch) for name, batch in batches().items()}
    with pytest.raises(SystemExit, match=r"has no data_batch_2.bin: give the binary version"):
        run(monkeypatch, archive(tmp_path / "a.tar.gz", {"data_batch_1.bin": b""}), tmp_path / "a.npz")
    with pytest.raises(SystemExit, match=r"no multiple of 3,073: fetch the archive again"):
        run(monkeypatch, archive(tmp_path / "b.tar.gz", files | {"test_batch.bin": b"x"}), tmp_path / "b.npz")
    assert not (tmp_path / "a.npz").exists()
