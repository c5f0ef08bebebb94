"""Checkpoints: saved whole or not at all, and no damage goes unnoticed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import checkpoint
from regard.checkpoint import CheckpointError, Disk

CONTENTS: dict[str, Any] = {
    "config.yaml": {"model": {"width": 8, "rate": 1e-9}},
    "tokenizer.json": '{"é": 1}',
    "README.md": "# A model\n",
    "metrics.json": {"loss": 0.1, "bleu": float("nan")},
    "model.safetensors": {"a": torch.arange(6.0).reshape(2, 3), "b.c": torch.tensor(3)},
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "best"
    checkpoint.write(directory, CONTENTS, facts={"step": 7, "note": "first"})
    return directory


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(saved, tmp_path / "best"))


def test_what_is_written_is_read_back(saved: Path) -> None:
    found = checkpoint.read(saved)
    assert found.step == 7
    assert found.config == CONTENTS["config.yaml"]
    assert found.text("tokenizer.json") == CONTENTS["tokenizer.json"]
    assert found.metrics == {"loss": 0.1, "bleu": None}, "JSON has no NaN"
    tensors = found.tensors()
    assert tensors.keys() == {"a", "b.c"}
    assert all(torch.equal(tensors[name], tensor) for name, tensor in CONTENTS["model.safetensors"].items())
    assert set(found.manifest["files"]) == set(CONTENTS)
    assert names(saved.parent) == ["best"], "temporary files were left"


def test_every_file_and_both_directories_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    checkpoint.write(tmp_path / "best", CONTENTS)
    written = [tmp_path, tmp_path / "best", *(tmp_path / "best").iterdir()]
    assert {path.stat().st_ino for path in written} <= synced


def test_the_weights_are_an_ordinary_safetensors_file(saved: Path) -> None:
    assert safetensors.torch.load_file(saved / "model.safetensors").keys() == {"a", "b.c"}


def test_transposed_and_sliced_tensors_come_back_as_they_looked(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "transposed": whole.T,
        "middle": whole[1:2],
        "empty": whole[:0],
        "none": torch.zeros(0),
        "half": whole.half(),
    }
    checkpoint.write(tmp_path / "best", {"model.safetensors": tensors})
    found = checkpoint.read(tmp_path / "best").tensors()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("dtype", checkpoint.DTYPES, ids=str)
def test_every_kind_of_number_is_written_as_the_library_writes_it(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = {"é": torch.tensor([[0, 1], [2, 100]]).to(dtype), "scalar": torch.tensor(1).to(dtype), "b": torch.ones(3)}
    checkpoint.write(tmp_path / "best", {"training.safetensors": tensors})
    ours = (tmp_path / "best" / "training.safetensors").read_bytes()
    theirs = safetensors.torch.load(safetensors.torch.save(tensors))
    for loaded in (safetensors.torch.load(ours), checkpoint.read(tmp_path / "best").tensors("training.safetensors")):
        assert loaded.keys() == theirs.keys()
        assert all(torch.equal(loaded[name], theirs[name]) for name in theirs)
        assert all(loaded[name].dtype == theirs[name].dtype for name in theirs)


def test_a_kind_of_number_that_the_format_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.safetensors: a is of torch\.complex128"):
        checkpoint.write(tmp_path / "best", {"model.safetensors": {"a": torch.ones(1, dtype=torch.complex128)}})


def test_two_names_for_the_same_memory_are_refused(tmp_path: Path) -> None:
    weight = torch.ones(2)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: a and b share memory"):
        checkpoint.write(tmp_path / "best", {"model.safetensors": {"a": weight, "b": weight}})
    assert names(tmp_path) == []


def test_a_tied_weight_is_saved_once_and_comes_back_tied(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 3))
    model[1].weight = model[0].weight
    checkpoint.write(tmp_path / "best", {"model.safetensors": checkpoint.weights(model)})
    tensors = checkpoint.read(tmp_path / "best").tensors()
    assert tensors.keys() == {"0.weight", "1.bias"}
    with torch.no_grad():
        model[0].weight.zero_()
    checkpoint.fill(model, tensors)
    assert torch.equal(model[1].weight, tensors["0.weight"])
    assert model[1].weight is model[0].weight


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("bias"), "bias is missing"),
        (lambda tensors: tensors.update(scale=torch.ones(1)), "it has no scale"),
        (lambda tensors: tensors.update(bias=torch.ones(1)), r"bias is \(1,\), not \(2,\)"),
    ],
)
def test_weights_that_do_not_fit_are_named(change: Callable[[dict], Any], message: str) -> None:
    model = torch.nn.Linear(3, 2)
    tensors = checkpoint.weights(model)
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.fill(model, tensors)


def test_a_removal_that_is_cut_short_leaves_no_half_checkpoint(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "disk", FailingDisk(2, error=OSError("dead"), dead=True))
        checkpoint.remove(copied)
    assert names(copied.parent) == [".best.partial"]
    checkpoint.recover(copied)
    assert names(copied.parent) == []


# Damage


@given(st.data())
def test_every_flipped_bit_is_found(saved: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(saved.iterdir())))
    good = path.read_bytes()
    refuses(saved, path, good, flipped(good, data.draw(st.integers(0, 8 * len(good) - 1))))


def test_every_flipped_bit_of_the_manifest_is_found(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = (saved / "manifest.json").read_bytes()
    monkeypatch.setattr(checkpoint, "disk", disk := RottenDisk())
    for bit in range(8 * len(good)):
        disk.manifest = flipped(good, bit)
        with pytest.raises(CheckpointError):
            checkpoint.read(saved)
    disk.manifest = good
    checkpoint.read(saved)


class RottenDisk(Disk):
    """A disk that gives something else for the manifest, which spares the real one ten thousand writes."""

    manifest: bytes

    def read(self, path: Path) -> bytes:
        return self.manifest if path.name == "manifest.json" else super().read(path)


@given(st.data())
def test_every_truncated_or_extended_file_is_found(saved: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(saved.iterdir())))
    good = path.read_bytes()
    refuses(saved, path, good, good[: data.draw(st.integers(0, len(good) - 1))])
    refuses(saved, path, good, good + b"\n")


@pytest.mark.parametrize("name", [*CONTENTS, "manifest.json"])
def test_every_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        checkpoint.read(copied)


def test_a_stranger_in_the_directory_is_named_but_hidden_files_are_left_alone(copied: Path) -> None:
    (copied / ".DS_Store").write_bytes(b"")
    checkpoint.read(copied)
    (copied / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is not in the manifest"):
        checkpoint.read(copied)


def test_damage_after_reading_is_found_when_the_file_is_used(copied: Path) -> None:
    found = checkpoint.read(copied)
    (copied / "README.md").write_text("# B model\n")
    with pytest.raises(CheckpointError, match=r"README\.md is damaged"):
        found.text("README.md")
    with pytest.raises(CheckpointError, match=r"holds no other\.txt"):
        found.text("other.txt")


# Hostile directories, whose manifest vouches for them


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", ".hidden", "manifest.json", "a\0b", ""])
def test_names_that_leave_the_directory_are_refused(copied: Path, name: str) -> None:
    forge(copied, files={name: {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}})
    with pytest.raises(CheckpointError, match="cannot be the name"):
        checkpoint.read(copied)
    with pytest.raises(CheckpointError, match="cannot be the name"):
        checkpoint.write(copied.parent / "new", {name: b""})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "has format 2, this version reads 1"),
        ({"format": None}, "has format None"),
        ({"files": []}, "is not a manifest"),
        ({"facts": 3}, "is not a manifest"),
        ({"extra": 3}, "is damaged"),
        ({"files": {"a": 3}}, "says nothing usable about a"),
        ({"files": {"a": {"size": True, "sha256": ""}}}, "says nothing usable about a"),
    ],
)
def test_a_strange_manifest_is_refused(copied: Path, changes: dict, message: str) -> None:
    forge(copied, **changes)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.read(copied)


@pytest.mark.parametrize(
    "text", [b"[]", b"null", b"[" * 100_000, b"\xff", b'{"format": 1e999}', b" " * (1 << 20) + b"{}"]
)
def test_a_manifest_that_is_none_is_refused_in_one_line(copied: Path, text: bytes) -> None:
    good = (copied / "manifest.json").read_bytes()
    refuses(copied, copied / "manifest.json", good, text)


@given(st.binary(max_size=200))
def test_weights_that_are_no_safetensors_are_refused_in_one_line(saved: Path, data: bytes) -> None:
    directory = saved.with_name("odd")
    checkpoint.write(directory, {"model.safetensors": data, "config.yaml": b"a: [", "metrics.json": b"{"})
    found = checkpoint.read(directory)
    for use in (found.tensors, lambda: found.config, lambda: found.metrics):
        with pytest.raises(CheckpointError) as caught:
            use()
        assert "\n" not in str(caught.value)
    shutil.rmtree(directory)


@pytest.mark.parametrize("scale", [torch.ones(()), torch.ones(3), torch.ones(0), torch.ones(2, 2, 2)])
def test_shrunken_weights_whose_scales_do_not_fit_are_refused_in_one_line(scale: torch.Tensor, tmp_path: Path) -> None:
    tensors = {"matrix": torch.ones(2, 2, dtype=torch.int8), "matrix|scale": scale}
    checkpoint.write(tmp_path / "model", {"model.safetensors": tensors}, facts={})
    with pytest.raises(CheckpointError, match=r"cannot be read") as refusal:
        checkpoint.read(tmp_path / "model").tensors()
    assert "\n" not in str(refusal.value)


def test_special_files_are_not_waited_for(copied: Path) -> None:
    (copied / "README.md").unlink()
    os.mkfifo(copied / "README.md")
    with pytest.raises(CheckpointError, match=r"README\.md is damaged"):
        checkpoint.read(copied)


def test_a_directory_that_is_no_checkpoint_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_mother.txt").write_text("dear")
    with pytest.raises(CheckpointError, match=r"not a checkpoint, manifest\.json is missing"):
        checkpoint.read(tmp_path / "letters")
    with pytest.raises(CheckpointError, match="exists and is not a checkpoint"):
        checkpoint.write(tmp_path / "letters", CONTENTS)
    assert (tmp_path / "letters" / "to_mother.txt").read_text() == "dear"
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        checkpoint.read(tmp_path / "nowhere")


# Failing and killed writers


class FailingDisk(Disk):
    """A disk whose n-th operation fails; once `dead`, so do all that follow, as if the process had been killed."""

    def __init__(self, fails: int, *, error: BaseException, dead: bool = False) -> None:
        self.left, self.error, self.dead = fails, error, dead
        for name in ("free", "make", "write", "sync", "rename", "remove"):
            setattr(self, name, self.counted(getattr(super(), name)))

    def counted(self, operation: Callable) -> Callable:
        def run(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0 or (self.dead and self.left < 0):
                raise self.error
            return operation(*arguments)

        return run


OPERATIONS = 3 + 2 * len(CONTENTS) + 2 + 3  # free, make, files, manifest, directory; two renames, the parent
WRITES = [(operation, True) for operation in range(1, OPERATIONS + 1)]
WRITES += [(operation, False) for operation in range(1, OPERATIONS)]  # one rename less when nothing is replaced


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "interrupted"]
)
@pytest.mark.parametrize(("operation", "replacing"), WRITES)
def test_a_failed_write_leaves_the_old_checkpoint_and_nothing_else(
    operation: int, replacing: bool, error: BaseException, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if replacing:
        shutil.copytree(saved, tmp_path / "best")
    monkeypatch.setattr(checkpoint, "disk", FailingDisk(operation, error=error))
    expected = CheckpointError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        checkpoint.write(tmp_path / "best", CONTENTS, facts={"step": 8})
    assert names(tmp_path) == (["best"] if replacing else [])
    if replacing:
        assert checkpoint.read(tmp_path / "best").step == 7


@pytest.mark.parametrize("operation", range(1, OPERATIONS + 3))
def test_a_writer_killed_anywhere_leaves_a_valid_checkpoint_and_the_next_one_tidies_up(
    operation: int, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "disk", FailingDisk(operation, error=OSError("dead"), dead=True))
        try:
            checkpoint.write(copied, CONTENTS, facts={"step": 8})
            acknowledged = 8
        except CheckpointError:
            acknowledged = 7
    assert checkpoint.read(copied).step >= acknowledged
    checkpoint.write(copied, CONTENTS, facts={"step": 9})
    assert checkpoint.read(copied).step == 9
    assert names(copied.parent) == ["best"]


def test_a_checkpoint_without_room_is_refused_with_both_amounts(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "free", lambda disk, directory: 3_000_000)
    big = {"model.safetensors": {"a": torch.zeros(1_000_000)}}
    with pytest.raises(CheckpointError, match=r"best: not saved, it needs 4\.02 MB and 3\.00 MB are free"):
        checkpoint.write(copied, big)
    assert checkpoint.read(copied).step == 7
    assert names(copied.parent) == ["best"]


def test_room_is_asked_of_the_disk_that_will_hold_the_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.disk.free(tmp_path / "not" / "yet" / "there") > 0
    assert checkpoint.disk.free(Path("not/yet/there")) > 0


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    checkpoint.replace(path, b"old")
    for operation in (1, 2, 3):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "disk", FailingDisk(operation, error=OSError("full")))
            with pytest.raises(CheckpointError, match=r"metrics\.jsonl: not written, full"):
                checkpoint.replace(path, b"new")
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["metrics.jsonl"]
    checkpoint.replace(path, b"new")
    assert path.read_bytes() == b"new"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def flipped(data: bytes, bit: int) -> bytes:
    result = bytearray(data)
    result[bit // 8] ^= 1 << bit % 8
    return bytes(result)


def refuses(directory: Path, path: Path, good: bytes, bad: bytes) -> None:
    path.write_bytes(bad)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.read(directory)
    assert "\n" not in str(caught.value)
    path.write_bytes(good)


def forge(directory: Path, **changes: Any) -> None:
    """Rewrite the manifest so that it vouches for what it should not."""
    body = json.loads((directory / "manifest.json").read_text()) | changes
    del body["sha256"]
    body["sha256"] = hashlib.sha256(checkpoint.render(body)).hexdigest()
    (directory / "manifest.json").write_bytes(checkpoint.render(body))
