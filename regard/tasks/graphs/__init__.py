"""Nodes of a graph that are classified by what they and their neighbours are."""
