"""The parts of models: blocks, cells, norms, dropout, low-rank adapters."""
