"""Experiments of the courses, which need no model of yours."""
