"""Models of `transformers` read and written: the same logits, the same greedy text, the same bytes."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard import checkpoint, interop, models
from regard.attention.masks import Grid
from regard.interop.fields import Fields
from regard.interop.gpt import GPT2, Bloom, Llama
from regard.models.gpt import GPTConfig
from tests.interop.making import CASES, VOCAB, change, lay, scattered

PRESETS = ["gpt1", "gpt2", "bloom-560m", "llama-7b", "llama2-70b", "stories15m"]


def revived(found: interop.ImportedModel):
    """The model that was read, ready to use."""
    return models.revive(dataclasses.asdict(found.shape), found.tensors)


def written(folder: Path, shape, tensors, tokenizer, kind=None) -> Path:
    """A folder for `transformers`."""
    checkpoint.write(folder, interop.export_files(interop.family_for(shape, kind), shape, tensors, tokenizer))
    return folder


@torch.no_grad()
def logits(ours, tokens):
    """Ours for whole sequences."""
    batch, length = tokens.shape
    return ours.logits(ours(tokens, layout=Grid(torch.full((batch,), length), length)))


@torch.no_grad()
def greedy(ours, prompt, count: int) -> list[int]:
    """The likeliest tokens after a prompt, one by one with a cache."""
    scores, state = ours.start(prompt, limit=count)
    found = [int(scores[0, 0].argmax())]
    while len(found) < count:
        scores, state = ours.step(torch.tensor([[found[-1]]]), state)
        found.append(int(scores[0, 0].argmax()))
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_theirs_gives_the_same_logits_text_and_bytes(case, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    theirs = lay(tmp_path / "theirs", case)
    found = interop.read(tmp_path / "theirs")
    ours = revived(found)
    tokens = torch.randint(0, VOCAB, (3, 20))
    with torch.no_grad():
        expected = theirs(tokens).logits
    assert expected.std() > 0.5
    assert (logits(ours, tokens) - expected).abs().max() < 1e-5
    prompt = tokens[:1, :5]
    answer = theirs.generate(prompt, do_sample=False, max_new_tokens=20, eos_token_id=None, pad_token_id=0)
    assert greedy(ours, prompt, 20) == answer[0, 5:].tolist()
    out = written(tmp_path / "out", found.shape, found.tensors, found.tokenizer)
    before, after = (load_file(path / "model.safetensors") for path in (tmp_path / "theirs", out))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert tensor.numpy().tobytes() == after[name].numpy().tobytes(), name
    again = AutoModelForCausalLM.from_pretrained(out).eval()
    with torch.no_grad():
        assert torch.equal(again(tokens).logits, expected)
    text = "abba bad é 😀"
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer(text)["input_ids"] == found.tokenizer.encode(text)
    assert tokenizer.eos_token == "<|endoftext|>"
    assert json.loads((out / "config.json").read_text())["architectures"] == [type(theirs).__name__]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tied": False, "hidden": 40, "activation": "gelu", "eps": 1e-3},
        {"norm": "post"},
        {"positions": "alibi", "embedding_norm": True, "tied": False},
        {
            "normalisation": "rms",
            "gated": True,
            "positions": "rotary",
            "activation": "silu",
            "groups": 2,
            "attention_bias": False,
            "mlp_bias": False,
            "rotary_base": 300.0,
        },
    ],
    ids=["gpt2", "gpt2 untied", "openai-gpt", "bloom", "llama"],
)
def test_a_model_of_ours_gives_the_same_logits_there_and_comes_back(settings, tmp_path):
    from transformers import AutoModelForCausalLM

    shape = GPTConfig(**{"vocab": VOCAB, "width": 24, "heads": 4, "hidden": 96, "depth": 2, "context": 40} | settings)
    ours = scattered(models.build(shape)).eval()
    tokenizer = interop.read(made(tmp_path)).tokenizer
    out = written(tmp_path / "out", shape, checkpoint.weights(ours), tokenizer)
    theirs = AutoModelForCausalLM.from_pretrained(out).eval()
    tokens = torch.randint(0, VOCAB, (2, 30))
    with torch.no_grad():
        expected = theirs(tokens).logits
    assert (logits(ours, tokens) - expected).abs().max() < 1e-5
    back = interop.read(out)
    assert interop.family.inference_settings(back.shape) == interop.family.inference_settings(shape)
    state = checkpoint.weights(ours)
    assert state.keys() == back.tensors.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in back.tensors.items())


def made(folder: Path) -> Path:
    """A small GPT-2 of theirs."""
    lay(folder / "made")
    return folder / "made"


def test_a_body_saved_by_itself_or_with_old_buffers_is_the_same_model(tmp_path):
    place = made(tmp_path)
    tensors = load_file(place / "model.safetensors")
    expected = interop.read(place).tensors
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    bare["h.0.attn.bias"] = torch.ones(1, 1, 48, 48).tril().bool()
    bare["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    bare["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    save_file(bare, place / "model.safetensors", {"format": "pt"})
    found = interop.read(place).tensors
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_shards_are_one_model(tmp_path):
    lay(tmp_path / "whole")
    lay(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    whole, shards = (interop.read(tmp_path / name).tensors for name in ("whole", "shards"))
    assert whole.keys() == shards.keys()
    assert all(torch.equal(whole[name], tensor) for name, tensor in shards.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_what_it_is(dtype, tmp_path):
    place = made(tmp_path)
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(place / "model.safetensors").items()}
    save_file(tensors, place / "model.safetensors", {"format": "pt"})
    found = interop.read(place)
    out = written(tmp_path / "out", found.shape, found.tensors, found.tokenizer)
    after = load_file(out / "model.safetensors")
    assert {tensor.dtype for tensor in after.values()} == {dtype}
    assert all(torch.equal(tensor, after[name]) for name, tensor in tensors.items())
    assert f"torch.{json.loads((out / 'config.json').read_text())['torch_dtype']}" == str(dtype)
    assert revived(found).embedding.weight.dtype == torch.float32


@pytest.mark.parametrize("preset", PRESETS)
def test_usual_models_have_a_family(preset):
    shape = GPTConfig(**GPTConfig.PRESETS[preset])
    family = interop.family_for(shape)
    assert family.kind == {"gpt1": "openai-gpt", "gpt2": "gpt2", "bloom-560m": "bloom"}.get(preset, "llama")
    names = [name for link in family.links(shape) for name in link.ours]
    assert len(names) == len(set(names))
    assert set(names) == set(interop.family.blank(shape))


def test_what_no_family_can_hold_is_said_with_the_reasons():
    shape = GPTConfig(vocab=VOCAB, positions="relative", width=24, heads=4, hidden=96)
    with pytest.raises(ValueError, match="gpt2 cannot hold it, positions is relative and would be learned; openai-gpt"):
        interop.family_for(shape)
    with pytest.raises(ValueError, match="llama cannot hold it, normalisation is layer and would be rms"):
        interop.family_for(GPTConfig(vocab=VOCAB), "llama")
    with pytest.raises(ValueError, match="unknown type 'gpt3', did you mean gpt2"):
        interop.family_for(shape, "gpt3")


def test_settings_that_real_folders_have_are_understood():
    """As they stand in the folders of gpt2, bloom-560m and Llama-2-7b."""
    gpt2 = {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "n_ctx": 1024,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257,
    }  # fmt: skip
    bloom = {
        "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "n_embed": 1024,
        "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 3, "unk_token_id": 0, "hidden_dropout": 0.0, "initializer_range": 0.02, "n_inner": None,
        "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": True, "model_type": "bloom", "n_layer": 24,
        "num_attention_heads": 16, "offset_alibi": 100, "pretraining_tp": 1, "seq_length": 2048,
        "skip_bias_add": True, "skip_bias_add_qkv": False, "use_cache": True, "vocab_size": 250880,
    }  # fmt: skip
    llama = {
        "_name_or_path": "x", "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False,
        "torch_dtype": "float16", "transformers_version": "4.31.0", "use_cache": True, "vocab_size": 32000,
    }  # fmt: skip
    for family, fields, preset in ((GPT2, gpt2, "gpt2"), (Bloom, bloom, "bloom-560m"), (Llama, llama, "llama2-7b")):
        shape = family.build_config(Fields(fields))
        assert interop.family.inference_settings(shape) == interop.family.inference_settings(
            GPTConfig(**GPTConfig.PRESETS[preset])
        )


def test_settings_of_the_wrong_sort_are_named(tmp_path):
    place = made(tmp_path)
    change(place, n_embd="24")
    with pytest.raises(ValueError, match=r'config.json: n_embd must be a whole number, not "24"'):
        interop.read(place)
