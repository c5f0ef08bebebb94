"""Small models of other people's families with random weights, saved as `transformers` saves them."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, pre_tokenizers
from tokenizers import models as kinds

from regard.data.roles import BYTES

VOCAB = 300
OLD = {"n_positions": 48, "n_embd": 24, "n_layer": 3, "n_head": 4}
LLAMA = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 48,
}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", OLD),
    "gpt2 with other settings": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {**OLD, "n_inner": 40, "activation_function": "relu", "layer_norm_epsilon": 1e-3, "tie_word_embeddings": False},
    ),
    "openai-gpt": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", OLD),
    "bloom": ("BloomConfig", "BloomForCausalLM", {"hidden_size": 24, "n_layer": 3, "n_head": 6}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", LLAMA),
    "llama with other settings": (
        "LlamaConfig",
        "LlamaForCausalLM",
        {
            **LLAMA,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "hidden_act": "gelu",
            "rms_norm_eps": 1e-3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    ),
}


def model(case: str) -> Any:
    """A model of `transformers` whose weights are large enough to tell a wrong one."""
    import transformers

    config, kind, sizes = CASES[case]
    tokens = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
    found = getattr(transformers, kind)(getattr(transformers, config)(vocab_size=VOCAB, **tokens, **sizes)).eval()
    return scattered(found)


def scattered(model: Any) -> Any:
    """The model with weights drawn anew."""
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3, generator=generator)
        else:
            torch.nn.init.uniform_(weight, 0.3, 1.3, generator=generator)
    return model


def engine(vocab: int = VOCAB) -> Engine:
    """A byte-level tokenizer, as GPT-2 has, with the pairs of letters that come first in the alphabet."""
    names = ["<|endoftext|>", *sorted(BYTES)]
    pairs = [(a, b) for a in "abcdefg" for b in "abcdefg"][: vocab - len(names)]
    names += ["".join(pair) for pair in pairs]
    found = Engine(kinds.BPE({name: number for number, name in enumerate(names)}, pairs))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    found.add_special_tokens(["<|endoftext|>"])
    return found


def lay(folder: Path, case: str = "gpt2", **options: Any) -> Any:
    """Save a model with its tokenizer; the model itself."""
    made = model(case)
    made.save_pretrained(folder, **options)
    engine().save(str(folder / "tokenizer.json"))
    return made


def change(folder: Path, **fields: Any) -> None:
    """Change fields of the config.json in a folder."""
    place = folder / "config.json"
    place.write_text(json.dumps(json.loads(place.read_text(encoding="utf-8")) | fields), encoding="utf-8")
