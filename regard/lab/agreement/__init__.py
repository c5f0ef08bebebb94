"""Subject-verb agreement by distance."""
