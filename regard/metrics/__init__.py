"""Pure functions of answers and references."""
