"""Remembering sequences of bits: the data, training, and the trained model in use."""
