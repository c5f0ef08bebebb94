"""Model interpretation: record attention weights, store them as a trace, plot them."""
