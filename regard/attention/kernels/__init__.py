"""Attention as Triton kernels: a row in training, a step in decoding."""
