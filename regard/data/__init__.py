"""Text files to packed batches: read, tokenised once, shuffled by a formula; knows no model."""
