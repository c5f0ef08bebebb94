"""Word vectors: their text, their training, their use and their tests."""
