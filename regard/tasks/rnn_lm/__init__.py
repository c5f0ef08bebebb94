"""Recurrent language models: data, training and text generation."""
