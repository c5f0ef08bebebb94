"""Metrics: pure functions of answers and references."""
