"""Looking inside: watch the weights, keep them as a trace, draw them."""
