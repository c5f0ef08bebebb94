"""Captions: pictures and what people wrote about them, learnt from, written, and scored."""
