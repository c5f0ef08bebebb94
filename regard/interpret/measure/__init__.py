"""Measures of attention: head patterns, evidence maps, alignments, effects of interventions."""
