"""Columns of a table predicted from others."""
