"""Sequences of bits that must be remembered: what is drawn, the learning, the model in use."""
