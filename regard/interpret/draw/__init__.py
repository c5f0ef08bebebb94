"""Attention as people see it: plots, pages, tables in a terminal."""
