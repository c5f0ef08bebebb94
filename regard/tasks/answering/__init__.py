"""Extractive question answering: where in a text the answer to a question stands, if it does."""
