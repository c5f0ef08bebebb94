"""Drawn pictures and frames: what is seen, where, and how often."""
