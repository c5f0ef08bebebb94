"""Folders that must not be read: each is refused in one line that names what is wrong, and nothing is written."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.cli import run
from tests.interop.making import change, engine, lay

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A small GPT-2 that can be read."""
    folder = tmp_path_factory.mktemp("sound")
    lay(folder)
    return folder


@pytest.fixture
def folder(sound, tmp_path) -> Path:
    """A copy of it to be spoilt."""
    place = tmp_path / "gpt"
    place.mkdir()
    for path in sound.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    return place


@pytest.fixture
def refused(folder, tmp_path, capsys):
    """What `regard import` says of the folder."""

    def say(*options: str) -> str:
        assert run(["import", str(folder), str(tmp_path / "out"), *options]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert "Traceback" not in said.err
        assert not (tmp_path / "out").exists()
        assert str(folder) in said.err
        return said.err

    return say


def weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Replace tensors of a folder, or drop those that are None; `__` stands for a dot."""
    tensors = load_file(folder / WEIGHTS)
    for name, tensor in changes.items():
        tensors.pop(name.replace("__", "."), None)
        if tensor is not None:
            tensors[name.replace("__", ".")] = tensor
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


FIELDS = [
    ("model_type", "gpt5", "model_type 'gpt5' cannot be read; there are gpt2, openai-gpt, bloom, llama"),
    ("model_type", ["gpt2"], "model_type ['gpt2'] cannot be read"),
    (
        "auto_map",
        {"AutoModel": "x.Y"},
        'auto_map is {"AutoModel": "x.Y"}, code of the model\'s own, which is never run',
    ),
    ("attention_window", 128, "attention_window is 128, a field that is not understood"),
    ("scale_attn_by_inverse_layer_idx", True, "scale_attn_by_inverse_layer_idx must be false, not true"),
    ("scale_attn_weights", 0, "scale_attn_weights must be true, not 0"),
    ("add_cross_attention", True, "add_cross_attention must be false, not true"),
    ("quantization_config", {"bits": 4}, 'quantization_config must be null, not {"bits": 4}'),
    ("activation_function", "mish", "activation_function must be one of gelu_new, gelu_pytorch_tanh"),
    ("n_layer", 2.0, "n_layer must be a whole number, not 2.0"),
    ("n_layer", True, "n_layer must be a whole number, not true"),
    ("n_layer", None, "n_layer must be a whole number, not null"),
    ("n_layer", -1, "depth must be a whole number from 1"),
    ("n_layer", 10**9, "depth must be a whole number from 1"),
    ("n_layer", 4, "transformer.h.3.attn.c_proj.weight is missing from the weights (12 in all)"),
    ("n_layer", 2, "the weights have transformer.h.2.attn.c_attn.bias, for which the model has no place"),
    ("n_head", 5, "5 heads do not divide a width of 24"),
    ("n_embd", 32, "transformer.wte.weight is (300, 24) and should be (300, 32)"),
    ("hidden_size", 32, "n_embd is 24 and hidden_size is 32, which mean the same"),
    ("n_positions", 10**6, "transformer.wpe.weight is (48, 24) and should be (1000000, 24)"),
    ("resid_pdrop", 2, "dropout must be a number of at least 0 and below 1"),
    ("layer_norm_epsilon", "small", 'layer_norm_epsilon must be a number, not "small"'),
    ("tie_word_embeddings", "yes", 'tie_word_embeddings must be true or false, not "yes"'),
    ("tie_word_embeddings", False, "lm_head.weight is missing from the weights (1 in all)"),
    ("a\nb", 1, r'"a\nb" is 1, a field that is not understood'),
]


@pytest.mark.parametrize(("name", "value", "reason"), FIELDS)
def test_a_field_that_is_wrong_or_not_understood_is_named(name, value, reason, folder, refused):
    change(folder, **{name: value})
    assert reason in refused()


BROKEN = [
    (b"", "config.json: cannot be read"),
    (b"{", "config.json: cannot be read"),
    (b"[1]", "config.json: expected a JSON object, not [1]"),
    (b"\xff\xfe", "config.json: cannot be read"),
    (b'{"model_type": "gpt2", "n_embd": NaN}', "NaN is no number of JSON"),
    (b'{"model_type": "gpt2", "n_embd": 1, "n_embd": 2}', "n_embd is given twice"),
    (b'{"n_embd": ' + b"9" * 10_000 + b"}", "config.json: cannot be read"),
    (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "config.json: "),
    (b" " * (1 << 20) + b"{}", "config.json: is larger than 1,048,576 bytes"),
    (b'{"n_embd": 24}', "config.json has no model_type, say it by --type: one of gpt2"),
]


@pytest.mark.parametrize(("data", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_a_config_that_is_no_config_is_refused(data, reason, folder, refused):
    (folder / "config.json").write_bytes(data)
    assert reason in refused()


def test_a_type_can_be_said_where_the_config_is_silent_and_not_against_it(folder, refused):
    assert "config.json has model_type 'gpt2', not 'llama': leave out --type" in refused("--type", "llama")
    fields = json.loads((folder / "config.json").read_text())
    del fields["model_type"]
    (folder / "config.json").write_text(json.dumps(fields))
    assert "model_type 'gpt5' cannot be read" in refused("--type", "gpt5")
    assert "must be one of" not in refused("--type", "llama")


TENSORS = [
    ({"transformer__ln_f__bias": None}, "missing from the weights (1 in all): they are incomplete, or its config"),
    ({"score__weight": torch.ones(2, 24)}, "have score.weight, for which the model has no place (1 in all): it has a "),
    ({"transformer__ln_f__bias": torch.ones(23)}, "transformer.ln_f.bias is (23,) and should be (24,)"),
    ({"transformer__ln_f__bias": torch.ones(24).int()}, "transformer.ln_f.bias is of int32, and only floats"),
    ({"transformer__ln_f__bias": torch.full((24,), float("nan"))}, "transformer.ln_f.bias holds numbers that are not"),
    ({"transformer__ln_f__bias": torch.full((24,), float("inf"))}, "transformer.ln_f.bias holds numbers that are not"),
    ({"lm_head__weight": torch.ones(300, 24)}, "lm_head.weight must repeat transformer.wte.weight"),
    ({"wte__weight": torch.ones(300, 24)}, "the weights have wte.weight, for which the model has no place"),
]


@pytest.mark.parametrize(("changes", "reason"), TENSORS, ids=range(len(TENSORS)))
def test_a_tensor_that_does_not_fit_is_named(changes, reason, folder, refused):
    weights(folder, **changes)
    assert reason in refused()


def indexed(folder: Path, homes: dict[str, object]) -> None:
    """Say by an index where tensors are, instead of one file of weights."""
    (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors")
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": homes}))


@pytest.mark.parametrize(
    ("shard", "reason"),
    [
        ("../model.safetensors", "'../model.safetensors', which is no safetensors file of this folder"),
        ("/etc/passwd", "which is no safetensors file of this folder"),
        ("..", "which is no safetensors file of this folder"),
        (7, "which is no safetensors file of this folder"),
        ("other.safetensors", "other.safetensors is missing"),
        ("model-00001-of-00001.safetensors", "where model.safetensors.index.json does not have it"),
    ],
)
def test_an_index_that_leads_astray_is_refused(shard, reason, folder, refused):
    indexed(folder, {"transformer.wte.weight": shard})
    assert reason in refused()


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": []}, [], 3])
def test_an_index_that_is_none_is_refused(index, folder, refused):
    indexed(folder, {})
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    refused()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_a_pickle_is_refused_with_the_command_that_converts_it(name, folder, refused):
    (folder / WEIGHTS).rename(folder / name)
    said = refused()
    assert f"{name} is pickled, and a pickle can run code" in said
    torch.save(load_file(folder / name), folder / "pickled")
    (folder / "pickled").rename(folder / name)
    command = said.partition("convert it first with python ")[2]
    subprocess.run(f"{sys.executable} {command}", shell=True, check=True)  # as a person would paste it
    assert load_file(folder / WEIGHTS).keys() == torch.load(folder / name, weights_only=True).keys()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 548105171\n"


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, None], ids=["empty", "hostile", "cut short"])
def test_weights_that_are_damaged_are_named_by_their_file(data, folder, refused):
    place = folder / WEIGHTS
    place.write_bytes(place.read_bytes()[:-10] if data is None else data)
    said = refused()
    assert f"{place}: cannot be read, " in said
    assert said.endswith(": it is incomplete or damaged, copy it again\n")
    indexed(folder, {"transformer.wte.weight": "model-00001-of-00001.safetensors"})
    assert f"{folder / 'model-00001-of-00001.safetensors'}: cannot be read, " in refused()


@pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json", "config.json"])
def test_a_pointer_that_stands_for_a_file_is_told_from_it(name, folder, refused):
    (folder / name).write_bytes(POINTER)
    assert f"{folder / name}: cannot be read, it is a pointer of Git LFS" in refused()


def test_other_ways_to_have_no_weights(folder, refused):
    (folder / WEIGHTS).rename(folder / "tf_model.h5")
    assert "tf_model.h5 cannot be read, only model.safetensors can" in refused()
    (folder / "tf_model.h5").unlink()
    assert "model.safetensors is missing" in refused()
    (folder / "config.json").unlink()
    assert "config.json is missing" in refused()


def test_a_vocabulary_that_does_not_fit_is_refused(folder, refused):
    engine(306).save(str(folder / "tokenizer.json"))
    assert "the tokenizer has 306 tokens and the model only 300: it belongs to another model" in refused()
    (folder / "tokenizer.json").write_text("{}")
    assert "the tokenizer has no vocabulary" in refused()
    (folder / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}')
    assert f'{folder / "tokenizer.json"}: a merge joins "a" and "b", and the vocabulary lacks' in refused()
    (folder / "tokenizer.json").unlink()
    refused()


def test_nothing_is_fetched_and_no_code_of_others_is_imported(folder, tmp_path, monkeypatch):
    """A folder is all there is: without a socket and without `transformers` it is read just the same."""
    import socket

    from regard import interop

    def forbidden(*args, **named):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(socket, "create_connection", forbidden)
    monkeypatch.setitem(sys.modules, "transformers", None)
    (folder / "modeling_gpt2.py").write_text("raise SystemExit('this was run')")
    assert interop.read(folder).kind == "gpt2"


def test_every_family_says_what_it_must_of_itself():
    from regard.interop import FAMILIES

    for kind, family in FAMILIES.items():
        assert family.kind == kind
        assert family.__doc__
        assert not {*family.constant} & family.harmless
        assert not family.idle or re.compile(family.idle)


def test_what_somebody_else_wrote_is_cut_in_a_message(folder, refused):
    change(folder, model_type="x" * 5000)
    assert len(refused()) < 1000
    change(folder, model_type="gpt2")
    (folder / WEIGHTS).unlink()
    index = {"weight_map": {"transformer.wte.weight": "y" * 5000 + ".safetensors"}}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    assert len(refused()) < 1000
