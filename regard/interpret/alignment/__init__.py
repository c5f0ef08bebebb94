"""Attention held against alignments drawn by hand."""
