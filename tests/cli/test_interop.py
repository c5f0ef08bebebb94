"""`regard import` and `regard export`: what is written, what is said, and what is never overwritten."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard import checkpoint, models
from regard.cli import run
from tests.interop.making import lay


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small GPT-2 of somebody else's."""
    place = tmp_path_factory.mktemp("theirs") / "gpt"
    lay(place)
    return place


@pytest.fixture(scope="module")
def imported(folder, tmp_path_factory) -> Path:
    """The same as a checkpoint."""
    out = tmp_path_factory.mktemp("ours") / "gpt"
    assert run(["import", str(folder), str(out)]) == 0
    return out


def refused(words: list[str], capsys) -> str:
    """The one line in which a command is refused."""
    assert run(words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_an_imported_model_is_a_checkpoint_like_any_other(imported, capsys):
    found = checkpoint.read(imported)
    assert {"config.yaml", "tokenizer.json", "README.md", "model.safetensors"} <= set(found.files)
    assert found.config["format"] == 1
    assert "Imported from `gpt`, a folder of Hugging Face's of type gpt2." in found.text("README.md")
    assert models.revive(found.config["model"], found.tensors()).config.context == 48
    trained = regard.load(imported, device="cpu")
    assert trained.model.config.width == 24
    assert run(["generate", str(imported), "ab", "--length", "8", "--temperature", "0", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("ab")


def test_what_was_imported_is_said(folder, tmp_path, capsys):
    assert run(["import", str(folder), str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{tmp_path / 'a'}: A GPT of 3 blocks, 24 wide, 4 heads, 30,072 parameters, 300 tokens"
    assert said[1] == f"use it with: regard generate {tmp_path / 'a'}"
    assert run(["import", str(folder), str(tmp_path / "b"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["type"] == "gpt2"
    assert told["parameters"] == 30_072
    assert told["model"]["depth"] == 3


def test_import_and_export_give_the_folder_back(folder, imported, tmp_path, capsys):
    from transformers import AutoModelForCausalLM

    assert run(["export", str(imported), str(tmp_path / "out"), "--to", "hf", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"folder": str(tmp_path / "out"), "type": "gpt2", "architecture": "GPT2LMHeadModel"}
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").config.n_layer == 3


def test_a_normalisation_that_is_missing_there_is_said(imported, tmp_path, capsys):
    found = checkpoint.read(imported)
    files = {name: found.data(name) for name in found.files if name != "config.yaml"}
    tokenizer = {**found.config.get("tokenizer", {}), "normalise": "full"}
    checkpoint.write(tmp_path / "full", {**files, "config.yaml": {**found.config, "tokenizer": tokenizer}})
    assert run(["export", str(tmp_path / "full"), str(tmp_path / "out")]) == 0
    assert "texts are normalised here (full) before they become tokens" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["import", "export"])
def test_what_is_there_stays_unless_it_may_be_replaced(verb, folder, imported, tmp_path, capsys):
    source, out = str(folder if verb == "import" else imported), tmp_path / "out"
    out.mkdir()
    assert run([verb, source, str(out)]) == 0  # an empty folder is as good as none
    before = (out / "manifest.json").read_bytes()
    capsys.readouterr()
    assert f"{out}: is not empty" in refused([verb, source, str(out)], capsys)
    assert (out / "manifest.json").read_bytes() == before
    assert run([verb, source, str(out), "--overwrite"]) == 0
    capsys.readouterr()
    (out / "manifest.json").unlink()
    assert "holds something that Regard did not write" in refused([verb, source, str(out), "--overwrite"], capsys)
    (tmp_path / "file").write_text("x")
    assert "is a file, name a folder" in refused([verb, source, str(tmp_path / "file")], capsys)


def test_models_that_others_have_no_place_for_are_refused(tmp_path, capsys):
    said = refused(["export", "en-fr", str(tmp_path / "out")], capsys)
    assert "a model of kind transformer cannot be written for others" in said
    (tmp_path / "model.safetensors").write_bytes(b"x")
    file = str(tmp_path / "model.safetensors")
    assert "is a file, name the folder" in refused(["import", file, str(tmp_path / "out")], capsys)
    assert "no such folder" in refused(["import", str(tmp_path / "nowhere"), str(tmp_path / "out")], capsys)
    assert run(["export", "en-fr", str(tmp_path / "out"), "--to", "onnx"]) == 2
    assert not (tmp_path / "out").exists()
