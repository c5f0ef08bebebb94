"""Extractive question answering: finding the answer to a question in a text, if there is one."""
