"""Attention as Triton kernels: packed rows in training, and decoding steps."""
