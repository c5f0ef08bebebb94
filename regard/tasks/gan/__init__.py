"""Images generated from noise: training of a generator and a discriminator, the generator in use, and its scores."""
