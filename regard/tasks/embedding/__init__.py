"""Text embeddings: one vector per text, such that texts of similar meaning have similar vectors."""
