"""What models are made of: blocks, cells, norms, dropout, low-rank adapters."""
