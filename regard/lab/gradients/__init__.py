"""How gradients travel through time: what vanishes, what explodes and what protects."""
