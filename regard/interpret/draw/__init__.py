"""Visualisation of attention: plots, HTML pages, text for a terminal."""
