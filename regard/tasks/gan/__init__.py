"""Pictures made of noise: two networks that learn from one another, the generator in use, and how good it is."""
