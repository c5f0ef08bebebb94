"""`regard import` and `regard export`: what is written, what is said, and what is never overwritten."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import regard
from regard import checkpoint, models
from regard.cli import run
from regard.metrics import calibration
from tests.data.images.drawing import fill
from tests.interop.making import lay
from tests.interop.test_bert import lay as lay_bert
from tests.interop.test_pictures import lay as lay_vit
from tests.interop.test_pictures import torchvision_vgg
from tests.interop.test_t5 import lay as lay_t5

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

BRIEF = ["training.steps=2", "training.eval_every=2", "training.tensorboard=false", "data.batch_size=2"]


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


def error_of(words: list[str], capsys) -> str:
    """The one line in which a command is refused."""
    assert run(words) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_an_imported_model_is_a_checkpoint_like_any_other(imported, capsys):
    saved = checkpoint.read(imported)
    assert {"config.yaml", "tokenizer.json", "README.md", "model.safetensors"} <= set(saved.files)
    assert saved.config["format"] == 1
    assert "Imported from `gpt`, a folder of Hugging Face's of type gpt2." in saved.text("README.md")
    assert models.revive(saved.config["model"], saved.tensors()).config.context == 48
    trained = regard.load(imported, device="cpu")
    assert trained.model.config.width == 24
    assert run(["generate", str(imported), "ab", "--length", "8", "--temperature", "0", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("ab")


def test_what_was_imported_is_said(folder, tmp_path, capsys):
    assert run(["import", str(folder), str(tmp_path / "a")]) == 0
    stdout = capsys.readouterr().out.splitlines()
    assert stdout[0] == f"{tmp_path / 'a'}: A GPT of 3 blocks, 24 wide, 4 heads, 30,072 parameters, 300 tokens"
    assert stdout[1] == f"use it with: regard generate {tmp_path / 'a'}"
    assert run(["import", str(folder), str(tmp_path / "b"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["type"] == "gpt2"
    assert result["parameters"] == 30_072
    assert result["model"]["depth"] == 3


def test_import_and_export_give_the_folder_back(folder, imported, tmp_path, capsys):
    from transformers import AutoModelForCausalLM

    assert run(["export", str(imported), str(tmp_path / "out"), "--to", "hf", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == {"folder": str(tmp_path / "out"), "type": "gpt2", "architecture": "GPT2LMHeadModel"}
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").config.n_layer == 3


def test_a_normalisation_that_is_missing_there_is_said(imported, tmp_path, capsys):
    saved = checkpoint.read(imported)
    files = {name: saved.data(name) for name in saved.files if name != "config.yaml"}
    tokenizer = {**saved.config.get("tokenizer", {}), "normalise": "full"}
    checkpoint.write(tmp_path / "full", {**files, "config.yaml": {**saved.config, "tokenizer": tokenizer}})
    assert run(["export", str(tmp_path / "full"), str(tmp_path / "out")]) == 0
    assert "texts are normalised here (full) before they become tokens" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["import", "export"])
def test_what_is_there_stays_unless_it_may_be_replaced(verb, folder, imported, tmp_path, capsys):
    source, out = str(folder if verb == "import" else imported), tmp_path / "out"
    out.mkdir()
    assert run([verb, source, str(out)]) == 0  # an empty folder is as good as none
    before = (out / "manifest.json").read_bytes()
    capsys.readouterr()
    assert f"{out}: is not empty" in error_of([verb, source, str(out)], capsys)
    assert (out / "manifest.json").read_bytes() == before
    assert run([verb, source, str(out), "--overwrite"]) == 0
    capsys.readouterr()
    (out / "manifest.json").unlink()
    assert "holds something that Regard did not write" in error_of([verb, source, str(out), "--overwrite"], capsys)
    (tmp_path / "file").write_text("x")
    assert "is a file, name a folder" in error_of([verb, source, str(tmp_path / "file")], capsys)


def test_models_that_others_have_no_place_for_are_refused(tmp_path, capsys):
    error = error_of(["export", "en-fr", str(tmp_path / "out")], capsys)
    assert "a model of kind transformer cannot be written for others" in error
    for name, words in (("model.json", "is a file, name the folder"), ("model.safetensors", "incomplete or damaged")):
        (tmp_path / name).write_bytes(b"x")
        assert words in error_of(["import", str(tmp_path / name), str(tmp_path / "out")], capsys)
    assert "no such folder" in error_of(["import", str(tmp_path / "nowhere"), str(tmp_path / "out")], capsys)
    (tmp_path / "photo.webp").write_bytes(b"x")
    import_error = error_of(["import", str(tmp_path / "photo.webp"), str(tmp_path / "out")], capsys)
    assert "photo.webp: is no model: name a folder in Hugging Face's form, or a file of weights" in import_error
    import_error = error_of(["import", "nobody/gpt2", str(tmp_path / "out")], capsys)
    assert "or fetch the model first, for instance by `hf download nobody/gpt2 --local-dir nobody/gpt2`" in import_error
    assert run(["export", "en-fr", str(tmp_path / "out"), "--to", "onnx"]) == 2
    assert not (tmp_path / "out").exists()


def test_a_model_of_others_is_measured_explained_timed_and_trained_on(imported, tmp_path, capsys, monkeypatch):
    """A GPT-2, through every command that takes a language model."""
    (tmp_path / "text.txt").write_text("abba bad cafe\n" * 20)
    model, text = str(imported), str(tmp_path / "text.txt")
    cpu = ["--device", "cpu"]
    assert run(["evaluate", model, text, "--json", *cpu]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bits_per_byte"] > 1
    trained = regard.load(imported, device="cpu")
    assert result["loss"] == pytest.approx(trained.measure("\n".join(["abba bad cafe"] * 20)).loss)
    assert run(["explain", model, "abba bad", "-o", str(tmp_path / "page.html"), *cpu]) == 0
    assert "<html" in (tmp_path / "page.html").read_text()
    capsys.readouterr()
    monkeypatch.setattr("regard.tasks.writing.TIMED_TOKENS", 4)
    assert run(["bench", model, "ab", "--json", *cpu]) == 0
    assert all(speed["rate"] > 0 for speed in json.loads(capsys.readouterr().out)["speeds"])
    how = [*BRIEF, "writing.length=4", *cpu]
    assert run(["train", "--from", model, "--text", text, *how, "--out", str(tmp_path / "run")]) == 0
    assert "windows of 48 tokens" in capsys.readouterr().err, "what the model holds"
    after = regard.load(tmp_path / "run", device="cpu")
    assert after.tokenizer.json() == trained.tokenizer.json()
    assert after.model.config == trained.model.config
    moved = (after.model.embedding.weight - trained.model.embedding.weight).abs().max()
    assert 0 < moved < 0.1, "it goes on from where they were"


def test_a_bert_of_others_fills_gaps_and_is_trained_on(tmp_path, capsys):
    lay_bert(tmp_path / "theirs", "bert")
    assert run(["import", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 0
    model, text = str(tmp_path / "ours"), tmp_path / "text.txt"
    text.write_text("A B C D\nE F G H\n" * 20)
    capsys.readouterr()
    assert run(["fill", model, "A [MASK] C", "--json", "--top", "99", "--device", "cpu"]) == 0
    [gap] = json.loads(capsys.readouterr().out)["gaps"]
    assert len(gap) == 55
    assert sum(record["probability"] for record in gap) == pytest.approx(1, abs=1e-3)
    assert run(["explain", model, "A [MASK] C", "--json", "--device", "cpu"]) == 0
    assert run(["evaluate", model, str(text), "--device", "cpu"]) == 0
    how = [*BRIEF, "data.context=34", "--device", "cpu"]
    more = ["objective.next_sentence=true", "data.document=line", "data.duplicates=keep"]
    for name, options in (("plain", []), ("next", more)):
        words = ["train", "--masked", "--from", model, "--text", str(text), *how, *options]
        assert run([*words, "--out", str(tmp_path / name)]) == 0, capsys.readouterr().err
    before, plain, both = (regard.load(tmp_path / name, device="cpu").model for name in ("ours", "plain", "next"))
    assert torch.equal(plain.next_sentence.weight, before.next_sentence.weight), "nobody asked about it"
    assert not torch.equal(both.next_sentence.weight, before.next_sentence.weight)


@pytest.mark.parametrize("case", ["bert without a head", "bert that compares", "roberta without a head"])
def test_a_bert_without_a_head_is_recommended_for_what_it_can_do(case, tmp_path, capsys):
    lay_bert(tmp_path / "theirs", case)
    assert run(["import", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 0
    out = str(tmp_path / "ours")
    assert capsys.readouterr().out.endswith(f'use it with: regard embed {out} "TEXT"\n')
    card = (tmp_path / "ours" / "README.md").read_text()
    assert 'regard embed DIRECTORY "TEXT"' in card
    assert "fill" not in card
    assert run(["explain", out, "A B C", "--json", "--device", "cpu"]) == 0
    assert "blocks.2.attention" in str(json.loads(capsys.readouterr().out))
    for words in (["fill", out, "A [MASK]"], ["evaluate", out, str(tmp_path / "ours" / "README.md")]):
        error = error_of([*words, "--device", "cpu"], capsys)
        assert "is a BERT without the head that guesses masked tokens" in error
        assert "regard embed" in error
    (tmp_path / "text.txt").write_text("A B C D\n" * 20)
    words = ["train", "--masked", "--from", out, "--text", str(tmp_path / "text.txt"), *BRIEF, "data.context=32"]
    assert run([*words, "--out", str(tmp_path / "run"), "--device", "cpu"]) == 1
    assert "start from one that has" in capsys.readouterr().err


def test_a_t5_of_others_restores_and_is_trained_on(tmp_path, capsys):
    lay_t5(tmp_path / "theirs", "1.0")
    assert run(["import", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 0
    model, text = str(tmp_path / "ours"), tmp_path / "text.txt"
    text.write_text("abba bad cafe\n" * 20)
    capsys.readouterr()
    assert run(["predict", model, "ab <extra_id_0> ba", "--json", "--device", "cpu", "-s", "length=5"]) == 0
    assert "answer" in json.loads(capsys.readouterr().out)
    assert run(["explain", model, "ab <extra_id_0> ba", "--json", "--device", "cpu"]) == 0
    assert run(["evaluate", model, str(text), "--device", "cpu"]) == 0
    how = [*BRIEF, "data.context=32", "--device", "cpu"]
    words = ["train", "--task", "span-corruption", "--from", model, "--text", str(text), *how]
    assert run([*words, "--out", str(tmp_path / "run")]) == 0, capsys.readouterr().err
    after = regard.load(tmp_path / "run", device="cpu")
    assert after.model.config.vocab == 140 > after.tokenizer.vocab, "rows to spare stay"


# Models of pictures.


def test_a_classifier_of_pictures_comes_answers_and_goes(tmp_path, capsys):
    theirs, ours, again = tmp_path / "vit", tmp_path / "ours", tmp_path / "again"
    lay_vit(theirs, "classifier")
    assert run(["import", str(theirs), str(ours), "--labels", "a,b,c,d,e"]) == 0
    stdout = capsys.readouterr().out.splitlines()
    assert stdout[0] == f"{ours}: A ViT of 3 blocks, 24 wide, 4 heads, patches of 4, 15,053 parameters, 5 classes"
    assert stdout[1] == f"use it with: regard classify {ours} PICTURE"
    Image.new("RGB", (20, 12), "red").save(tmp_path / "red.png")
    assert run(["classify", str(ours), str(tmp_path / "red.png"), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.split("\t")[1] in "abcde"
    assert run(["export", str(ours), str(again), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(again), "type": "vit", "for": "transformers"}
    before, after = (load_file(folder / "model.safetensors") for folder in (theirs, again))
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert json.loads((again / "config.json").read_text())["id2label"]["4"] == "e"
    assert "4 labels were named, and the head has 5" in error_of(
        ["import", str(theirs), str(tmp_path / "x"), "--labels", "a,b,c,d"], capsys
    )


@pytest.mark.parametrize("kind", ["resnet", "vit"])
def test_answers_are_the_same_after_a_round_trip(kind, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(calibration, "FEWEST", 1)  # a temperature is fitted to these few pictures
    photos, ours = fill(tmp_path / "photos", 4), tmp_path / "run"
    sizes = {"resnet": ["model.depths=[1]", "model.widths=[4]", "data.fit=squeeze"], "vit": ["model.width=16"]}
    brief = ["training.steps=3", "training.tensorboard=false", "training.device=cpu", "data.size=16"]
    words = ["train", "--pictures", str(photos), "--out", str(ours), f"model.name={kind}", *sizes[kind], *brief]
    assert run(words) == 0
    capsys.readouterr()
    assert run(["export", str(ours), str(tmp_path / "theirs")]) == 0
    assert "a temperature that was fitted" in capsys.readouterr().err
    assert run(["import", str(tmp_path / "theirs"), str(tmp_path / "back")]) == 0
    first, second = (regard.load(folder, device="cpu") for folder in (ours, tmp_path / "back"))
    assert second.classes == first.classes
    assert (second.shape.size, second.shape.channels) == (first.shape.size, first.shape.channels)
    assert second.shape.fit == first.shape.fit
    pictures = sorted(photos.rglob("*.png"))
    torch.testing.assert_close(
        second.logits(second.decode_images(pictures)), first.logits(first.decode_images(pictures))
    )
    if kind == "vit":
        from transformers import AutoImageProcessor

        wide = Image.open(pictures[0]).resize((40, 20))
        there = AutoImageProcessor.from_pretrained(tmp_path / "theirs")(wide, return_tensors="pt")["pixel_values"]
        here = first.normalise(first.decode_images([np.asarray(wide)]))
        assert (there - here).abs().max() < 0.05, "both cut out the middle"


def test_a_model_without_a_head_is_there_to_start_from(tmp_path, capsys):
    source, out = tmp_path / "vgg.safetensors", tmp_path / "vgg"
    save_file(torchvision_vgg(whole=False).state_dict(), source)
    assert run(["import", str(source), str(out)]) == 0
    stdout = capsys.readouterr().out
    assert "A VGG of 3 convolutions, 6 features, 664 parameters, no head" in stdout
    assert f"regard train --pictures DIR --from {out}" in stdout
    Image.new("RGB", (20, 12), "red").save(tmp_path / "red.png")
    words = ["classify", str(out), str(tmp_path / "red.png"), "--device", "cpu"]
    assert "reads pictures and has no head that would name them" in error_of(words, capsys)
    (tmp_path / "resnet18.pth").write_bytes(b"\x80\x02")
    pickled = error_of(["import", str(tmp_path / "resnet18.pth"), str(tmp_path / "y")], capsys)
    assert "is pickled, and a pickle can run code: convert it first with python -c" in pickled
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pytorch_model.bin").write_bytes(b"\x80\x02")
    for place in (tmp_path / "bin", tmp_path / "bin" / "pytorch_model.bin"):
        assert "is pickled, and a pickle can run code" in error_of(["import", str(place), str(tmp_path / "z")], capsys)
