"""Hugging Face's GPT-2 and BERT in the sizes of `benchmarks.language`, compiled, and its `generate`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

VOCAB = 50_304


def gpt(batch: int, context: int, *, small: bool) -> dict[str, Any]:
    """Tokens a second in training."""
    model = _gpt(context, small=small).train()
    tokens = torch.randint(0, model.config.vocab_size, (batch, context + 1), device=_place(small))
    run = model if small else torch.compile(model)

    def loss() -> torch.Tensor:
        logits = run(input_ids=tokens[:, :-1], use_cache=False).logits
        return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    return {"hugging_face": round(batch * context / _seconds(_step(model, loss, small), small))}


def bert(batch: int, context: int, *, small: bool) -> dict[str, Any]:
    """Tokens a second in training."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = _sizes({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 99}, small)
    model = BertForMaskedLM(BertConfig(attn_implementation="sdpa", **sizes)).to(_place(small)).train()
    run = model if small else torch.compile(model)
    tokens = torch.randint(0, model.config.vocab_size, (batch, context), device=_place(small))
    labels = torch.where(torch.rand(tokens.shape, device=tokens.device) < 0.15, tokens, -100)
    seconds = _seconds(_step(model, lambda: run(input_ids=tokens, labels=labels).loss, small), small)
    return {"hugging_face": round(batch * context / seconds)}


def writing(*, small: bool) -> dict[str, Any]:
    """Greedy tokens a second after a prompt of 32, with a static cache."""
    model = _gpt(1024, small=small).eval().to(torch.float32 if small else torch.bfloat16)
    found, length = {}, 8 if small else 256
    for batch in (1, 2) if small else (1, 64):
        prompt = torch.randint(0, model.config.vocab_size, (batch, 32), device=_place(small))
        cache = {} if small else {"cache_implementation": "static"}
        seconds = _seconds(lambda prompt=prompt, cache=cache: _generate(model, prompt, length, **cache), small, runs=2)
        found[f"hugging_face_{batch}"] = round(batch * length / seconds)
    return found


def writing_on_cpu(prompt: torch.Tensor, length: int, sizes: dict[str, Any]) -> Callable[[], None]:
    """The same with a model of these sizes on a CPU, to be timed in turns with others."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"n_embd": sizes["width"], "n_head": sizes["heads"], "n_layer": sizes["depth"], "n_positions": 512}
    ends = {"vocab_size": sizes["vocab"], "bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", **shape, **ends)).eval()
    return lambda: _generate(model, prompt, length)


def _gpt(context: int, *, small: bool) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = _sizes({"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 99}, small) or {"vocab_size": VOCAB}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "n_positions": max(context, 64)}
    return GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", **sizes, **still, **ends)).to(_place(small))


def _generate(model: Any, prompt: torch.Tensor, length: int, **how: Any) -> None:
    with torch.inference_mode():
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=length,
            min_new_tokens=length,
            do_sample=False,
            pad_token_id=0,
            **how,
        )


def _step(model: nn.Module, loss: Callable[[], torch.Tensor], small: bool) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=not small):
            found = loss()
        found.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def _seconds(action: Callable[[], Any], small: bool, *, runs: int = 10) -> float:
    spent = []
    for number in range(3 + runs):
        began = time.perf_counter()
        action()
        if not small:
            torch.cuda.synchronize()
        spent += [time.perf_counter() - began] if number >= 3 else []
    return statistics.median(spent)


def _sizes(tiny: dict[str, Any], small: bool) -> dict[str, Any]:
    return tiny if small else {}


def _place(small: bool) -> str:
    return "cpu" if small else "cuda"
