"""Random bits as a Triton kernel: each is 1 with a probability given in steps of 1/65,536.

Imported only where Triton is installed and a CUDA device is used.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAM = 256  # words that a program makes


@torch.library.custom_op("regard::draw_bits", mutates_args=())
def draw_bits(seed: Tensor, words: int, ones: int) -> Tensor:
    """Return words of 32 random bits, each 1 with probability `ones` / 65,536, as a function of the seed alone."""
    out = torch.empty(words, dtype=torch.int32, device=seed.device)
    _draw_bits[(triton.cdiv(words, PROGRAM),)](seed, out, words, ones, PROGRAM=PROGRAM, num_warps=4)
    return out


@draw_bits.register_fake
def _(seed: Tensor, words: int, ones: int) -> Tensor:
    return seed.new_empty(words, dtype=torch.int32)


@triton.jit
def _draw_bits(seed, out, words, ones, PROGRAM: tl.constexpr):
    """Make a word from four draws of four 32-bit numbers, each half of which decides on one bit."""
    word = tl.program_id(0) * PROGRAM + tl.arange(0, PROGRAM)
    start = tl.load(seed)
    bits = tl.zeros((PROGRAM,), tl.int32)
    for draw in tl.static_range(4):
        first, second, third, fourth = tl.randint4x(start, word * 4 + draw)
        bits |= _two(first, ones) << (8 * draw)
        bits |= _two(second, ones) << (8 * draw + 2)
        bits |= _two(third, ones) << (8 * draw + 4)
        bits |= _two(fourth, ones) << (8 * draw + 6)
    tl.store(out + word, bits, mask=word < words)


@triton.jit
def _two(number, ones):
    """Return two bits from the halves of a number."""
    low, high = (number & 0xFFFF).to(tl.int32), ((number >> 16) & 0xFFFF).to(tl.int32)
    return (low < ones).to(tl.int32) | ((high < ones).to(tl.int32) << 1)
