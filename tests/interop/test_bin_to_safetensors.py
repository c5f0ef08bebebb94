"""Pickled weights become safetensors; what a pickle would run is not run."""

import json
import os
import runpy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard import interop
from tests.interop.making import lay

SCRIPT = Path(__file__).parents[2] / "scripts" / "bin_to_safetensors.py"
convert = runpy.run_path(str(SCRIPT))["convert"]
WEIGHTS = "model.safetensors"


class Trap:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


@pytest.fixture
def pickled(tmp_path) -> tuple[Path, dict[str, torch.Tensor]]:
    """A small GPT-2 with pickled weights, the head and the table of tokens one tensor, and what they are."""
    lay(tmp_path / "gpt")
    tensors = load_file(tmp_path / "gpt" / WEIGHTS)
    (tmp_path / "gpt" / WEIGHTS).unlink()
    state = {**tensors, "lm_head.weight": tensors["transformer.wte.weight"]}
    torch.save(state, tmp_path / "gpt" / "pytorch_model.bin")
    return tmp_path / "gpt", tensors


def same(folder: Path, tensors: dict[str, torch.Tensor]) -> bool:
    """Whether a folder has exactly these weights."""
    found = load_file(folder / WEIGHTS)
    return found.keys() == tensors.keys() and all(torch.equal(found[name], tensors[name]) for name in found)


def test_the_weights_of_an_adapter_keep_its_name(tmp_path):
    torch.save({"base_model.model.classifier.weight": torch.ones(2, 3)}, tmp_path / "adapter_model.bin")
    assert convert(tmp_path) == tmp_path / "adapter_model.safetensors"
    [(name, tensor)] = load_file(tmp_path / "adapter_model.safetensors").items()
    assert (name, tensor.sum()) == ("base_model.model.classifier.weight", 6)
    assert not (tmp_path / WEIGHTS).exists()


def test_a_converted_folder_can_be_read(pickled):
    folder, tensors = pickled
    assert convert(folder) == folder / WEIGHTS
    assert same(folder, tensors)
    assert interop.read(folder).kind == "gpt2"
    with pytest.raises(ValueError, match="exists already"):
        convert(folder)


def test_shards_are_joined(pickled):
    folder, tensors = pickled
    (folder / "pytorch_model.bin").unlink()
    names = sorted(tensors)
    homes = {name: f"pytorch_model-{1 + n % 2:05}-of-00002.bin" for n, name in enumerate(names)}
    for shard in sorted(set(homes.values())):
        torch.save({name: tensors[name] for name in names if homes[name] == shard}, folder / shard)
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": homes}))
    convert(folder)
    assert same(folder, tensors)
    (folder / WEIGHTS).unlink()
    index.write_text(json.dumps({"weight_map": {names[0]: "../other.bin"}}))
    with pytest.raises(ValueError, match=r"'../other.bin' is no file of this folder"):
        convert(folder)


def test_a_pickle_that_would_run_something_is_refused(pickled, tmp_path):
    folder, tensors = pickled
    torch.save({**tensors, "trap": Trap(tmp_path / "sprung")}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be read as tensors alone"):
        convert(folder)
    assert not (tmp_path / "sprung").exists()
    assert not (folder / WEIGHTS).exists()


def test_weights_of_a_trainer_are_unwrapped_and_other_things_refused(pickled):
    folder, tensors = pickled
    torch.save({"state_dict": tensors, "epoch": 3}, folder / "pytorch_model.bin")
    convert(folder)
    assert same(folder, tensors)
    (folder / WEIGHTS).unlink()
    torch.save([1, 2], folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="something else than tensors"):
        convert(folder)
