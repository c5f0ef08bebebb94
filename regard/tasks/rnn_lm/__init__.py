"""Language models: running text, training and writing."""
