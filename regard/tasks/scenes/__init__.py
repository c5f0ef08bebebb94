"""Scenes of drawn digits: one to find, or frames to count in."""
