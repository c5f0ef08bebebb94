"""Attention of one decoding step as one Triton kernel: the beams of an example attend to a cache that does not move.

Imported only where Triton is installed and a CUDA device is used; `attend` does the same in plain PyTorch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.masks import Stepping

BEAMS = 31  # maximum, since the bits of an integer say which beams see a key
MANY = 256  # programs that keep the device busy; with fewer, each gets more threads


class Scoring(NamedTuple):
    """The scale of scores, their bias, and the rates at which queries and keys are rotated.

    A bias (heads, distance) is added by how far back a key is; a bias (heads) is subtracted, times that distance.
    """

    scale: float
    bias: Tensor | None = None
    rates: Tensor | None = None


def attend_past(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    cache: tuple[Tensor, Tensor],
    where: Stepping,
    sight: Tensor,
    scoring: Scoring,
) -> Tensor:
    """Write the newest key and value of every beam into the cache, and attend to the past of each."""
    out, (keys, values), (scale, bias, rates) = _empty_output(query), cache, scoring
    batch, groups = len(query), key.shape[1]
    linear = bias is not None and bias.ndim == 1
    _attend_block[(batch, groups)](
        *(query, key, value, keys, values, sight, where.taken, where.prompt, bias, rates, out),
        *(*query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *keys.stride()[:3], *values.stride()[:3]),
        *(where.room, sight.shape[1], 0 if bias is None or linear else bias.shape[1], scale),
        GROWING=True,
        LINEAR=linear,
        **_sizes(query, groups, keys.shape[2]),
    )
    return out.transpose(1, 2)


def attend_memory(query: Tensor, keys: Tensor, values: Tensor, *, lengths: Tensor, scale: float) -> Tensor:
    """Attend from all beams of each example to its memory (cross-attention), up to its length."""
    out = _empty_output(query)
    batch, groups = len(query), keys.shape[1]
    _attend_block[(batch, groups)](
        *(query, query, query, keys, values, lengths, lengths, lengths, None, None, out),
        *(*query.stride()[:3], 0, 0, 0, 0, 0, 0, *keys.stride()[:3], *values.stride()[:3]),
        *(0, 0, 0, scale),
        GROWING=False,
        LINEAR=False,
        **_sizes(query, groups, keys.shape[2]),
    )
    return out.transpose(1, 2)


def reorder(slots: Tensor, token_counts: Tensor, parents: Tensor) -> None:
    """Let beam k continue beam `parents[k]`, in place; slots to come stay each beam's own."""
    batch, beams, limit = slots.shape
    sizes = {"BEAMS": triton.next_power_of_2(beams), "LIMIT": triton.next_power_of_2(limit)}
    _reorder[(batch,)](slots, token_counts, parents, beams, limit, num_warps=1, **sizes)


def sight(where: Stepping) -> Tensor:
    """Return for each slot of the cache after the prompt a bit mask of the beams that see it."""
    batch, beams, limit = where.slots.shape
    assert beams <= BEAMS
    visibility = torch.empty(batch, limit * beams, dtype=torch.int32, device=where.slots.device)
    sizes = {"BEAMS": beams, "WIDE": triton.next_power_of_2(beams), "LIMIT": triton.next_power_of_2(limit)}
    _sight[(batch,)](where.slots, visibility, limit, num_warps=1, **sizes)
    return visibility


def _empty_output(query: Tensor) -> Tensor:
    """Return an empty output, laid out as the next projection reads it."""
    batch, heads, beams, depth = query.shape
    return torch.empty(batch, beams, heads, depth, dtype=query.dtype, device=query.device)


def _sizes(query: Tensor, groups: int, places: int) -> dict[str, int]:
    """Return the constants a kernel is compiled for; `tl.dot` needs sizes of at least 16."""
    batch, heads, beams, depth = query.shape
    rows = max(16, triton.next_power_of_2(beams * heads // groups))
    few = batch * groups < MANY
    sizes = {"BEAMS": beams, "SHARE": heads // groups, "DEPTH": depth, "ROWS": rows}
    sizes |= {"WIDE": max(16, triton.next_power_of_2(depth)), "KEYS": _keys(places) if few else 32}
    return sizes | {"num_warps": 4 if few or rows > 16 else 1}


def _keys(places: int) -> int:
    """Return the number of keys per block where there are threads for it: each block waits for the one before."""
    return 128 if places > 256 else 64 if places > 32 else 32


@triton.jit
def _rotate(vectors, base, place, real, depth, newest, rates, DEPTH: tl.constexpr):
    """Apply rotary position embeddings to vectors; feature i is paired with feature i + depth / 2."""
    angle = newest.to(tl.float32) * tl.load(rates + depth % (DEPTH // 2))
    partner = tl.load(base + place[:, None] + ((depth + DEPTH // 2) % DEPTH)[None, :], real, 0.0)
    sine = tl.where(depth < DEPTH // 2, -tl.sin(angle), tl.sin(angle))
    turned = vectors.to(tl.float32) * tl.cos(angle)[None, :] + partner.to(tl.float32) * sine[None, :]
    return turned.to(vectors.dtype)


@triton.jit
def _add_bias(score, bias, back, visible, LINEAR: tl.constexpr):
    """Add the bias by distance to the keys: from a table, or a slope times the distance."""
    if LINEAR:
        return score - bias[:, None] * back.to(tl.float32)[None, :]
    return score + tl.load(bias[:, None] + back[None, :], mask=visible, other=0.0)


@triton.jit
def _in_past(sight, place, beam, before, begun, room, BEAMS: tl.constexpr):
    """True for keys of the prompt and of the beam's past."""
    visible = ((place >= room) | (place < begun))[None, :]
    if BEAMS > 1:
        bits = tl.load(sight + (place - room), mask=(place >= room) & (place < before), other=-1)
        visible = visible & (((bits[None, :] >> beam[:, None]) & 1) == 1)
    return visible


@triton.jit
def _softmax_step(score, visible, content, highest, total, mixed):
    """Update the running softmax with one more block of keys."""
    score = tl.where(visible, score, -1e30)
    higher = tl.maximum(highest, tl.max(score, 1))
    share = tl.where(visible, tl.exp(score - higher[:, None]), 0.0)
    fade = tl.exp(highest - higher)
    mixed = mixed * fade[:, None] + tl.dot(share.to(content.dtype), content, input_precision="ieee")
    return higher, total * fade + tl.sum(share, 1), mixed


@triton.jit
def _attend_block(
    query, key, value, keys, values, sight, token_counts, prompt, bias, rates, out,
    q_batch, q_head, q_beam, k_batch, k_head, k_beam, v_batch, v_head, v_beam,
    keys_batch, keys_head, keys_place, values_batch, values_head, values_place,
    room, places, reach, scale,
    GROWING: tl.constexpr, LINEAR: tl.constexpr, BEAMS: tl.constexpr, SHARE: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, WIDE: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Attend with all queries of one example and one group of keys, block by block."""
    example, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row, depth = tl.arange(0, ROWS), tl.arange(0, WIDE)
    beam, head = row // SHARE, group * SHARE + row % SHARE
    real = (row < BEAMS * SHARE)[:, None] & (depth < DEPTH)[None, :]
    query += example * q_batch
    query_block = tl.load(query + (head * q_head + beam * q_beam)[:, None] + depth[None, :], real, 0.0)
    keys += example * keys_batch + group * keys_head
    values += example * values_batch + group * values_head
    if GROWING:
        sight += example * places
        before = room + (tl.load(token_counts + example) - 1) * BEAMS
        key += example * k_batch + group * k_head
        value += example * v_batch + group * v_head
        new_key = tl.load(key + (beam * k_beam)[:, None] + depth[None, :], real, 0.0)
        new_value = tl.load(value + (beam * v_beam)[:, None] + depth[None, :], real, 0.0)
        begun = tl.load(prompt + example)
        newest = begun + tl.load(token_counts + example) - 1
        if rates is not None:
            query_block = _rotate(query_block, query, head * q_head + beam * q_beam, real, depth, newest, rates, DEPTH)
            new_key = _rotate(new_key, key, beam * k_beam, real, depth, newest, rates, DEPTH)
        first = real & (row % SHARE == 0)[:, None]
        tl.store(keys + ((before + beam) * keys_place)[:, None] + depth[None, :], new_key, first)
        tl.store(values + ((before + beam) * values_place)[:, None] + depth[None, :], new_value, first)
        highest = tl.sum(query_block.to(tl.float32) * new_key.to(tl.float32), 1) * scale
        total, mixed = tl.full((ROWS,), 1.0, tl.float32), new_value.to(tl.float32)
        if bias is not None and LINEAR:
            bias = tl.load(bias + head, mask=row < BEAMS * SHARE, other=0.0)
        elif bias is not None:
            bias += head * reach
            highest += tl.load(bias, mask=row < BEAMS * SHARE, other=0.0)
    else:
        before = tl.load(token_counts + example)
        highest, total = tl.full((ROWS,), -1e30, tl.float32), tl.zeros((ROWS,), tl.float32)
        mixed = tl.zeros((ROWS, WIDE), tl.float32)
    for start in range(0, before, KEYS):
        place = start + tl.arange(0, KEYS)
        there = (place < before)[:, None] & (depth < DEPTH)[None, :]
        key_block = tl.load(keys + (place * keys_place)[:, None] + depth[None, :], mask=there, other=0.0)
        value_block = tl.load(values + (place * values_place)[:, None] + depth[None, :], mask=there, other=0.0)
        score = tl.dot(query_block, tl.trans(key_block), input_precision="ieee") * scale
        visible = (place < before)[None, :] & (row < BEAMS * SHARE)[:, None]
        if GROWING:
            visible = visible & _in_past(sight, place, beam, before, begun, room, BEAMS)
            if bias is not None:
                back = newest - tl.where(place < room, place, begun + (place - room) // BEAMS)
                score = _add_bias(score, bias, back, visible, LINEAR)
        highest, total, mixed = _softmax_step(score, visible, value_block, highest, total, mixed)
    mixed = mixed / tl.where(total > 0.0, total, 1.0)[:, None]
    into = out + (((example * BEAMS + beam) * tl.num_programs(1) * SHARE + head) * DEPTH)[:, None] + depth[None, :]
    tl.store(into, mixed.to(out.dtype.element_ty), mask=real)


@triton.jit
def _reorder(slots, token_counts, parents, beams, limit, BEAMS: tl.constexpr, LIMIT: tl.constexpr):
    """Reorder the index of one example, which is read whole before it is written."""
    example = tl.program_id(0).to(tl.int64)
    beam, step = tl.arange(0, BEAMS), tl.arange(0, LIMIT)
    parent = tl.load(parents + example * beams + beam, mask=beam < beams, other=0)
    there = (beam < beams)[:, None] & (step < limit)[None, :]
    slots += example * beams * limit
    past = tl.load(slots + (parent * limit)[:, None] + step[None, :], mask=there, other=0)
    past = tl.where((step < tl.load(token_counts + example))[None, :], past, beam[:, None])
    tl.debug_barrier()
    tl.store(slots + (beam * limit)[:, None] + step[None, :], past, mask=there)


@triton.jit
def _sight(slots, visibility, limit, BEAMS: tl.constexpr, WIDE: tl.constexpr, LIMIT: tl.constexpr):
    """Compute for one example the bit mask of each slot (see `sight`)."""
    example = tl.program_id(0).to(tl.int64)
    slot, step = tl.arange(0, WIDE), tl.arange(0, LIMIT)
    bits = tl.zeros((LIMIT, WIDE), tl.int32)
    for beam in tl.static_range(BEAMS):
        owner = tl.load(slots + (example * BEAMS + beam) * limit + step, mask=step < limit, other=-1)
        bits += tl.where(owner[:, None] == slot[None, :], 1 << beam, 0)
    place = example * limit * BEAMS + (step * BEAMS)[:, None] + slot[None, :]
    tl.store(visibility + place, bits, mask=(step < limit)[:, None] & (slot < BEAMS)[None, :])
