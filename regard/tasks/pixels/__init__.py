"""Pictures written pixel by pixel: tokens, training, completions, bits per dimension."""
