"""Texts as vectors: one for each, such that texts that mean the same lie near one another."""
