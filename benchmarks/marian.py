"""Hugging Face's Marian, trained on padded batches of the same lengths: the trainer to compare with."""

from __future__ import annotations

import gc
import random
import statistics
import time
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

PAD, BOS, EOS = 0, 1, 2
VOCAB = 32_768


def batches(sizes: list[tuple[int, int]], count: int, tokens: int = 25_000) -> list[tuple[Tensor, Tensor, int]]:
    """Batches sorted by length and cut at so many padded tokens, as fairseq and OpenNMT cut them."""
    chance, generator = random.Random(0), torch.Generator().manual_seed(0)
    cut: list[list[tuple[int, int]]] = [[]]
    for pair in sorted(sizes, key=lambda pair: (pair[1], pair[0])):
        longest = max((max(each) for each in [*cut[-1], pair]), default=0)
        if cut[-1] and longest * (len(cut[-1]) + 1) > tokens:
            cut.append([])
        cut[-1].append(pair)
    chance.shuffle(cut)
    return [_batch(pairs, generator) for pairs in cut[:count]]


def _batch(pairs: list[tuple[int, int]], generator: torch.Generator) -> tuple[Tensor, Tensor, int]:
    source = torch.full((len(pairs), max(s for s, _ in pairs)), PAD)
    target = torch.full((len(pairs), max(t for _, t in pairs) + 1), PAD)
    for line, (s, t) in enumerate(pairs):
        source[line, :s] = torch.randint(3, VOCAB, (s,), generator=generator)
        target[line, 1 : t + 1] = torch.randint(3, VOCAB, (t,), generator=generator)
        source[line, s - 1] = target[line, t] = EOS
        target[line, 0] = BOS
    return source, target, sum(s + t for s, t in pairs)


def marian(*, compiled: bool, device: str) -> tuple[torch.nn.Module, Any]:
    """Transformer base, and its loss of a batch."""
    from transformers import MarianConfig, MarianMTModel

    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 6), ("attention_heads", 8), ("ffn_dim", 2048))
    }
    special = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    config = MarianConfig(
        vocab_size=VOCAB,
        d_model=512,
        dropout=0.1,
        activation_function="relu",
        max_position_embeddings=512,
        attn_implementation="sdpa",
        scale_embedding=True,
        **sides,
        **special,
    )
    model = MarianMTModel(config).to(device).train()
    forward = torch.compile(model, dynamic=True) if compiled else model

    def loss(source: Tensor, target: Tensor) -> Tensor:
        read = target[:, :-1]
        logits = forward(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=read,
            decoder_attention_mask=(read != PAD).long(),
            use_cache=False,
        ).logits
        labels = target[:, 1:].reshape(-1)
        return F.cross_entropy(logits.reshape(-1, VOCAB), labels, ignore_index=PAD, label_smoothing=0.1)

    return model, loss


def measure(sizes: list[tuple[int, int]], *, compiled: bool, device: str = "cuda", count: int = 12) -> dict[str, Any]:
    """Real tokens of both sides a second, the median of three passes over the batches, and the peak of memory."""
    model, loss = marian(compiled=compiled, device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    given = [(source.to(device), target.to(device), tokens) for source, target, tokens in batches(sizes, count)]
    gc.collect()  # what was measured before in this process is not this one's memory
    torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(4):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for source, target, _ in given:
            with torch.autocast("cuda", torch.bfloat16):
                one = loss(source, target)
            one.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    real = sum(tokens for _, _, tokens in given)
    spent = statistics.median(seconds[1:])
    return {
        "name": f"Hugging Face Marian, {'compiled' if compiled else 'eager'}",
        "tokens_per_second": round(real / spent),
        "ms_per_step": round(1000 * spent / count, 2),
        "tokens_per_step": round(real / count),
        "warm_seconds": round(seconds[0], 1),
        "peak_gib": round((torch.cuda.max_memory_allocated() - held) / 2**30, 1),
    }
