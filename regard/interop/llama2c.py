"""llama2.c model files (Karpathy 2023): seven numbers and then all weights of a Llama, read like a Llama folder.

Its rotary embeddings rotate the features 2i and 2i + 1 together, all others i and i + depth/2. So the rows of the query
and key matrices are permuted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.interop.folder import read_start

HEADER = struct.Struct("<7i")  # width, hidden, blocks, heads, groups of keys, vocabulary, context
MAGIC = struct.unpack("<i", b"24ka")[0]  # first bytes of versions 1 and 2 of the format
MOST = {"width": 1 << 18, "hidden": 1 << 18, "blocks": 1000, "heads": 1000, "groups": 1000, "context": 1 << 20}
EPS = 1e-5
BASE = 10000.0


def weights(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the fields of a config.json and the tensors of a Llama, memory-mapped from the file."""
    head = read_start(path, HEADER.size)
    if len(head) < HEADER.size:
        raise ValueError(f"{path}: is too short for a file of llama2.c")
    numbers = HEADER.unpack(head)
    if numbers[0] == MAGIC:
        raise ValueError(f"{path}: is of version {numbers[1]} of llama2.c's format, and only version 0 can be read")
    width, hidden, depth, heads, groups, vocab, context = numbers
    for (name, most), size in zip(MOST.items(), (width, hidden, depth, heads, groups, context), strict=True):
        if not 0 < size <= most:
            raise ValueError(f"{path}: has {size} for {name}, so this is no file of llama2.c")
    if width % heads or heads % groups or width // heads % 2:
        raise ValueError(f"{path}: {heads} heads in {groups} groups do not divide a width of {width}")
    fields = {
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": abs(vocab),
        "max_position_embeddings": context,
        "rms_norm_eps": EPS,
        "rope_theta": BASE,
        "tie_word_embeddings": vocab > 0,
    }
    return fields, _tensors(path, fields)


def _tensors(path: Path, fields: dict[str, Any]) -> dict[str, Tensor]:
    """Return every tensor under its name in a Hugging Face folder."""
    layout = _layout(fields)
    size, expected = path.stat().st_size, HEADER.size + 4 * sum(prod(shape) for _, shape in layout)
    if size != expected:
        raise ValueError(f"{path}: has {size:,} bytes and should have {expected:,} by its first seven numbers")
    depth = fields["num_hidden_layers"]
    tensors: dict[str, Tensor] = {}
    place = HEADER.size // 4
    numbers = torch.from_file(str(path), shared=False, size=size // 4, dtype=torch.float32)
    for name, shape in layout:
        whole = numbers[place : place + prod(shape)].view(shape)
        place += prod(shape)
        if name in ("cosine", "sine"):
            _check_rotary_table(path, name, whole)
        elif "{}" in name:
            tensors |= {name.format(n): whole[n] for n in range(depth)}
        else:
            tensors[name] = whole
    for n in range(depth):
        for letter, heads in (("q", fields["num_attention_heads"]), ("k", fields["num_key_value_heads"])):
            name = f"model.layers.{n}.self_attn.{letter}_proj.weight"
            tensors[name] = tensors[name].unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
    return tensors


def _layout(fields: dict[str, Any]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the names and shapes of the tensors after the header, in order."""
    width, hidden, depth = (fields[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    head = width // fields["num_attention_heads"]
    shared = head * fields["num_key_value_heads"]
    vocab, waves = fields["vocab_size"], (fields["max_position_embeddings"], head // 2)
    block = "model.layers.{}"
    layout: list[tuple[str, tuple[int, ...]]] = [
        ("model.embed_tokens.weight", (vocab, width)),
        (f"{block}.input_layernorm.weight", (depth, width)),
        (f"{block}.self_attn.q_proj.weight", (depth, width, width)),
        (f"{block}.self_attn.k_proj.weight", (depth, shared, width)),
        (f"{block}.self_attn.v_proj.weight", (depth, shared, width)),
        (f"{block}.self_attn.o_proj.weight", (depth, width, width)),
        (f"{block}.post_attention_layernorm.weight", (depth, width)),
        (f"{block}.mlp.gate_proj.weight", (depth, hidden, width)),
        (f"{block}.mlp.down_proj.weight", (depth, width, hidden)),
        (f"{block}.mlp.up_proj.weight", (depth, hidden, width)),
        ("model.norm.weight", (width,)),
        ("cosine", waves),
        ("sine", waves),
    ]
    return layout if fields["tie_word_embeddings"] else [*layout, ("lm_head.weight", (vocab, width))]


def _check_rotary_table(path: Path, name: str, table: Tensor) -> None:
    """Raise ValueError if the file's rotary tables differ from the computed ones, since they are not imported."""
    for start, rows in _pieces(table):
        places = torch.arange(start, start + len(rows), dtype=torch.float64)
        rates = BASE ** (-torch.arange(table.shape[1], dtype=torch.float64) / table.shape[1])
        angles = places[:, None] * rates
        expected = angles.cos() if name == "cosine" else angles.sin()
        if not torch.allclose(rows.double(), expected, atol=1e-3):
            raise ValueError(f"{path}: its rotary places have another base than {BASE:,.0f}, which is not understood")


def _pieces(table: Tensor, rows: int = 4096) -> Iterator[tuple[int, Tensor]]:
    return ((start, table[start : start + rows]) for start in range(0, len(table), rows))
