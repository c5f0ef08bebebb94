"""From text files to packed batches: reading, tokenising once, deterministic shuffling; independent of any model."""
