"""The registry: every model is in it under one name, and comes back from its settings and weights."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard import checkpoint, config, models
from regard.config import words
from regard.config.registry import Registry
from regard.models import MODELS, RENAMED, build, config_of, modernise_settings, revive
from regard.models.interface import ModelConfig
from regard.models.word2vec import Word2VecConfig

ROOT = Path(__file__).parent.parent
EYE = {"name": "vit", "size": 8, "patch": 4, "width": 16, "heads": 2, "hidden": 24, "depth": 1}
SHAPES: dict[str, dict[str, Any]] = {
    "transformer": {"vocab": 40, "width": 16, "heads": 2, "hidden": 32, "encoder": 1, "decoder": 1},
    "seq2seq": {"vocab": 40, "width": 16, "embedding": 16, "cell": "lstm"},
    "rnn-lm": {"vocab": 40, "width": 16, "depth": 2, "tied": True},
    "gpt": {"vocab": 40, "width": 16, "heads": 4, "groups": 2, "hidden": 32, "depth": 2, "context": 16, "tied": False},
    "bert": {"vocab": 40, "width": 16, "heads": 4, "hidden": 32, "depth": 2, "context": 16, "offset": 2},
    "t5": {"vocab": 40, "width": 16, "heads": 4, "depth": 6, "hidden": 32, "encoder": 1, "decoder": 2, "tied": False},
    "rnn-encoder": {"vocab": 40, "classes": 3, "width": 8, "embedding": 8, "pool": "attention"},
    "cnn-encoder": {"vocab": 40, "classes": 3, "embedding": 8, "maps": 4},
    "transformer-encoder": {"vocab": 40, "classes": 3, "embedding": 8, "width": 16, "hidden": 32, "pool": "class"},
    "bert-encoder": {"vocab": 40, "classes": 3, "width": 16, "heads": 4, "hidden": 32, "depth": 1, "context": 16},
    "gpt-encoder": {"vocab": 40, "classes": 3, "width": 16, "heads": 4, "hidden": 32, "depth": 1, "context": 16},
    "linear": {"vocab": 40, "classes": 3, "buckets": 16},
    "perceptron": {"inputs": 3, "outputs": 2, "hidden": [8]},
    "gat": {"inputs": 5, "classes": 3, "width": 4, "heads": 2},
    "class-and-box": {"size": 32, "channels": [4, 8]},
    "count-per-frame": {"size": 32, "most": 3, "channels": [4, 8], "width": 8},
    "vit": {"classes": 3, "size": 16, "patch": 4, "width": 16, "heads": 2, "hidden": 24, "depth": 2, "pooler": True},
    "resnet": {"classes": 3, "size": 16, "stem": "small", "depths": [1, 1], "widths": [4, 8], "block": "bottleneck"},
    "vgg": {"classes": 3, "size": 16, "depths": [1, 2], "widths": [4, 8], "hidden": 6},
    "efficientnet": {"classes": 3, "size": 32, "width_factor": 0.1, "depth_factor": 0.5},
    "spatial-transformer": {
        "classes": 3,
        "size": 16,
        "transformers": 2,
        "searching": [4],
        "widths": [4, 8],
        "hidden": 8,
    },
    "captioner": {"vocab": 40, "encoder": EYE, "width": 8, "embedding": 6},
    "transformer-captioner": {"vocab": 40, "encoder": EYE, "width": 16, "heads": 2, "hidden": 24, "reader": 1},
    "image-gpt": {"vocab": 9, "size": 4, "width": 16, "heads": 2, "hidden": 24, "depth": 1, "context": 17},
    "axial": {"vocab": 9, "size": 3, "width": 16, "heads": 2, "hidden": 24, "above": 1, "depth": 1},
    "sagan": {"classes": 3, "size": 8, "noise": 4, "widths": [16, 8, 8]},
    "ntm": {"inputs": 3, "outputs": 2, "width": 8, "places": 5, "depth": 4},
    "rnn-per-step": {"inputs": 3, "outputs": 2, "width": 8},
    "word2vec": {"vocab": 40, "width": 8},
    "moma": {"inputs": [4, 3], "classes": 2, "modules": 3},
    "deeprog": {"inputs": [4, 3], "classes": 2, "width": 8},
}
every = pytest.mark.parametrize("name", SHAPES)


def test_every_model_is_here_under_one_name():
    assert list(MODELS) == list(SHAPES)
    assert len({kind for _, kind in MODELS.values()}) == len(MODELS), "a config belongs to one name"
    sources = [path.read_text(encoding="utf-8") for path in (ROOT.parent / "regard" / "models").glob("*.py")]
    written = [
        name for source in sources for name in re.findall(r'^    name: Literal\["(.+?)"\]', source, re.MULTILINE)
    ]
    assert sorted(written) == sorted(MODELS)


def test_a_name_is_looked_up_without_an_import_and_what_it_stands_for_with_one():
    own = Registry(
        {
            "pair": "regard.config.words:suggest_name,quote",
            "one": "regard.config.registry:Registry",
            "gone": "regard.no:It",
        }
    )
    assert list(own) == ["pair", "one", "gone"]
    assert "gone" in own
    assert "other" not in own
    assert own["pair"] == (words.suggest_name, words.quote)
    assert own["one"] is Registry
    with pytest.raises(ModuleNotFoundError):
        own["gone"]
    with pytest.raises(KeyError):
        own["other"]
    assert own.get("other") is None
    with pytest.raises(ValueError, match="os:system is no part of regard"):
        Registry({"bad": "os:system"})


@every
def test_a_config_says_which_model_it_is_and_the_model_is_a_module(name: str):
    shape = config_of({"name": name, **SHAPES[name]})
    assert shape.name == name
    assert type(shape) is MODELS[name][1]
    assert isinstance(build(shape), nn.Module)
    assert config_of(config.plain(shape)) == shape


@every
def test_every_model_comes_back_from_a_checkpoint(name: str, tmp_path: Path):
    shape = config_of({"name": name, **SHAPES[name]})
    model = build(shape)
    files = {"config.yaml": {"model": config.plain(shape)}, "model.safetensors": checkpoint.weights(model)}
    checkpoint.write(tmp_path / "model", files)
    found = checkpoint.read(tmp_path / "model")
    torch.manual_seed(3)
    drawn = torch.get_rng_state()
    again = revive(found.config["model"], found.tensors())
    assert torch.equal(torch.get_rng_state(), drawn), "weights were drawn to be thrown away"
    assert type(again) is type(model)
    assert not again.training
    assert again.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(each, model.state_dict()[key]) for key, each in again.state_dict().items())
    buffers = dict(model.named_buffers())
    assert all(torch.equal(each, buffers[key]) for key, each in again.named_buffers())
    assert [key for key, _ in again.named_parameters()] == [key for key, _ in model.named_parameters()]
    assert [each.requires_grad for each in again.parameters()] == [each.requires_grad for each in model.parameters()]


@every
def test_weights_that_do_not_fit_are_named(name: str):
    settings = {"name": name, **SHAPES[name]}
    tensors = checkpoint.weights(build(config_of(settings)))
    first = next(iter(tensors))
    with pytest.raises(ValueError, match=f"{first} is missing"):
        revive(settings, {key: each for key, each in tensors.items() if key != first})
    with pytest.raises(ValueError, match="it has no strange"):
        revive(settings, {**tensors, "strange": torch.ones(1)})


def test_an_unknown_model_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="unknown model 'seq2sec', did you mean seq2seq"):
        config_of({"name": "seq2sec"})
    with pytest.raises(ValueError, match="unknown model None; there are transformer, seq2seq"):
        config_of({})
    with pytest.raises(ValueError, match=r"unknown setting model\.widht, did you mean width"):
        config_of({"name": "seq2seq", "widht": 3})


def test_a_size_that_no_memory_holds_is_refused_in_a_line():
    huge = {"name": "perceptron", "inputs": 10**7, "outputs": 10**4, "hidden": []}
    for tensors, message in (
        ({"layers.0.weight": torch.ones(2, 3), "layers.0.bias": torch.ones(2)}, r"layers\.0\.weight is \(2, 3\), not"),
        ({}, r"layers\.0\.weight is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            revive(huge, tensors)
    with pytest.raises(ValueError, match=r"model\.inputs must be a whole number") as caught:
        revive({**huge, "inputs": 1 << 62}, {})
    assert "\n" not in str(caught.value)


def test_a_table_of_words_gives_their_vectors_and_is_as_long_as_they_are():
    vectors = torch.randn(5, 8)
    table = revive({"name": "word2vec", "width": 8}, {"vectors": vectors})
    assert torch.equal(table(torch.tensor([[4, 0]])), vectors[torch.tensor([[4, 0]])])
    assert table.config == Word2VecConfig(vocab=5, width=8)


def test_reviving_imports_nothing_that_takes_seconds():
    script = (
        "import sys\nfrom regard.models import build, config_of, revive\n"
        "from regard.models.weights import weights\nfrom tests.models.test_registry import SHAPES\n"
        "for name, shape in SHAPES.items():\n"
        "    settings = {'name': name, **shape}\n"
        "    tensors, before = weights(build(config_of(settings))), set(sys.modules)\n"
        "    revive(settings, tensors)\n"
        "    print(name, *sorted(set(sys.modules) - before)[:3])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=3600, cwd=ROOT.parent)
    assert done.stderr == ""
    assert done.stdout.split() == list(SHAPES)


# Names of version 0.1


@pytest.mark.parametrize(("task", "old"), RENAMED)
def test_settings_of_old_name_the_model_of_today(task: str, old: str | None):
    new = RENAMED[task, old]
    shape = dict(SHAPES[new]) | ({} if old is None else {"name": old})
    found = modernise_settings({"task": task, "model": shape, "data": {"train": "a"}})
    assert found == {"task": task, "model": {**shape, "name": new}, "data": {"train": "a"}}
    assert modernise_settings(found) == found, "names of today stay"
    assert type(config_of(found["model"])) is MODELS[new][1]


@pytest.mark.parametrize(
    "settings", [{}, {"task": 3, "model": {}}, {"task": ["x"]}, {"model": [1]}, {"model": {"name": []}}]
)
def test_settings_that_are_none_are_left_to_others(settings: dict):
    assert modernise_settings(settings) == settings


@pytest.mark.parametrize("folder", [ROOT / "checkpoints" / "format-1", ROOT.parent / "regard" / "pretrained" / "en-fr"])
def test_shipped_and_frozen_checkpoints_come_back_unchanged(folder: Path):
    found = checkpoint.read(folder)
    model, expected = revive(found.config["model"], found.tensors()), regard.load(folder, device="cpu").model
    state = expected.state_dict()
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(each, state[key]) for key, each in model.state_dict().items())


def test_a_recurrent_translator_of_version_0_1_is_loaded(tmp_path: Path):
    frozen = checkpoint.read(ROOT / "checkpoints" / "format-1")
    vocab = frozen.config["model"]["vocab"]
    shape = {**SHAPES["seq2seq"], "vocab": vocab}
    model = build(config_of({"name": "seq2seq", **shape}))
    settings = {**frozen.config, "model": {"name": "recurrent", **shape}}
    files = {"config.yaml": settings, "tokenizer.json": frozen.data("tokenizer.json")}
    checkpoint.write(tmp_path / "model", {**files, "model.safetensors": checkpoint.weights(model)})
    translator = regard.load(tmp_path / "model", device="cpu")
    assert type(translator.model) is MODELS["seq2seq"][0]
    assert torch.equal(translator.model.bridge.weight, model.bridge.weight)


def test_weights_stay_in_the_mapped_file(tmp_path: Path):
    shape = config_of({"name": "transformer", **SHAPES["transformer"]})
    checkpoint.write(tmp_path / "model", {"model.safetensors": checkpoint.weights(build(shape))})
    tensors = checkpoint.read(tmp_path / "model").tensors()
    model = models.revive(config.plain(shape), tensors)
    there = [name for name, each in checkpoint.weights(model).items() if each.data_ptr() == tensors[name].data_ptr()]
    assert "embedding.weight" in there
    assert all(tensors[name].nbytes % 64 == 0 or tensors[name].data_ptr() % 64 == 0 for name in there)
    assert all(each.data_ptr() % 64 == 0 for each in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_config_can_be_made_by_name_alone_and_its_backbone_names_settings_that_it_has(name):
    kind = MODELS[name][1]
    shape = kind()
    assert isinstance(shape, ModelConfig)
    assert shape.phrase
    if (backbone := shape.backbone) is not None:
        settings = {field.name for field in fields(kind)}
        assert {*backbone.settings.values(), *backbone.same_model_settings, *backbone.interchangeable} <= settings
        assert {backbone.inner} - {""} <= settings
        assert backbone.settings.keys() <= backbone.sizes.keys()
        assert backbone.weights or name == "linear"
