"""The attention core: scores, masks, the one softmax over keys, heads, positions, caches and taps."""
