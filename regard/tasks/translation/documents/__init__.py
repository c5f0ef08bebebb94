"""Translating text with terms, tags and placeholders."""
