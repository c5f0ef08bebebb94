"""Attention by small examples: worked numbers, a soft dictionary, scaling, shuffled words, masks and heads."""
