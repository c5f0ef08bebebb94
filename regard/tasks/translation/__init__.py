"""Translation: its files, its training, its use and its evaluation."""
