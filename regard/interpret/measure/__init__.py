"""Numbers about attention: patterns of heads, maps of evidence, alignments, effects of taking parts out."""
