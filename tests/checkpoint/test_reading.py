"""Reading checkpoints: each byte once, never as a whole in memory, in one file or in shards."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import tracemalloc
from collections import Counter
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
from regard.checkpoint import tensors as tensor_files
from regard.training import history

MEGABYTES = 24
BIG = {"a": torch.arange(MEGABYTES << 18, dtype=torch.float32).reshape(-1, 1024), "b": torch.ones(3)}


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose best checkpoint has some megabytes of weights."""
    run = tmp_path_factory.mktemp("runs") / "run"
    contents = {"config.yaml": {"task": "translation"}, "metrics.json": {"bleu": 41.5}, "model.safetensors": BIG}
    checkpoint.write(run / "best", contents, facts={"step": 3})
    (run / "config.yaml").write_text("task: translation\n")
    return run


class Counting(Disk):
    """A disk that counts how often each file is read."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()

    def read(self, path: Path) -> bytes:
        self.reads[path.name] += 1
        return super().read(path)

    def digest(self, path: Path) -> str:
        self.reads[path.name] += 1
        return super().digest(path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    disk = Counting()
    monkeypatch.setattr(checkpoint, "disk", disk)
    return disk.reads


def test_weights_are_hashed_once_however_often_they_are_used(big: Path, reads: Counter[str]) -> None:
    found = checkpoint.read(big / "best")
    for _ in range(3):
        assert torch.equal(found.tensors()["b"], BIG["b"])
    assert reads["model.safetensors"] == 1


def test_weights_are_never_in_memory_as_bytes(big: Path) -> None:
    checkpoint.read(big / "best").tensors()  # what is imported late is imported now
    tracemalloc.start()
    try:
        found = checkpoint.read(big / "best").tensors()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert torch.equal(found["a"], BIG["a"])
    assert peak < MEGABYTES << 19, f"{peak / 1e6:.1f} MB for weights of {MEGABYTES} MB"


def test_a_score_is_told_without_reading_the_weights(big: Path, reads: Counter[str]) -> None:
    assert history.summarise_run(big).best == {"bleu": 41.5}
    assert reads["metrics.json"] == 1
    assert reads["model.safetensors"] == 0


def test_a_score_that_was_tampered_with_is_not_told(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "best", {"metrics.json": {"bleu": 41.5}})
    (tmp_path / "config.yaml").write_text("task: translation\n")
    (tmp_path / "best" / "metrics.json").write_bytes(checkpoint.render({"bleu": 99.5}))
    found = history.summarise_run(tmp_path)
    assert found.best == {}
    assert "metrics.json is damaged" in found.reason


def test_weights_replaced_after_reading_are_compared_again(tmp_path: Path) -> None:
    for name, value in (("one", 1.0), ("two", 2.0)):
        checkpoint.write(tmp_path / name, {"model.safetensors": {"a": torch.full((8,), value)}})
    found = checkpoint.read(tmp_path / "one")
    (tmp_path / "two" / "model.safetensors").replace(tmp_path / "one" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        found.tensors()


def test_weights_damaged_after_a_glance_are_refused(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "best", {"model.safetensors": {"a": torch.ones(8)}})
    path = tmp_path / "best" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    found = checkpoint.peek(tmp_path / "best")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        found.tensors()


def test_writing_to_weights_that_were_read_leaves_the_file_alone(big: Path) -> None:
    found = checkpoint.read(big / "best").tensors()
    found["a"].zero_()
    assert torch.equal(checkpoint.read(big / "best").tensors()["a"], BIG["a"])


@given(st.lists(st.integers(1, 70), min_size=1, max_size=8))
def test_whole_blocks_of_weights_lie_where_kernels_like_them(tmp_path: Path, rows: list[int]) -> None:
    tensors = {f"{number}": torch.ones(size) for number, size in enumerate(rows)}
    tensors |= {"matrix": torch.ones(5, 16), "wide": torch.ones(8, dtype=torch.float64)}
    checkpoint.write(tmp_path / "best", {"model.safetensors": tensors})
    found = checkpoint.read(tmp_path / "best").tensors()
    whole = [tensor for tensor in found.values() if tensor.nbytes % 64 == 0]
    assert len(whole) >= 2
    assert all(tensor.data_ptr() % 64 == 0 for tensor in whole)
    assert all(tensor.data_ptr() % tensor.itemsize == 0 for tensor in found.values())


# Memory


def resident() -> int:
    """Bytes this process has in memory of its own; pages of files come and go as the system pleases."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_loading_and_saving_again_and_again_keeps_no_memory(big: Path, tmp_path: Path) -> None:
    def turn() -> None:
        tensors = checkpoint.read(big / "best").tensors()
        model = torch.nn.Module()
        model.a, model.b = (torch.nn.Parameter(torch.empty_like(tensors[name])) for name in "ab")
        checkpoint.fill(model, tensors)
        checkpoint.write(tmp_path / "best", {"model.safetensors": checkpoint.weights(model)})

    def least() -> int:
        """Of two turns: the allocator may keep the blocks of every other one."""
        found = []
        for _ in range(2):
            turn()
            gc.collect()
            getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # what is free goes back to the system
            found.append(resident())
        return min(found)

    for _ in range(6):  # until the allocator has its blocks
        turn()
    before = least()
    for _ in range(10):
        turn()
    assert least() - before < 3 * MEGABYTES << 20, "three checkpoints in twelve turns: one or two are the allocator's"
    assert str(big) not in Path("/proc/self/maps").read_text(), "a file is still mapped"


# Shards


def sharded(directory: Path, homes: dict[str, str], shards: dict[str, dict[str, torch.Tensor]]) -> Path:
    directory.mkdir(exist_ok=True)
    for name, tensors in shards.items():
        safetensors.torch.save_file(tensors, directory / name)
    index = {"metadata": {"total_size": 0}, "weight_map": homes}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3), "c": torch.ones(2, dtype=torch.bfloat16)}
HOMES = {"a": ONE, "b": TWO, "c": TWO}
SHARDS = {ONE: {"a": TENSORS["a"]}, TWO: {"b": TENSORS["b"], "c": TENSORS["c"]}}


def test_weights_in_shards_are_those_of_one_file(tmp_path: Path) -> None:
    found = checkpoint.gather(sharded(tmp_path / "theirs", HOMES, SHARDS))
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())
    safetensors.torch.save_file(TENSORS, tmp_path / "model.safetensors")
    assert all(torch.equal(checkpoint.gather(tmp_path)[name], tensor) for name, tensor in TENSORS.items())


def test_a_checkpoint_may_hold_its_weights_in_shards(tmp_path: Path, reads: Counter[str]) -> None:
    index = {"weight_map": HOMES}
    checkpoint.write(tmp_path / "best", {**SHARDS, "model.safetensors.index.json": index})
    found = checkpoint.read(tmp_path / "best")
    assert all(torch.equal(found.tensors()[name], tensor) for name, tensor in TENSORS.items())
    assert {name: reads[name] for name in (ONE, TWO)} == {ONE: 1, TWO: 1}
    (tmp_path / "best" / TWO).unlink()
    with pytest.raises(CheckpointError, match=f"{TWO} is missing"):
        checkpoint.read(tmp_path / "best")


def lost(directory: Path) -> None:
    (directory / TWO).unlink()


def cut(directory: Path) -> None:
    (directory / ONE).write_bytes((directory / ONE).read_bytes()[:-3])


def twice(directory: Path) -> None:
    safetensors.torch.save_file({"a": TENSORS["a"], "b": TENSORS["b"], "c": TENSORS["c"]}, directory / TWO)


def fewer(directory: Path) -> None:
    safetensors.torch.save_file({"b": TENSORS["b"]}, directory / TWO)


def elsewhere(name: Any) -> Callable[[Path], None]:
    return lambda directory: sharded(directory, {**HOMES, "a": name}, {}) and None


def said(text: str) -> Callable[[Path], None]:
    def write(directory: Path) -> None:
        (directory / "model.safetensors.index.json").write_text(text)

    return write


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lost, f"{TWO} is missing"),
        (cut, "cannot be read"),
        (twice, f"a is in two shards, {ONE} and {TWO}"),
        (fewer, f"c is missing from {TWO}"),
        (elsewhere(TWO), f"a is in {ONE}, where|a is missing from {TWO}"),
        (elsewhere("../secret.safetensors"), r"a is in '\.\./secret\.safetensors', which is no safetensors file of"),
        (elsewhere("/etc/x.safetensors"), "which is no safetensors file of this folder"),
        (elsewhere(".."), "which is no safetensors file of this folder"),
        (elsewhere(["x"]), "which is no safetensors file of this folder"),
        (elsewhere("evil.bin"), "which is no safetensors file of this folder"),
        (said("{}"), "cannot be read"),
        (said("{"), "cannot be read"),
        (said('{"weight_map": {}}'), "its weight_map names no tensor"),
        (said('{"weight_map": [1]}'), "its weight_map names no tensor"),
        (said("[" * 100_000), "cannot be read"),
    ],
)
def test_shards_that_do_not_fit_are_refused_in_a_line(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    safetensors.torch.save_file(TENSORS, tmp_path / "secret.safetensors")
    directory = sharded(tmp_path / "theirs", HOMES, SHARDS)
    damage(directory)
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoint.gather(directory)
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)


@pytest.mark.parametrize("kind", tensor_files.FLOATS)
@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
def test_one_number_that_is_not_finite_is_seen_wherever_it_is(kind, bad, monkeypatch):
    monkeypatch.setattr(tensor_files, "CHUNK", 40)
    sound = torch.linspace(-1, 1, 100).to(kind)
    sound[[3, 50]] = torch.tensor([torch.finfo(kind).max, torch.finfo(kind).min], dtype=kind)
    assert tensor_files.is_finite(sound.reshape(4, 25).T)
    assert tensor_files.is_finite(sound[:0])
    for place in (0, 39, 40, 99):
        damaged = sound.clone()
        damaged[place] = bad
        assert not tensor_files.is_finite(damaged.reshape(4, 25).T)
