"""Images generated pixel by pixel: tokens, training, completion, bits per dimension."""
